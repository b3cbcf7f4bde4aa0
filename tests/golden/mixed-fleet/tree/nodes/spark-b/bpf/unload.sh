#!/bin/sh
# Detaches tierc's scheduler and removes its maps. The kernel then schedules as without it.
# Written by tierc; it is the same for every policy.
#
# A scheduler that is not tierc's is left alone. CPU affinity that load.sh --ensure has set while the
# scheduler was gone is taken back.
# Usage and exit codes: unload.sh --help

# shellcheck disable=SC2034 # the parts that scripts share set more than each of them uses
set -u

HERE=$(cd -- "$(dirname -- "$0")" && pwd) || exit 7

usage() {
  cat <<'END'
usage: unload.sh [--dry-run] [--keep] [--state DIR] [--quiet]

Undoes load.sh. A timer with load.sh --ensure attaches the scheduler again: stop that first, or
create /etc/tierc/disabled, with which load.sh does what this does.

  --dry-run     say what would be done; change nothing
  --keep        keep the maps: the seed is in force again when the scheduler is attached again
  --state DIR   where load.sh keeps its lock and notes (default /var/lib/tierc/bpf)
  --quiet       print warnings only
  --help        print this

exit codes: 0 done, also when there was nothing to do
            1 CPU affinity that load.sh had set could not be taken back
            2 wrong usage
            4 another process holds the lock
            5 not root
            7 a tool is missing, or a directory cannot be read or written
           10 the scheduler could not be detached
END
}

# --- Settings --------------------------------------------------------------------------------

LC_ALL=C # names and paths are bytes
export LC_ALL
unset IFS CDPATH
NL='
'
# The TIERC_* variables point the script at another tree; they are for tests.
PROC=${TIERC_PROC:-/proc}
SYS=${TIERC_SYS:-/sys}
STATE=/var/lib/tierc/bpf
FORMAT=tierc-bpf-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some map could not be set or put back, or lines of the state were damaged
USAGE=2   # wrong usage
BUSY=4    # another process holds the lock
DENIED=5  # not root
FOREIGN=6 # the state file is not one of ours
BROKEN=7  # a tool is missing, or a directory cannot be read or written

say() { [ -n "$QUIET" ] || printf '%s\n' "tierc: $*"; }
warn() { printf '%s\n' "tierc: $*" >&2; }
die() { # CODE MESSAGE
  code=$1
  shift
  warn "$*"
  exit "$code"
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [ -z "$work" ] || rm -rf -- "$work"
  [ -z "$locked" ] || rm -f -- "$STATE/lock"
}

start_up() {
  for tool in cp dirname id ln mkdir mktemp mv rm sleep; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: maps and the scheduler are root's to set (--dry-run does not)"
  fi
  trap clean_up EXIT
  trap 'STOP=1' HUP INT TERM
  umask 077
  work=$(mktemp -d "${TMPDIR:-/tmp}/tierc.XXXXXX") || die "$BROKEN" "no temporary directory"
  export work
  : >"$work/told"
  boot=-
  { IFS= read -r boot <"$PROC/sys/kernel/random/boot_id"; } 2>/dev/null || boot=-
  [ -n "$DRY" ] || take_lock
}

# --- Files of /proc, read without starting a program -------------------------------------------

# Sets $text to a whole file, which may hold newlines (a thread's name can); false if it is gone.
read_file() {
  text=
  { IFS= read -r text && while IFS= read -r line; do text=$text$NL$line; done; } 2>/dev/null <"$1"
}

# Sets $stat to a stat file from its third field on. The name before may hold anything, also ") ".
read_stat() { read_file "$1" && stat=${text##*) }; }

# Sets $start to the start time of a process or thread, the 22nd field.
read_start() { # FILE
  read_stat "$1" || return 1
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ start _ <<END
$stat
END
}

# --- The lock: one owner of the state -----------------------------------------------------------

# 0: the lock's owner lives, 1: it is gone, 2: there is no lock. A start time and a boot make a
# pid unique. After a power cut the lock may be empty.
owner_lives() { # [LOCK]
  opened=
  owner=
  { opened=1 && IFS= read -r owner; } 2>/dev/null <"$STATE/${1:-lock}"
  [ -n "$opened" ] || return 2
  read -r owner_pid owner_start owner_boot _ <<END
$owner - -
END
  case $owner_pid in '' | *[!0-9]*) return 1 ;; esac
  [ "$owner_boot" = "$boot" ] && read_start "/proc/$owner_pid/stat" && [ "$start" = "$owner_start" ]
}

# The lock is a hard link, because that appears at once with its owner in it. The lock of an owner
# that is gone is removed only by who has made the link lock.steal: so nobody can remove the lock of
# the next owner instead.
take_lock() {
  mkdir -p -- "$STATE" 2>/dev/null || die "$BROKEN" "cannot make $STATE"
  read_start "/proc/$$/stat" || die "$BROKEN" "/proc is not mounted"
  printf '%s\n' "$$ $start $boot" >"$work/lock" || die "$BROKEN" "cannot write to $work"
  { cp -- "$work/lock" "$STATE/lock.$$"; } 2>/dev/null || die "$BROKEN" "cannot write to $STATE"
  tries=0
  until ln -- "$STATE/lock.$$" "$STATE/lock" 2>/dev/null; do
    owner_lives
    case $? in
    0) lock_refused "locked by process $owner_pid; stop it, or wait for it" ;;
    1) remove_lock ;;
    esac
    tries=$((tries + 1))
    [ "$tries" -lt 5 ] || lock_refused "locked by others in turn; try again"
  done
  rm -f -- "$STATE/lock.$$"
  locked=1
}

# Removes the lock of an owner that is gone, unless somebody else is at it.
remove_lock() {
  if ln -- "$STATE/lock.$$" "$STATE/lock.steal" 2>/dev/null; then
    owner_lives
    [ $? != 1 ] || rm -f -- "$STATE/lock"
    rm -f -- "$STATE/lock.steal"
    return
  fi
  owner_lives lock.steal
  gone=$?
  looked_at=$owner
  sleep 1
  [ "$gone" = 1 ] || return 0
  # Whoever was at it was killed there. It is moved before it is removed: if it is another one by
  # now, it goes back.
  mv -- "$STATE/lock.steal" "$STATE/lock.stale.$$" 2>/dev/null || return 0
  owner_lives "lock.stale.$$"
  [ "$owner" = "$looked_at" ] || ln -- "$STATE/lock.stale.$$" "$STATE/lock.steal" 2>/dev/null
  rm -f -- "$STATE/lock.stale.$$"
}
lock_refused() {
  rm -f -- "$STATE/lock.$$"
  die "$BUSY" "$STATE is $1"
}
NOT_UP=10 # the scheduler could not be detached

# --- The maps and the scheduler -----------------------------------------------------------------

PATH=${PATH-}:/usr/sbin:/sbin # bpftool is there, and cron's PATH ends before
export PATH
BPFFS=${TIERC_BPFFS:-/sys/fs/bpf}
LINK=$BPFFS/tierc_link # the scheduler stays attached as long as this is pinned
STAGE=$BPFFS/tierc_stage
SCX=$SYS/kernel/sched_ext

# Starts up, with the lock. What this script starts has descriptor 9 open, so that the next one sees
# it when only the script was killed.
begin() {
  start_up
  [ -z "$DRY" ] || return 0
  printf '' 2>/dev/null >>"$STATE/users" || die "$BROKEN" "cannot write to $STATE"
  exec 9<"$STATE/users"
  # Whoever else has it open was started by a script that was killed: some seconds for that.
  turns=0
  while find_orphan; do
    [ "$turns" -lt 20 ] ||
      die "$BUSY" "process $pid, of a script that was killed, is still at work; stop it, or wait for it"
    sleep 1
    turns=$((turns + 1))
  done
}

# True when there is one. Sets $pid.
find_orphan() {
  for opened in /proc/[0-9]*/fd/9; do
    pid=${opened#/proc/}
    pid=${pid%%/*}
    # shellcheck disable=SC3013 # dash and busybox know -ef
    [ "$pid" = "$$" ] || [ ! "$opened" -ef "$STATE/users" ] || return 0
  done
  return 1
}

# Sets $state and $ops: what sched_ext does, and which scheduler is attached.
read_scx() {
  state=none
  ops=
  { IFS= read -r state <"$SCX/state"; } 2>/dev/null || state=none
  { IFS= read -r ops <"$SCX/root/ops"; } 2>/dev/null || ops=
}

# True when our scheduler is attached.
is_ours() {
  read_scx
  [ "$state" = enabled ] && [ "$ops" = tierc ]
}

# Waits, a few seconds at most, until sched_ext is in the state $1.
await_state() {
  turns=0
  while [ "$turns" -lt 20 ]; do
    read_scx
    [ "$state" != "$1" ] || return 0
    sleep 1
    turns=$((turns + 1))
  done
  return 1
}

# Detaches our scheduler, if it is attached; its maps stay. One that goes may have no name any more.
detach() {
  rm -rf -- "$LINK"
  read_scx
  case $state:$ops in
  disabled:* | none:*) ;;
  *:tierc | *ing:) await_state disabled ;;
  esac
}

# Removes the pins of our maps; the kernel frees what nobody uses.
remove_maps() {
  rm -rf -- "$BPFFS"/tierc_*
  for pin in "$BPFFS"/tierc_*; do
    [ ! -e "$pin" ] || die "$BROKEN" "$pin cannot be removed"
  done
}

# --- What load.sh has left ----------------------------------------------------------------------

note_loaded() {
  printf '%s\n' "$boot" >"$STATE/loaded" || die "$BROKEN" "cannot write to $STATE"
  rm -f -- "$STATE/ejected"
}

# Takes back the CPU affinity that load.sh has set while the scheduler was gone. When that fails it
# stays written down, for the next time.
come_back() {
  target=
  { IFS= read -r target <"$STATE/fallen_back"; } 2>/dev/null || return 0
  case $target in
  cpuset | taskset)
    if [ ! -x "$HERE/../$target/revert.sh" ]; then
      warn "$target/apply.sh has set CPU affinity, and there is no $target/revert.sh beside this directory any more to take it back"
      rm -f -- "$STATE/fallen_back"
      return 1
    fi
    "$HERE/../$target/revert.sh" ${QUIET:+--quiet} || {
      warn "$target/revert.sh has not taken back all CPU affinity that was set while the scheduler was gone"
      return 1
    }
    ;;
  esac
  rm -f -- "$STATE/fallen_back"
}

# --- Running ------------------------------------------------------------------------------------

KEEP=

while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --keep) KEEP=1 ;;
  --quiet) QUIET=1 ;;
  --help)
    usage
    exit 0
    ;;
  --state)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    STATE=$2
    shift
    ;;
  --state=*) STATE=${1#*=} ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac

begin
attached=
! is_ours || attached=1
if [ -n "$DRY" ]; then
  [ -z "$attached" ] || say "dry run: the scheduler would be detached"
  [ -n "$KEEP" ] || say "dry run: its maps would be removed"
  exit 0
fi
detach || die "$NOT_UP" "the scheduler could not be detached (sched_ext is $state)"
[ -n "$KEEP" ] || {
  remove_maps
  rm -f -- "$STATE/rolled_back"
}
rm -f -- "$STATE/loaded" "$STATE/ejected"
if [ -n "$attached" ]; then
  say "the scheduler is detached"
else
  say "the scheduler was not attached"
fi
come_back || exit "$PARTLY"
