# --- The scheduler ------------------------------------------------------------------------------

attach() {
  [ -r "$OBJECT" ] || die "$BROKEN" "no scheduler in $OBJECT; see --object"
  rm -rf -- "$LINK"
  mkdir -- "$LINK" 2>/dev/null ||
    die "$BROKEN" "cannot make $LINK: is there a BPF file system (mount -t bpf bpf $BPFFS)?"
  bpftool struct_ops register "$OBJECT" "$LINK" >"$work/register" 2>&1
  await_up && return
  # Registering says that it went well when it did not, too.
  rm -rf -- "$LINK"
  heed_signals
  tail -n 3 "$work/register" | sed 's/^/tierc:   bpftool: /' >&2
  [ -z "$ENSURE" ] || give_way
  die "$NOT_UP" "the scheduler could not be attached (sched_ext is ${state}); the kernel's log may say why"
}

await_up() {
  turns=0
  while [ "$turns" -lt 10 ]; do
    is_ours && return 0
    [ "$state" = enabling ] || [ "$turns" -lt 2 ] || return 1
    [ -z "$STOP" ] || return 1
    sleep 1
    turns=$((turns + 1))
  done
  return 1
}

check_layout() {
  ask_slots | run_batch
  read_slots
  [ -n "$abi" ] || {
    heed_signals
    show_errors
    die "$BROKEN" "the maps of the scheduler that runs cannot be read with bpftool in $BPFFS"
  }
  [ "$abi" = "$ABI" ] ||
    die "$LAYOUT" "the scheduler that runs is for maps of another layout than this seed; unload it first, with unload.sh"
  case $active in
  0[01]000000????????) ;;
  *) die "$LAYOUT" "tierc_active holds ${active:-nothing}, which is no slot; unload the scheduler first, with unload.sh" ;;
  esac
}
