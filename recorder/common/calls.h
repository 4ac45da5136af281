/* SPDX-License-Identifier: GPL-2.0-or-later
   Effects of system calls on the program's address space and files, as events of the stream. */
#ifndef FROSTLINE_CALLS_H
#define FROSTLINE_CALLS_H

#include "port.h"

/* What the "after" half of a call needs and can only be learnt before it: the file that is
   about to be closed. */
typedef struct {
   Bool file;
   ULong dev, ino;
} FlCall;

void fl_call_before(FlCall* call, UInt nr, const UWord* args, ULong now);
/* The call has succeeded with this result. */
void fl_call_after(const FlCall* call, UInt nr, const UWord* args, UWord result, ULong now);

/* Files that the program was started with, among the first `limit` descriptors. */
void fl_inherited_files(Int limit, ULong now);

#endif
