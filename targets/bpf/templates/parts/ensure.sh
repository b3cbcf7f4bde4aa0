# --- For a timer: a scheduler that has gone -----------------------------------------------------

# Sets $seconds, since the machine was started: they do not jump when its clock is set.
now() {
  seconds=0
  { IFS=' .' read -r seconds _ <"$PROC/uptime"; } 2>/dev/null || seconds=0
}

# Sets $since, when the scheduler was found to be gone, or nothing if that was not in this boot.
read_since() {
  now
  since=
  since_boot=
  { read -r since since_boot <"$STATE/ejected"; } 2>/dev/null
  case $since in
  '' | *[!0-9]* | ??????????*) since= ;;
  *) [ "$since_boot" = "$boot" ] && [ "$since" -le "$seconds" ] || since= ;;
  esac
}

# Sets CPU affinity instead, by whichever artifact was built beside this one. That it may have to be
# taken back is written down first.
fall_back() {
  for target in cpuset taskset; do
    [ -x "$HERE/../$target/apply.sh" ] || continue
    printf '%s\n' "$target" >"$STATE/fallen_back" || die "$BROKEN" "cannot write to $STATE"
    if "$HERE/../$target/apply.sh" ${QUIET:+--quiet}; then
      say "$target/apply.sh holds the lanes meanwhile"
    else
      warn "$target/apply.sh came to nothing, or not to all: the lanes may not hold"
    fi
    return
  done
  warn "neither cpuset/apply.sh nor taskset/apply.sh is beside this directory: nothing holds the lanes"
}

# Begins the pause. That is written down last: if this is stopped on the way, the next one does it
# again.
give_way() {
  now
  since=$seconds
  fall_back
  heed_signals
  printf '%s\n' "$since $boot" >"$STATE/ejected" || die "$BROKEN" "cannot write to $STATE"
}

# Sets $end to what the scheduler could say of its end, if anything: struct tierc_exit.
read_end() {
  printf 'map dump pinned %s\n' "$BPFFS/tierc_exit" | run_batch
  end=$(records | awk -v RS='{' "$RECORDS"'
    function text(value,   i, code, out) {
      for (i = 2; (code = digit(value, i) * 16 + digit(value, i + 1)) > 0; i += 3)
        out = out (code > 31 && code < 127 ? sprintf("%c", code) : "?")
      return out
    }
    /^key:/ && entries++ == 0 {
      entry()
      reason = text(substr(value, 49, 192))
      message = text(substr(value, 241))
      print reason (reason != "" && message != "" ? ": " : "") message
    }')
}

# True when it may be attached now. The scheduler was ejected if it was loaded in this boot, by us,
# and is not attached.
may_attach() {
  read_since
  if [ -z "$since" ]; then
    loaded=
    { IFS= read -r loaded <"$STATE/loaded"; } 2>/dev/null
    [ "$loaded" = "$boot" ] || return 0
    read_end
    warn "the kernel has detached the scheduler${end:+ ($end)}; its log says more (dmesg)"
    give_way
  fi
  [ "$((seconds - since))" -ge "$PAUSE" ] && return 0
  say "the scheduler is attached again in $((since + PAUSE - seconds)) s"
  return 1
}
