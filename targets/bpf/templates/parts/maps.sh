# --- The maps and the scheduler -----------------------------------------------------------------

BPFFS=${TIERC_BPFFS:-/sys/fs/bpf}
LINK=$BPFFS/tierc_link # the scheduler stays attached as long as this is pinned
STAGE=$BPFFS/tierc_stage
SCX=$SYS/kernel/sched_ext

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

# Detaches our scheduler, if it is attached; its maps stay.
detach() {
  rm -rf -- "$LINK"
  is_ours || return 0
  await_state disabled
}

# Removes the pins of our maps; the kernel frees what nobody uses.
remove_maps() {
  rm -rf -- "$STAGE"
  for pin in "$BPFFS"/tierc_*; do
    [ "$pin" = "$LINK" ] || rm -f -- "$pin"
  done
}
