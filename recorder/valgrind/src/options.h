/* SPDX-License-Identifier: GPL-2.0-or-later
   The tool's command line. */
#ifndef FROSTLINE_OPTIONS_H
#define FROSTLINE_OPTIONS_H

#include "pub_tool_basics.h"

typedef struct {
   Int pipe_fd;       /* inherited write end */
   ULong l1_bytes;    /* direct-mapped; power of two, 64 B .. 4 MiB */
   ULong llc_bytes;   /* power-of-two number of sets */
   UInt llc_ways;     /* 1 .. 64 */
   ULong epoch;       /* instructions between touched-page sets */
   UInt store_period; /* one store in so many is sampled; 512 .. 32767 */
   Bool fetch;        /* model instruction fetches */
} FlOptions;

extern FlOptions fl_opt;

Bool fl_process_option(const HChar* arg);
void fl_print_usage(void);
/* Refuse what does not fit together. */
void fl_check_options(void);

#endif
