/* SPDX-License-Identifier: GPL-2.0-or-later
   The memory that is shared with the guest: where its nodes are, and the ring of samples. */
#include "lab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

volatile FlShared* fl_shared;
static volatile FlSample* records;

void fl_shared_open(void)
{
   struct stat status;
   int fd = open(fl_opt.memory, O_RDWR | O_CLOEXEC);
   if (fd < 0 || fstat(fd, &status) < 0 || status.st_size < 2 * FL_RECORDS_AT)
      fl_die("cannot open the file that memory= names", "a file of at least 8 KiB");
   void* at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
   close(fd);
   if (at == MAP_FAILED)
      fl_die("cannot map the file that memory= names", "it has to be on a file system in memory");
   uint64_t room = ((uint64_t)status.st_size - FL_RECORDS_AT) / sizeof(FlSample);
   fl_shared = at;
   records = (volatile FlSample*)((char*)at + FL_RECORDS_AT);
   fl_shared->magic = FL_SHARED_MAGIC;
   fl_shared->version = FL_SHARED_VERSION;
   fl_shared->record_bytes = sizeof(FlSample);
   fl_shared->capacity = 1ull << (63 - __builtin_clzll(room));
}

int fl_node_of(uint64_t paddr)
{
   for (uint64_t i = 0; i < fl_shared->ranges && i < FL_MAX_RANGES; i++) {
      volatile FlRange* range = &fl_shared->range[i];
      if (paddr >= range->start && paddr < range->end)
         return range->node < FL_MAX_NODES ? (int)range->node : -1;
   }
   return -1;
}

void fl_sample(unsigned vcpu, uint64_t vaddr, uint64_t paddr, uint32_t tgid, int node,
               unsigned flags)
{
   fl_clock_add(vcpu, fl_opt.sample_ns);
   uint64_t head = fl_shared->head;
   if (head - fl_shared->tail >= fl_shared->capacity) {
      fl_shared->lost++;
      return;
   }
   volatile FlSample* record = &records[head & (fl_shared->capacity - 1)];
   record->time_ns = fl_clock_now();
   record->vaddr = vaddr;
   record->paddr = paddr;
   record->tgid = tgid;
   record->node = (uint16_t)node;
   record->flags = (uint16_t)flags;
   __atomic_store_n(&fl_shared->head, head + 1, __ATOMIC_RELEASE);
}
