/* SPDX-License-Identifier: GPL-2.0-or-later
   The calls that move data, and the frequent ones with a structure for an answer. */
#define _GNU_SOURCE
#include "transfer.h"

#include <sys/epoll.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static Bool read_program(void* to, Addr from, SizeT bytes)
{
   struct iovec here = {to, bytes}, there = {(void*)(from + fl_guest_base), bytes};
   return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* The first `bytes` of what `n` vectors at `vectors` name. */
static void vectors(FlCpu* cpu, Addr vectors, UWord n, UWord bytes, Bool is_store, ULong now)
{
   fl_cache_kernel(&cpu->l1, vectors, n * sizeof(struct iovec), False, now);
   for (; n > 0 && bytes > 0; n--, vectors += sizeof(struct iovec)) {
      struct iovec v;
      if (!read_program(&v, vectors, sizeof v))
         return;
      UWord part = v.iov_len < bytes ? v.iov_len : bytes;
      fl_cache_kernel(&cpu->l1, (Addr)v.iov_base, part, is_store, now);
      bytes -= part;
   }
}

static void message(FlCpu* cpu, Addr addr, UWord bytes, Bool is_store, ULong now)
{
   struct msghdr m;
   fl_cache_kernel(&cpu->l1, addr, sizeof m, False, now);
   if (read_program(&m, addr, sizeof m))
      vectors(cpu, (Addr)m.msg_iov, m.msg_iovlen, bytes, is_store, now);
}

void fl_kernel_transfer(FlCpu* cpu, UInt nr, UWord result, ULong now)
{
   const UWord* a = cpu->args;
   FlL1* l1 = &cpu->l1;
   switch (nr) {
   case __NR_read:
   case __NR_pread64:
   case __NR_recvfrom:
   case __NR_getdents64:
   case __NR_readlink: fl_cache_kernel(l1, a[1], result, True, now); break;
   case __NR_write:
   case __NR_pwrite64:
   case __NR_sendto: fl_cache_kernel(l1, a[1], result, False, now); break;
   case __NR_readv:
   case __NR_preadv:
   case __NR_preadv2: vectors(cpu, a[1], a[2], result, True, now); break;
   case __NR_writev:
   case __NR_pwritev:
   case __NR_pwritev2: vectors(cpu, a[1], a[2], result, False, now); break;
   case __NR_recvmsg: message(cpu, a[1], result, True, now); break;
   case __NR_sendmsg: message(cpu, a[1], result, False, now); break;
   case __NR_readlinkat: fl_cache_kernel(l1, a[2], result, True, now); break;
   case __NR_getcwd:
   case __NR_getrandom: fl_cache_kernel(l1, a[0], result, True, now); break;
   case __NR_stat:
   case __NR_lstat:
   case __NR_fstat: fl_cache_kernel(l1, a[1], sizeof(struct stat), True, now); break;
   case __NR_newfstatat: fl_cache_kernel(l1, a[2], sizeof(struct stat), True, now); break;
   case __NR_epoll_wait:
   case __NR_epoll_pwait:
      fl_cache_kernel(l1, a[1], result * sizeof(struct epoll_event), True, now);
      break;
   case __NR_epoll_ctl: fl_cache_kernel(l1, a[3], sizeof(struct epoll_event), False, now); break;
   case __NR_poll:
   case __NR_ppoll: fl_cache_kernel(l1, a[0], a[1] * sizeof(struct pollfd), True, now); break;
   case __NR_clock_gettime:
   case __NR_gettimeofday:
      fl_cache_kernel(l1, a[nr == __NR_clock_gettime], sizeof(struct timespec), True, now);
      break;
   }
}
