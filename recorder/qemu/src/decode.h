/* SPDX-License-Identifier: GPL-2.0-or-later
   Properties of instructions that must be known before they run. */
#ifndef FROSTLINE_DECODE_H
#define FROSTLINE_DECODE_H

#include "port.h"

/* Does this instruction read memory only to write it back changed (`add %rax,(%rbx)`)? */
Bool fl_modifies(const UChar* code, SizeT size);

/* Is this the load that opens an operation mark (frostline_marks.h)? `host` is where the
   program's instruction is in this process. */
Bool fl_opens_mark(const UChar* host, SizeT size);

#endif
