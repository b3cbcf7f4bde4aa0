/*
 * Runs a command, and kills it at a certain one of its calls of bpf(2), before or after the kernel
 * has done what it asks for.
 *
 *   killed before|after WHAT NUMBER COMMAND [ARGUMENT...]
 *
 * WHAT is the number of the kind of call (enum bpf_cmd), NUMBER counts those of the kind from 1.
 * Ends with 137 if it was killed, else as the command did.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/ptrace.h>

static int start(char **command)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0)) {
		perror("ptrace");
		return 127;
	}
	raise(SIGSTOP);
	execvp(*command, command);
	perror(*command);
	return 127;
}

/* Waits for the next stop; true if the command has ended, with its exit code. */
static int ended(pid_t pid, int *status, int *code)
{
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR) {
			perror("waitpid");
			exit(127);
		}
	if (WIFSTOPPED(*status))
		return 0;
	*code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
	return 1;
}

int main(int argc, char **argv)
{
	struct ptrace_syscall_info call;
	int status, code, is_after, what, left, inside = 0;
	pid_t pid;

	if (argc < 5) {
		fprintf(stderr, "usage: killed before|after WHAT NUMBER COMMAND [ARGUMENT...]\n");
		return 2;
	}
	is_after = !strcmp(argv[1], "after");
	what = atoi(argv[2]);
	left = atoi(argv[3]);
	pid = fork();
	if (!pid)
		return start(argv + 4);
	if (pid < 0 || ended(pid, &status, &code))
		return 127;
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (int deliver = 0;;) {
		ptrace(PTRACE_SYSCALL, pid, 0, deliver);
		if (ended(pid, &status, &code))
			return code;
		deliver = 0;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			if (WSTOPSIG(status) != SIGTRAP)
				deliver = WSTOPSIG(status);
			continue;
		}
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(call), &call) < 0)
			continue;
		if (call.op == PTRACE_SYSCALL_INFO_ENTRY)
			inside = call.entry.nr == SYS_bpf && (int)call.entry.args[0] == what && !--left;
		if (inside && call.op == (is_after ? PTRACE_SYSCALL_INFO_EXIT : PTRACE_SYSCALL_INFO_ENTRY)) {
			kill(pid, SIGKILL);
			while (!ended(pid, &status, &code))
				;
			return code;
		}
	}
}
