/* SPDX-License-Identifier: GPL-2.0-or-later
   The parts in use of QEMU's interface for plugins, version 1, as QEMU 7.2 exports it (documentation:
   docs/devel/tcg-plugins.rst and include/qemu/qemu-plugin.h of QEMU). Debian ships no header. */
#ifndef FROSTLINE_API_H
#define FROSTLINE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_API_VERSION 1
#define FL_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* The beginning of what QEMU tells; more follows in system emulation. */
typedef struct {
   const char* target_name;
   struct {
      int min, cur;
   } version;
   bool system_emulation;
} qemu_info_t;

enum { QEMU_PLUGIN_CB_NO_REGS = 0 };
enum { QEMU_PLUGIN_MEM_W = 2, QEMU_PLUGIN_MEM_RW = 3 };

typedef void (*fl_simple_cb)(qemu_plugin_id_t id);
typedef void (*fl_exit_cb)(qemu_plugin_id_t id, void* data);
typedef void (*fl_vcpu_cb)(qemu_plugin_id_t id, unsigned vcpu);
typedef void (*fl_translate_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*fl_exec_cb)(unsigned vcpu, void* data);
typedef void (*fl_access_cb)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void* data);
typedef void (*fl_syscall_cb)(qemu_plugin_id_t id, unsigned vcpu, int64_t nr, uint64_t a1,
                              uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                              uint64_t a7, uint64_t a8);
typedef void (*fl_syscall_ret_cb)(qemu_plugin_id_t id, unsigned vcpu, int64_t nr, int64_t result);

extern void qemu_plugin_reset(qemu_plugin_id_t id, fl_simple_cb done);
extern void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, fl_vcpu_cb cb);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, fl_translate_cb cb);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, fl_exec_cb cb,
                                                 int flags, void* data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* insn, fl_access_cb cb,
                                             int flags, int rw, void* data);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, fl_syscall_cb cb);
extern void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, fl_syscall_ret_cb cb);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, fl_exit_cb cb, void* data);

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t i);
extern const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* insn);
extern void* qemu_plugin_insn_haddr(const struct qemu_plugin_insn* insn);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* Not part of that interface, but exported by QEMU 7.2 (accel/tcg/user-exec.c): the memory of the
   program, in runs of equal protection (PROT_* in the low bits). Absent elsewhere, perhaps. */
typedef int (*fl_region_cb)(void* data, uint64_t start, uint64_t end, unsigned long flags);
extern int walk_memory_regions(void* data, fl_region_cb cb) __attribute__((weak));

/* The same holds for these (cpus-common.c, plugins/core.c): a thread by its number, and what QEMU
   does for plugins when a thread ends. */
struct CPUState;
extern struct CPUState* qemu_get_cpu(int index) __attribute__((weak));
extern void qemu_plugin_vcpu_exit_hook(struct CPUState* cpu) __attribute__((weak));

#endif
