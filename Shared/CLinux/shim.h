#pragma once
// Swift's Glibc module leaves epoll and eventfd out.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

// These two are declared by glibc only under _GNU_SOURCE, which Swift's importer does not define.
extern int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags);
extern int pthread_setname_np(pthread_t thread, const char *name);

// accept4(2) without the peer's address; the flags close the gap in which another thread's exec would inherit the descriptor.
static inline int push_accept4(int descriptor) {
    return accept4(descriptor, (struct sockaddr *)0, (socklen_t *)0, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
