/*
 * The loads of most scenarios.  All wait while /tmp/hold exists.
 *
 *   work decode NAME SECONDS [DELAY]  after DELAY seconds, steps: sleep 2 ms, run 0.3 ms.  Prints
 *                                     the steps a second, and how late it woke, in microseconds
 *   work hogs NAME COUNT SECONDS      processes that run all the time.  Prints what they got, in
 *                                     milliseconds of CPU time: together, and the least of them
 */
#include "load.h"

#define SLEEP_US 2000
#define RUN_US 300
#define MOST_STEPS 1000000

static int decode(double seconds, double delay)
{
	static long long late[MOST_STEPS];
	long long start, end, wake;
	int n = 0;

	wait_go();
	start = now_us(CLOCK_MONOTONIC) + (long long)(delay * 1e6);
	sleep_until(start);
	end = start + (long long)(seconds * 1e6);
	while (n < MOST_STEPS && now_us(CLOCK_MONOTONIC) < end) {
		wake = now_us(CLOCK_MONOTONIC) + SLEEP_US;
		sleep_until(wake);
		late[n++] = now_us(CLOCK_MONOTONIC) - wake;
		run_for(RUN_US);
	}
	qsort(late, n, sizeof(late[0]), by_size);
	printf("steps_per_s=%.1f p50_us=%lld p99_us=%lld max_us=%lld cpu=%d\n",
	       n * 1e6 / (now_us(CLOCK_MONOTONIC) - start), late[n / 2], late[n * 99 / 100],
	       late[n - 1], sched_getcpu());
	return 0;
}

static int hogs(int count, double seconds)
{
	long long total = 0, least = -1;

	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			wait_go();
			long long end = now_us(CLOCK_MONOTONIC) + (long long)(seconds * 1e6);

			while (now_us(CLOCK_MONOTONIC) < end)
				for (volatile int n = 0; n < 1000; n++)
					;
			_exit(0);
		}
	}
	for (int i = 0; i < count; i++) {
		struct rusage use;
		int status;

		if (wait4(-1, &status, 0, &use) < 0)
			return 1;
		long long ms = use.ru_utime.tv_sec * 1000LL + use.ru_utime.tv_usec / 1000 +
			       use.ru_stime.tv_sec * 1000LL + use.ru_stime.tv_usec / 1000;
		total += ms;
		if (least < 0 || ms < least)
			least = ms;
	}
	printf("hogs_cpu_ms=%lld least_ms=%lld\n", total, least);
	return 0;
}

int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "decode")) {
		prctl(PR_SET_NAME, argv[2]);
		return decode(atof(argv[3]), argc == 5 ? atof(argv[4]) : 0);
	}
	if (argc == 5 && !strcmp(argv[1], "hogs")) {
		prctl(PR_SET_NAME, argv[2]);
		return hogs(atoi(argv[3]), atof(argv[4]));
	}
	fprintf(stderr, "usage: work decode NAME SECONDS [DELAY] | hogs NAME COUNT SECONDS\n");
	return 2;
}
