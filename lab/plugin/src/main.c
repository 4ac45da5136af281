/* SPDX-License-Identifier: GPL-2.0-or-later
   A QEMU plugin that makes a machine with two tiers of memory: slow memory takes longer, and what
   really happened is counted. docs/notes/lab.md describes it. */
#include "lab.h"

#include <string.h>

FL_EXPORT int qemu_plugin_version = FL_API_VERSION;
FL_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                  char** argv);

#define KERNEL_HALF 0x8000000000000000ull
/* Misses between two looks at the clock for the series. */
#define FL_TICK 256u

static uint64_t loads_left, stores_left;
static unsigned until_tick = FL_TICK;

/* Counts down to a sample; the period may have changed since the last one. */
static bool sampled(uint64_t* left, uint64_t period)
{
   if (period == 0)
      return false;
   if (*left > 1 && *left <= period) {
      --*left;
      return false;
   }
   *left = period;
   return true;
}

static int physical(qemu_plugin_meminfo_t info, uint64_t vaddr, uint64_t* paddr)
{
   struct qemu_plugin_hwaddr* hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
   if (hwaddr == NULL || qemu_plugin_hwaddr_is_io(hwaddr))
      return -1;
   *paddr = qemu_plugin_hwaddr_phys_addr(hwaddr);
   return fl_node_of(*paddr);
}

static void sample(unsigned vcpu, FlProcess* process, uint64_t vaddr, uint64_t paddr, int node,
                   bool is_store)
{
   unsigned flags = is_store ? FL_SAMPLE_STORE : 0;
   if (vaddr & KERNEL_HALF)
      flags |= FL_SAMPLE_KERNEL;
   fl_sample(vcpu, vaddr, paddr, process->tgid, node, flags);
}

static __attribute__((noinline)) void missed_l1(unsigned vcpu, qemu_plugin_meminfo_t info,
                                                uint64_t vaddr, bool is_store)
{
   uint64_t paddr;
   int node = physical(info, vaddr, &paddr);
   if (node < 0 || fl_llc_hit(paddr))
      return;
   FlProcess* process = vaddr & KERNEL_HALF ? fl_kernel : fl_running(vcpu);
   ++(is_store ? process->stores : process->loads)[node];
   fl_clock_add(vcpu, fl_opt.latency_ns[node]);
   if (!is_store && sampled(&loads_left, fl_shared->load_period))
      sample(vcpu, process, vaddr, paddr, node, false);
   if (--until_tick == 0) {
      until_tick = FL_TICK;
      fl_truth_tick(fl_clock_now());
   }
}

static __attribute__((noinline)) void retired_store(unsigned vcpu, qemu_plugin_meminfo_t info,
                                                    uint64_t vaddr)
{
   uint64_t paddr;
   int node = physical(info, vaddr, &paddr);
   if (node >= 0)
      sample(vcpu, vaddr & KERNEL_HALF ? fl_kernel : fl_running(vcpu), vaddr, paddr, node, true);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void* data)
{
   (void)data;
   if (__builtin_expect(fl_shared->published != FL_WORKS, 0)) {
      if (fl_shared->published == FL_ENDED)
         fl_truth_end();
      return;
   }
   bool is_store = qemu_plugin_mem_is_store(info);
   bool missed = !fl_l1_hit(vcpu, vaddr);
   if (missed)
      missed_l1(vcpu, info, vaddr, is_store);
   uint64_t last = vaddr + (1u << qemu_plugin_mem_size_shift(info)) - 1;
   if (__builtin_expect((vaddr ^ last) >> 6 != 0, 0) && !fl_l1_hit(vcpu, last))
      missed_l1(vcpu, info, last, is_store);
   if (is_store && __builtin_expect(sampled(&stores_left, fl_shared->store_period), 0))
      retired_store(vcpu, info, vaddr);
   if (missed)
      fl_tlb_use(vcpu, vaddr);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb* tb)
{
   (void)id;
   size_t count = qemu_plugin_tb_n_insns(tb);
   for (size_t i = 0; i < count; i++) {
      struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
      fl_watch_instruction(insn);
      qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                       NULL);
   }
}

static void on_exit(qemu_plugin_id_t id, void* data)
{
   (void)id, (void)data;
   fl_truth_close();
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv)
{
   if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
      fl_die("this plugin is for qemu-system-x86_64", "docs/notes/lab.md says how it is run");
   fl_options_read(argc, argv);
   fl_clock_check();
   fl_shared_open();
   fl_caches_init();
   fl_truth_open();
   qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
   qemu_plugin_register_atexit_cb(id, on_exit, NULL);
   return 0;
}
