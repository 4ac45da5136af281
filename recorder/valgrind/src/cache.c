/* SPDX-License-Identifier: GPL-2.0-or-later
   Direct-mapped first level, set-associative LRU last level, touched pages. */
#include "cache.h"

#include <emmintrin.h>

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
#define CHUNKS (1u << (FL_ADDRESS_BITS - REGION_BITS - 13))

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

/* The core's memcpy and memset go byte by byte or word by word. */
static void copy_lines(Addr* to, const Addr* from)
{
   UWord n = fl_l1_lines;
   __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

static void fill_lines(Addr* to)
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
   copy_lines(parked, fl_l1.stores);
   fill_lines(fl_l1.stores);
   store_lines = parked;
}

static void clear_l1(void)
{
   fill_lines(fl_l1.loads);
   fill_lines(fl_l1.stores);
   fill_lines(fl_l1.code);
   fill_lines(store_lines);
}

static void disarm_sample(void)
{
   sample_armed = False;
   copy_lines(fl_l1.stores, parked);
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
   ULong now = fl_now() - FL_META_REMAINING(meta);
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

/* A way holds the tag (the line number above the set bits) times two, plus one
   if it is dirty. FL_MIN_SETS makes that fit 32 bits. Ways are in LRU order, most
   recent first; 16 of them are one cache line of the machine that records. */
typedef UInt Way;
#define DIRTY 1u
#define EMPTY 0xfffffffeu

/* The 16-way search looks at four entries before a set, so sets start at
   `llc_sets`, a line into the allocation. */
static Way* llc_sets;
static UInt llc_ways;
static ULong llc_set_mask;
static UInt llc_set_bits;

static inline UInt l1_index(Addr line)
{
   return (line >> FL_LINE_BITS) & (fl_l1_lines - 1);
}

static inline Addr line_of(Way entry, ULong set)
{
   return ((ULong)(entry >> 1) << llc_set_bits | set) << FL_LINE_BITS;
}

static inline Bool in_l1(Addr line)
{
   UInt i = l1_index(line);
   return fl_l1.loads[i] == line || fl_l1.code[i] == line;
}

/* The last level includes the first. A victim that the first level still holds
   is hot although the last level has not seen it lately, so the next one is asked
   (query-based selection; Jaleel et al., "Achieving Non-Inclusive Cache Performance
   with Inclusive Caches", MICRO 2010). */
static inline UInt choose_victim(const Way* ways, ULong set)
{
   for (UInt way = llc_ways; way-- > 0;)
      if (ways[way] == EMPTY || !in_l1(line_of(ways[way], set)))
         return way;
   Addr line = line_of(ways[llc_ways - 1], set);
   UInt i = l1_index(line);
   if (fl_l1.loads[i] == line)
      fl_l1.loads[i] = store_lines[i] = FL_NO_LINE;
   if (fl_l1.code[i] == line)
      fl_l1.code[i] = FL_NO_LINE;
   return llc_ways - 1;
}

/* Index of the way with this tag, or -1. */
static inline Int find16(const Way* ways, Way tag)
{
   const __m128i *v = (const __m128i*)ways, key = _mm_set1_epi32(tag),
                 clean = _mm_set1_epi32(~DIRTY);
   __m128i hits[4];
   for (Int i = 0; i < 4; i++)
      hits[i] = _mm_cmpeq_epi32(_mm_and_si128(v[i], clean), key);
   UInt mask = _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(hits[0], hits[1]),
                                                 _mm_packs_epi32(hits[2], hits[3])));
   return mask == 0 ? -1 : __builtin_ctz(mask);
}

/* All ones in the entries up to and including the way. */
static const Way up_to[31] __attribute__((aligned(16))) = {
   ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};

/* Move entries 0 .. way-1 one back and put `entry` in front, without a branch
   that depends on the way. */
static inline void to_front16(Way* ways, UInt way, Way entry)
{
   __m128i* v = (__m128i*)ways;
   __m128i moved[4];
   for (Int i = 0; i < 4; i++) {
      __m128i before = _mm_loadu_si128((const __m128i*)(ways + 4 * i - 1));
      __m128i mask = _mm_loadu_si128((const __m128i*)(up_to + 15 - way + 4 * i));
      moved[i] = _mm_or_si128(_mm_and_si128(mask, before), _mm_andnot_si128(mask, v[i]));
   }
   for (Int i = 0; i < 4; i++)
      v[i] = moved[i];
   ways[0] = entry;
}

static inline Int find(const Way* ways, Way tag)
{
   if (LIKELY(llc_ways == 16))
      return find16(ways, tag);
   for (UInt way = 0; way < llc_ways; way++)
      if ((ways[way] & ~DIRTY) == tag)
         return way;
   return -1;
}

static inline void to_front(Way* ways, UInt way, Way entry)
{
   if (LIKELY(llc_ways == 16)) {
      to_front16(ways, way, entry);
      return;
   }
   for (; way > 0; way--)
      ways[way] = ways[way - 1];
   ways[0] = entry;
}

static void llc_access(Addr line, FlKind kind, ULong now)
{
   ULong set = (line >> FL_LINE_BITS) & llc_set_mask;
   Way* ways = llc_sets + set * llc_ways;
   Way tag = (line >> FL_LINE_BITS >> llc_set_bits) << 1;
   Way dirty = kind == FL_STORE ? DIRTY : 0;
   Int found = find(ways, tag);
   if (LIKELY(found >= 0)) {
      to_front(ways, found, ways[found] | dirty);
      return;
   }
   UInt way = choose_victim(ways, set);
   Way victim = ways[way];
   to_front(ways, way, tag | dirty);
   fl_stream_access(line, kind, now);
   if (victim & DIRTY)
      fl_stream_access(line_of(victim, set), FL_WRITEBACK, now);
}

static void llc_init(ULong bytes, UInt ways)
{
   ULong sets = bytes / FL_LINE / ways;
   llc_ways = ways;
   llc_set_mask = sets - 1;
   llc_set_bits = __builtin_ctzl(sets);
   SizeT size = (sets * ways + 16) * sizeof(Way);
   Way* memory = VG_(am_shadow_alloc)(size);
   if (memory == NULL)
      VG_(out_of_memory_NORETURN)("frostline: last-level cache", size);
   llc_sets = memory + 16;
   for (ULong i = 0; i < sets * ways; i++)
      llc_sets[i] = EMPTY;
}

/* ---- first level ------------------------------------------------------- */

static inline Bool foreign(Addr line)
{
   return (line >> FL_ADDRESS_BITS) != 0;
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
   access_range(addr, FL_META_SIZE(meta), False, clock_at(meta));
}

void fl_miss_store(Addr addr, ULong meta)
{
   if (!fl_recording)
      return;
   ULong now = clock_at(meta);
   access_range(addr, FL_META_SIZE(meta), True, now);
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
   llc_init(llc_bytes, ways);
   epoch_length = epoch;
   epoch_end = epoch;
   sample_period = store_period;
   fl_work = (Long)(store_period - 1) << FL_CLOCK_BITS;
   clear_l1();
}
