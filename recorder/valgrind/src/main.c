/* SPDX-License-Identifier: GPL-2.0-or-later
   Frostline's recorder: a Valgrind tool that sends the memory accesses that miss
   a modelled cache hierarchy through a pipe. */
#include "checks.h"
#include "core_extra.h"
#include "instrument.h"
#include "options.h"
#include "program.h"
#include "pub_tool_clreq.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "stream.h"

FlOptions fl_opt = {
   .pipe_fd = -1,
   .l1_bytes = 32 << 10,
   .llc_bytes = 2 << 20,
   .llc_ways = 16,
   .epoch = 20000000,
   .store_period = 997,
   .fetch = True,
};

Bool fl_process_option(const HChar* arg)
{
   if VG_INT_CLO (arg, "--pipe-fd", fl_opt.pipe_fd) {
   } else if VG_BINT_CLO (arg, "--l1-size", fl_opt.l1_bytes, 64, FL_L1_MAX_LINES * FL_LINE) {
   } else if VG_BINT_CLO (arg, "--llc-size", fl_opt.llc_bytes, 64, 1L << 40) {
   } else if VG_BINT_CLO (arg, "--llc-ways", fl_opt.llc_ways, 1, 64) {
   } else if VG_BINT_CLO (arg, "--epoch", fl_opt.epoch, 1000, 1L << 40) {
   } else if VG_BINT_CLO (arg, "--store-period", fl_opt.store_period, 512, 32767) {
   } else if VG_BOOL_CLO (arg, "--fetch", fl_opt.fetch) {
   } else
      return False;
   return True;
}

void fl_print_usage(void)
{
   VG_(printf)("    --pipe-fd=<n>         write packets to this descriptor [none: record nothing]\n"
               "    --l1-size=<bytes>     direct-mapped first level, each for data and code [32768]\n"
               "    --llc-size=<bytes>    last-level cache [2097152]\n"
               "    --llc-ways=<n>        its associativity [16]\n"
               "    --epoch=<n>           instructions between touched-page sets [20000000]\n"
               "    --store-period=<n>    sample one store in n [997]\n"
               "    --fetch=yes|no        model instruction fetches [yes]\n");
}

static void print_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static Bool power_of_two(ULong n)
{
   return n != 0 && (n & (n - 1)) == 0;
}

void fl_check_options(void)
{
   if (!power_of_two(fl_opt.l1_bytes))
      VG_(fmsg_bad_option)("--l1-size", "The size must be a power of two.\n");
   ULong set_bytes = (ULong)fl_opt.llc_ways * FL_LINE;
   if (fl_opt.llc_bytes % set_bytes != 0 || !power_of_two(fl_opt.llc_bytes / set_bytes) ||
       fl_opt.llc_bytes / set_bytes < FL_MIN_SETS)
      VG_(fmsg_bad_option)("--llc-size",
                           "size / (ways * 64) must be a power of two, at least %u.\n",
                           FL_MIN_SETS);
}

/* The pipe moves above the program's descriptors. A followed exec inherits it
   there, so the option that the core passes on must name the new number. */
static Int hide_pipe(Int fd)
{
   Int safe = VG_(safe_fd)(fd);
   if (!fl_follow)
      return safe;
   VG_(fcntl)(safe, VKI_F_SETFD, 0);
   for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
      HChar** arg = VG_(indexXA)(VG_(args_for_valgrind), i);
      if (VG_(strncmp)(*arg, "--pipe-fd=", 10) == 0) {
         *arg = VG_(malloc)("frostline.option", 32);
         VG_(sprintf)(*arg, "--pipe-fd=%d", safe);
      }
   }
   return safe;
}

static void post_clo_init(void)
{
   fl_check_options();
   fl_model_fetch = fl_opt.fetch;
   fl_follow = VG_(clo_trace_children);
   fl_cache_init(fl_opt.l1_bytes, fl_opt.llc_bytes, fl_opt.llc_ways, fl_opt.epoch);
   fl_checks_init(fl_opt.store_period);
   if (fl_opt.pipe_fd < 0)
      return;
   fl_stream_open(hide_pipe(fl_opt.pipe_fd));
   fl_program_start(FL_START_IMAGE);
}

static void fini(Int code)
{
   if (!fl_recording)
      return;
   fl_cache_finish(fl_now());
   fl_stream_end(code, fl_now());
}

/* Operation marks; the numbers are in frostline_marks.h. */
static Bool client_request(ThreadId tid, UWord* arg, UWord* ret)
{
   UWord base = (UWord)'F' << 24 | (UWord)'L' << 16;
   if (arg[0] != base && arg[0] != base + 1)
      return False;
   ULong id = arg[1];
   fl_stream_event(arg[0] == base ? FL_OP_BEGIN : FL_OP_END, 0, &id, 1, NULL, fl_now());
   *ret = fl_recording;
   return True;
}

static void pre_clo_init(void)
{
   VG_(details_name)("Frostline recorder");
   VG_(details_version)("1");
   VG_(details_description)("records memory accesses behind a modelled cache");
   VG_(details_copyright_author)("GPL-2.0-or-later, the Frostline project.");
   VG_(details_bug_reports_to)("the Frostline project");
   VG_(details_avg_translation_sizeB)(500);
   VG_(basic_tool_funcs)(post_clo_init, fl_instrument, fini);
   VG_(needs_command_line_options)(fl_process_option, fl_print_usage, print_debug_usage);
   VG_(needs_client_requests)(client_request);
   fl_program_init();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
