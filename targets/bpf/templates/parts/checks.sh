# --- What has to hold before anything is done ---------------------------------------------------

warn_once() { warn "$1"; }

# A signal takes effect between two steps, so that nothing is left half done.
heed_signals() {
  [ -n "$STOP" ] || return 0
  rm -rf -- "$STAGE"
  die "$STOPPED" "stopped by a signal; the seed that was in force stays so"
}

# Names threads that no sched_ext scheduler sees, because their class comes first.
note_realtime() {
  # A thread's name may hold anything, also ") ": the last of these is behind it.
  {
    cd "$PROC" && printf '%s\n' [0-9]*/task/[0-9]*/stat | xargs cat
  } 2>/dev/null | awk '
    {
      end = 0
      rest = $0
      while ((i = index(rest, ") "))) {
        end += i + 1
        rest = substr(rest, i + 2)
      }
      if (split(rest, field, " ") < 39 || field[39] !~ /^[12]$/ || int(field[7] / 2097152) % 2) next
      name = substr($0, index($0, "(") + 1)
      name = substr(name, 1, end - 2 - index($0, "("))
      gsub(/[^ -~]/, "?", name)
      n[name]++
    }
    END { for (name in n) print n[name] " of " name }' | sort -k3 >"$work/realtime"
  [ ! -s "$work/realtime" ] || {
    warn "real-time threads go before every tier, and the scheduler does not see them:"
    sed 's/^/tierc:   /' "$work/realtime" >&2
  }
}

check_kernel() {
  command -v bpftool >/dev/null 2>&1 || die "$BROKEN" "bpftool is not installed"
  read_scx
  [ "$state" != none ] || die "$INCAPABLE" "this kernel has no sched_ext"
  [ -r "$SYS/kernel/btf/vmlinux" ] || die "$INCAPABLE" "this kernel has no type information (BTF)"
  # Of isolcpus=, only what takes CPUs out of the scheduling domains is listed here.
  isolated=
  { IFS= read -r isolated <"$SYS/devices/system/cpu/isolated"; } 2>/dev/null
  [ -z "$isolated" ] ||
    die "$INCAPABLE" "the kernel was started with isolcpus= for $isolated: with that it takes no scheduler"
  # One that comes or goes is soon there or gone.
  turns=0
  while [ "$turns" -lt 10 ]; do
    case $state in
    enabling | disabling) sleep 1 ;;
    *) break ;;
    esac
    turns=$((turns + 1))
    heed_signals
    read_scx
  done
  case $state:$ops in
  disabled:* | enabled:tierc) ;;
  *:tierc) die "$NOT_UP" "sched_ext is still $state tierc's scheduler; nothing was changed" ;;
  *) die "$OTHERS" "the scheduler ${ops:-without a name} is attached ($state); nothing was changed" ;;
  esac
  [ -n "$DRY" ] || [ -w "$BPFFS" ] || die "$BROKEN" "no BPF file system in $BPFFS, or it is read-only"
}

check_machine() {
  if ! is_planned_machine; then
    die "$REFUSED" "the CPUs of this machine are not those of the plan; nothing was changed:$NL$(differences "$PLANNED" "$live" "planned: " "live:    ")"
  fi
  check_devices
}
