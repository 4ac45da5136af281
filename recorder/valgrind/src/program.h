/* SPDX-License-Identifier: GPL-2.0-or-later
   Changes that the program makes to its address space, files, threads and processes. */
#ifndef FROSTLINE_PROGRAM_H
#define FROSTLINE_PROGRAM_H

#include "pub_tool_basics.h"

/* Register the callbacks; `follow`: record forked and executed programs too. */
void fl_program_init(void);
extern Bool fl_follow;

/* Announce a process image: `reason` FL_START_IMAGE or FL_START_FORK. */
#define FL_START_IMAGE 0
#define FL_START_FORK 1
void fl_program_start(UInt reason);

#endif
