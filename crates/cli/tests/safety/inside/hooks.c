/* An allocator that counts who calls it: preloaded, it stands before the C library's. Counts are in
 * the file HOOKS, three numbers of 64 bits: all calls, those by a thread called frostline-agent, and
 * those in a forked child before fork has returned. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
pid_t __fork(void);

static uint64_t *counts;
static int forking;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HOOKS");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096)) return;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) counts = page;
    close(file);
}

static void count(void) {
    char name[16] = "";
    if (!counts) return;
    __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED);
    prctl(PR_GET_NAME, name);
    if (strcmp(name, "frostline-agent") == 0) __atomic_fetch_add(&counts[1], 1, __ATOMIC_RELAXED);
    if (forking && forking != getpid()) __atomic_fetch_add(&counts[2], 1, __ATOMIC_RELAXED);
}

pid_t fork(void) {
    forking = getpid();
    pid_t child = __fork();
    forking = 0;
    return child;
}

void *malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void *realloc(void *block, size_t bytes) { return count(), __libc_realloc(block, bytes); }
void *memalign(size_t align, size_t bytes) { return count(), __libc_memalign(align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return count(), __libc_memalign(align, bytes); }
int posix_memalign(void **block, size_t align, size_t bytes) {
    count();
    *block = __libc_memalign(align, bytes);
    return *block ? 0 : 12;
}
void free(void *block) {
    if (!block) return;
    count();
    __libc_free(block);
}
