/* SPDX-License-Identifier: GPL-2.0-or-later
   Owners of accessed memory. A processor's page tables change by a load of CR3; whose they are is
   found at the next return to user mode, where the kernel's `current` is right, and remembered. */
#include "lab.h"

#include <string.h>

#define FL_SPACES 1024u
#define CR3_MASK 0x000ffffffffff000ull
#define KERNEL_HALF 0x8000000000000000ull

typedef struct {
   uint64_t root;
   FlProcess* process;
} Space;

typedef struct {
   Space space;
   bool unsure;
} Cpu;

static Space spaces[FL_SPACES];
static Cpu cpus[FL_MAX_CPUS];

/* ---- registers ------------------------------------------------------------ */

static const char* const general[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static struct qemu_plugin_register* general_handle[16];
static struct qemu_plugin_register *gs_base, *k_gs_base;
static GByteArray* bytes;

/* They are not known before a processor runs. */
static void find_registers(void)
{
   if (bytes != NULL)
      return;
   bytes = g_byte_array_new();
   GArray* all = qemu_plugin_get_registers();
   qemu_plugin_reg_descriptor* each = (void*)all->data;
   for (unsigned i = 0; i < all->len; i++) {
      for (unsigned r = 0; r < 16; r++)
         if (strcmp(each[i].name, general[r]) == 0)
            general_handle[r] = each[i].handle;
      if (strcmp(each[i].name, "gs_base") == 0)
         gs_base = each[i].handle;
      if (strcmp(each[i].name, "k_gs_base") == 0)
         k_gs_base = each[i].handle;
   }
   g_array_free(all, 1);
   if (gs_base == NULL || k_gs_base == NULL || general_handle[15] == NULL)
      fl_die("this QEMU does not show the registers", "QEMU 10.0.2 is known to work");
}

static uint64_t read_register(struct qemu_plugin_register* handle)
{
   uint64_t value = 0;
   g_byte_array_set_size(bytes, 0);
   if (qemu_plugin_read_register(handle, bytes) >= 8)
      memcpy(&value, bytes->data, 8);
   return value;
}

static bool read_memory(uint64_t addr, void* to, size_t length)
{
   g_byte_array_set_size(bytes, 0);
   if (!qemu_plugin_read_memory_vaddr(addr, bytes, length))
      return false;
   memcpy(to, bytes->data, length);
   return true;
}

/* ---- page tables and whose they are --------------------------------------- */

static Space* space_of(uint64_t root)
{
   return &spaces[(root >> 12) % FL_SPACES];
}

static void on_cr3(unsigned vcpu, void* data)
{
   fl_l1_flush(vcpu);
   find_registers();
   Cpu* cpu = &cpus[vcpu % FL_MAX_CPUS];
   uint64_t root = read_register(general_handle[(uintptr_t)data]) & CR3_MASK;
   if (root == cpu->space.root)
      return;
   Space* known = space_of(root);
   cpu->space.root = root;
   cpu->space.process = known->root == root ? known->process : NULL;
   cpu->unsure = true;
}

static void on_user_return(unsigned vcpu, void* data)
{
   (void)data;
   Cpu* cpu = &cpus[vcpu % FL_MAX_CPUS];
   if (!cpu->unsure || fl_shared->published != FL_WORKS)
      return;
   find_registers();
   /* Before the return both are there: one is the kernel's. */
   uint64_t area = read_register(k_gs_base);
   if (!(area & KERNEL_HALF))
      area = read_register(gs_base);
   uint64_t task;
   uint32_t tgid;
   char comm[16];
   if (!(area & KERNEL_HALF) || !read_memory(area + fl_shared->current_task, &task, 8) ||
       !read_memory(task + fl_shared->tgid_at, &tgid, 4) ||
       !read_memory(task + fl_shared->comm_at, comm, sizeof comm))
      return;
   if (tgid == 0)
      return;
   cpu->space.process = fl_process(tgid, comm);
   cpu->unsure = false;
   *space_of(cpu->space.root) = cpu->space;
}

static void on_flush(unsigned vcpu, void* data)
{
   (void)data;
   fl_l1_flush(vcpu);
}

FlProcess* fl_running(unsigned vcpu)
{
   FlProcess* process = cpus[vcpu % FL_MAX_CPUS].space.process;
   return process != NULL ? process : fl_kernel;
}

/* ---- instructions ---------------------------------------------------------- */

void fl_watch_instruction(struct qemu_plugin_insn* insn)
{
   uint8_t code[16] = {0};
   size_t length = qemu_plugin_insn_data(insn, code, sizeof code);
   size_t at = 0;
   uint8_t rex = 0;
   bool operand = false;
   while (at + 3 < length && (code[at] == 0x66 || code[at] == 0xf2 || code[at] == 0xf3))
      operand |= code[at++] == 0x66;
   if ((code[at] & 0xf0) == 0x40)
      rex = code[at++];
   if (code[at] == 0xcf) { /* iret */
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_user_return, QEMU_PLUGIN_CB_R_REGS, NULL);
      return;
   }
   if (code[at] != 0x0f)
      return;
   uint8_t second = code[at + 1], modrm = code[at + 2];
   if (second == 0x07) /* sysret */
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_user_return, QEMU_PLUGIN_CB_R_REGS, NULL);
   else if (second == 0x22 && ((modrm >> 3) & 7) == 3 && !(rex & 4)) /* mov to cr3 */
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_cr3, QEMU_PLUGIN_CB_R_REGS,
                                             (void*)(uintptr_t)((modrm & 7) | (rex & 1) << 3));
   else if ((second == 0x01 && modrm >> 6 != 3 && ((modrm >> 3) & 7) == 7) || /* invlpg */
            (operand && second == 0x38 && modrm == 0x82))                     /* invpcid */
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_flush, QEMU_PLUGIN_CB_NO_REGS, NULL);
}
