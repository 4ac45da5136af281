/* SPDX-License-Identifier: GPL-2.0-or-later
   Base of the code that the recorders share (`../common`): here Valgrind's core. */
#ifndef FROSTLINE_PORT_H
#define FROSTLINE_PORT_H

#include "core_extra.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vkiscnums.h"

/* The program's addresses are below this: the core keeps all of its memory there.
   The vsyscall page is not, and is not program memory either. */
#define FL_ADDRESS_BITS 44

#define fl_assert(what) tl_assert(what)
#define fl_memset VG_(memset)
#define fl_memcpy VG_(memcpy)
#define fl_strlen VG_(strlen)

/* Zeroed memory that is never given back. */
static inline void* fl_port_alloc(SizeT bytes)
{
   void* memory = VG_(am_shadow_alloc)(bytes);
   if (memory == NULL)
      VG_(out_of_memory_NORETURN)("frostline", bytes);
   return memory;
}

static inline void* fl_port_grow(void* memory, SizeT bytes)
{
   return VG_(realloc)("frostline.grow", memory, bytes);
}

/* Descriptors from here on are not the program's. */
static inline Int fl_port_fd_limit(void)
{
   return VG_(fd_hard_limit);
}

#endif
