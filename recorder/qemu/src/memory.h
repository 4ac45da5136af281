/* SPDX-License-Identifier: GPL-2.0-or-later
   The memory that the program is started with. */
#ifndef FROSTLINE_MEMORY_H
#define FROSTLINE_MEMORY_H

#include "port.h"

/* Announces it; `stack` is an address in the stack. */
void fl_initial_memory(Addr stack);

#endif
