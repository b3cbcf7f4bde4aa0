/*
 * A service in two stages, as an engine behind its API server.  It waits while /tmp/hold exists.
 *
 *   pipeline API ENGINE SECONDS PERIOD_MS API_MS
 *
 * A request arrives every PERIOD_MS, by a timer.  The process named API takes one after the other,
 * spends API_MS of CPU time on each and hands it over.  The process named ENGINE does steps all the
 * time: sleep 2 ms, run 0.3 ms; the end of the first step begun after a request was handed over is
 * its first token.
 *
 * Prints the steps a second and how late they began; the time from a request's arrival to its first
 * token, where one without counts as later than all others, and -1 is that of such a one; how many
 * arrived and how many had their first token; and the CPU time of both processes.
 */
#include "load.h"
#include <signal.h>

#define SLEEP_US 2000
#define RUN_US 300
#define MOST 100000

/* What the processes share. */
struct shared {
	int handed;	/* requests that the API is done with */
	int answered;	/* of these, those that had their first token */
	int steps;
	long long ended;
	long long used_us[2];	/* CPU time before: of waiting; API, engine */
	long long late[MOST];
	long long first[MOST];	/* from arrival to first token */
};

static struct shared *all;
static long long *begun;	/* when requests begin to arrive */
static long long seconds_us, period_us, api_us;

static long long arrival(int request)
{
	return *begun + request * period_us;
}

static void api(void)
{
	long long start = common_start(begun);

	for (int n = 0; n < MOST && arrival(n) < start + seconds_us; n++) {
		sleep_until(arrival(n));
		run_for(api_us);
		__atomic_store_n(&all->handed, n + 1, __ATOMIC_RELEASE);
	}
}

static void engine(void)
{
	long long end = common_start(begun) + seconds_us, wake, now;

	while (all->steps < MOST && now_us(CLOCK_MONOTONIC) < end) {
		int handed;

		wake = now_us(CLOCK_MONOTONIC) + SLEEP_US;
		sleep_until(wake);
		all->late[all->steps++] = now_us(CLOCK_MONOTONIC) - wake;
		handed = __atomic_load_n(&all->handed, __ATOMIC_ACQUIRE);
		run_for(RUN_US);
		now = now_us(CLOCK_MONOTONIC);
		for (; all->answered < handed; all->answered++)
			all->first[all->answered] = now - arrival(all->answered);
	}
	all->ended = now_us(CLOCK_MONOTONIC);
}

static pid_t begin(const char *name, int which, void (*run)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_NAME, name);
	wait_go();
	all->used_us[which] = now_us(CLOCK_PROCESS_CPUTIME_ID);
	run();
	_exit(0);
}

/* CPU time of a child, once it has ended, since it was let go. */
static long long cpu_ms(pid_t pid, int which)
{
	struct rusage use;
	int status;

	if (wait4(pid, &status, 0, &use) < 0)
		return -1;
	return ((use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000LL + use.ru_utime.tv_usec +
		use.ru_stime.tv_usec - all->used_us[which]) / 1000;
}

int main(int argc, char **argv)
{
	long long engine_ms, api_ms;
	pid_t first, second;
	int arrived, n;

	if (argc != 6) {
		fprintf(stderr, "usage: pipeline API ENGINE SECONDS PERIOD_MS API_MS\n");
		return 2;
	}
	seconds_us = atof(argv[3]) * 1e6;
	period_us = atof(argv[4]) * 1e3;
	api_us = atof(argv[5]) * 1e3;
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	begun = map_start();
	if (all == MAP_FAILED || !begun || period_us <= 0 || seconds_us / period_us >= MOST)
		return 1;
	first = begin(argv[1], 0, api);
	second = begin(argv[2], 1, engine);
	if (first < 0 || second < 0)
		return 1;
	engine_ms = cpu_ms(second, 1);
	kill(first, SIGKILL);
	api_ms = cpu_ms(first, 0);
	n = all->steps;
	if (!n)
		return 1;
	arrived = (seconds_us + period_us - 1) / period_us;
	for (int i = all->answered; i < arrived; i++)
		all->first[i] = -1;
	qsort(all->late, n, sizeof(all->late[0]), by_size);
	qsort(all->first, all->answered, sizeof(all->first[0]), by_size);
	printf("steps_per_s=%.1f late_p50_us=%lld late_p99_us=%lld ttft_p50_us=%lld "
	       "ttft_p90_us=%lld arrived=%d answered=%d api_ms=%lld engine_ms=%lld\n",
	       n * 1e6 / (all->ended - *begun), all->late[n / 2], all->late[n * 99 / 100],
	       all->first[arrived / 2], all->first[arrived * 9 / 10], arrived, all->answered,
	       api_ms, engine_ms);
	return 0;
}
