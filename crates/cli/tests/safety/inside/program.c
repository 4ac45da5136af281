/* Programs of odd habits. Each uses 48 MiB, of which a fifth is hot, and checks what it has written.
 *
 *     program MODE [heap] [SECONDS]
 *
 * `heap`: memory comes from malloc. Prints `whole` when all memory was as written; 9 otherwise. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 12288, HOT = PAGES / 5, WORDS = PAGE / 8 };
static uint64_t *memory;
static double seconds = 3;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void fail(const char *what) {
    fprintf(stderr, "program: %s: %s\n", what, strerror(errno));
    _exit(9);
}

/* Words repeat, so that pages compress. */
static uint64_t word(int page, int at) { return mix((uint64_t)page * 64 + at % 64); }

static void fill(int heap) {
    memory = heap ? malloc((size_t)PAGES * PAGE)
                  : mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == NULL || memory == MAP_FAILED) fail("memory");
    for (int page = 0; page < PAGES; page++)
        for (int at = 0; at < WORDS; at++) memory[page * WORDS + at] = word(page, at);
}

static void check(int page) {
    for (int at = 0; at < WORDS; at++)
        if (memory[page * WORDS + at] != word(page, at)) {
            errno = 0;
            fail("memory is not as written");
        }
}

/* Uses the memory for so long, then looks at all of it. */
static void use(double time, void (*besides)(int round)) {
    uint64_t random = getpid();
    double until = now() + time;
    for (int round = 0; now() < until; round++) {
        for (int i = 0; i < 50; i++) check((random = mix(random + 1)) % HOT);
        check((random = mix(random + 1)) % PAGES);
        if (besides) besides(round);
        usleep(1000);
    }
    for (int page = 0; page < PAGES; page++) check(page);
}

static void whole(void) {
    printf("whole\n");
    fflush(stdout);
}

/* Children that use what they have inherited and end in all ways that there are. */
static void family(void) {
    enum { WAYS = 4 };
    pid_t children[WAYS];
    /* By the time of the forks, the agent is in the middle of its work. */
    use(1.5, NULL);
    for (int way = 0; way < WAYS; way++) {
        children[way] = fork();
        if (children[way] < 0) fail("fork");
        if (children[way] > 0) continue;
        /* What is shared stays where it is: make it our own. */
        for (int page = 0; page < PAGES; page++) ((volatile uint64_t *)memory)[page * WORDS] = word(page, 0);
        use(seconds, NULL);
        if (way == 0) exit(20);
        if (way == 1) _exit(21);
        if (way == 2) abort();
        kill(getpid(), SIGKILL);
    }
    use(seconds, NULL);
    for (int way = 0; way < WAYS; way++) {
        int status;
        if (waitpid(children[way], &status, 0) < 0) fail("waitpid");
        int good = way < 2 ? WIFEXITED(status) && WEXITSTATUS(status) == 20 + way
                           : WIFSIGNALED(status) && WTERMSIG(status) == (way == 2 ? SIGABRT : SIGKILL);
        if (!good) fail("a child ended otherwise");
    }
}

static void fork_once(int round) {
    if (round % 5) return;
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        check(round % PAGES);
        free(malloc(1000));
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) < 0 || status != 0) fail("a child");
}

/* Closes all that is open, and has files of its own under the numbers that become free. */
enum { FILES = 40 };
static int files[FILES];
static void open_and_write(int round) {
    if (round == 0 || round == 300) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        for (int i = 0; i < FILES; i++) {
            files[i] = open("/tmp", O_TMPFILE | O_RDWR, 0600);
            if (files[i] != i + 3) fail("the first numbers are not free");
        }
    }
    for (int i = 0; i < FILES; i++) {
        uint64_t value = mix((uint64_t)round * FILES + i), read = 0;
        if (pwrite(files[i], &value, 8, round % 100 * 8) != 8) fail("write");
        if (pread(files[i], &read, 8, round % 100 * 8) != 8 || read != value) fail("read");
    }
}

/* Goes into the background: who reads what this program prints shall see the end of it at once. */
static void detach(void) {
    const char *path = getenv("RESULT");
    FILE *result = path ? fopen(path, "w") : NULL;
    if (!result) fail("RESULT");
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) {
        printf("%d\n", child);
        /* The slow tier is taken down now unless pages are there. */
        usleep(seconds / 2 * 1e6);
        exit(0);
    }
    setsid();
    for (int fd = 0; fd < 3; fd++) close(fd);
    use(seconds, NULL);
    fprintf(result, "whole\n");
    exit(0);
}

/* The first thread ends; the other one's last words are in a buffer when it does. */
static void *last_words(void *unused) {
    use(seconds, NULL);
    printf("whole\n");
    return unused;
}

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static void become_nobody(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleeper, NULL)) fail("thread");
    use(seconds / 2, NULL);
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) fail("setuid");
    use(seconds / 2, NULL);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int heap = argc > 2 && strcmp(argv[2], "heap") == 0;
    if (argc > 2 + heap) seconds = atof(argv[2 + heap]);
    fill(heap);
    if (strcmp(mode, "family") == 0) family();
    else if (strcmp(mode, "forks") == 0) use(seconds, fork_once);
    else if (strcmp(mode, "closes") == 0) use(seconds, open_and_write);
    else if (strcmp(mode, "detaches") == 0) detach();
    else if (strcmp(mode, "nobody") == 0) become_nobody();
    else if (strcmp(mode, "leaves") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, last_words, NULL)) fail("thread");
        usleep(seconds / 2 * 1e6);
        pthread_exit(NULL);
    } else use(seconds, NULL);
    whole();
    if (strcmp(mode, "aborts") == 0) abort();
    if (strcmp(mode, "quick") == 0) _exit(7);
    return 0;
}
