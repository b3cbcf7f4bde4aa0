/*
 * Runs a command as a real-time thread: its CPU is nobody else's until it sleeps.
 *
 *   fifo PRIORITY COMMAND [ARGUMENT...]
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sched_param how = { argc > 2 ? atoi(argv[1]) : 0 };

	if (argc < 3 || how.sched_priority < 1) {
		fprintf(stderr, "usage: fifo PRIORITY COMMAND [ARGUMENT...]\n");
		return 2;
	}
	if (sched_setscheduler(0, SCHED_FIFO, &how)) {
		perror("fifo");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
