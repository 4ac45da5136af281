/* SPDX-License-Identifier: GPL-2.0-or-later
   System calls, mappings, threads, processes. */
#include "program.h"

#include "calls.h"
#include "checks.h"
#include "core_extra.h"
#include "kernel.h"
#include "options.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vkiscnums.h"
#include "stream.h"

#define MAX_THREADS 4096
static UInt kernel_tid[MAX_THREADS]; /* by the core's thread number */

static void event(FlEvent type, ULong value, const ULong* words, UInt n)
{
   fl_stream_event(type, value, words, n, NULL, fl_now());
}

/* ---- mappings ------------------------------------------------------------ */

/* The image that the loader made, each segment with its whole extent. */
static void initial_mappings(void)
{
   const UInt kinds = SkFileC | SkAnonC | SkShmC;
   Addr* starts = NULL;
   Int n = -64;
   for (Int room = 64; n < 0; room *= 2) {
      starts = VG_(realloc)("frostline.segments", starts, room * sizeof(Addr));
      n = VG_(am_get_segment_starts)(kinds, starts, room);
   }
   for (Int i = 0; i < n; i++) {
      const NSegment* seg = VG_(am_find_nsegment)(starts[i]);
      Addr start = seg->start, end = seg->end + 1;
      UInt flags = FL_MAP_PRIVATE;
      if (seg->kind != SkFileC)
         flags |= FL_MAP_ANONYMOUS;
      /* The stack grows into the reservation below it: its extent is both. */
      const NSegment* below = VG_(am_find_nsegment)(start - 1);
      if (below != NULL && below->kind == SkResvn && below->smode == SmUpper) {
         start = below->start;
         flags |= FL_MAP_GROWSDOWN;
      }
      UInt prot = (seg->hasR ? 1 : 0) | (seg->hasW ? 2 : 0) | (seg->hasX ? 4 : 0);
      ULong words[6] = {start, end - start, (ULong)prot | (ULong)flags << 32,
                        seg->dev, seg->ino, seg->kind == SkFileC ? seg->offset : 0};
      const HChar* name = VG_(am_get_filename)(seg);
      fl_stream_event(FL_MAP, 1, words, 6, name == NULL ? "" : name, fl_now());
   }
   VG_(free)(starts);
}

/* ---- system calls -------------------------------------------------------- */

static FlCall calls[MAX_THREADS];

static void pre_syscall(ThreadId tid, UInt nr, UWord* args, UInt n_args)
{
   if (fl_recording && tid < MAX_THREADS)
      fl_call_before(&calls[tid], nr, args, fl_now());
}

static void post_syscall(ThreadId tid, UInt nr, UWord* args, UInt n_args, SysRes res)
{
   if (fl_recording && tid < MAX_THREADS && !sr_isError(res))
      fl_call_after(&calls[tid], nr, args, sr_Res(res), fl_now());
}

static void kernel_reads(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size)
{
   if (part == Vg_CoreSysCall)
      fl_kernel_access(a, size, False);
}

static void kernel_wrote(CorePart part, ThreadId tid, Addr a, SizeT size)
{
   if (part == Vg_CoreSysCall)
      fl_kernel_access(a, size, True);
}

/* ---- threads and processes ----------------------------------------------- */

/* When nothing is recorded any more, the program need not pay for it: the
   translations go, and the instrumenter leaves new ones as they are. The core
   allows that at some moments only. */
static void drop_stale(void)
{
   static Bool dropped = False;
   if (fl_abandoned && !dropped && VG_(ok_to_discard_translations)) {
      dropped = True;
      VG_(discard_translations_safely)(0, ~(SizeT)0, "frostline");
   }
}

static void running(ThreadId tid, ULong blocks)
{
   drop_stale();
   if (tid < MAX_THREADS && kernel_tid[tid] != 0)
      fl_running_tid = kernel_tid[tid];
}

static void first_instruction(ThreadId tid)
{
   UInt id = VG_(gettid)();
   if (tid < MAX_THREADS)
      kernel_tid[tid] = id;
   fl_running_tid = id;
   event(FL_THREAD_START, id, NULL, 0);
}

static void last_instruction(ThreadId tid)
{
   if (tid < MAX_THREADS)
      event(FL_THREAD_EXIT, kernel_tid[tid], NULL, 0);
}

Bool fl_follow = False;

void fl_program_start(UInt reason)
{
   HChar* command = VG_(malloc)("frostline.command", FL_STRING_MAX + 1);
   VG_(client_cmd_and_args)(command, FL_STRING_MAX + 1);
   ULong words[8] = {VG_(getppid)(),   fl_opt.l1_bytes,     fl_opt.llc_bytes, fl_opt.llc_ways,
                     fl_opt.epoch, fl_opt.store_period, fl_opt.fetch,     fl_now()};
   fl_stream_event(FL_PROCESS_START, reason, words, 8, command, fl_now());
   VG_(free)(command);
}

/* The reader hears of the parent before it hears of the child. */
static void before_fork(ThreadId tid)
{
   fl_stream_flush(False);
}

static void forked_child(ThreadId tid)
{
   if (!fl_recording)
      return;
   if (!fl_follow) {
      fl_stream_abandon();
      return;
   }
   UInt id = VG_(gettid)();
   if (tid < MAX_THREADS)
      kernel_tid[tid] = id;
   fl_running_tid = id;
   fl_stream_restart(VG_(getpid)());
   fl_checks_forget_epoch();
   fl_program_start(FL_START_FORK);
}

/* The core reports the initial segments one by one, once all are in place: the
   first report is the cue to send them with their files. */
static void initial_memory(Addr a, SizeT len, Bool r, Bool w, Bool x, ULong handle)
{
   static Bool sent = False;
   if (sent)
      return;
   sent = True;
   initial_mappings();
   Int limit = VG_(fd_hard_limit) < 1024 ? VG_(fd_hard_limit) : 1024;
   fl_inherited_files(limit, fl_now());
}

void fl_program_init(void)
{
   kernel_tid[1] = VG_(gettid)();
   VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
   VG_(track_pre_mem_read)(kernel_reads);
   VG_(track_post_mem_write)(kernel_wrote);
   VG_(track_new_mem_startup)(initial_memory);
   VG_(track_start_client_code)(running);
   VG_(track_pre_thread_first_insn)(first_instruction);
   VG_(track_pre_thread_ll_exit)(last_instruction);
   VG_(atfork)(before_fork, NULL, forked_child);
}
