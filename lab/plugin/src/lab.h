/* SPDX-License-Identifier: GPL-2.0-or-later
   The parts of the plugin. All of it runs in one thread: the machine's processors take turns. */
#ifndef FROSTLINE_LAB_H
#define FROSTLINE_LAB_H

#include "api.h"
#include "shared.h"

#define FL_MAX_CPUS 16u
#define FL_MAX_NODES 4u

typedef struct {
   const char* memory; /* file that is the shared memory */
   const char* truth;  /* file to write, or NULL */
   uint64_t latency_ns[FL_MAX_NODES];
   uint64_t l1_bytes, llc_bytes;
   unsigned llc_ways;
   uint64_t interval_ns; /* of the truth's series; 0: the end only */
   uint64_t sample_ns;   /* that a sample takes the processor that makes it */
} FlOptions;

extern FlOptions fl_opt;

/* Prints to standard error and ends QEMU. */
void fl_die(const char* what, const char* hint) __attribute__((noreturn));

/* ---- options.c */
void fl_options_read(int argc, char** argv);

/* ---- shared.c */
extern volatile FlShared* fl_shared;
void fl_shared_open(void);
/* The node of a guest-physical address, or -1: no memory, or the shared memory itself. */
int fl_node_of(uint64_t paddr);
/* Also where there is no room for it: the processor has done its work. */
void fl_sample(unsigned vcpu, uint64_t vaddr, uint64_t paddr, uint32_t tgid, int node,
               unsigned flags);

/* ---- clock.c */
void fl_clock_check(void);
uint64_t fl_clock_now(void); /* ns; instructions where time is not counted by them */
/* An access takes so much longer. */
void fl_clock_add(unsigned vcpu, uint64_t ns);

/* ---- caches.c */
void fl_caches_init(void);
/* Whether the line is in the first level of a processor, where it is from now on. */
bool fl_l1_hit(unsigned vcpu, uint64_t vaddr);
void fl_l1_flush(unsigned vcpu);
/* The same for the last level, by guest-physical address. */
bool fl_llc_hit(uint64_t paddr);

/* ---- tlb.c */
/* Missed the first level of the caches; last thing to be called for an access. */
void fl_tlb_use(unsigned vcpu, uint64_t vaddr);

/* ---- truth.c */
typedef struct {
   uint32_t tgid;
   char comm[16];
   bool used;
   uint64_t loads[FL_MAX_NODES], stores[FL_MAX_NODES]; /* that missed the last level */
} FlProcess;

extern FlProcess* fl_kernel; /* accesses to the kernel's own half */
FlProcess* fl_process(uint32_t tgid, const char* comm);
void fl_truth_open(void);
void fl_truth_tick(uint64_t now);
/* The guest has ended its job. What it does to switch itself off takes a different time each time. */
void fl_truth_end(void);
void fl_truth_close(void);

/* ---- processes.c */
/* Whose user memory a processor sees. */
FlProcess* fl_running(unsigned vcpu);
/* The instructions at which that may change get their callbacks. */
void fl_watch_instruction(struct qemu_plugin_insn* insn);

#endif
