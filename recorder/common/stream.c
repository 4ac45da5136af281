/* SPDX-License-Identifier: GPL-2.0-or-later
   Packets of at most PIPE_BUF bytes on an inherited pipe. */
#include "stream.h"

#include "kernel.h"

FlCounts fl_counts;
Bool fl_recording = False;
Bool fl_abandoned = False;
UInt fl_running_tid = 0;
Int fl_pipe_fd = -1;

static UInt pid;
static ULong sequence;
static ULong packet[FL_PACKET_WORDS];
static UInt used;         /* payload words */
static ULong last_clock;  /* clock that the reader has reached */
static ULong start_clock; /* the same at the start of this packet */
static UInt last_tid;
static UInt start_tid;

static void begin_packet(void)
{
   used = 0;
   start_clock = last_clock;
   start_tid = last_tid = fl_running_tid;
}

void fl_stream_open(Int fd)
{
   fl_pipe_fd = fd;
   pid = fl_syscall4(__NR_getpid, 0, 0, 0, 0);
   fl_running_tid = pid;
   sequence = 0;
   last_clock = 0;
   fl_recording = True;
   begin_packet();
}

void fl_stream_restart(Int new_pid)
{
   pid = new_pid;
   sequence = 0;
   fl_memset(&fl_counts, 0, sizeof fl_counts);
   begin_packet();
}

void fl_stream_abandon(void)
{
   if (!fl_recording)
      return;
   fl_recording = False;
   fl_abandoned = True;
   fl_syscall4(__NR_close, fl_pipe_fd, 0, 0, 0);
   fl_pipe_fd = -1;
}

/* A write that nobody will read leaves a SIGPIPE pending while signals are blocked.
   Take it away, or it would be delivered to the program. */
static void swallow_sigpipe(void)
{
   ULong set = 1UL << (FL_SIGPIPE - 1);
   Long zero[2] = {0, 0};
   fl_syscall4(__NR_rt_sigtimedwait, (UWord)&set, 0, (UWord)zero, sizeof set);
}

static Word write_packet(UInt bytes)
{
   ULong set = 1UL << (FL_SIGPIPE - 1), before;
   fl_syscall4(__NR_rt_sigprocmask, FL_SIG_BLOCK, (UWord)&set, (UWord)&before, sizeof set);
   Word r = fl_syscall4(__NR_write, fl_pipe_fd, (UWord)packet, bytes, 0);
   if (r == -FL_EPIPE)
      swallow_sigpipe();
   fl_syscall4(__NR_rt_sigprocmask, FL_SIG_SETMASK, (UWord)&before, 0, sizeof set);
   return r;
}

void fl_stream_flush(Bool final)
{
   if (!fl_recording || (used == 0 && !final))
      return;
   UInt bytes = (FL_HEADER_WORDS + used) * 8;
   packet[0] = (ULong)FL_MAGIC | (ULong)FL_VERSION << 32 |
               (ULong)(final ? FL_FLAG_FINAL : 0) << 40 | (ULong)bytes << 48;
   packet[1] = (ULong)pid | (ULong)start_tid << 32;
   packet[2] = sequence++;
   packet[3] = start_clock;
   packet[4] = last_clock;
   for (;;) {
      Word r = write_packet(bytes);
      if (r == (Word)bytes)
         break;
      if (r == -FL_EINTR)
         continue;
      if (r == -FL_EAGAIN) {
         /* Somebody made the shared pipe non-blocking: wait for room. */
         struct {
            Int fd;
            short events, revents;
         } p = {fl_pipe_fd, FL_POLLOUT, 0};
         fl_syscall4(__NR_poll, (UWord)&p, 1, 1000, 0);
         continue;
      }
      fl_stream_abandon();
      return;
   }
   begin_packet();
}

static void reserve(UInt words)
{
   if (used + words > FL_PAYLOAD_WORDS)
      fl_stream_flush(False);
}

static inline void put(ULong word)
{
   packet[FL_HEADER_WORDS + used++] = word;
}

static inline ULong control(FlEvent type, UInt words, ULong value)
{
   return 1UL << 63 | (ULong)type << 56 | (ULong)words << FL_VALUE_BITS |
          (value & ((1UL << FL_VALUE_BITS) - 1));
}

/* Bring the reader to `now` and the running thread. Room is reserved. */
static inline void put_context(ULong now)
{
   if (last_tid != fl_running_tid) {
      put(control(FL_THREAD, 0, fl_running_tid));
      last_tid = fl_running_tid;
   }
   if (now > last_clock) {
      put(control(FL_CLOCK, 0, now - last_clock));
      last_clock = now;
   }
}

void fl_stream_access(Addr addr, FlKind kind, ULong now)
{
   reserve(3);
   if (!fl_recording)
      return;
   if (now < last_clock)
      now = last_clock;
   if (last_tid != fl_running_tid || now - last_clock >= 1UL << FL_DELTA_BITS)
      put_context(now);
   /* vpn:36 line:6 kind:2 delta:20 */
   put((ULong)(addr >> 6) << 22 | (ULong)kind << FL_DELTA_BITS | (now - last_clock));
   last_clock = now;
   fl_counts.by_kind[kind]++;
}

void fl_stream_end(Int code, ULong now)
{
   ULong words[6] = {now,
                     fl_counts.by_kind[FL_LOAD],
                     fl_counts.by_kind[FL_STORE],
                     fl_counts.by_kind[FL_FETCH],
                     fl_counts.by_kind[FL_WRITEBACK],
                     fl_counts.store_samples};
   fl_stream_event(FL_PROCESS_EXIT, (UInt)code, words, 6, NULL, now);
   fl_stream_flush(True);
}

void fl_stream_event(FlEvent type, ULong value, const ULong* words, UInt n,
                     const HChar* text, ULong now)
{
   if (!fl_recording)
      return;
   UInt length = text == NULL ? 0 : fl_strlen(text);
   if (length > FL_STRING_MAX)
      length = FL_STRING_MAX;
   UInt text_words = (length + 7) / 8 + (text == NULL ? 0 : 1);
   fl_assert(n + text_words + 3 <= FL_PAYLOAD_WORDS);
   reserve(n + text_words + 3);
   if (!fl_recording)
      return;
   put_context(now);
   put(control(type, n + text_words, value));
   for (UInt i = 0; i < n; i++)
      put(words[i]);
   if (text != NULL) {
      put(length);
      if (length > 0) {
         packet[FL_HEADER_WORDS + used + text_words - 2] = 0;
         fl_memcpy(&packet[FL_HEADER_WORDS + used], text, length);
         used += text_words - 1;
      }
   }
}
