/* SPDX-License-Identifier: GPL-2.0-or-later
   Lifetime of translations. The processor sets the bit "accessed" of a page's entry when it loads
   the translation, and not again while it has it. The emulator keeps as many as it can, so that a
   kernel which clears these bits would see pages in constant use as never used. */
#include "lab.h"

/* Translations that a processor has, as the second level of recent ones. */
#define FL_TLB_ENTRIES 1536u
#define PAGE_BITS 12

static uint64_t last_page[FL_MAX_CPUS];
static unsigned used[FL_MAX_CPUS];

void fl_tlb_use(unsigned vcpu, uint64_t vaddr)
{
   unsigned cpu = vcpu % FL_MAX_CPUS;
   uint64_t page = vaddr >> PAGE_BITS;
   if (page == last_page[cpu])
      return;
   last_page[cpu] = page;
   if (++used[cpu] < FL_TLB_ENTRIES)
      return;
   used[cpu] = 0;
   tlb_flush(qemu_get_cpu((int)vcpu));
}
