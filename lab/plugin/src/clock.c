/* SPDX-License-Identifier: GPL-2.0-or-later
   Slow memory. With -icount, the machine's time is a number of instructions and a bias, which QEMU
   itself raises when the machine idles. An access that takes longer raises it, too. */
#include "lab.h"

/* So often a processor looks at its timers, in added ns. */
#define FL_LOOK_NS 50000u

static int64_t* bias;
static uint64_t since_look;

/* Where the bias lies is not part of any interface: it is the one word which, when raised, raises
   the time by as much and leaves the count of instructions, which time is made of, too, as it was. */
void fl_clock_check(void)
{
   if (!use_icount)
      return;
   unsigned found = 0;
   for (unsigned at = 0; at + 8 <= FL_TIMERS_STATE_BYTES; at += 8) {
      /* The sequence lock and the shift lie here; the shift could make anything of a number. */
      if (at == 0x10 || at == 0x18)
         continue;
      int64_t* word = (int64_t*)(void*)(timers_state + at);
      int64_t before = icount_get(), counted = icount_get_raw();
      *word += 1000003;
      int64_t after = icount_get(), counted_after = icount_get_raw();
      *word -= 1000003;
      if (after - before == 1000003 && counted_after == counted) {
         found++;
         bias = word;
      }
   }
   if (found != 1)
      fl_die("this QEMU keeps its time elsewhere", "QEMU 10.0.2 is known to work");
}

/* In the middle of a block QEMU refuses to say the time to the processor that runs it; to nobody in
   particular it says when that processor last looked at its timers. */
uint64_t fl_clock_now(void)
{
   if (!use_icount)
      return 0;
   struct CPUState* running = current_cpu;
   current_cpu = NULL;
   uint64_t now = (uint64_t)icount_get();
   current_cpu = running;
   return now;
}

void fl_clock_add(unsigned vcpu, uint64_t ns)
{
   if (bias == NULL)
      return;
   __atomic_store_n(bias, *bias + (int64_t)ns, __ATOMIC_RELAXED);
   since_look += ns;
   if (since_look >= FL_LOOK_NS) {
      since_look = 0;
      cpu_exit(qemu_get_cpu((int)vcpu));
   }
}
