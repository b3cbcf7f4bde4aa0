/* What the loads of the lab's guest share. */
#ifndef LOAD_H
#define LOAD_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where the files are by which they wait for each other; tests of their own have another. */
#ifndef LAB_DIR
#define LAB_DIR "/tmp"
#endif

static inline long long now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static inline void sleep_until(long long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Uses so much CPU time. */
static inline void run_for(long long us)
{
	long long end = now_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (now_us(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* Looks for /tmp/hold, rarely: dozens of loads that look often take the guest's time. */
#define LOOK_US 20000

/* Waits while /tmp/hold exists: so loads whose affinity was set meanwhile begin together. */
static inline void wait_go(void)
{
	while (!access(LAB_DIR "/hold", F_OK))
		sleep_until(now_us(CLOCK_MONOTONIC) + LOOK_US);
}

/*
 * A number that all loads share which are started after /tmp/start was removed: when the first of
 * them began, once one has.  So what a load gets "meanwhile" is the same time for all, also for one
 * that is kept waiting.
 */
static inline long long *map_start(void)
{
	int fd = open(LAB_DIR "/start", O_RDWR | O_CREAT, 0600);
	void *start;

	if (fd < 0 || ftruncate(fd, sizeof(long long)))
		return NULL;
	start = mmap(NULL, sizeof(long long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return start == MAP_FAILED ? NULL : start;
}

/* When the first of them began: now, if that is the caller. */
static inline long long common_start(long long *start)
{
	long long none = 0;

	__atomic_compare_exchange_n(start, &none, now_us(CLOCK_MONOTONIC), 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return __atomic_load_n(start, __ATOMIC_SEQ_CST);
}

static inline int by_size(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

#endif
