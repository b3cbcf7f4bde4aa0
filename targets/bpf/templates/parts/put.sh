# --- The seed -----------------------------------------------------------------------------------

# True when tierc_active says that the seed of this directory is in force.
is_active() {
  case $slot in
  0) [ "$active" = "$ACTIVE0" ] ;;
  *) [ "$active" = "$ACTIVE1" ] ;;
  esac
}

# True when it is in force, entry by entry.
is_in_force() {
  is_active || return 1
  look_into "$slot"
  {
    # shellcheck disable=SC2086 # the numbers are words
    set -- $held
    for table in $TABLES; do
      case " $FROZEN " in *" $table "*) ask_map "id ${1:--}" ;; esac
      shift
    done
  } | run_batch
  same_maps "$FROZEN"
}

stage() {
  rm -rf -- "$STAGE"
  mkdir -- "$STAGE" 2>/dev/null || die "$BROKEN" "cannot make $STAGE"
  {
    commands stage.batch
    for table in $TABLES; do ask_map "pinned $STAGE/$table"; done
  } | run_batch
  same_maps "$TABLES" || staged_wrong "$wrong; what was in force stays so"
}

staged_wrong() { # MESSAGE
  heed_signals # it may have stopped bpftool, too
  show_errors
  rm -rf -- "$STAGE"
  die "$DIFFERS" "$1"
}

# Without its head a slot holds no seed: so nobody can roll back to half of one.
publish() { # SLOT
  look_into "$1"
  {
    case $(head_of "$held") in
    [0-9]*) drop_head "$1" ;;
    esac
    commands "slot$1/publish.batch"
    ask_slots
  } | run_batch
  read_slots
  look_into "$1"
  [ "$held" = "$ids" ] || {
    show_errors
    drop_head "$1" | run_batch
    heed_signals
    rm -rf -- "$STAGE"
    die "$DIFFERS" "slot $1 did not take the new maps; what was in force stays so"
  }
}

# Prints the command that removes the head of a slot.
drop_head() { # SLOT
  printf 'map delete pinned %s key hex 0%d 00 00 00\n' "$BPFFS/tierc_head" "$1"
}

flip() { # SLOT
  {
    commands "slot$1/flip.batch"
    ask_slots
  } | run_batch
  read_slots
  look_into "$1"
  if ! is_active || [ "$slot" != "$1" ] || [ "$held" != "$ids" ]; then
    staged_wrong "seed $SEED did not come into force"
  fi
}

put_in_force() {
  # What a loader left that was killed.
  [ ! -e "$STAGE" ] || rm -rf -- "$STAGE"
  if is_in_force; then
    say "seed $SEED is in force already, in slot $slot; nothing was changed"
    return
  fi
  if [ -n "$ENSURE" ] && [ "$active" != 0000000000000000 ] && is_rolled_back; then
    say "seed $SEED was rolled back; load.sh without --ensure puts it in force again"
    return
  fi
  # With nothing in force either slot will do.
  into=0
  [ "$slot" != 0 ] || [ "$active" = 0000000000000000 ] || into=1
  heed_signals
  stage
  heed_signals
  publish "$into"
  heed_signals
  flip "$into"
  rm -rf -- "$STAGE"
  rm -f -- "$STATE/rolled_back"
  say "seed $SEED is in force, in slot $slot"
}
