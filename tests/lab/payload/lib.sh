# Functions for the steps of scenarios, in busybox sh.

# Sets affinity as tierc's script does for policy $1, of what runs now.  Here and there scripts are kept
# on one CPU: else, in a guest with many, each end of a program costs a turn of all.
static() { taskset 1 sh "/lab/policy/$1/taskset/apply.sh" --quiet >/tmp/static 2>&1 || cat /tmp/static; }

# Loads wait while /tmp/hold exists, so that all begin at once; names are set before.  What they get
# is counted from when the first of them began (/tmp/start).
hold() {
  rm -f /tmp/start
  : >/tmp/hold
}
go() { rm -f /tmp/hold; }

# Which pids run under a name, children of hogs too.
pids() { grep -lx "Name:[[:space:]]*$1" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n'; }

# On which CPUs the given pids are, looked at $1 times, 50 ms apart: CPU:TIMES,...
seen() {
  times=$1
  shift
  files=
  for pid in "$@"; do files="$files /proc/$pid/stat"; done
  n=0
  while [ $n -lt "$times" ]; do
    # shellcheck disable=SC2086 # no blanks in these
    cat $files
    usleep 50000
    n=$((n + 1))
  done 2>/dev/null | sed 's/.*) //' | awk '
    { times[$37]++ }
    END { for (cpu in times) { printf "%s%s:%s", sep, cpu, times[cpu]; sep = "," } }'
}

# The sum over all CPUs of counter $1 of the scheduler.
counter() {
  bpftool map lookup pinned /sys/fs/bpf/tierc_counters key "$1" 0 0 0 |
    sed -n 's/.*"value": //p' | awk '{ n += $1 } END { print n + 0 }'
}
