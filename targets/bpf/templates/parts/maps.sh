# --- The maps and the scheduler -----------------------------------------------------------------

BPFFS=${TIERC_BPFFS:-/sys/fs/bpf}
LINK=$BPFFS/tierc_link # the scheduler stays attached as long as this is pinned
STAGE=$BPFFS/tierc_stage
TABLES='{{ tables | join(" ") }}'
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

# Prints the entries of a map as lines "KEY VALUE" in hexadecimal, sorted.
entries() { # pinned PATH | id ID
  bpftool -j map dump "$1" "$2" 2>/dev/null | tr '{' '\n' |
    sed -n 's/^"key":\[\([^]]*\)\],"value":\[\([^]]*\)\].*/\1 \2/p' |
    sed 's/"//g; s/,//g; s/0x//g' | sort
}

# Prints a field of a pinned map: id, frozen.
field() { # PATH NAME
  bpftool -j map show pinned "$1" 2>/dev/null | tr '{,}' '\n' | sed -n "s/^\"$2\"://p"
}

# Sets $slot and $generation (8 hexadecimal digits, as they lie in memory): what is in force.
read_active() {
  active=$(entries pinned "$BPFFS/tierc_active")
  active=${active#* }
  case $active in
  ????????????????) ;;
  *) return 1 ;;
  esac
  generation=${active#????????}
  slot=${active%"$generation"}
  slot=${slot#?}
  slot=${slot%??????}
}

# Sets the pair of words that is in force, all at once.
write_active() { # EIGHT BYTES, spaced
  # shellcheck disable=SC2086 # the bytes are words
  bpftool map update pinned "$BPFFS/tierc_active" key hex 00 00 00 00 value hex $1 >/dev/null 2>&1
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
