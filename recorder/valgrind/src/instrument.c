/* SPDX-License-Identifier: GPL-2.0-or-later

   A block is cut into stretches that end at its exits: all of a stretch runs or
   (a fault aside) none of it. Each stretch adds its instructions and stores to
   fl_work in one go when it begins; a check inside carries the number of
   instructions still to come, so that its helper knows the exact clock.

   A check of a first-level hit is: index the table by bits of the address,
   subtract the line address found there, compare with 64 - size. One unsigned
   comparison answers "same line" and "does not straddle". Only when it fails is
   a helper called. */
#include "instrument.h"

#include "checks.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "stream.h"

Bool fl_model_fetch = True;

/* What a stretch contains. */
typedef struct {
   UInt instructions;
   UInt stores;
} Stretch;

static IRExpr* u64(ULong n)
{
   return IRExpr_Const(IRConst_U64(n));
}

static IRExpr* assign(IRSB* sb, IRType type, IRExpr* e)
{
   IRTemp t = newIRTemp(sb->tyenv, type);
   addStmtToIRSB(sb, IRStmt_WrTmp(t, e));
   return IRExpr_RdTmp(t);
}

static IRExpr* binop64(IRSB* sb, IROp op, IRExpr* a, IRExpr* b)
{
   return assign(sb, Ity_I64, IRExpr_Binop(op, a, b));
}

static void call(IRSB* sb, IRExpr* guard, const HChar* name, void* helper, IRExpr** args)
{
   IRDirty* d = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(helper), args);
   if (guard != NULL)
      d->guard = guard;
   addStmtToIRSB(sb, IRStmt_Dirty(d));
}

static void call_access(IRSB* sb, IRExpr* guard, IRExpr* addr, Bool is_store, ULong meta)
{
   IRExpr** args = mkIRExprVec_2(addr, u64(meta));
   if (is_store)
      call(sb, guard, "fl_miss_store", fl_miss_store, args);
   else
      call(sb, guard, "fl_miss_load", fl_miss_load, args);
}

/* Check an access of `size` bytes at the atom `addr`, if `guard` (may be NULL). */
static void check_access(IRSB* sb, IRExpr* addr, UInt size, Bool is_store, IRExpr* guard,
                         UInt remaining)
{
   ULong meta = FL_META(remaining, size);
   if (size == 0)
      return;
   if (size > FL_LINE) {
      call_access(sb, guard, addr, is_store, meta);
      return;
   }
   const Addr* table = is_store ? fl_tables.stores : fl_tables.loads;
   /* The table has 8-byte entries and lines have 64 bytes. */
   ULong offset_mask = ((ULong)fl_l1_lines - 1) << 3;
   IRExpr* shifted = binop64(sb, Iop_Shr64, addr, IRExpr_Const(IRConst_U8(3)));
   IRExpr* offset = binop64(sb, Iop_And64, shifted, u64(offset_mask));
   /* The tool is linked low, so the table's address is a displacement. */
   IRExpr* slot = binop64(sb, Iop_Add64, offset, u64((Addr)table));
   IRExpr* line = assign(sb, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, slot));
   IRExpr* distance = binop64(sb, Iop_Sub64, addr, line);
   IRExpr* hit = assign(sb, Ity_I1,
                        IRExpr_Binop(Iop_CmpLE64U, distance, u64(FL_LINE - size)));
   IRExpr* miss = assign(sb, Ity_I1, IRExpr_Unop(Iop_Not1, hit));
   if (guard != NULL)
      miss = assign(sb, Ity_I1, IRExpr_Binop(Iop_And1, miss, guard));
   call_access(sb, miss, addr, is_store, meta);
}

/* The address and size of a code line are known now: one comparison. */
static void check_fetch(IRSB* sb, Addr line, UInt remaining)
{
   const Addr* slot = &fl_tables.code[(line >> FL_LINE_BITS) & (fl_l1_lines - 1)];
   IRExpr* present = assign(sb, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, u64((Addr)slot)));
   IRExpr* miss = assign(sb, Ity_I1, IRExpr_Binop(Iop_CmpNE64, present, u64(line)));
   call(sb, miss, "fl_miss_fetch", fl_miss_fetch,
        mkIRExprVec_2(u64(line), u64(FL_META(remaining, FL_LINE))));
}

static void begin_stretch(IRSB* sb, Stretch s)
{
   if (s.instructions == 0 && s.stores == 0)
      return;
   IRExpr* where = u64((Addr)&fl_work);
   ULong step = (ULong)s.instructions - ((ULong)s.stores << FL_CLOCK_BITS);
   IRExpr* before = assign(sb, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, where));
   IRExpr* after = binop64(sb, Iop_Add64, before, u64(step));
   addStmtToIRSB(sb, IRStmt_Store(Iend_LE, where, after));
   if (s.stores == 0)
      return;
   IRExpr* due = assign(sb, Ity_I1, IRExpr_Binop(Iop_CmpLT64S, after, u64(0)));
   call(sb, due, "fl_arm_sample", fl_arm_sample, mkIRExprVec_1(u64(s.stores)));
}

/* ---- the accesses of one statement -------------------------------------- */

typedef struct {
   IRExpr* addr;
   UInt size;
   Bool reads, writes;
   IRExpr* guard; /* NULL: always */
} Access;

static UInt size_of(const IRSB* sb, const IRExpr* e)
{
   return sizeofIRType(typeOfIRExpr(sb->tyenv, e));
}

static Bool access_of(const IRSB* sb, const IRStmt* st, Access* a)
{
   a->guard = NULL;
   a->reads = a->writes = False;
   switch (st->tag) {
   case Ist_WrTmp: {
      const IRExpr* e = st->Ist.WrTmp.data;
      if (e->tag != Iex_Load)
         return False;
      a->addr = e->Iex.Load.addr;
      a->size = sizeofIRType(e->Iex.Load.ty);
      a->reads = True;
      return True;
   }
   case Ist_Store:
      a->addr = st->Ist.Store.addr;
      a->size = size_of(sb, st->Ist.Store.data);
      a->writes = True;
      return True;
   case Ist_StoreG: {
      const IRStoreG* g = st->Ist.StoreG.details;
      a->addr = g->addr;
      a->size = size_of(sb, g->data);
      a->writes = True;
      a->guard = g->guard;
      return True;
   }
   case Ist_LoadG: {
      const IRLoadG* g = st->Ist.LoadG.details;
      IRType result, loaded;
      typeOfIRLoadGOp(g->cvt, &result, &loaded);
      a->addr = g->addr;
      a->size = sizeofIRType(loaded);
      a->reads = True;
      a->guard = g->guard;
      return True;
   }
   case Ist_CAS: {
      /* A compare-and-exchange always writes, if only the old value back. */
      const IRCAS* c = st->Ist.CAS.details;
      a->addr = c->addr;
      a->size = size_of(sb, c->dataLo) * (c->dataHi == NULL ? 1 : 2);
      a->reads = a->writes = True;
      return True;
   }
   case Ist_LLSC:
      a->addr = st->Ist.LLSC.addr;
      if (st->Ist.LLSC.storedata == NULL) {
         a->size = sizeofIRType(typeOfIRTemp(sb->tyenv, st->Ist.LLSC.result));
         a->reads = True;
      } else {
         a->size = size_of(sb, st->Ist.LLSC.storedata);
         a->writes = True;
      }
      return True;
   case Ist_Dirty: {
      const IRDirty* d = st->Ist.Dirty.details;
      if (d->mFx == Ifx_None)
         return False;
      a->addr = d->mAddr;
      a->size = d->mSize;
      a->reads = d->mFx == Ifx_Read || d->mFx == Ifx_Modify;
      a->writes = d->mFx == Ifx_Write || d->mFx == Ifx_Modify;
      if (d->guard->tag != Iex_Const)
         a->guard = d->guard;
      return True;
   }
   default:
      return False;
   }
}

static Bool same_atom(const IRExpr* a, const IRExpr* b)
{
   if (a->tag == Iex_RdTmp && b->tag == Iex_RdTmp)
      return a->Iex.RdTmp.tmp == b->Iex.RdTmp.tmp;
   return a->tag == Iex_Const && b->tag == Iex_Const &&
          a->Iex.Const.con->tag == Ico_U64 && b->Iex.Const.con->tag == Ico_U64 &&
          a->Iex.Const.con->Ico.U64 == b->Iex.Const.con->Ico.U64;
}

/* A load whose own instruction later stores to the same place (`add %rax,(%rbx)`)
   needs no check: the store's check does for both. */
static Bool is_modify(const IRSB* sb, Int i, const Access* load)
{
   if (load->guard != NULL)
      return False;
   for (i++; i < sb->stmts_used; i++) {
      const IRStmt* st = sb->stmts[i];
      if (st->tag == Ist_IMark || st->tag == Ist_Exit)
         return False;
      if (st->tag == Ist_Store && same_atom(st->Ist.Store.addr, load->addr) &&
          size_of(sb, st->Ist.Store.data) >= load->size)
         return True;
   }
   return False;
}

/* Is this access a store that the sample counter counts? Stores that may not
   happen are left out: the count of a stretch must be certain. */
static Bool is_counted_store(const Access* a)
{
   return a->writes && a->guard == NULL && a->size > 0;
}

/* From statement `i` up to and including the next exit. */
static Stretch measure(const IRSB* sb, Int i)
{
   Stretch s = {0, 0};
   for (; i < sb->stmts_used; i++) {
      const IRStmt* st = sb->stmts[i];
      Access a;
      if (st->tag == Ist_Exit)
         break;
      if (st->tag == Ist_IMark)
         s.instructions++;
      else if (access_of(sb, st, &a) && is_counted_store(&a))
         s.stores++;
   }
   return s;
}

/* Check the lines of an instruction that the block has not come to yet. */
static void fetch_instruction(IRSB* sb, const IRStmt* mark, Addr* last_line, UInt remaining)
{
   Addr first = mark->Ist.IMark.addr & ~(Addr)(FL_LINE - 1);
   UInt len = mark->Ist.IMark.len > 0 ? mark->Ist.IMark.len : 1;
   Addr last = (mark->Ist.IMark.addr + len - 1) & ~(Addr)(FL_LINE - 1);
   if (first != *last_line)
      check_fetch(sb, first, remaining);
   if (last != first)
      check_fetch(sb, last, remaining);
   *last_line = last;
}

IRSB* fl_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                    const VexGuestExtents* extents, const VexArchInfo* host,
                    IRType guest_word, IRType host_word)
{
   if (!fl_recording)
      return in;
   tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
   IRSB* out = deepCopyIRSBExceptStmts(in);
   Int i = 0;
   /* What stands before the first instruction mark is the core's own business. */
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++)
      addStmtToIRSB(out, in->stmts[i]);

   Addr last_line = FL_NO_LINE;
   Bool at_start = True;
   UInt remaining = 0;
   for (; i < in->stmts_used; i++) {
      IRStmt* st = in->stmts[i];
      Access a;
      if (st->tag == Ist_NoOp)
         continue;
      if (at_start) {
         Stretch s = measure(in, i);
         begin_stretch(out, s);
         remaining = s.instructions;
         at_start = False;
      }
      if (st->tag == Ist_IMark) {
         remaining--;
         addStmtToIRSB(out, st);
         if (fl_model_fetch)
            fetch_instruction(out, st, &last_line, remaining);
         continue;
      }
      if (st->tag == Ist_Exit)
         at_start = True;
      else if (access_of(in, st, &a) && (a.writes || !is_modify(in, i, &a)))
         check_access(out, a.addr, a.size, a.writes, a.guard, remaining);
      addStmtToIRSB(out, st);
   }
   return out;
}
