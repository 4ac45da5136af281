/* SPDX-License-Identifier: GPL-2.0-or-later
   The modelled caches. First level: direct-mapped by virtual address, so that hits need no
   translation; it is emptied when translations change. Last level: by a hash of the physical
   address, as the recorders have it of the virtual one, LRU. */
#include "lab.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BITS 6
/* Lines of a page, as a power of two. */
#define PAGE_LINE_BITS 6

static uint64_t* l1[FL_MAX_CPUS];
static uint64_t l1_mask;

/* Of each set the lines, most recent first; 0 is none, as lines are stored plus one. */
static uint64_t* llc;
static uint64_t llc_mask;
static unsigned llc_set_bits;
static unsigned ways;

void fl_caches_init(void)
{
   uint64_t lines = fl_opt.l1_bytes >> LINE_BITS;
   l1_mask = lines - 1;
   for (unsigned i = 0; i < FL_MAX_CPUS; i++) {
      l1[i] = malloc(lines * sizeof(uint64_t));
      fl_l1_flush(i);
   }
   ways = fl_opt.llc_ways;
   uint64_t sets = (fl_opt.llc_bytes >> LINE_BITS) / ways;
   llc_mask = sets - 1;
   llc_set_bits = __builtin_ctzl(sets);
   llc = calloc(sets * ways, sizeof(uint64_t));
   if (llc == NULL)
      fl_die("no memory for the modelled caches", "a smaller llc=");
}

bool fl_l1_hit(unsigned vcpu, uint64_t vaddr)
{
   uint64_t line = vaddr >> LINE_BITS;
   uint64_t* slot = &l1[vcpu % FL_MAX_CPUS][line & l1_mask];
   if (__builtin_expect(*slot == line, 1))
      return true;
   *slot = line;
   return false;
}

void fl_l1_flush(unsigned vcpu)
{
   memset(l1[vcpu % FL_MAX_CPUS], 0xff, (l1_mask + 1) * sizeof(uint64_t));
}

bool fl_llc_hit(uint64_t paddr)
{
   uint64_t line = paddr >> LINE_BITS;
   uint64_t above = line >> llc_set_bits;
   uint64_t hash = above * 0x9e3779b97f4a7c15ull >> 32 << PAGE_LINE_BITS;
   uint64_t* set = llc + ((line ^ hash) & llc_mask) * ways;
   uint64_t wanted = line + 1, carried = wanted;
   for (unsigned i = 0; i < ways; i++) {
      uint64_t here = set[i];
      set[i] = carried;
      if (here == wanted)
         return true;
      carried = here;
   }
   return false;
}
