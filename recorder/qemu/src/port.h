/* SPDX-License-Identifier: GPL-2.0-or-later
   Base of the code that the recorders share (`../common`): here the C library. */
#ifndef FROSTLINE_PORT_H
#define FROSTLINE_PORT_H

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

typedef unsigned char Bool;
typedef unsigned char UChar;
typedef char HChar;
typedef int Int;
typedef unsigned UInt;
typedef long Word;
typedef unsigned long UWord;
typedef unsigned long Addr;
typedef unsigned long SizeT;
typedef long long Long;
typedef unsigned long long ULong;

#define True 1
#define False 0
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Programs are recorded below 16 TiB. QEMU maps from 256 GiB upwards where the program does not
   wish otherwise. The vsyscall page is beyond, and is not program memory. */
#define FL_ADDRESS_BITS 44

#define fl_assert(what) assert(what)
#define fl_memset memset
#define fl_memcpy memcpy
#define fl_strlen strlen

static inline void fl_out_of_memory(void)
{
   fputs("frostline: out of memory\n", stderr);
   _Exit(125);
}

/* Zeroed memory that is never given back. */
static inline void* fl_port_alloc(SizeT bytes)
{
   void* memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
   if (memory == MAP_FAILED)
      fl_out_of_memory();
   return memory;
}

static inline void* fl_port_grow(void* memory, SizeT bytes)
{
   memory = realloc(memory, bytes);
   if (memory == NULL)
      fl_out_of_memory();
   return memory;
}

/* Descriptors from here on are not the program's. */
static inline Int fl_port_fd_limit(void)
{
   return INT_MAX;
}

#endif
