/* SPDX-License-Identifier: GPL-2.0-or-later
   Packets of at most PIPE_BUF bytes on an inherited pipe. */
#include "stream.h"

#include "core_extra.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"

FlCounts fl_counts;
Bool fl_recording = False;
UInt fl_running_tid = 0;

static Int pipe_fd = -1;
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
   pipe_fd = fd;
   pid = VG_(getpid)();
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
   VG_(memset)(&fl_counts, 0, sizeof fl_counts);
   begin_packet();
}

static Bool stale_translations;

void fl_stream_abandon(void)
{
   if (!fl_recording)
      return;
   fl_recording = False;
   VG_(close)(pipe_fd);
   pipe_fd = -1;
   stale_translations = True;
}

/* When nothing is recorded any more, the program need not pay for it: the
   translations go, and the instrumenter leaves new ones as they are. The core
   allows that at some moments only. */
void fl_stream_drop_stale(void)
{
   if (stale_translations && VG_(ok_to_discard_translations)) {
      stale_translations = False;
      VG_(discard_translations_safely)(0, ~(SizeT)0, "frostline");
   }
}

/* The failed write left a SIGPIPE pending (the core keeps signals blocked while
   tool code runs).  Take it away, or the core would deliver it to the program. */
static void swallow_sigpipe(void)
{
   ULong set = 1UL << (VKI_SIGPIPE - 1);
   struct vki_timespec zero = {0, 0};
   fl_syscall4(FL_NR_rt_sigtimedwait, (UWord)&set, 0, (UWord)&zero, sizeof set);
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
      Word r = fl_syscall4(FL_NR_write, pipe_fd, (UWord)packet, bytes, 0);
      if (r == (Word)bytes)
         break;
      if (r == -VKI_EINTR)
         continue;
      if (r == -VKI_EAGAIN) {
         /* Somebody made the shared pipe non-blocking: wait for room. */
         struct vki_pollfd p = {pipe_fd, FL_POLLOUT, 0};
         VG_(poll)(&p, 1, 1000);
         continue;
      }
      if (r == -VKI_EPIPE)
         swallow_sigpipe();
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

void fl_stream_event(FlEvent type, ULong value, const ULong* words, UInt n,
                     const HChar* text, ULong now)
{
   if (!fl_recording)
      return;
   UInt length = text == NULL ? 0 : VG_(strlen)(text);
   if (length > FL_STRING_MAX)
      length = FL_STRING_MAX;
   UInt text_words = (length + 7) / 8 + (text == NULL ? 0 : 1);
   tl_assert(n + text_words + 3 <= FL_PAYLOAD_WORDS);
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
         VG_(memcpy)(&packet[FL_HEADER_WORDS + used], text, length);
         used += text_words - 1;
      }
   }
}
