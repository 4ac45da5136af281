/* SPDX-License-Identifier: GPL-2.0-or-later
   Memory that the plugin and programs of the guest share: see docs/reference/formats/lab-memory.md. */
#ifndef FROSTLINE_LAB_SHARED_H
#define FROSTLINE_LAB_SHARED_H

#include <stdint.h>

#define FL_SHARED_MAGIC 0x0042414c54534f46u /* "FOSTLAB\0" */
#define FL_SHARED_VERSION 1u
#define FL_MAX_RANGES 16u
#define FL_RECORDS_AT 4096u

typedef struct {
   uint64_t start, end; /* guest-physical, end excluded */
   uint64_t node;
} FlRange;

typedef struct {
   uint64_t time_ns;
   uint64_t vaddr;
   uint64_t paddr;
   uint32_t tgid;
   uint16_t node;
   uint16_t flags;
} FlSample;

typedef enum { FL_WAITS = 0, FL_WORKS = 1, FL_ENDED = 2 } FlState;
enum { FL_SAMPLE_STORE = 1, FL_SAMPLE_KERNEL = 2 };

typedef struct {
   /* 0: by the plugin, before the machine starts */
   uint64_t magic;
   uint32_t version;
   uint32_t record_bytes;
   uint64_t capacity; /* records, a power of two */
   uint64_t unused[5];

   /* 64: by the guest; `published` is set last, and the plugin waits for it */
   uint64_t published; /* a FlState */
   uint64_t own_start, own_end; /* this memory as the guest's processors see it */
   uint64_t current_task;       /* of the pointer to the running task in a processor's area */
   uint32_t tgid_at, comm_at;   /* in a task */
   uint64_t ranges;
   uint64_t unused2[2];
   FlRange range[FL_MAX_RANGES]; /* 128 */

   /* 512: by the guest, at any time; 0 means none */
   uint64_t load_period;  /* loads that missed the last level */
   uint64_t store_period; /* retired stores */
   uint64_t mark;         /* every change goes into the truth */
   uint64_t unused3[5];

   /* 576: by the plugin */
   uint64_t head; /* records written so far */
   uint64_t lost; /* records that found no room */
   uint64_t unused4[6];

   /* 640: by the guest */
   uint64_t tail; /* records read so far */
} FlShared;

_Static_assert(sizeof(FlSample) == 32, "as documented");
_Static_assert(__builtin_offsetof(FlShared, published) == 64, "as documented");
_Static_assert(__builtin_offsetof(FlShared, range) == 128, "as documented");
_Static_assert(__builtin_offsetof(FlShared, load_period) == 512, "as documented");
_Static_assert(__builtin_offsetof(FlShared, head) == 576, "as documented");
_Static_assert(__builtin_offsetof(FlShared, tail) == 640, "as documented");

#endif
