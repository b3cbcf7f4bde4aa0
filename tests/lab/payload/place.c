/*
 * Loads that tell on which CPUs they ran, as CPU:TIMES,...  All wait while /tmp/hold exists.
 *
 *   place steps NAME SECONDS        sleep 2 ms, run 0.3 ms.  Prints the steps a second, how late the
 *                                   slowest hundredth woke, in microseconds, and the CPU after each
 *                                   step
 *   place spin NAME COUNT SECONDS   processes that run all the time.  Prints the CPU time of all, of
 *                                   the least and of the most, in milliseconds, and the CPUs, looked
 *                                   at after each 0.1 ms of it
 *   place pair NAME ROUNDS          two processes: the first sleeps a while, wakes the second through
 *                                   a pipe and runs 1 ms, and so does the second, which last ran on
 *                                   the other CPU of the first one's core.  Prints how often the
 *                                   second began while the first ran, and how often on the same
 *                                   core then
 *   place tick NAME SECONDS         every 20 ms, runs 0.1 ms.  Prints nothing
 *   place team LEADER NAME SECONDS  the same: a process of that name with a thread of the other one
 */
#include "load.h"

#include <pthread.h>
#include <sys/mman.h>

#define MOST_CPUS 64
#define MOST_STEPS 100000
#define MOST_PROCESSES 64

struct shared {
	long long cpus[MOST_PROCESSES][MOST_CPUS];	/* of each process */
	long long used_us[MOST_PROCESSES];
	volatile int first;	/* the CPU of a pair's first process; -1 while it does not run */
	volatile int leader;	/* the same, also while it does not */
	volatile int moved;	/* how often the second has moved back beside it */
	long long together, same_core;
};

static struct shared *shared;
static int core_of[MOST_CPUS];

static int here(void)
{
	int cpu = sched_getcpu();

	return cpu >= 0 && cpu < MOST_CPUS ? cpu : MOST_CPUS - 1;
}

/* A core is called by its first CPU. */
static void find_cores(void)
{
	char path[96];

	for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
		FILE *file;

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		file = fopen(path, "r");
		core_of[cpu] = cpu;
		if (file) {
			if (fscanf(file, "%d", &core_of[cpu]) != 1)
				core_of[cpu] = cpu;
			fclose(file);
		}
	}
}

static void print_cpus(int processes)
{
	const char *between = "";

	printf(" cpus=");
	for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
		long long times = 0;

		for (int i = 0; i < processes; i++)
			times += shared->cpus[i][cpu];
		if (times) {
			printf("%s%d:%lld", between, cpu, times);
			between = ",";
		}
	}
	printf("\n");
}

static void wait_for_children(void)
{
	while (wait(NULL) > 0)
		;
}

static void *tick(void *seconds)
{
	long long end = now_us(CLOCK_MONOTONIC) + (long long)(*(double *)seconds * 1e6);

	while (now_us(CLOCK_MONOTONIC) < end) {
		sleep_until(now_us(CLOCK_MONOTONIC) + 20000);
		run_for(100);
	}
	return NULL;
}

static int team(const char *name, double seconds)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, tick, &seconds) || pthread_setname_np(thread, name))
		return 1;
	tick(&seconds);
	return pthread_join(thread, NULL);
}

static int steps(double seconds)
{
	static long long late[MOST_STEPS];
	long long start = now_us(CLOCK_MONOTONIC), end = start + (long long)(seconds * 1e6);
	int n = 0;

	while (n < MOST_STEPS && now_us(CLOCK_MONOTONIC) < end) {
		long long wake = now_us(CLOCK_MONOTONIC) + 2000;

		sleep_until(wake);
		late[n++] = now_us(CLOCK_MONOTONIC) - wake;
		run_for(300);
		shared->cpus[0][here()]++;
	}
	qsort(late, n, sizeof(late[0]), by_size);
	printf("steps_per_s=%.1f p99_us=%lld", n * 1e6 / (now_us(CLOCK_MONOTONIC) - start),
	       n ? late[n * 99 / 100] : 0);
	print_cpus(1);
	return 0;
}

static void spin_one(int process, double seconds)
{
	long long end;

	wait_go();
	end = now_us(CLOCK_MONOTONIC) + (long long)(seconds * 1e6);
	while (now_us(CLOCK_MONOTONIC) < end) {
		run_for(100);
		shared->cpus[process][here()]++;
	}
	shared->used_us[process] = now_us(CLOCK_THREAD_CPUTIME_ID);
}

static int spin(int count, double seconds)
{
	long long total = 0, least = -1, most = 0;

	for (int i = 0; i < count; i++)
		if (!fork()) {
			spin_one(i, seconds);
			_exit(0);
		}
	wait_for_children();
	for (int i = 0; i < count; i++) {
		long long used = shared->used_us[i];

		total += used;
		if (least < 0 || used < least)
			least = used;
		if (used > most)
			most = used;
	}
	printf("cpu_ms=%lld least_ms=%lld most_ms=%lld", total / 1000, least / 1000, most / 1000);
	print_cpus(count);
	return 0;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Stays on the CPU that it was given. */
static void lead(int out, int rounds)
{
	sleep_until(now_us(CLOCK_MONOTONIC) + 5000);
	shared->leader = here();
	pin(shared->leader);
	for (int i = 0; i < rounds; i++) {
		for (int turn = 0; !turn || (shared->moved < i && turn < 100); turn++)
			sleep_until(now_us(CLOCK_MONOTONIC) + 3000);
		shared->first = here();
		shared->cpus[0][here()]++;
		if (write(out, "", 1) != 1)
			return;
		run_for(1000);
		shared->first = -1;
	}
}

/* Goes to the other CPU of the leader's core, is free to go anywhere again, and waits there. */
static void follow(int in)
{
	cpu_set_t all;
	char byte;

	sched_getaffinity(0, sizeof(all), &all);
	while (read(in, &byte, 1) == 1) {
		int first = shared->first, own = here();

		if (first >= 0) {
			shared->together++;
			shared->same_core += core_of[first] == core_of[own];
		}
		shared->cpus[1][own]++;
		run_for(1000);
		for (int cpu = 0; cpu < MOST_CPUS; cpu++)
			if (cpu != shared->leader && core_of[cpu] == core_of[shared->leader])
				pin(cpu);
		sched_setaffinity(0, sizeof(all), &all);
		shared->moved++;
	}
}

static int pair(int rounds)
{
	int ends[2];

	find_cores();
	shared->first = -1;
	if (pipe(ends))
		return 1;
	if (!fork()) {
		close(ends[1]);
		follow(ends[0]);
		_exit(0);
	}
	lead(ends[1], rounds);
	close(ends[1]);
	wait_for_children();
	printf("together=%lld same_core=%lld", shared->together, shared->same_core);
	print_cpus(2);
	return 0;
}

int main(int argc, char **argv)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	if (argc > 2)
		prctl(PR_SET_NAME, argv[2]);
	if (argc == 5 && !strcmp(argv[1], "spin") && atoi(argv[3]) <= MOST_PROCESSES)
		return spin(atoi(argv[3]), atof(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "team"))
		return team(argv[3], atof(argv[4]));
	if (argc == 4) {
		wait_go();
		if (!strcmp(argv[1], "steps"))
			return steps(atof(argv[3]));
		if (!strcmp(argv[1], "tick")) {
			double seconds = atof(argv[3]);

			tick(&seconds);
			return 0;
		}
		if (!strcmp(argv[1], "pair"))
			return pair(atoi(argv[3]));
	}
	fprintf(stderr, "usage: place steps NAME SECONDS | spin NAME COUNT SECONDS | "
			"pair NAME ROUNDS | tick NAME SECONDS | team LEADER NAME SECONDS\n");
	return 2;
}
