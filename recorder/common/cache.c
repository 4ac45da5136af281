/* SPDX-License-Identifier: GPL-2.0-or-later
   Direct-mapped first level, set-associative LRU last level, touched pages. */
#include "cache.h"

#include <emmintrin.h>

#include "stream.h"

UInt fl_l1_lines;
ULong fl_epoch_end;

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
static ULong epoch_length, epoch_index, epoch_start;

static __attribute__((noinline)) Chunk* new_chunk(Addr addr)
{
   Chunk* c = fl_port_alloc(sizeof(Chunk));
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
      touched = fl_port_grow(touched, cap_touched * sizeof *touched);
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
      fl_memset(pages, 0, sizeof c->pages[0]);
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

/* ---- first levels ------------------------------------------------------- */

static FlL1* l1s[FL_MAX_L1S];
static UInt n_l1s;

/* One of the recorders has no memset but one that goes byte by byte. */
static void fill_lines(Addr* to)
{
   UWord n = fl_l1_lines;
   __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(FL_NO_LINE) : "memory");
}

static void clear(FlL1* l1)
{
   fill_lines(l1->loads);
   fill_lines(l1->stores);
   fill_lines(l1->code);
   l1->used = False;
}

static void clear_l1s(void)
{
   for (UInt i = 0; i < n_l1s; i++)
      if (l1s[i]->used)
         clear(l1s[i]);
}

void fl_l1_add(FlL1* l1)
{
   fl_assert(n_l1s < FL_MAX_L1S);
   clear(l1);
   l1s[n_l1s++] = l1;
}

void fl_l1_remove(FlL1* l1)
{
   for (UInt i = 0; i < n_l1s; i++)
      if (l1s[i] == l1)
         l1s[i] = l1s[--n_l1s];
}

/* ---- epochs ------------------------------------------------------------ */

/* The first level starts each epoch empty, or a page whose lines stay in it
   would look untouched. The last level keeps everything, so no access is
   recorded because of this. */
void fl_close_epochs(ULong now)
{
   end_epoch(fl_epoch_end);
   ULong passed = (now - epoch_start) / epoch_length;
   epoch_index += passed;
   epoch_start += passed * epoch_length;
   fl_epoch_end = epoch_start + epoch_length;
   clear_l1s();
}

void fl_cache_forget_epoch(ULong now)
{
   drop_touched(False);
   clear_l1s();
   epoch_start = now;
   fl_epoch_end = epoch_start + epoch_length;
   epoch_index = 0;
}

void fl_cache_finish(ULong now)
{
   if (!fl_recording)
      return;
   fl_cache_clock(now);
   end_epoch(now);
}

/* ---- last level -------------------------------------------------------- */

/* A way holds the tag (the line number above the set bits) times two, plus one
   if it is dirty. FL_MIN_SETS makes that fit 32 bits. Ways are in LRU order, most
   recent first; 16 of them are one cache line of the machine that records. */
typedef UInt Way;
#define DIRTY 1u
#define EMPTY 0xfffffffeu

/* Lines of a page of 4 KiB, as a power of two. */
#define PAGE_LINE_BITS 6

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

/* Lines of a page follow each other; which sets a page has is decided by where it lies
   in physical memory, at random to its program. Here it is by a hash of what stands above
   the set bits, so that programs' powers of two do not meet in few sets, as they would by
   virtual addresses. */
static inline ULong scattered(ULong tag)
{
   return (tag * 0x9e3779b97f4a7c15ull >> 32 << PAGE_LINE_BITS) & llc_set_mask;
}

static inline Addr line_of(Way entry, ULong set)
{
   ULong tag = entry >> 1;
   return (tag << llc_set_bits | (set ^ scattered(tag))) << FL_LINE_BITS;
}

static inline Bool in_l1(Addr line)
{
   UInt at = l1_index(line);
   for (UInt i = 0; i < n_l1s; i++)
      if (l1s[i]->used && (l1s[i]->loads[at] == line || l1s[i]->code[at] == line))
         return True;
   return False;
}

static void drop_from_l1(Addr line)
{
   UInt at = l1_index(line);
   for (UInt i = 0; i < n_l1s; i++) {
      if (l1s[i]->loads[at] == line)
         l1s[i]->loads[at] = l1s[i]->stores[at] = FL_NO_LINE;
      if (l1s[i]->code[at] == line)
         l1s[i]->code[at] = FL_NO_LINE;
   }
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
   drop_from_l1(line_of(ways[llc_ways - 1], set));
   return llc_ways - 1;
}

/* Index of the way with this tag, or -1. */
static inline Int find16(const Way* ways, Way tag)
{
   const __m128i *v = (const __m128i*)ways, key = _mm_set1_epi32(tag),
                 clean = _mm_set1_epi32(~DIRTY);
   __m128i hits[4];
#pragma GCC unroll 4
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
#pragma GCC unroll 4
   for (Int i = 0; i < 4; i++) {
      __m128i before = _mm_loadu_si128((const __m128i*)(ways + 4 * i - 1));
      __m128i mask = _mm_loadu_si128((const __m128i*)(up_to + 15 - way + 4 * i));
      moved[i] = _mm_or_si128(_mm_and_si128(mask, before), _mm_andnot_si128(mask, v[i]));
   }
#pragma GCC unroll 4
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
   ULong above = line >> FL_LINE_BITS >> llc_set_bits;
   ULong set = ((line >> FL_LINE_BITS) & llc_set_mask) ^ scattered(above);
   Way* ways = llc_sets + set * llc_ways;
   Way tag = above << 1;
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
   llc_sets = (Way*)fl_port_alloc((sets * ways + 16) * sizeof(Way)) + 16;
   for (ULong i = 0; i < sets * ways; i++)
      llc_sets[i] = EMPTY;
}

/* ---- accesses ------------------------------------------------------------ */

static inline void load_line(FlL1* l1, Addr line, ULong now)
{
   UInt i = l1_index(line);
   if (l1->loads[i] == line || fl_foreign(line))
      return;
   touch(line);
   l1->used = True;
   l1->loads[i] = line;
   l1->stores[i] = FL_NO_LINE;
   llc_access(line, FL_LOAD, now);
}

static inline void store_line(FlL1* l1, Addr line, ULong now)
{
   UInt i = l1_index(line);
   if (l1->stores[i] == line || fl_foreign(line))
      return;
   touch(line);
   l1->used = True;
   l1->loads[i] = line;
   l1->stores[i] = line;
   llc_access(line, FL_STORE, now);
}

void fl_cache_access(FlL1* l1, Addr addr, ULong size, Bool is_store, ULong now)
{
   fl_cache_clock(now);
   Addr last = (addr + size - 1) & ~(Addr)(FL_LINE - 1);
   for (Addr line = addr & ~(Addr)(FL_LINE - 1);; line += FL_LINE) {
      if (is_store)
         store_line(l1, line, now);
      else
         load_line(l1, line, now);
      if (line == last)
         break;
   }
}

void fl_cache_fetch(FlL1* l1, Addr line, ULong now)
{
   if (fl_foreign(line))
      return;
   fl_cache_clock(now);
   touch(line);
   l1->used = True;
   l1->code[l1_index(line)] = line;
   llc_access(line, FL_FETCH, now);
}

void fl_cache_kernel(FlL1* l1, Addr addr, SizeT size, Bool is_store, ULong now)
{
   /* A larger size is a nonsense argument that the kernel will refuse. */
   if (!fl_recording || size == 0 || size > 1UL << 30 || fl_foreign(addr) ||
       fl_foreign(addr + size))
      return;
   fl_cache_access(l1, addr, size, is_store, now);
}

void fl_cache_store_sample(Addr addr, ULong now)
{
   if (fl_foreign(addr))
      return;
   fl_counts.store_samples++;
   fl_stream_event(FL_STORE_SAMPLE, addr >> FL_LINE_BITS, NULL, 0, NULL, now);
}

void fl_cache_init(ULong l1_bytes, ULong llc_bytes, UInt ways, ULong epoch)
{
   fl_l1_lines = l1_bytes / FL_LINE;
   llc_init(llc_bytes, ways);
   epoch_length = epoch;
   fl_epoch_end = epoch;
}
