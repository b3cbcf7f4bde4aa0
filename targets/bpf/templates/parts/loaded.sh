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
