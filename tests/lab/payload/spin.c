/*
 * Processes that run all the time, and what they get meanwhile.  They wait while /tmp/hold exists.
 *
 *   spin NAME COUNT SECONDS [idle]
 *
 * The time is that of all loads (load.h), so one that is kept waiting got little, instead of getting
 * it later.  With "idle" they are of the kernel's policy for what has no claim to a CPU, and leave
 * it at once to anybody else.
 *
 * Prints what they got, in milliseconds of CPU time: together, and the least of them.
 */
#include "load.h"

static long long *start, *used_us;

static void spin(int which, long long us)
{
	long long before = now_us(CLOCK_PROCESS_CPUTIME_ID), end = common_start(start) + us;

	while (now_us(CLOCK_MONOTONIC) < end)
		for (volatile int n = 0; n < 1000; n++)
			;
	used_us[which] = now_us(CLOCK_PROCESS_CPUTIME_ID) - before;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;
	struct sched_param none = { 0 };
	long long total = 0, least;

	if ((argc != 4 && (argc != 5 || strcmp(argv[4], "idle"))) || count < 1) {
		fprintf(stderr, "usage: spin NAME COUNT SECONDS [idle]\n");
		return 2;
	}
	prctl(PR_SET_NAME, argv[1]);
	start = map_start();
	used_us = mmap(NULL, count * sizeof(*used_us), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!start || used_us == MAP_FAILED)
		return 1;
	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			if (argc == 5 && sched_setscheduler(0, SCHED_IDLE, &none))
				_exit(1);
			wait_go();
			spin(i, atof(argv[3]) * 1e6);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	least = used_us[0];
	for (int i = 0; i < count; i++) {
		total += used_us[i];
		if (used_us[i] < least)
			least = used_us[i];
	}
	printf("hogs_cpu_ms=%lld least_ms=%lld\n", total / 1000, least / 1000);
	return 0;
}
