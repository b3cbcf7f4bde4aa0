# --- The seed before ----------------------------------------------------------------------------

# The slot that is not in force holds the seed before; its number is in its head.
roll_back() {
  check_layout
  left=$active
  case $active in
  0000000000000000) die "$NO_SLOT" "no seed is in force" ;;
  esac
  other=$((1 - slot))
  look_into "$other"
  number=
  case " $held " in
  *' - '*) ;;
  *) number=$(seed_of "$(head_of "$held")") ;;
  esac
  case $number in
  00000000) die "$NO_SLOT" "slot $other holds no seed" ;;
  ????????) ;;
  *) die "$NO_SLOT" "slot $other holds no seed" ;;
  esac
  [ -z "$DRY" ] || {
    say "dry run: slot $other would be put in force"
    return
  }
  heed_signals
  # First, so that a timer cannot put it in force again.
  printf '%s\n' "$left $boot" >"$STATE/rolled_back" || die "$BROKEN" "cannot write to $STATE"
  # The lowest bit of a generation is its slot.
  low=$(printf '%d' "0x${number%??????}")
  low=$(printf '%02x' "$((low - low % 2 + other))")
  {
    printf 'map update pinned %s key hex 00 00 00 00 value hex 0%d 00 00 00 %s%s\n' \
      "$BPFFS/tierc_active" "$other" "$low" "$(printf '%s' "${number#??}" | sed 's/../ &/g')"
    ask_slots
  } | run_batch
  read_slots
  [ "$active" = "0${other}000000$low${number#??}" ] ||
    die "$DIFFERS" "tierc_active did not take slot $other"
  say "the seed before is in force, in slot $slot"
}

# True when this seed was rolled back, in this boot.
is_rolled_back() {
  left=
  left_boot=
  { read -r left left_boot <"$STATE/rolled_back"; } 2>/dev/null
  [ "$left_boot" = "$boot" ] || return 1
  [ "$left" = "$ACTIVE0" ] || [ "$left" = "$ACTIVE1" ]
}

# Prints the number of the seed in a map head, 8 digits as they lie in memory.
seed_of() { # ID
  printf 'map dump id %s\n' "$1" | run_batch
  records | awk -v RS='{' "$RECORDS"'
    /^key:/ { entry(); print substr(bytes(value), 25) }'
}
