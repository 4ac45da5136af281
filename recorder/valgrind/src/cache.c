/* SPDX-License-Identifier: GPL-2.0-or-later
   Direct-mapped first level, set-associative LRU last level, touched pages. */
#include "cache.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "stream.h"

FlL1 fl_l1;
UInt fl_l1_lines;
Long fl_work;

/* ---- touched pages ---------------------------------------------------- */

/* One bit per 4 KiB page, by 2 MiB region, 8192 regions (16 GiB) to a chunk. */
#define REGION_BITS 21
#define CHUNK_REGIONS 8192u
#define CHUNKS (1u << (47 - REGION_BITS - 13))

typedef struct {
   ULong pages[CHUNK_REGIONS][8];
   UChar listed[CHUNK_REGIONS];
} Chunk;

static Chunk* chunks[CHUNKS];
static UInt* touched; /* region numbers of this epoch, in order of touching */
static UInt n_touched, cap_touched;
static ULong epoch_length, epoch_index, epoch_start, epoch_end;

static __attribute__((noinline)) Chunk* new_chunk(Addr addr)
{
   Chunk* c = VG_(am_shadow_alloc)(sizeof(Chunk));
   if (c == NULL)
      VG_(out_of_memory_NORETURN)("frostline: touched pages", sizeof(Chunk));
   chunks[addr >> (REGION_BITS + 13)] = c;
   return c;
}

static __attribute__((noinline)) void list_region(Chunk* c, Addr addr)
{
   UInt region = addr >> REGION_BITS;
   if (c->listed[region % CHUNK_REGIONS])
      return;
   c->listed[region % CHUNK_REGIONS] = 1;
   if (n_touched == cap_touched) {
      cap_touched = cap_touched ? cap_touched * 2 : 1024;
      touched = VG_(realloc)("frostline.touched", touched, cap_touched * sizeof *touched);
   }
   touched[n_touched++] = region;
}

static inline void touch(Addr addr)
{
   Chunk* c = chunks[addr >> (REGION_BITS + 13)];
   if (UNLIKELY(c == NULL))
      c = new_chunk(addr);
   ULong* word = &c->pages[(addr >> REGION_BITS) % CHUNK_REGIONS][(addr >> 18) & 7];
   ULong bit = 1UL << ((addr >> 12) & 63);
   if (UNLIKELY(!(*word & bit))) {
      *word |= bit;
      list_region(c, addr);
   }
}


static void drop_touched(Bool send)
{
   for (UInt i = 0; i < n_touched; i++) {
      UInt region = touched[i];
      Chunk* c = chunks[region / CHUNK_REGIONS];
      ULong* pages = c->pages[region % CHUNK_REGIONS];
      if (send)
         fl_stream_event(FL_TOUCHED, region, pages, 8, NULL, 0);
      VG_(memset)(pages, 0, sizeof c->pages[0]);
      c->listed[region % CHUNK_REGIONS] = 0;
   }
   n_touched = 0;
}

static void end_epoch(ULong end)
{
   ULong words[3] = {epoch_start, end, n_touched};
   drop_touched(True);
   fl_stream_event(FL_EPOCH_END, epoch_index, words, 3, NULL, end);
}

/* ---- sampling of stores ------------------------------------------------ */

static UInt sample_period;
static Bool sample_armed;
static ULong sample_skip; /* stores to let pass before the sampled one */

/* While a sample is due, fl_l1.stores is blanked so that every store comes
   here; the true table waits in `parked`. This keeps counting to a store out of
   the fast path. */
static Addr parked[FL_L1_MAX_LINES];
static Addr* store_lines = fl_l1.stores;

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
   VG_(memcpy)(parked, fl_l1.stores, fl_l1_lines * sizeof(Addr));
   for (UInt i = 0; i < fl_l1_lines; i++)
      fl_l1.stores[i] = FL_NO_LINE;
   store_lines = parked;
}

static void clear_l1(void)
{
   for (UInt i = 0; i < fl_l1_lines; i++) {
      fl_l1.loads[i] = fl_l1.stores[i] = fl_l1.code[i] = FL_NO_LINE;
      store_lines[i] = FL_NO_LINE;
   }
}

static void disarm_sample(void)
{
   sample_armed = False;
   VG_(memcpy)(fl_l1.stores, parked, fl_l1_lines * sizeof(Addr));
   store_lines = fl_l1.stores;
}

/* ---- epochs ------------------------------------------------------------ */

/* The first level starts each epoch empty, or a page whose lines stay in it
   would look untouched. The last level keeps everything, so no access is
   recorded because of this. */
static __attribute__((noinline)) void close_epochs(ULong now)
{
   end_epoch(epoch_end);
   ULong passed = (now - epoch_start) / epoch_length;
   epoch_index += passed;
   epoch_start += passed * epoch_length;
   epoch_end = epoch_start + epoch_length;
   clear_l1();
}

static inline ULong clock_at(ULong meta)
{
   ULong now = fl_now() - (meta >> 32);
   if (UNLIKELY(now >= epoch_end))
      close_epochs(now);
   return now;
}

void fl_cache_forget_epoch(void)
{
   drop_touched(False);
   clear_l1();
   if (sample_armed) {
      sample_armed = False;
      store_lines = fl_l1.stores;
   }
   epoch_start = fl_now();
   epoch_end = epoch_start + epoch_length;
   epoch_index = 0;
}

void fl_cache_finish(void)
{
   if (!fl_recording)
      return;
   ULong now = fl_now();
   if (now >= epoch_end)
      close_epochs(now);
   end_epoch(now);
}

/* ---- last level -------------------------------------------------------- */

/* A way holds the line address, and in bit 0 whether it is dirty. Ways are in
   LRU order, most recent first. */
#define DIRTY 1UL
static Addr* llc;
static UInt llc_ways;
static ULong llc_set_mask;

static inline Addr* llc_set(Addr line)
{
   return llc + ((line >> FL_LINE_BITS) & llc_set_mask) * llc_ways;
}

static inline UInt l1_index(Addr line)
{
   return (line >> FL_LINE_BITS) & (fl_l1_lines - 1);
}

static inline Bool in_l1(Addr line)
{
   UInt i = l1_index(line);
   return line != FL_NO_LINE && (fl_l1.loads[i] == line || fl_l1.code[i] == line);
}

/* The last level includes the first. A victim that the first level still holds
   is hot although the last level has not seen it lately, so it is moved to the
   front and the next one is asked (query-based selection; Jaleel et al., "Achieving
   Non-Inclusive Cache Performance with Inclusive Caches", MICRO 2010). */
static __attribute__((noinline)) UInt choose_victim(const Addr* set)
{
   for (UInt way = llc_ways; way-- > 0;)
      if (!in_l1(set[way] & ~DIRTY))
         return way;
   Addr line = set[llc_ways - 1] & ~DIRTY;
   UInt i = l1_index(line);
   if (fl_l1.loads[i] == line)
      fl_l1.loads[i] = store_lines[i] = FL_NO_LINE;
   if (fl_l1.code[i] == line)
      fl_l1.code[i] = FL_NO_LINE;
   return llc_ways - 1;
}

static inline void to_front(Addr* set, UInt way, Addr entry)
{
   for (; way > 0; way--)
      set[way] = set[way - 1];
   set[0] = entry;
}

static void llc_access(Addr line, FlKind kind, ULong now)
{
   Addr* set = llc_set(line);
   Addr dirty = kind == FL_STORE ? DIRTY : 0;
   for (UInt way = 0; way < llc_ways; way++) {
      if ((set[way] & ~DIRTY) == line) {
         to_front(set, way, set[way] | dirty);
         return;
      }
   }
   UInt way = choose_victim(set);
   Addr victim = set[way];
   to_front(set, way, line | dirty);
   fl_stream_access(line, kind, now);
   if (victim & DIRTY)
      fl_stream_access(victim & ~DIRTY, FL_WRITEBACK, now);
}

/* ---- first level ------------------------------------------------------- */

/* The vsyscall page and other addresses above user space are not program
   memory; they would not fit a record either. */
static inline Bool foreign(Addr line)
{
   return (line >> 47) != 0;
}

static inline void load_line(Addr line, ULong now)
{
   UInt i = l1_index(line);
   if (fl_l1.loads[i] == line || foreign(line))
      return;
   touch(line);
   fl_l1.loads[i] = line;
   store_lines[i] = FL_NO_LINE;
   llc_access(line, FL_LOAD, now);
}

static inline void store_line(Addr line, ULong now)
{
   UInt i = l1_index(line);
   if (store_lines[i] == line || foreign(line))
      return;
   touch(line);
   fl_l1.loads[i] = line;
   store_lines[i] = line;
   llc_access(line, FL_STORE, now);
}

static inline void access_range(Addr addr, ULong size, Bool is_store, ULong now)
{
   Addr last = (addr + size - 1) & ~(Addr)(FL_LINE - 1);
   for (Addr line = addr & ~(Addr)(FL_LINE - 1);; line += FL_LINE) {
      if (is_store)
         store_line(line, now);
      else
         load_line(line, now);
      if (line == last)
         break;
   }
}

void fl_miss_load(Addr addr, ULong meta)
{
   if (!fl_recording)
      return;
   access_range(addr, (UInt)meta, False, clock_at(meta));
}

void fl_miss_store(Addr addr, ULong meta)
{
   if (!fl_recording)
      return;
   ULong now = clock_at(meta);
   access_range(addr, (UInt)meta, True, now);
   if (UNLIKELY(sample_armed) && sample_skip-- == 0) {
      if (!foreign(addr)) {
         fl_counts.store_samples++;
         fl_stream_event(FL_STORE_SAMPLE, addr >> FL_LINE_BITS, NULL, 0, NULL, now);
      }
      disarm_sample();
   }
}

void fl_miss_fetch(Addr line, ULong meta)
{
   if (!fl_recording || foreign(line))
      return;
   ULong now = clock_at(meta);
   touch(line);
   fl_l1.code[l1_index(line)] = line;
   llc_access(line, FL_FETCH, now);
}

void fl_kernel_access(Addr addr, SizeT size, Bool is_store)
{
   /* A larger size is a nonsense argument that the kernel will refuse. */
   if (!fl_recording || size == 0 || size > 1UL << 30 || foreign(addr) || foreign(addr + size))
      return;
   access_range(addr, size, is_store, clock_at(0));
}

void fl_cache_init(ULong l1_bytes, ULong llc_bytes, UInt ways, ULong epoch,
                   UInt store_period)
{
   fl_l1_lines = l1_bytes / FL_LINE;
   llc_ways = ways;
   ULong sets = llc_bytes / FL_LINE / ways;
   llc_set_mask = sets - 1;
   llc = VG_(am_shadow_alloc)(sets * ways * sizeof(Addr));
   if (llc == NULL)
      VG_(out_of_memory_NORETURN)("frostline: last-level cache", sets * ways * sizeof(Addr));
   for (ULong i = 0; i < sets * ways; i++)
      llc[i] = FL_NO_LINE;
   epoch_length = epoch;
   epoch_end = epoch;
   sample_period = store_period;
   fl_work = (Long)(store_period - 1) << FL_CLOCK_BITS;
   clear_l1();
}
