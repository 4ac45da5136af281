/* SPDX-License-Identifier: GPL-2.0-or-later
   Checks that the instrumented code makes by itself, and the functions it calls when they fail. */
#ifndef FROSTLINE_CHECKS_H
#define FROSTLINE_CHECKS_H

#include "cache.h"

/* The tables of the first level, at addresses that the instrumented code names. */
typedef struct {
   Addr loads[FL_L1_MAX_LINES];
   Addr stores[FL_L1_MAX_LINES];
   Addr code[FL_L1_MAX_LINES];
} FlTables;

extern FlTables fl_tables;

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

/* After fl_cache_init. */
void fl_checks_init(UInt store_period);
/* See fl_cache_forget_epoch. */
void fl_checks_forget_epoch(void);

/* Called by instrumented code. */
void fl_miss_load(Addr addr, ULong meta);
void fl_miss_store(Addr addr, ULong meta);
void fl_miss_fetch(Addr line, ULong meta);
/* The sample counter ran below zero in a stretch of `stores` stores. */
void fl_arm_sample(ULong stores);

/* The kernel read or wrote [addr, addr + size) for the program. */
void fl_kernel_access(Addr addr, SizeT size, Bool is_store);

#endif
