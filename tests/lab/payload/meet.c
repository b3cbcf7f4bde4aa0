/*
 * A thread that wakes at each multiple of a period, and somewhat later, so that several can be made to
 * wake in one interrupt, in a given order.  It waits while /tmp/hold exists.
 *
 *   meet NAME PERIOD_US LATER_US RUN_US SECONDS
 *
 * Prints how often it woke, and how late, in microseconds.
 */
#include "load.h"

#define MOST_STEPS 100000

int main(int argc, char **argv)
{
	static long long late[MOST_STEPS];
	long long period, later, run, end, wake;
	int n = 0;

	period = argc == 6 ? atoll(argv[2]) : 0;
	if (period <= 0) {
		fprintf(stderr, "usage: meet NAME PERIOD_US LATER_US RUN_US SECONDS\n");
		return 2;
	}
	later = atoll(argv[3]);
	run = atoll(argv[4]);
	prctl(PR_SET_NAME, argv[1]);
	wait_go();
	end = now_us(CLOCK_MONOTONIC) + (long long)(atof(argv[5]) * 1e6);
	do {
		wake = (now_us(CLOCK_MONOTONIC) / period + 1) * period + later;
		sleep_until(wake);
		late[n++] = now_us(CLOCK_MONOTONIC) - wake;
		run_for(run);
	} while (n < MOST_STEPS && now_us(CLOCK_MONOTONIC) < end);
	qsort(late, n, sizeof(late[0]), by_size);
	printf("times=%d p50_us=%lld p99_us=%lld max_us=%lld\n", n, late[n / 2], late[n * 99 / 100],
	       late[n - 1]);
	return 0;
}
