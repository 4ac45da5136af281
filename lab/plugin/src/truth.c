/* SPDX-License-Identifier: GPL-2.0-or-later
   Counts of what really happened: accesses that missed the last level, by process, node and kind. One JSON
   object a line: at every mark of the guest, every interval, and at the end. */
#include "lab.h"

#include <stdio.h>
#include <string.h>

#define FL_MAX_PROCESSES 4096u

static FlProcess processes[FL_MAX_PROCESSES];
static FILE* out;
static uint64_t next_tick;
static uint64_t last_mark;
static bool ended;

FlProcess* fl_kernel = &processes[0]; /* its slot is the one of process 0 */

FlProcess* fl_process(uint32_t tgid, const char* comm)
{
   unsigned at = tgid % FL_MAX_PROCESSES;
   for (unsigned tried = 0; tried < FL_MAX_PROCESSES; tried++) {
      FlProcess* process = &processes[at];
      if (!process->used) {
         process->used = true;
         process->tgid = tgid;
      }
      if (process->tgid == tgid) {
         if (comm != NULL)
            memcpy(process->comm, comm, sizeof process->comm);
         process->comm[sizeof process->comm - 1] = 0;
         return process;
      }
      at = (at + 1) % FL_MAX_PROCESSES;
   }
   fl_die("more processes than can be told apart", "a job with less than 4096 of them");
}

static void write_counts(const char* name, const uint64_t* counts)
{
   fprintf(out, ",\"%s\":[", name);
   for (unsigned i = 0; i < FL_MAX_NODES; i++)
      fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)counts[i]);
   fputc(']', out);
}

static void write_all(const char* why, uint64_t now)
{
   if (out == NULL)
      return;
   for (unsigned i = 0; i < FL_MAX_PROCESSES; i++) {
      FlProcess* process = &processes[i];
      uint64_t any = 0;
      for (unsigned node = 0; node < FL_MAX_NODES; node++)
         any |= process->loads[node] | process->stores[node];
      if (!any)
         continue;
      fprintf(out, "{\"why\":\"%s\",\"mark\":%llu,\"time_ns\":%llu,\"tgid\":%u,\"comm\":\"", why,
              (unsigned long long)fl_shared->mark, (unsigned long long)now, process->tgid);
      for (const char* c = process->comm; *c; c++)
         fputc(*c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '?' : *c, out);
      fputc('"', out);
      write_counts("loads", process->loads);
      write_counts("stores", process->stores);
      fputs("}\n", out);
   }
}

void fl_truth_open(void)
{
   fl_kernel->used = true;
   strcpy(fl_kernel->comm, "kernel");
   if (fl_opt.truth == NULL)
      return;
   out = fopen(fl_opt.truth, "we");
   if (out == NULL)
      fl_die("cannot write the file that truth= names", "a folder that exists");
}

void fl_truth_tick(uint64_t now)
{
   if (fl_shared->mark != last_mark) {
      last_mark = fl_shared->mark;
      write_all("mark", now);
   }
   if (fl_opt.interval_ns == 0 || now < next_tick)
      return;
   if (next_tick != 0)
      write_all("interval", now);
   next_tick = now - now % fl_opt.interval_ns + fl_opt.interval_ns;
}

void fl_truth_end(void)
{
   if (!ended)
      write_all("end", fl_clock_now());
   ended = true;
}

void fl_truth_close(void)
{
   fl_truth_end();
   if (out != NULL && fclose(out) != 0)
      fl_die("cannot write the file that truth= names", "is the disk full?");
}
