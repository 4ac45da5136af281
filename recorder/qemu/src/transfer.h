/* SPDX-License-Identifier: GPL-2.0-or-later
   Memory that the kernel reads and writes for the program. */
#ifndef FROSTLINE_TRANSFER_H
#define FROSTLINE_TRANSFER_H

#include "cpus.h"

/* Model the accesses of a system call that has succeeded with this result. */
void fl_kernel_transfer(FlCpu* cpu, UInt nr, UWord result, ULong now);

#endif
