/* Programs that a library cannot be brought into, each for a reason of its own.
 *
 *     waits MODE
 *
 * Prints a line, and waits for the end of its input. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void wait_for_end(void) {
    char byte;
    puts("waits");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
}

static void in_handler(int signal) {
    (void)signal;
    wait_for_end();
}

/* A filter that allows everything. */
static void filtered(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(9);
    wait_for_end();
}

/* In a handler, on a stack of its own. */
static void handles(int flags) {
    stack_t stack = {.ss_sp = malloc(1 << 20), .ss_size = 1 << 20};
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = flags};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static pthread_t first;

static void *small(void *busy) {
    if (!busy)
        pthread_join(first, NULL);
    wait_for_end();
    return NULL;
}

/* A thread with little stack, while the first one is busy, or gone. */
static void with_little_stack(int busy) {
    pthread_attr_t attributes;
    pthread_t thread;
    first = pthread_self();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    if (pthread_create(&thread, &attributes, small, busy ? &first : NULL))
        _exit(9);
    for (volatile int on = busy; on;) {
    }
    pthread_exit(NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int held;

static void *holds(void *nothing) {
    pthread_mutex_lock(&lock);
    held = 1;
    puts("waits");
    fflush(stdout);
    for (;;) {
    }
    return nothing;
}

/* Nobody waits but for a lock. */
static void contends(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, holds, NULL);
    while (!held) {
    }
    pthread_mutex_lock(&lock);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (!strcmp(mode, "filtered"))
        filtered();
    else if (!strcmp(mode, "handles"))
        handles(0);
    else if (!strcmp(mode, "handles-elsewhere"))
        handles(SA_ONSTACK);
    else if (!strcmp(mode, "little-stack"))
        with_little_stack(1);
    else if (!strcmp(mode, "gone"))
        with_little_stack(0);
    else if (!strcmp(mode, "contends"))
        contends();
    else
        wait_for_end();
    return 0;
}
