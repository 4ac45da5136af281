/* SPDX-License-Identifier: GPL-2.0-or-later
   System calls of Linux on x86-64 without a C library: one of the recorders has none. Numbers
   come from the port (`port.h`), layouts from the kernel's headers. */
#ifndef FROSTLINE_KERNEL_H
#define FROSTLINE_KERNEL_H

#include "port.h"

#define FL_EINTR 4
#define FL_EAGAIN 11
#define FL_EPIPE 32
#define FL_POLLOUT 4
#define FL_SIG_BLOCK 0
#define FL_SIG_SETMASK 2
#define FL_SIGPIPE 13
#define FL_SEEK_CUR 1
#define FL_IPC_STAT 2
#define FL_O_CREAT 0100
#define FL_O_WRONLY 1
#define FL_O_TRUNC 01000
#define FL_MAP_SHARED 0x01
#define FL_MAP_PRIVATE 0x02
#define FL_MAP_ANONYMOUS 0x20
#define FL_MAP_GROWSDOWN 0x100
#define FL_S_IFMT 0170000
#define FL_S_IFREG 0100000
#define FL_S_IFBLK 0060000

/* A raw system call: the result, or the negated errno. */
static inline Word fl_syscall4(UWord nr, UWord a, UWord b, UWord c, UWord d)
{
   Word ret;
   register UWord r10 __asm__("r10") = d;
   __asm__ volatile("syscall"
                    : "=a"(ret)
                    : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
                    : "rcx", "r11", "memory");
   return ret;
}

/* struct stat of arch/x86/include/uapi/asm/stat.h. */
typedef struct {
   ULong dev, ino, nlink;
   UInt mode, uid, gid, pad;
   ULong rdev;
   Long size;
   Long rest[11];
} FlStat;

static inline Bool fl_fstat(Int fd, FlStat* st)
{
   return fd >= 0 && fl_syscall4(__NR_fstat, fd, (UWord)st, 0, 0) == 0;
}

#endif
