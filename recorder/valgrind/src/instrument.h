/* SPDX-License-Identifier: GPL-2.0-or-later
   Instrumentation of translated code: the cache checks and the instruction clock. */
#ifndef FROSTLINE_INSTRUMENT_H
#define FROSTLINE_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* Also model instruction fetches (default). */
extern Bool fl_model_fetch;

IRSB* fl_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                    const VexGuestExtents* extents, const VexArchInfo* host,
                    IRType guest_word, IRType host_word);

#endif
