/*
 * Loaded before everything else (LD_PRELOAD, ld.so(8)) into a process whose clock a chaos run sets: the time of day is so many seconds ahead of
 * the machine's as the file PUSH_CLOCK_FILE says, eight bytes, a signed number in the machine's order, which is read each time; without a file,
 * as PUSH_CLOCK_SECONDS says. Clocks that cannot be set (CLOCK_MONOTONIC, CLOCK_BOOTTIME) are left alone, as a real step leaves them alone.
 *
 * A program that waits until a moment of the time of day waits as long as it meant to when it began: a step in between does not wake it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t constant;
static const volatile int64_t *seconds = &constant;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static int (*real_timerfd_settime)(int, int, const struct itimerspec *, struct itimerspec *);

/* An unversioned dlsym may find the condition variables of glibc 2.2. */
static void *find(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("PUSH_CLOCK_SECONDS"), *path = getenv("PUSH_CLOCK_FILE");
    if (text) constant = atoll(text);
    real_cond_timedwait = find("pthread_cond_timedwait");
    real_mutex_timedlock = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    real_timerfd_settime = dlsym(RTLD_NEXT, "timerfd_settime");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (!path) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) seconds = page;
    close(file);
}

static int is_settable(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI; }

/* As the kernel knows a moment that was made of our time of day. Those of the other clocks count from the machine's start: far less than this. */
static struct timespec as_real(const struct timespec *moment) {
    struct timespec real = *moment;
    if (real.tv_sec > 1000000000) real.tv_sec -= *seconds;
    return real;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = real_clock_gettime ? real_clock_gettime(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && is_settable(clock)) time->tv_sec += *seconds;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec real = as_real(until);
    return real_cond_timedwait(condition, mutex, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec real = as_real(until);
    return real_mutex_timedlock(mutex, &real);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec real = as_real(until);
    return real_sem_timedwait(semaphore, &real);
}

int timerfd_settime(int file, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    struct itimerspec real = *wanted;
    if (flags & TFD_TIMER_ABSTIME) real.it_value = as_real(&wanted->it_value);
    return real_timerfd_settime(file, flags, &real, before);
}
