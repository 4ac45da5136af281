/* SPDX-License-Identifier: GPL-2.0-or-later
   Frostline's second recorder: a plugin for QEMU's user mode that sends the memory accesses that
   miss a modelled cache hierarchy through a pipe. */
#include "api.h"
#include "cache.h"
#include "cpus.h"
#include "options.h"
#include "program.h"

FL_EXPORT int qemu_plugin_version = FL_API_VERSION;

FL_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                  char** argv);

static int refuse(const char* why)
{
   fprintf(stderr, "frostline: %s\n", why);
   return -1;
}

FL_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                  char** argv)
{
   if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
      return refuse("programs for x86-64 can be recorded, in user mode");
   const char* wrong = fl_parse_options(argc, argv);
   if (wrong != NULL)
      return refuse(wrong);
   if (!fl_cpus_init())
      return refuse("this QEMU is not 7.2, nor like it");
   fl_cache_init(fl_opt.l1, fl_opt.llc, fl_opt.ways, fl_opt.epoch);
   fl_program_init(id);
   qemu_plugin_register_vcpu_tb_trans_cb(id, fl_instrument);
   return 0;
}
