/* SPDX-License-Identifier: MIT OR Apache-2.0

   Marks in recorded traces where operations (requests, queries, transactions) begin and end, so
   that their latencies can be told. Copy this file into your program; it needs nothing else.

      FROSTLINE_OP_BEGIN(id);
      ... serve the request ...
      FROSTLINE_OP_END(id);

   `id` is any 64-bit number: the kind of operation. An operation begins and ends on one thread.
   Outside the recorder a mark costs a few register rotations; elsewhere than on x86-64 it is
   nothing. */
#ifndef FROSTLINE_MARKS_H
#define FROSTLINE_MARKS_H

#define FROSTLINE_OP_BEGIN(id) frostline_mark(0x464c0000ul, (unsigned long)(id))
#define FROSTLINE_OP_END(id) frostline_mark(0x464c0001ul, (unsigned long)(id))

static inline void frostline_mark(unsigned long request, unsigned long id)
{
#if defined(__x86_64__) && defined(__GNUC__)
   /* Valgrind recognises these rotations, which add up to nothing, as a call of the tool:
      %rax points to the request and its arguments, %rdx takes the answer. The load before them
      tells the other recorder, which does not see registers, where that is. */
   volatile unsigned long args[6] = {request, id, 0, 0, 0, 0};
   unsigned long answer = 0;
   __asm__ volatile("movq (%%rax), %%rdi\n\t"
                    "rolq $3, %%rdi\n\t"
                    "rolq $13, %%rdi\n\t"
                    "rolq $61, %%rdi\n\t"
                    "rolq $51, %%rdi\n\t"
                    "xchgq %%rbx, %%rbx"
                    : "+d"(answer)
                    : "a"(&args[0])
                    : "cc", "memory", "rdi");
   (void)answer;
#else
   (void)request;
   (void)id;
#endif
}

#endif
