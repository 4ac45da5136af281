/* SPDX-License-Identifier: GPL-2.0-or-later
   The checks of the first level, and the lock around all the rest. */
#define _GNU_SOURCE
#include "cpus.h"

#include <pthread.h>
#include <unistd.h>

#include "decode.h"
#include "kernel.h"
#include "options.h"
#include "program.h"
#include "stream.h"

ULong fl_clock;
UWord fl_guest_base;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile Bool many_threads;

/* A thread that has not been seen yet has this one's tables, in which nothing is ever found, so
   that the checks need not ask. */
static FlCpu nobody;
static FlCpu* cpus[FL_MAX_CPUS];
static Addr line_mask; /* of the first level */

/* ---- threads ------------------------------------------------------------- */

static FlCpu* new_cpu(unsigned vcpu)
{
   FlCpu* cpu = fl_port_alloc(sizeof(FlCpu));
   cpu->index = vcpu % FL_MAX_CPUS;
   cpu->tid = gettid();
   cpu->stores_left = fl_opt.store_period - 1;
   cpu->l1 = (FlL1){cpu->tables[0], cpu->tables[1], cpu->code, False};
   fl_l1_add(&cpu->l1);
   cpus[cpu->index] = cpu;
   fl_running_tid = cpu->tid;
   fl_stream_event(FL_THREAD_START, cpu->tid, NULL, 0, NULL, fl_clock);
   return cpu;
}

static Bool locked; /* by fl_enter, rather than by being alone */

Bool fl_enter_process(void)
{
   if (!fl_recording)
      return False;
   Bool many = many_threads;
   if (many)
      pthread_mutex_lock(&lock);
   locked = many;
   return True;
}

FlCpu* fl_enter(unsigned vcpu)
{
   if (!fl_enter_process())
      return NULL;
   FlCpu* cpu = cpus[vcpu % FL_MAX_CPUS];
   if (UNLIKELY(cpu == &nobody))
      cpu = new_cpu(vcpu);
   fl_running_tid = cpu->tid;
   return cpu;
}

void fl_leave(void)
{
   if (locked)
      pthread_mutex_unlock(&lock);
}

ULong fl_publish(FlCpu* cpu)
{
   fl_clock += cpu->pending;
   cpu->pending = 0;
   return fl_clock;
}

void fl_threads_begin(void)
{
   many_threads = True;
}

void fl_cpu_end(FlCpu* cpu)
{
   fl_stream_event(FL_THREAD_EXIT, cpu->tid, NULL, 0, NULL, fl_publish(cpu));
   fl_l1_remove(&cpu->l1);
   cpus[cpu->index] = &nobody;
   munmap(cpu, sizeof *cpu);
}

void fl_cpus_end(void)
{
   for (UInt i = 0; i < FL_MAX_CPUS; i++)
      if (cpus[i] != &nobody) {
         fl_running_tid = cpus[i]->tid;
         fl_stream_event(FL_THREAD_EXIT, cpus[i]->tid, NULL, 0, NULL, fl_publish(cpus[i]));
      }
}

/* ---- forks --------------------------------------------------------------- */

static UInt forking_tid;

/* QEMU 7.2 takes the threads that are not in a forked child from its list without telling its own
   plugin code, which aborts when a thread of the child gets one of their numbers. */
static struct CPUState* at_fork[FL_MAX_CPUS];
static Bool fork_settled = True;
Bool fl_settling;

static void note_threads(void)
{
   if (qemu_get_cpu == NULL || qemu_plugin_vcpu_exit_hook == NULL)
      return;
   for (UInt i = 0; i < FL_MAX_CPUS; i++)
      at_fork[i] = qemu_get_cpu(i);
}

void fl_settle_fork(unsigned vcpu)
{
   if (fork_settled)
      return;
   fork_settled = True;
   fl_settling = True;
   for (UInt i = 0; i < FL_MAX_CPUS; i++)
      if (at_fork[i] != NULL && i != vcpu)
         qemu_plugin_vcpu_exit_hook(at_fork[i]);
   fl_settling = False;
}

void fl_before_fork(void)
{
   pthread_mutex_lock(&lock);
   forking_tid = gettid();
   note_threads();
   /* The reader hears of the parent before it hears of the child. */
   fl_stream_flush(False);
}

void fl_after_fork_parent(void)
{
   pthread_mutex_unlock(&lock);
}

void fl_after_fork_child(void)
{
   pthread_mutex_init(&lock, NULL);
   fork_settled = False;
   if (!fl_opt.follow)
      fl_stream_abandon();
   if (!fl_recording)
      return;
   many_threads = False;
   FlCpu* self = NULL;
   for (UInt i = 0; i < FL_MAX_CPUS; i++) {
      if (cpus[i] == &nobody)
         continue;
      if (cpus[i]->tid == forking_tid) {
         self = cpus[i];
         continue;
      }
      fl_l1_remove(&cpus[i]->l1);
      munmap(cpus[i], sizeof(FlCpu));
      cpus[i] = &nobody;
   }
   fl_running_tid = gettid();
   if (self != NULL)
      self->tid = fl_running_tid;
}

/* ---- the checks ------------------------------------------------------------ */

/* Of an access's description, as QEMU 7.2 packs it; fl_cpus_init has checked that. */
static inline UInt is_store(qemu_plugin_meminfo_t info)
{
   return info >> 17 & 1;
}

static inline UInt size_of(qemu_plugin_meminfo_t info)
{
   return 1u << (info >> 4 & 7);
}

static __attribute__((noinline)) void missed(unsigned vcpu, qemu_plugin_meminfo_t info, Addr addr,
                                             ULong remaining)
{
   if (UNLIKELY(!fl_program_running) && !fl_program_starts(addr))
      return;
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   ULong now = fl_publish(cpu) - remaining;
   fl_cache_access(&cpu->l1, addr, size_of(info), is_store(info), now);
   if (cpu->stores_left < 0) {
      cpu->stores_left = fl_opt.store_period - 1;
      fl_cache_store_sample(addr, now);
   }
   fl_leave();
}

/* The count of stores is settled with the hit: both are asked at once. */
static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void* remaining)
{
   FlCpu* cpu = cpus[vcpu % FL_MAX_CPUS];
   UInt store = is_store(info);
   Addr line = cpu->tables[store][addr >> FL_LINE_BITS & line_mask];
   cpu->stores_left -= store;
   if (UNLIKELY((addr - line > FL_LINE - size_of(info)) | (cpu->stores_left < 0)))
      missed(vcpu, info, addr, (ULong)remaining);
}

/* ---- blocks ---------------------------------------------------------------- */

/* A block in one word: its first line of code, how many lines, how many instructions. */
#define BLOCK(line, lines, instructions) \
   ((ULong)(line) >> FL_LINE_BITS << 20 | (ULong)(lines) << 10 | (instructions))
#define BLOCK_LINE(block) ((Addr)((block) >> 20) << FL_LINE_BITS)
#define BLOCK_LINES(block) ((UInt)((block) >> 10) & 1023)
#define BLOCK_INSTRUCTIONS(block) ((block) & 1023)

/* A thread that stays in its first level reports after so many instructions. */
#define REPORT_AFTER 10000u

static __attribute__((noinline)) void report(unsigned vcpu, ULong block)
{
   if (!fl_program_running) {
      fl_clock += BLOCK_INSTRUCTIONS(block);
      return;
   }
   Bool is_new = cpus[vcpu % FL_MAX_CPUS] == &nobody;
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   if (is_new)
      cpu->pending += BLOCK_INSTRUCTIONS(block);
   fl_cache_clock(fl_publish(cpu) - BLOCK_INSTRUCTIONS(block));
   fl_leave();
}

static inline void count(FlCpu* cpu, unsigned vcpu, ULong block)
{
   cpu->pending += BLOCK_INSTRUCTIONS(block);
   if (UNLIKELY(cpu->pending >= REPORT_AFTER))
      report(vcpu, block);
}

static __attribute__((noinline)) void fetch(unsigned vcpu, Addr line, ULong block)
{
   if (!fl_program_running)
      return;
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   /* Nothing is pending where the block has just been reported. */
   ULong done = fl_publish(cpu);
   fl_cache_fetch(&cpu->l1, line, done - (BLOCK_INSTRUCTIONS(block) - 1));
   fl_leave();
}

static void on_block(unsigned vcpu, void* data)
{
   ULong block = (ULong)data;
   FlCpu* cpu = cpus[vcpu % FL_MAX_CPUS];
   count(cpu, vcpu, block);
   Addr line = BLOCK_LINE(block);
   for (UInt lines = BLOCK_LINES(block);; line += FL_LINE) {
      if (UNLIKELY(cpus[vcpu % FL_MAX_CPUS]->code[line >> FL_LINE_BITS & line_mask] != line))
         fetch(vcpu, line, block);
      if (--lines == 0)
         break;
   }
}

static void on_block_without_fetch(unsigned vcpu, void* block)
{
   count(cpus[vcpu % FL_MAX_CPUS], vcpu, (ULong)block);
}

/* ---- operation marks ------------------------------------------------------- */

/* The load that opens a mark reads its first argument. */
static void on_mark(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void* remaining)
{
   on_access(vcpu, info, addr, remaining);
   const ULong* args = (const ULong*)(addr + fl_guest_base);
   const ULong base = (ULong)'F' << 24 | (ULong)'L' << 16;
   if (args[0] != base && args[0] != base + 1)
      return;
   ULong id = args[1];
   FlEvent event = args[0] == base ? FL_OP_BEGIN : FL_OP_END;
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   fl_stream_event(event, 0, &id, 1, NULL, fl_publish(cpu) - (ULong)remaining);
   fl_leave();
}

/* ---- translation ----------------------------------------------------------- */

void fl_instrument(qemu_plugin_id_t id, struct qemu_plugin_tb* tb)
{
   (void)id;
   if (!fl_recording)
      return;
   SizeT n = qemu_plugin_tb_n_insns(tb);
   Addr first = 0, last = 0;
   for (SizeT i = 0; i < n; i++) {
      struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
      Addr addr = qemu_plugin_insn_vaddr(insn);
      SizeT size = qemu_plugin_insn_size(insn);
      const UChar* host = qemu_plugin_insn_haddr(insn);
      if (i == 0)
         first = addr;
      last = addr + (size > 0 ? size - 1 : 0);
      fl_guest_base = (UWord)host - addr;
      /* Where a load and a store of one instruction go to the same place, the store does for both.
         One callback for reads and writes, since a second one on an instruction would not be called
         from helpers (plugins/core.c of 7.2 ends at the first that does not fit). */
      Bool modifies = fl_modifies(qemu_plugin_insn_data(insn), size);
      fl_access_cb cb = fl_opens_mark(host, size) ? on_mark : on_access;
      qemu_plugin_register_vcpu_mem_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS,
                                       modifies ? QEMU_PLUGIN_MEM_W : QEMU_PLUGIN_MEM_RW,
                                       (void*)(n - 1 - i));
   }
   if (n == 0)
      return;
   ULong lines = (last >> FL_LINE_BITS) - (first >> FL_LINE_BITS) + 1;
   qemu_plugin_register_vcpu_tb_exec_cb(tb, fl_opt.fetch ? on_block : on_block_without_fetch,
                                        QEMU_PLUGIN_CB_NO_REGS, (void*)BLOCK(first, lines, n));
}

Bool fl_cpus_init(void)
{
   for (UInt shift = 0; shift <= 4; shift++)
      if (qemu_plugin_mem_size_shift(shift << 4) != shift)
         return False;
   if (!qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_W << 16) || qemu_plugin_mem_is_store(1 << 16))
      return False;
   line_mask = fl_opt.l1 / FL_LINE - 1;
   nobody.pending = ULLONG_MAX / 2;
   for (UInt i = 0; i < FL_L1_MAX_LINES; i++)
      nobody.tables[0][i] = nobody.tables[1][i] = nobody.code[i] = FL_NO_LINE;
   for (UInt i = 0; i < FL_MAX_CPUS; i++)
      cpus[i] = &nobody;
   return True;
}
