/* SPDX-License-Identifier: GPL-2.0-or-later
   Threads of the program (QEMU's virtual processors), each with a first level of its own. */
#ifndef FROSTLINE_CPUS_H
#define FROSTLINE_CPUS_H

#include "api.h"
#include "cache.h"
#include "calls.h"

/* QEMU numbers threads anew as they end; more than these at a time would share. */
#define FL_MAX_CPUS FL_MAX_L1S

typedef struct {
   ULong pending;    /* instructions that are not in fl_clock yet */
   Long stores_left; /* until the sampled one */
   UInt tid;         /* the kernel's number */
   UInt index;
   FlL1 l1; /* names the tables below */
   /* The system call that the thread is in. */
   FlCall call;
   UWord args[6];
   Addr tables[2][FL_L1_MAX_LINES]; /* loads, stores */
   Addr code[FL_L1_MAX_LINES];
} FlCpu;

/* Instructions retired by the process, as far as its threads have reported. */
extern ULong fl_clock;

/* Add to the translated block what records it. */
void fl_instrument(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);

/* Everything behind a first-level hit, and everything about the stream, happens under one lock;
   it gives the thread's state, or NULL where nothing is recorded (and nothing is locked). Until
   the process has a second thread, nobody needs to wait. */
FlCpu* fl_enter(unsigned vcpu);
/* The same on behalf of no thread. */
Bool fl_enter_process(void);
void fl_leave(void);

/* Report the thread's instructions: the clock. Its events follow. */
ULong fl_publish(FlCpu* cpu);

/* Call it before the program starts a thread. */
void fl_threads_begin(void);
/* The thread is gone. Inside fl_enter. */
void fl_cpu_end(FlCpu* cpu);
/* The process ends: report what all threads have done, and end them. */
void fl_cpus_end(void);

/* False: this QEMU describes accesses otherwise than is expected here. */
Bool fl_cpus_init(void);

/* pthread_atfork(3). The lock is held across the fork; what ran beside the forking thread is not in
   the child. */
void fl_before_fork(void);
void fl_after_fork_parent(void);
void fl_after_fork_child(void);
/* Call it in the child, on its only thread, once QEMU's own part of the fork is done. */
void fl_settle_fork(unsigned vcpu);
/* fl_settle_fork is at work: threads end that never were. */
extern Bool fl_settling;

/* Where the program's address 0 is in this process. */
extern UWord fl_guest_base;

#endif
