/* SPDX-License-Identifier: GPL-2.0-or-later
   System calls, threads, processes; the plugin's beginning and end. */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calls.h"
#include "cpus.h"
#include "kernel.h"
#include "memory.h"
#include "options.h"
#include "stream.h"
#include "transfer.h"

Bool fl_program_running;

enum { START_IMAGE = 0, START_FORK = 1 };
#define INHERITED_FDS 1024

/* ---- the beginning --------------------------------------------------------- */

static void add_word(HChar* text, const HChar* word)
{
   if (*text != 0)
      strncat(text, " ", FL_STRING_MAX - strlen(text));
   strncat(text, word, FL_STRING_MAX - strlen(text));
}

/* From QEMU's command line: what follows `--`, the program by the name that `-0` gives. */
static void command_line(HChar* text)
{
   static HChar all[1 << 16];
   *text = 0;
   int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
   ssize_t n = fd < 0 ? 0 : read(fd, all, sizeof all - 1);
   if (fd >= 0)
      close(fd);
   const HChar *name = NULL, *before = "";
   Bool found = False;
   for (ssize_t i = 0; i < n; i += strlen(all + i) + 1) {
      const HChar* word = all + i;
      if (found) {
         add_word(text, name != NULL ? name : word);
         name = NULL;
      } else if (strcmp(before, "-0") == 0) {
         name = word;
      } else {
         found = strcmp(word, "--") == 0;
      }
      before = word;
   }
}

static void announce(ULong reason)
{
   static HChar text[FL_STRING_MAX + 1];
   command_line(text);
   ULong words[8] = {getppid(),    fl_opt.l1,           fl_opt.llc,   fl_opt.ways,
                     fl_opt.epoch, fl_opt.store_period, fl_opt.fetch, fl_clock};
   fl_stream_event(FL_PROCESS_START, reason, words, 8, text, fl_clock);
}

Bool fl_program_starts(Addr stack)
{
   if (!fl_recording)
      return False;
   fl_program_running = True;
   announce(START_IMAGE);
   fl_initial_memory(stack);
   fl_inherited_files(INHERITED_FDS, fl_clock);
   return True;
}

/* ---- the pipe among the program's descriptors ------------------------------ */

/* The program shares the table of descriptors with QEMU: the pipe goes out of the way of whatever
   closes or replaces descriptors from `first` to `last`. */
static void keep_pipe(UWord first, UWord last)
{
   if (fl_pipe_fd < 0 || (UWord)fl_pipe_fd < first || (UWord)fl_pipe_fd > last)
      return;
   int fd = last < INT_MAX ? fcntl(fl_pipe_fd, F_DUPFD_CLOEXEC, (int)last + 1) : -1;
   if (fd < 0)
      fd = fcntl(fl_pipe_fd, F_DUPFD_CLOEXEC, 3);
   if (fd >= 0 && ((UWord)fd < first || (UWord)fd > last)) {
      fl_pipe_fd = fd;
      return;
   }
   if (fd >= 0)
      close(fd);
   fl_stream_flush(False);
   fl_stream_abandon();
}

static void protect_pipe(UInt nr, const UWord* args)
{
   switch (nr) {
   case __NR_close: keep_pipe(args[0], args[0]); break;
   case __NR_dup2:
   case __NR_dup3: keep_pipe(args[1], args[1]); break;
   case __NR_close_range: keep_pipe((UInt)args[0], (UInt)args[1]); break;
   }
}

/* High, and closed by exec: what the program executes is not recorded. */
static void hide_pipe(int fd)
{
   struct rlimit limit;
   int high = -1;
   if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      rlim_t most = limit.rlim_cur < 1 << 16 ? limit.rlim_cur : 1 << 16;
      high = fcntl(fd, F_DUPFD_CLOEXEC, (int)most - 16);
   }
   if (high >= 0) {
      close(fd);
      fd = high;
   } else {
      fcntl(fd, F_SETFD, FD_CLOEXEC);
   }
   fl_stream_open(fd);
}

/* ---- system calls ------------------------------------------------------------ */

static int exit_code;

static Bool starts_thread(UInt nr)
{
   return nr == __NR_clone || nr == __NR_clone3;
}

static Bool may_fork(UInt nr)
{
   return starts_thread(nr) || nr == __NR_fork || nr == __NR_vfork;
}

static Bool may_kill(UInt nr)
{
   return nr == __NR_kill || nr == __NR_tkill || nr == __NR_tgkill;
}

static void before_call(qemu_plugin_id_t id, unsigned vcpu, int64_t nr, uint64_t a1, uint64_t a2,
                        uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                        uint64_t a8)
{
   (void)id, (void)a7, (void)a8;
   if (starts_thread(nr))
      fl_threads_begin();
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   memcpy(cpu->args, (UWord[]){a1, a2, a3, a4, a5, a6}, sizeof cpu->args);
   ULong now = fl_publish(cpu);
   fl_call_before(&cpu->call, nr, cpu->args, now);
   protect_pipe(nr, cpu->args);
   /* If a signal ends the program, QEMU does not tell. */
   if (may_kill(nr))
      fl_stream_flush(False);
   if (nr == __NR_exit || nr == __NR_exit_group)
      exit_code = a1 & 0xff;
   fl_leave();
}

static void after_call(qemu_plugin_id_t id, unsigned vcpu, int64_t nr, int64_t result);

/* Forks must be settled nevertheless. */
static void only_forks(qemu_plugin_id_t id)
{
   qemu_plugin_register_vcpu_syscall_ret_cb(id, after_call);
}

static void after_call(qemu_plugin_id_t id, unsigned vcpu, int64_t nr, int64_t result)
{
   static Bool reset = False;
   if (may_fork(nr) && result == 0)
      fl_settle_fork(vcpu);
   if (fl_abandoned && !reset) {
      /* Nothing is recorded any more: the program need not pay for it. */
      reset = True;
      qemu_plugin_reset(id, only_forks);
   }
   FlCpu* cpu = fl_enter(vcpu);
   if (cpu == NULL)
      return;
   if ((UWord)result < -4096UL) {
      ULong now = fl_publish(cpu);
      fl_kernel_transfer(cpu, nr, result, now);
      fl_call_after(&cpu->call, nr, cpu->args, result, now);
   }
   fl_leave();
}

/* ---- threads and processes ----------------------------------------------------- */

static void thread_ends(qemu_plugin_id_t id, unsigned vcpu)
{
   (void)id;
   FlCpu* cpu = fl_settling ? NULL : fl_enter(vcpu);
   if (cpu == NULL)
      return;
   fl_cpu_end(cpu);
   fl_leave();
}

static void process_ends(qemu_plugin_id_t id, void* data)
{
   (void)id, (void)data;
   if (!fl_program_running || !fl_enter_process())
      return;
   fl_cache_finish(fl_clock);
   /* A packet names its thread: none may begin behind that thread's end. */
   fl_stream_flush(False);
   fl_cpus_end();
   fl_stream_end(exit_code, fl_clock);
   fl_recording = False;
   fl_leave();
}

static void forked_child(void)
{
   fl_after_fork_child();
   if (!fl_recording)
      return;
   fl_stream_restart(getpid());
   fl_cache_forget_epoch(fl_clock);
   announce(START_FORK);
}

void fl_program_init(qemu_plugin_id_t id)
{
   hide_pipe(fl_opt.pipe);
   qemu_plugin_register_vcpu_syscall_cb(id, before_call);
   qemu_plugin_register_vcpu_syscall_ret_cb(id, after_call);
   qemu_plugin_register_vcpu_exit_cb(id, thread_ends);
   qemu_plugin_register_atexit_cb(id, process_ends, NULL);
   pthread_atfork(fl_before_fork, fl_after_fork_parent, forked_child);
}
