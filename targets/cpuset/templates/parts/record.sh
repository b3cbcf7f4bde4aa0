# --- The record, as it grows ---------------------------------------------------------------------

# Sets $number $held $original $written $earlier from the record of a setting; false where there is none.
recorded() { # KIND PATH WHAT
  found=$(awk -F '\t' -v kind="$1" 'BEGIN { path = ARGV[2]; what = ARGV[3]; ARGV[2] = ARGV[3] = "" }
    ($2 == kind || (kind == "unit" && $2 == "held")) && $3 == path && $4 == what {
      print $1, $2, $5, $6, $7
    }' "$work/state" "$2" "$3")
  [ -n "$found" ] || return 1
  read -r number held original written earlier <<END
$found
END
}

# Puts a line in the record, in place of the setting's former one. On disk before anything is done.
# BEFORE is what we had written earlier, as long as it may still be there; else none.
remember() { # KIND PATH WHAT ORIGINAL WRITTEN BEFORE
  if recorded "$1" "$2" "$3"; then
    kind=$held
  else
    kind=$1
    number=$(awk -F '\t' '$1 > n { n = $1 } END { print n + 1 }' "$work/state")
    if [ "$kind" = unit ]; then
      unit_of "$2"
      [ ! -e "$RUN/systemd/system.control/$unit.d/50-$3.conf" ] || kind=held
    fi
  fi
  if ! forget_line "$1" "$2" "$3" || ! printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
    "$number" "$kind" "$2" "$3" "$4" "$5" "$6" >>"$work/state"; then
    die "$BROKEN" "cannot write to $work"
  fi
  store_state "$work/state"
}
