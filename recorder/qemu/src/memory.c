/* SPDX-License-Identifier: GPL-2.0-or-later
   Sources of the initial memory: QEMU knows which is the program's, /proc/self/maps of which file it is. */
#include "memory.h"

#include <sys/stat.h>

#include "api.h"
#include "cpus.h"
#include "kernel.h"
#include "stream.h"

/* A line of /proc/self/maps. */
typedef struct {
   UWord start, end, offset;
   char path[FL_STRING_MAX];
} HostMap;

static Bool read_line(FILE* maps, HostMap* m)
{
   char line[FL_STRING_MAX + 128];
   if (fgets(line, sizeof line, maps) == NULL)
      return False;
   int path = 0;
   if (sscanf(line, "%lx-%lx %*4s %lx %*s %*s %n", &m->start, &m->end, &m->offset, &path) < 3)
      return False;
   line[strcspn(line, "\n")] = 0;
   snprintf(m->path, sizeof m->path, "%s", path > 0 ? line + path : "");
   return True;
}

/* `m`: the host's view of it. */
static void announce(UWord start, UWord end, unsigned long prot, Bool is_stack, const HostMap* m)
{
   struct stat st;
   Bool file = m->path[0] == '/' && stat(m->path, &st) == 0;
   ULong flags = FL_MAP_PRIVATE | (file ? 0 : FL_MAP_ANONYMOUS) | (is_stack ? FL_MAP_GROWSDOWN : 0);
   ULong words[6] = {start - fl_guest_base,
                     end - start,
                     (prot & (PROT_READ | PROT_WRITE | PROT_EXEC)) | flags << 32,
                     file ? st.st_dev : 0,
                     file ? st.st_ino : 0,
                     file ? m->offset + (start - m->start) : 0};
   fl_stream_event(FL_MAP, 1, words, 6, file ? m->path : "", fl_clock);
}

/* A run of equal protection may be of several files. */
static int region(void* stack, uint64_t guest_start, uint64_t guest_end, unsigned long flags)
{
   UWord start = guest_start + fl_guest_base, end = guest_end + fl_guest_base;
   FILE* maps = fopen("/proc/self/maps", "re");
   if (maps == NULL)
      return 0;
   static HostMap m;
   while (start < end && read_line(maps, &m)) {
      if (m.end <= start || m.start >= end)
         continue;
      UWord from = m.start > start ? m.start : start, to = m.end < end ? m.end : end;
      UWord at = *(Addr*)stack + fl_guest_base;
      announce(from, to, flags, from <= at && at < to, &m);
      start = to;
   }
   fclose(maps);
   return 0;
}

void fl_initial_memory(Addr stack)
{
   if (walk_memory_regions != NULL)
      walk_memory_regions(&stack, region);
}
