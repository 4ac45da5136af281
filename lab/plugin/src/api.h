/* SPDX-License-Identifier: GPL-2.0-or-later
   The parts in use of QEMU 10.0: its interface for plugins, version 4 (include/qemu/qemu-plugin.h of
   QEMU), and a few functions that its program exports besides. Debian ships no headers. */
#ifndef FROSTLINE_LAB_API_H
#define FROSTLINE_LAB_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_API_VERSION 4
#define FL_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;

/* The beginning of what QEMU tells. */
typedef struct {
   const char* target_name;
   struct {
      int min, cur;
   } version;
   bool system_emulation;
} qemu_info_t;

typedef struct {
   struct qemu_plugin_register* handle;
   const char* name;
   const char* feature;
} qemu_plugin_reg_descriptor;

enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_CB_R_REGS = 1 };
enum { QEMU_PLUGIN_MEM_RW = 3 };

/* GLib's arrays, as far as QEMU hands them out. */
typedef struct {
   uint8_t* data;
   unsigned len;
} GByteArray;
typedef struct {
   char* data;
   unsigned len;
} GArray;
extern GByteArray* g_byte_array_new(void);
extern GByteArray* g_byte_array_set_size(GByteArray* array, unsigned length);
extern char* g_array_free(GArray* array, int free_segment);

typedef void (*fl_exit_cb)(qemu_plugin_id_t id, void* data);
typedef void (*fl_translate_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*fl_exec_cb)(unsigned vcpu, void* data);
typedef void (*fl_access_cb)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void* data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, fl_translate_cb cb);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* insn, fl_exec_cb cb,
                                                   int flags, void* data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* insn, fl_access_cb cb,
                                             int flags, int rw, void* data);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, fl_exit_cb cb, void* data);

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t i);
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn* insn, void* to, size_t length);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);

extern struct qemu_plugin_hwaddr* qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t addr);
extern bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr* hwaddr);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr* hwaddr);

extern GArray* qemu_plugin_get_registers(void);
extern int qemu_plugin_read_register(struct qemu_plugin_register* handle, GByteArray* to);
extern bool qemu_plugin_read_memory_vaddr(uint64_t addr, GByteArray* to, size_t length);

struct CPUState;

/* Not part of that interface. Counting instructions as time (accel/tcg/icount-common.c): the sum
   in ns, and the state that it is made of. */
extern int64_t icount_get(void);
extern int64_t icount_get_raw(void);
extern __thread struct CPUState* current_cpu;
extern int use_icount;
extern char timers_state[];
#define FL_TIMERS_STATE_BYTES 0x60

/* hw/core/cpu-common.c: a processor by its number; it ends its block of code soon. */
extern struct CPUState* qemu_get_cpu(int index);
extern void cpu_exit(struct CPUState* cpu);

/* accel/tcg/cputlb.c: the calling processor forgets its translations. */
extern void tlb_flush(struct CPUState* cpu);

#endif
