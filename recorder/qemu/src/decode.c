/* SPDX-License-Identifier: GPL-2.0-or-later
   Opcodes from the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
   appendix A. */
#define _GNU_SOURCE
#include "decode.h"

#include <sys/uio.h>
#include <unistd.h>

static Bool is_prefix(UChar byte)
{
   switch (byte) {
   case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: /* segments */
   case 0x66: case 0x67: case 0xf0: case 0xf2: case 0xf3: return True;
   default: return False;
   }
}

/* `reg`: the middle field of the ModRM byte, which some opcodes go on in. */
static Bool one_byte(UChar op, UInt reg)
{
   if (op < 0x38)
      return (op & 6) == 0; /* add or adc sbb and sub xor, to memory */
   switch (op) {
   case 0x80: case 0x81: case 0x83: return reg != 7; /* the same, immediate; not cmp */
   case 0x86: case 0x87: return True;                /* xchg */
   case 0xc0: case 0xc1: case 0xd0: case 0xd1: case 0xd2: case 0xd3: return True; /* shifts */
   case 0xf6: case 0xf7: return reg == 2 || reg == 3; /* not neg */
   case 0xfe: case 0xff: return reg < 2;              /* inc dec */
   default: return False;
   }
}

static Bool two_byte(UChar op, UInt reg)
{
   switch (op) {
   case 0xa4: case 0xa5: case 0xac: case 0xad: /* shld shrd */
   case 0xab: case 0xb3: case 0xbb:            /* bts btr btc */
   case 0xb0: case 0xb1:                       /* cmpxchg, which always writes */
   case 0xc0: case 0xc1: return True;          /* xadd */
   case 0xba: return reg >= 5;                 /* bts btr btc, immediate */
   case 0xc7: return reg == 1;                 /* cmpxchg8b cmpxchg16b */
   default: return False;
   }
}

Bool fl_modifies(const UChar* code, SizeT size)
{
   SizeT at = 0;
   while (at < size && is_prefix(code[at]))
      at++;
   if (at < size && (code[at] & 0xf0) == 0x40)
      at++;
   Bool long_opcode = at < size && code[at] == 0x0f;
   at += long_opcode;
   if (at + 1 >= size)
      return False;
   UInt modrm = code[at + 1], reg = modrm >> 3 & 7;
   Bool has_memory = modrm >> 6 != 3;
   return has_memory && (long_opcode ? two_byte(code[at], reg) : one_byte(code[at], reg));
}

static const UChar mark[] = {0x48, 0x8b, 0x38,                          /* mov (%rax),%rdi */
                             0x48, 0xc1, 0xc7, 3,  0x48, 0xc1, 0xc7, 13, /* rol, rol */
                             0x48, 0xc1, 0xc7, 61, 0x48, 0xc1, 0xc7, 51, /* rol, rol */
                             0x48, 0x87, 0xdb};                         /* xchg %rbx,%rbx */

Bool fl_opens_mark(const UChar* host, SizeT size)
{
   if (size != 3 || memcmp(host, mark, 3) != 0)
      return False;
   /* The rest may lie in a page that is not there. */
   UChar found[sizeof mark];
   struct iovec here = {found, sizeof found}, there = {(void*)host, sizeof found};
   ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
   return n == sizeof found && memcmp(found, mark, sizeof mark) == 0;
}
