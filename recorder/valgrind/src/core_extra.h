/* SPDX-License-Identifier: GPL-2.0-or-later
   The few things that the tool needs and the core's public headers do not
   declare: they are exported by libcoregrind 3.19 under these names. */
#ifndef FROSTLINE_CORE_EXTRA_H
#define FROSTLINE_CORE_EXTRA_H

#include "pub_tool_basics.h"
#include "pub_tool_xarray.h"

/* Move a descriptor out of the program's sight; close-on-exec is set. */
extern Int VG_(safe_fd)(Int oldfd);
extern Int VG_(fcntl)(Int fd, Int cmd, Addr arg);
/* Descriptors from here on belong to the core. */
extern Int VG_(fd_hard_limit);
/* Options that the core hands to itself when a followed program calls exec. */
extern XArray* VG_(args_for_valgrind);
extern Bool VG_(clo_trace_children);

/* Whether translations may be discarded at this moment. */
extern Bool VG_(ok_to_discard_translations);

#endif
