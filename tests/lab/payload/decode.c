/*
 * A loop that sleeps 2 ms and runs 0.3 ms, as one that waits for its GPU.  It waits while /tmp/hold
 * exists.
 *
 *   decode NAME SECONDS [DELAY]
 *
 * It begins DELAY seconds later.  Prints the steps a second, and how late it woke, in microseconds.
 */
#include "load.h"

#define SLEEP_US 2000
#define RUN_US 300
#define MOST_STEPS 1000000

int main(int argc, char **argv)
{
	static long long late[MOST_STEPS];
	long long start, end, wake;
	int n = 0;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: decode NAME SECONDS [DELAY]\n");
		return 2;
	}
	prctl(PR_SET_NAME, argv[1]);
	wait_go();
	start = now_us(CLOCK_MONOTONIC) + (argc == 4 ? (long long)(atof(argv[3]) * 1e6) : 0);
	sleep_until(start);
	end = start + (long long)(atof(argv[2]) * 1e6);
	do {
		wake = now_us(CLOCK_MONOTONIC) + SLEEP_US;
		sleep_until(wake);
		late[n++] = now_us(CLOCK_MONOTONIC) - wake;
		run_for(RUN_US);
	} while (n < MOST_STEPS && now_us(CLOCK_MONOTONIC) < end);
	qsort(late, n, sizeof(late[0]), by_size);
	printf("steps_per_s=%.1f p50_us=%lld p99_us=%lld max_us=%lld cpu=%d\n",
	       n * 1e6 / (now_us(CLOCK_MONOTONIC) - start), late[n / 2], late[n * 99 / 100],
	       late[n - 1], sched_getcpu());
	return 0;
}
