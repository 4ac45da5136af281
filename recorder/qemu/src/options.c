/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include "cache.h"

FlOptions fl_opt = {
   .pipe = ULLONG_MAX,
   .l1 = 32 << 10,
   .llc = 2 << 20,
   .ways = 16,
   .epoch = 20000000,
   .store_period = 997,
   .fetch = 1,
};

static const struct {
   const char* name;
   ULong *value, min, max;
} known[] = {
   {"pipe", &fl_opt.pipe, 0, INT_MAX},
   {"l1", &fl_opt.l1, 64, FL_L1_MAX_LINES * FL_LINE},
   {"llc", &fl_opt.llc, 64, 1UL << 40},
   {"ways", &fl_opt.ways, 1, 64},
   {"epoch", &fl_opt.epoch, 1000, 1UL << 40},
   {"store_period", &fl_opt.store_period, 512, 32767},
   {"fetch", &fl_opt.fetch, 0, 1},
   {"follow", &fl_opt.follow, 0, 1},
};

static Bool parse_one(const char* text)
{
   for (UInt i = 0; i < sizeof known / sizeof *known; i++) {
      SizeT n = strlen(known[i].name);
      if (strncmp(text, known[i].name, n) != 0 || text[n] != '=')
         continue;
      char* end;
      *known[i].value = strtoull(text + n + 1, &end, 10);
      return end != text + n + 1 && *end == 0 && *known[i].value >= known[i].min &&
             *known[i].value <= known[i].max;
   }
   return False;
}

static Bool power_of_two(ULong n)
{
   return n != 0 && (n & (n - 1)) == 0;
}

const char* fl_parse_options(int argc, char** argv)
{
   for (int i = 0; i < argc; i++)
      if (!parse_one(argv[i]))
         return argv[i];
   ULong set_bytes = fl_opt.ways * FL_LINE;
   if (!power_of_two(fl_opt.l1))
      return "l1 must be a power of two";
   if (fl_opt.llc % set_bytes != 0 || !power_of_two(fl_opt.llc / set_bytes) ||
       fl_opt.llc / set_bytes < FL_MIN_SETS)
      return "llc / (ways * 64) must be a power of two, at least 128";
   if (fl_opt.pipe == ULLONG_MAX)
      return "pipe is missing";
   return NULL;
}
