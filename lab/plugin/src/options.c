/* SPDX-License-Identifier: GPL-2.0-or-later
   Options, as QEMU hands them over: name=value. */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FlOptions fl_opt = {
   .latency_ns = {0},
   .l1_bytes = 32 << 10,
   .llc_bytes = 2 << 20,
   .llc_ways = 16,
   .interval_ns = 0,
   .sample_ns = 0,
};

void fl_die(const char* what, const char* hint)
{
   fprintf(stderr, "frostline-lab: %s\nhint: %s\n", what, hint);
   exit(1);
}

static uint64_t number(const char* text, const char* what)
{
   char* end;
   unsigned long long value = strtoull(text, &end, 10);
   if (*text == 0 || *end != 0)
      fl_die(what, "a number without unit");
   return value;
}

static uint64_t power_of_two(const char* text, const char* what)
{
   uint64_t value = number(text, what);
   if (value < 64 || (value & (value - 1)) != 0)
      fl_die(what, "a power of two of bytes");
   return value;
}

/* One number for each node: 100:300. */
static void latencies(const char* text)
{
   char copy[128], *rest = copy, *one;
   snprintf(copy, sizeof copy, "%s", text);
   unsigned node = 0;
   while ((one = strsep(&rest, ":")) != NULL) {
      if (node == FL_MAX_NODES)
         fl_die("latency= has too many nodes", "at most 4, as in latency=100:300");
      fl_opt.latency_ns[node++] = number(one, "latency= is no list of ns");
   }
}

void fl_options_read(int argc, char** argv)
{
   for (int i = 0; i < argc; i++) {
      char* value = strchr(argv[i], '=');
      if (value == NULL)
         fl_die("an option lacks its value", "name=value");
      *value++ = 0;
      if (strcmp(argv[i], "memory") == 0)
         fl_opt.memory = strdup(value);
      else if (strcmp(argv[i], "truth") == 0)
         fl_opt.truth = strdup(value);
      else if (strcmp(argv[i], "latency") == 0)
         latencies(value);
      else if (strcmp(argv[i], "l1") == 0)
         fl_opt.l1_bytes = power_of_two(value, "l1= is wrong");
      else if (strcmp(argv[i], "llc") == 0)
         fl_opt.llc_bytes = power_of_two(value, "llc= is wrong");
      else if (strcmp(argv[i], "interval-ms") == 0)
         fl_opt.interval_ns = number(value, "interval-ms= is wrong") * 1000000;
      else if (strcmp(argv[i], "sample-ns") == 0)
         fl_opt.sample_ns = number(value, "sample-ns= is wrong");
      else
         fl_die("unknown option of the plugin",
                "memory, truth, latency, l1, llc, interval-ms, sample-ns");
   }
   if (fl_opt.memory == NULL)
      fl_die("memory= is missing", "the file that is also the memory-backend-file of ivshmem");
}
