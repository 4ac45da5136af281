/* SPDX-License-Identifier: GPL-2.0-or-later
   The modelled caches.  The instrumented code checks the first level by itself;
   what misses there comes in here. */
#ifndef FROSTLINE_CACHE_H
#define FROSTLINE_CACHE_H

#include "pub_tool_basics.h"

#define FL_LINE_BITS 6
#define FL_LINE 64u
#define FL_L1_MAX_LINES (1u << 16)

/* The program's addresses are below this: the core keeps all of its memory there.
   The vsyscall page is not, and is not program memory either. */
#define FL_ADDRESS_BITS 44

/* An address that no program access is within a line of. */
#define FL_NO_LINE (1UL << 63)

/* Direct-mapped first level, by line address. `loads`: line present; `stores`:
   present and known dirty further down; `code`: instruction side. */
typedef struct {
   Addr loads[FL_L1_MAX_LINES];
   Addr stores[FL_L1_MAX_LINES];
   Addr code[FL_L1_MAX_LINES];
} FlL1;

extern FlL1 fl_l1;
extern UInt fl_l1_lines; /* a power of two */

/* Retired work in one word, so that a block updates it with one addition:
   bits 0..47 instructions, bits 48..63 (signed) stores until the next sample. */
extern Long fl_work;
#define FL_CLOCK_BITS 48
#define FL_CLOCK_MASK ((1UL << FL_CLOCK_BITS) - 1)

static inline ULong fl_now(void)
{
   return (ULong)fl_work & FL_CLOCK_MASK;
}

/* Describes a checked access: what is behind it in its stretch of code (already
   counted in fl_work), and its size. Fits 32 bits, which makes shorter code. */
#define FL_META(remaining, size) ((ULong)(remaining) << 16 | (size))
#define FL_META_REMAINING(meta) ((meta) >> 16)
#define FL_META_SIZE(meta) ((meta) & 0xffff)

/* `llc_bytes` / (`ways` * 64) must be a power of two, at least FL_MIN_SETS. */
#define FL_MIN_SETS 128u
void fl_cache_init(ULong l1_bytes, ULong llc_bytes, UInt ways, ULong epoch,
                   UInt store_period);
/* A new process image or a forked child: what was touched so far is not its own. */
void fl_cache_forget_epoch(void);
/* Send what the unfinished epoch touched. */
void fl_cache_finish(void);

/* Called by instrumented code. */
void fl_miss_load(Addr addr, ULong meta);
void fl_miss_store(Addr addr, ULong meta);
void fl_miss_fetch(Addr line, ULong meta);
/* The sample counter ran below zero in a stretch of `stores` stores. */
void fl_arm_sample(ULong stores);

/* The kernel read or wrote [addr, addr + size) for the program. */
void fl_kernel_access(Addr addr, SizeT size, Bool is_store);

#endif
