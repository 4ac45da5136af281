/* SPDX-License-Identifier: GPL-2.0-or-later
   The modelled caches: first levels, which a recorder checks by itself where that is quickest,
   and the last level behind all of them. Nothing here takes a lock. */
#ifndef FROSTLINE_CACHE_H
#define FROSTLINE_CACHE_H

#include "port.h"

#define FL_LINE_BITS 6
#define FL_LINE 64u
#define FL_L1_MAX_LINES (1u << 16)
#define FL_MAX_L1S 4096u

/* An address that no program access is within a line of. */
#define FL_NO_LINE (1UL << 63)

/* A direct-mapped first level: tables of line addresses with fl_l1_lines entries. `loads`: line
   present; `stores`: present and known dirty further down; `code`: instruction side. */
typedef struct {
   Addr* loads;
   Addr* stores;
   Addr* code;
   Bool used; /* holds any line */
} FlL1;

extern UInt fl_l1_lines; /* a power of two */

/* `llc_bytes` / (`ways` * 64) must be a power of two, at least FL_MIN_SETS. */
#define FL_MIN_SETS 128u
void fl_cache_init(ULong l1_bytes, ULong llc_bytes, UInt ways, ULong epoch);

/* From now on the last level includes this first level, which is emptied; and no longer. */
void fl_l1_add(FlL1* l1);
void fl_l1_remove(FlL1* l1);

/* Of [addr, addr + size), what misses the first level. */
void fl_cache_access(FlL1* l1, Addr addr, ULong size, Bool is_store, ULong now);
/* An instruction line that misses the first level. */
void fl_cache_fetch(FlL1* l1, Addr line, ULong now);
/* The kernel read or wrote [addr, addr + size) for the program. */
void fl_cache_kernel(FlL1* l1, Addr addr, SizeT size, Bool is_store, ULong now);
/* The store at `addr` is the sampled one. */
void fl_cache_store_sample(Addr addr, ULong now);

/* A new process image or a forked child: what was touched so far is not its own. */
void fl_cache_forget_epoch(ULong now);
/* Send what the unfinished epoch touched. */
void fl_cache_finish(ULong now);

extern ULong fl_epoch_end;
void fl_close_epochs(ULong now);

/* Ends the epoch if it is over. */
static inline void fl_cache_clock(ULong now)
{
   if (UNLIKELY(now >= fl_epoch_end))
      fl_close_epochs(now);
}

/* Nothing that can be recorded, see FL_ADDRESS_BITS. */
static inline Bool fl_foreign(Addr addr)
{
   return (addr >> FL_ADDRESS_BITS) != 0;
}

#endif
