/* SPDX-License-Identifier: GPL-2.0-or-later
   Mappings and files. */
#include "calls.h"

#include "kernel.h"
#include "stream.h"

/* ---- files --------------------------------------------------------------- */

static HChar path_of_fd[FL_STRING_MAX + 1];

static const HChar* fd_path(Int fd)
{
   HChar link[40] = "/proc/self/fd/";
   HChar digits[12];
   UInt n = 0, at = fl_strlen(link);
   for (UInt rest = fd; n == 0 || rest > 0; rest /= 10)
      digits[n++] = '0' + rest % 10;
   while (n > 0)
      link[at++] = digits[--n];
   link[at] = 0;
   Word len = fl_syscall4(__NR_readlink, (UWord)link, (UWord)path_of_fd, FL_STRING_MAX, 0);
   path_of_fd[len > 0 ? len : 0] = 0;
   return path_of_fd;
}

/* Only what has pages of its own: regular files and block devices. */
static Bool stat_file(Int fd, FlStat* st)
{
   if (fd < 0 || fd >= fl_port_fd_limit() || !fl_fstat(fd, st))
      return False;
   UInt type = st->mode & FL_S_IFMT;
   return type == FL_S_IFREG || type == FL_S_IFBLK;
}

static void file_opened(Int fd, UInt flags, Bool inherited, ULong now)
{
   FlStat st;
   if (!stat_file(fd, &st))
      return;
   ULong words[4] = {st.dev, st.ino, st.size, (ULong)flags | (ULong)inherited << 32};
   fl_stream_event(FL_OPEN, fd, words, 4, fd_path(fd), now);
}

void fl_inherited_files(Int limit, ULong now)
{
   for (Int fd = 0; fd < limit; fd++)
      file_opened(fd, 0, True, now);
}

/* `offset` < 0: the file position, which is behind the transfer by now. */
static void file_transfer(FlEvent type, Int fd, Long offset, ULong bytes, ULong now)
{
   FlStat st;
   if (bytes == 0 || !stat_file(fd, &st))
      return;
   if (offset < 0) {
      offset = fl_syscall4(__NR_lseek, fd, 0, FL_SEEK_CUR, 0);
      if (offset < (Long)bytes)
         return;
      offset -= bytes;
   }
   ULong words[4] = {st.dev, st.ino, offset, bytes};
   fl_stream_event(type, fd, words, 4, NULL, now);
}

/* ---- mappings ------------------------------------------------------------ */

static void pair(FlEvent type, ULong value, ULong a, ULong b, ULong now)
{
   ULong words[2] = {a, b};
   fl_stream_event(type, value, words, 2, NULL, now);
}

static void mapped(Addr start, const UWord* args, ULong now)
{
   FlStat st;
   Bool file = !(args[3] & FL_MAP_ANONYMOUS) && stat_file(args[4], &st);
   ULong words[6] = {start,
                     args[1],
                     (ULong)(UInt)args[2] | (ULong)args[3] << 32,
                     file ? st.dev : 0,
                     file ? st.ino : 0,
                     file ? args[5] : 0};
   fl_stream_event(FL_MAP, 0, words, 6, file ? fd_path(args[4]) : "", now);
}

static Addr program_break;

static void break_moved(Addr result, ULong now)
{
   if (program_break != 0 && result != program_break)
      pair(FL_BRK, 0, program_break, result, now);
   program_break = result;
}

/* Segments of System V shared memory that are attached: shmdt(2) is not told their size. */
#define MAX_SEGMENTS 64
static struct {
   Addr start;
   ULong bytes;
} segments[MAX_SEGMENTS];

static void attached(Addr start, Int id, ULong now)
{
   /* struct shmid64_ds: the size follows struct ipc64_perm, which has 48 bytes. */
   ULong ds[14] = {0};
   if (fl_syscall4(__NR_shmctl, id, FL_IPC_STAT, (UWord)ds, 0) < 0)
      return;
   ULong bytes = ds[6];
   for (UInt i = 0; i < MAX_SEGMENTS; i++)
      if (segments[i].bytes == 0) {
         segments[i].start = start;
         segments[i].bytes = bytes;
         break;
      }
   ULong words[6] = {start, bytes, 3 | (ULong)(FL_MAP_SHARED | FL_MAP_ANONYMOUS) << 32, 0, 0, 0};
   fl_stream_event(FL_MAP, 0, words, 6, "", now);
}

static void detached(Addr start, ULong now)
{
   for (UInt i = 0; i < MAX_SEGMENTS; i++)
      if (segments[i].bytes != 0 && segments[i].start == start) {
         pair(FL_UNMAP, 0, start, segments[i].bytes, now);
         segments[i].bytes = 0;
         break;
      }
}

/* ---- calls --------------------------------------------------------------- */

void fl_call_before(FlCall* call, UInt nr, const UWord* args, ULong now)
{
   call->file = False;
   if (nr == __NR_close) {
      FlStat st;
      call->file = stat_file(args[0], &st);
      call->dev = st.dev;
      call->ino = st.ino;
   } else if (nr == __NR_execve || nr == __NR_execveat) {
      /* On success this image is gone without another word. */
      fl_stream_event(FL_EXEC, 0, NULL, 0, NULL, now);
      fl_stream_flush(False);
   }
}

void fl_call_after(const FlCall* call, UInt nr, const UWord* args, UWord result, ULong now)
{
   switch (nr) {
   case __NR_mmap: mapped(result, args, now); break;
   case __NR_munmap: pair(FL_UNMAP, 0, args[0], args[1], now); break;
   case __NR_mremap: {
      ULong words[4] = {args[0], args[1], result, args[2]};
      fl_stream_event(FL_REMAP, args[3], words, 4, NULL, now);
      break;
   }
   case __NR_brk: break_moved(result, now); break;
   case __NR_mprotect: pair(FL_PROTECT, args[2], args[0], args[1], now); break;
   case __NR_madvise: pair(FL_ADVISE, args[2], args[0], args[1], now); break;
   case __NR_shmat: attached(result, args[0], now); break;
   case __NR_shmdt: detached(args[0], now); break;
   case __NR_open: file_opened(result, args[1], False, now); break;
   case __NR_openat: file_opened(result, args[2], False, now); break;
   case __NR_creat:
      file_opened(result, FL_O_CREAT | FL_O_WRONLY | FL_O_TRUNC, False, now);
      break;
   case __NR_close:
      if (call->file)
         pair(FL_CLOSE, args[0], call->dev, call->ino, now);
      break;
   case __NR_read:
   case __NR_readv: file_transfer(FL_READ, args[0], -1, result, now); break;
   case __NR_write:
   case __NR_writev: file_transfer(FL_WRITE, args[0], -1, result, now); break;
   case __NR_pread64:
   case __NR_preadv:
   case __NR_preadv2: file_transfer(FL_READ, args[0], args[3], result, now); break;
   case __NR_pwrite64:
   case __NR_pwritev:
   case __NR_pwritev2: file_transfer(FL_WRITE, args[0], args[3], result, now); break;
   }
}
