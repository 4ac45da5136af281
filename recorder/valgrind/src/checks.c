/* SPDX-License-Identifier: GPL-2.0-or-later
   Path from the instrumented code to the modelled caches, and the sampling of stores. */
#include "checks.h"

#include "stream.h"

FlTables fl_tables;
Long fl_work;

static FlL1 l1 = {fl_tables.loads, fl_tables.stores, fl_tables.code, False};

/* ---- sampling of stores ------------------------------------------------ */

static UInt sample_period;
static Bool sample_armed;
static ULong sample_skip; /* stores to let pass before the sampled one */

/* While a sample is due, fl_tables.stores is blanked so that every store comes
   here; the true table waits in `parked`. This keeps counting to a store out of
   the fast path. */
static Addr parked[FL_L1_MAX_LINES];

/* The core's memcpy and memset go byte by byte or word by word. */
static void copy_lines(Addr* to, const Addr* from)
{
   UWord n = fl_l1_lines;
   __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

static void blank_lines(Addr* to)
{
   UWord n = fl_l1_lines;
   __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(FL_NO_LINE) : "memory");
}

void fl_arm_sample(ULong stores)
{
   /* The stretch began with (counter + stores) stores to go. */
   Long counter = fl_work >> FL_CLOCK_BITS;
   Long skip = counter + (Long)stores;
   while (counter < 0) {
      counter += sample_period;
      fl_work += (Long)sample_period << FL_CLOCK_BITS;
   }
   if (sample_armed || !fl_recording)
      return;
   sample_armed = True;
   sample_skip = skip < 0 ? 0 : skip;
   copy_lines(parked, fl_tables.stores);
   blank_lines(fl_tables.stores);
   l1.stores = parked;
}

static void disarm_sample(void)
{
   sample_armed = False;
   copy_lines(fl_tables.stores, parked);
   l1.stores = fl_tables.stores;
}

void fl_checks_forget_epoch(void)
{
   if (sample_armed)
      disarm_sample();
   fl_cache_forget_epoch(fl_now());
}

/* ---- misses -------------------------------------------------------------- */

void fl_miss_load(Addr addr, ULong meta)
{
   if (fl_recording)
      fl_cache_access(&l1, addr, FL_META_SIZE(meta), False, fl_now() - FL_META_REMAINING(meta));
}

void fl_miss_store(Addr addr, ULong meta)
{
   if (!fl_recording)
      return;
   ULong now = fl_now() - FL_META_REMAINING(meta);
   fl_cache_access(&l1, addr, FL_META_SIZE(meta), True, now);
   if (UNLIKELY(sample_armed) && sample_skip-- == 0) {
      fl_cache_store_sample(addr, now);
      disarm_sample();
   }
}

void fl_miss_fetch(Addr line, ULong meta)
{
   if (fl_recording)
      fl_cache_fetch(&l1, line, fl_now() - FL_META_REMAINING(meta));
}

void fl_kernel_access(Addr addr, SizeT size, Bool is_store)
{
   fl_cache_kernel(&l1, addr, size, is_store, fl_now());
}

void fl_checks_init(UInt store_period)
{
   sample_period = store_period;
   fl_work = (Long)(store_period - 1) << FL_CLOCK_BITS;
   fl_l1_add(&l1);
}
