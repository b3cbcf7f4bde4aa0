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
