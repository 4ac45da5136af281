/* SPDX-License-Identifier: GPL-2.0-or-later
   The packet stream that leaves the recorder.  Format: docs/reference/formats/recorder-pipe.md. */
#ifndef FROSTLINE_STREAM_H
#define FROSTLINE_STREAM_H

#include "port.h"

#define FL_MAGIC 0x50524c46u /* "FLRP", little endian */
#define FL_VERSION 1u

/* A pipe write of at most PIPE_BUF bytes is atomic, so that packets of several
   processes interleave without a lock (pipe(7)). */
#define FL_PACKET_BYTES 4096u
#define FL_HEADER_WORDS 5u
#define FL_PACKET_WORDS (FL_PACKET_BYTES / 8u)
#define FL_PAYLOAD_WORDS (FL_PACKET_WORDS - FL_HEADER_WORDS)

/* Last packet of a process image: nothing is missing behind it. */
#define FL_FLAG_FINAL 1u

typedef enum { FL_LOAD = 0, FL_STORE = 1, FL_FETCH = 2, FL_WRITEBACK = 3 } FlKind;

typedef enum {
   FL_CLOCK = 1,
   FL_THREAD,
   FL_STORE_SAMPLE,
   FL_TOUCHED,
   FL_EPOCH_END,
   FL_MAP,
   FL_UNMAP,
   FL_REMAP,
   FL_BRK,
   FL_PROTECT,
   FL_ADVISE,
   FL_OPEN,
   FL_CLOSE,
   FL_READ,
   FL_WRITE,
   FL_THREAD_START,
   FL_THREAD_EXIT,
   FL_PROCESS_START,
   FL_PROCESS_EXIT,
   FL_EXEC,
   FL_OP_BEGIN,
   FL_OP_END,
} FlEvent;

#define FL_VALUE_BITS 44
#define FL_DELTA_BITS 20
/* Strings longer than this are cut, so that any event fits one packet. */
#define FL_STRING_MAX 3072u

/* What the recorder counted, sent with FL_PROCESS_EXIT for the reader to compare. */
typedef struct {
   ULong by_kind[4];
   ULong store_samples;
} FlCounts;

extern FlCounts fl_counts;

/* False before the start, and for good once nobody reads any more.  Everything
   that records asks this first. */
extern Bool fl_recording;

/* Recording has ended before the program: the reader has gone, or a fork is not followed. */
extern Bool fl_abandoned;

/* The kernel's id of the thread that runs now. */
extern UInt fl_running_tid;

/* Write end of the pipe; -1 once it is closed. */
extern Int fl_pipe_fd;

void fl_stream_open(Int fd);
/* Forget what is buffered and continue as another process. */
void fl_stream_restart(Int pid);
/* Close the pipe without a word (a fork that nobody follows). */
void fl_stream_abandon(void);
void fl_stream_flush(Bool final);
/* Last words of a process image: its exit code and what was counted. */
void fl_stream_end(Int code, ULong now);

/* Record an access to the line of `addr` at instruction `now`. */
void fl_stream_access(Addr addr, FlKind kind, ULong now);
/* Record an event; `text` (may be NULL) is appended, padded with zeros. The
   length of the text goes into the last of the words when `text` is given. */
void fl_stream_event(FlEvent type, ULong value, const ULong* words, UInt n,
                     const HChar* text, ULong now);

#endif
