/* SPDX-License-Identifier: GPL-2.0-or-later
   System calls, mappings, threads, processes. */
#include "program.h"

#include "cache.h"
#include "core_extra.h"
#include "options.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "stream.h"

#define MAX_THREADS 4096
static UInt kernel_tid[MAX_THREADS]; /* by the core's thread number */

static void event(FlEvent type, ULong value, const ULong* words, UInt n)
{
   fl_stream_event(type, value, words, n, NULL, fl_now());
}

/* ---- files --------------------------------------------------------------- */

static HChar path_of_fd[FL_STRING_MAX + 1];

static const HChar* fd_path(Int fd)
{
   HChar link[40];
   VG_(sprintf)(link, "/proc/self/fd/%d", fd);
   SSizeT n = VG_(readlink)(link, path_of_fd, FL_STRING_MAX);
   path_of_fd[n > 0 ? n : 0] = 0;
   return path_of_fd;
}

/* Only what has pages of its own: regular files and block devices. */
static Bool stat_file(Int fd, struct vg_stat* st)
{
   if (fd < 0 || fd >= VG_(fd_hard_limit) || VG_(fstat)(fd, st) != 0)
      return False;
   UInt type = st->mode & 0170000;
   return type == 0100000 || type == 0060000;
}

static void file_opened(Int fd, UInt flags, Bool inherited)
{
   struct vg_stat st;
   if (!stat_file(fd, &st))
      return;
   ULong words[4] = {st.dev, st.ino, st.size, (ULong)flags | (ULong)inherited << 32};
   fl_stream_event(FL_OPEN, fd, words, 4, fd_path(fd), fl_now());
}

static void inherited_files(void)
{
   Int limit = VG_(fd_hard_limit) < 1024 ? VG_(fd_hard_limit) : 1024;
   for (Int fd = 0; fd < limit; fd++)
      file_opened(fd, 0, True);
}

/* `offset` < 0: the file position, which is behind the transfer by now. */
static void file_transfer(FlEvent type, Int fd, Long offset, ULong bytes)
{
   struct vg_stat st;
   if (bytes == 0 || !stat_file(fd, &st))
      return;
   if (offset < 0) {
      offset = VG_(lseek)(fd, 0, VKI_SEEK_CUR);
      if (offset < (Long)bytes)
         return;
      offset -= bytes;
   }
   ULong words[4] = {st.dev, st.ino, offset, bytes};
   event(type, fd, words, 4);
}

/* ---- mappings ------------------------------------------------------------ */

static void mapped(Addr start, ULong length, UInt prot, UInt flags, ULong offset, Bool initial)
{
   const NSegment* seg = VG_(am_find_nsegment)(start);
   Bool file = seg != NULL && seg->kind == SkFileC && !(flags & VKI_MAP_ANONYMOUS);
   const HChar* name = file ? VG_(am_get_filename)(seg) : NULL;
   ULong words[6] = {start, length, (ULong)prot | (ULong)flags << 32,
                     file ? seg->dev : 0, file ? seg->ino : 0, file ? offset : 0};
   fl_stream_event(FL_MAP, initial, words, 6, name == NULL ? "" : name, fl_now());
}

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
      UInt flags = VKI_MAP_PRIVATE;
      if (seg->kind != SkFileC)
         flags |= VKI_MAP_ANONYMOUS;
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

static Addr program_break;

static void break_moved(Addr result)
{
   if (program_break != 0 && result != program_break) {
      ULong words[2] = {program_break, result};
      event(FL_BRK, 0, words, 2);
   }
   program_break = result;
}

static void pair(FlEvent type, ULong value, ULong a, ULong b)
{
   ULong words[2] = {a, b};
   event(type, value, words, 2);
}

/* ---- system calls -------------------------------------------------------- */

/* What the "after" half of a call needs and can only be learnt before it. */
static struct {
   Bool file;
   ULong dev, ino;
   ULong shm_bytes;
} before[MAX_THREADS];

static void pre_syscall(ThreadId tid, UInt nr, UWord* args, UInt n_args)
{
   if (!fl_recording || tid >= MAX_THREADS)
      return;
   switch (nr) {
   case __NR_close: {
      struct vg_stat st;
      before[tid].file = stat_file(args[0], &st);
      before[tid].dev = st.dev;
      before[tid].ino = st.ino;
      break;
   }
   case __NR_shmdt: {
      const NSegment* seg = VG_(am_find_nsegment)(args[0]);
      before[tid].shm_bytes = seg != NULL && seg->kind == SkShmC ? seg->end + 1 - seg->start : 0;
      break;
   }
   case __NR_execve:
   case __NR_execveat:
      /* On success this image is gone without another word. */
      event(FL_EXEC, 0, NULL, 0);
      fl_stream_flush(False);
      break;
   }
}

static void post_syscall(ThreadId tid, UInt nr, UWord* args, UInt n_args, SysRes res)
{
   if (!fl_recording || tid >= MAX_THREADS || sr_isError(res))
      return;
   UWord r = sr_Res(res);
   switch (nr) {
   case __NR_mmap: mapped(r, args[1], args[2], args[3], args[5], False); break;
   case __NR_munmap: pair(FL_UNMAP, 0, args[0], args[1]); break;
   case __NR_mremap: {
      ULong words[4] = {args[0], args[1], r, args[2]};
      event(FL_REMAP, args[3], words, 4);
      break;
   }
   case __NR_brk: break_moved(r); break;
   case __NR_mprotect: pair(FL_PROTECT, args[2], args[0], args[1]); break;
   case __NR_madvise: pair(FL_ADVISE, args[2], args[0], args[1]); break;
   case __NR_shmat: {
      const NSegment* seg = VG_(am_find_nsegment)(r);
      if (seg != NULL)
         mapped(r, seg->end + 1 - seg->start, seg->hasW ? 3 : 1,
                VKI_MAP_SHARED | VKI_MAP_ANONYMOUS, 0, False);
      break;
   }
   case __NR_shmdt:
      if (before[tid].shm_bytes != 0)
         pair(FL_UNMAP, 0, args[0], before[tid].shm_bytes);
      break;
   case __NR_open:
   case __NR_openat: file_opened(r, nr == __NR_open ? args[1] : args[2], False); break;
   case __NR_creat: file_opened(r, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, False); break;
   case __NR_close:
      if (before[tid].file)
         pair(FL_CLOSE, args[0], before[tid].dev, before[tid].ino);
      break;
   case __NR_read:
   case __NR_readv: file_transfer(FL_READ, args[0], -1, r); break;
   case __NR_write:
   case __NR_writev: file_transfer(FL_WRITE, args[0], -1, r); break;
   case __NR_pread64:
   case __NR_preadv:
   case __NR_preadv2: file_transfer(FL_READ, args[0], args[3], r); break;
   case __NR_pwrite64:
   case __NR_pwritev:
   case __NR_pwritev2: file_transfer(FL_WRITE, args[0], args[3], r); break;
   }
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

static void running(ThreadId tid, ULong blocks)
{
   fl_stream_drop_stale();
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
   fl_cache_forget_epoch();
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
   inherited_files();
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
