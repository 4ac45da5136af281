/* SPDX-License-Identifier: GPL-2.0-or-later
   Changes that the program makes to its address space, files, threads and processes. */
#ifndef FROSTLINE_PROGRAM_H
#define FROSTLINE_PROGRAM_H

#include "api.h"
#include "port.h"

/* The program has begun, and its initial memory has been announced. */
extern Bool fl_program_running;

/* Call it upon the first access, which is to the stack: what runs first is the dynamic linker or
   _start (System V ABI, AMD64 supplement, 3.4.1). False: nothing is recorded. */
Bool fl_program_starts(Addr stack);

/* Register the callbacks. */
void fl_program_init(qemu_plugin_id_t id);

#endif
