# --- Seeds in maps ------------------------------------------------------------------------------

TABLES='{{ tables | join(" ") }}'
# Tables that nobody may change once they are filled; the others are filled on the node.
FROZEN='{{ frozen | join(" ") }}'
# Tables whose every entry exists: those that are not written are zero.
ARRAYS='{{ arrays | join(" ") }}'

# One bpftool reads many maps, as starting it takes longer than reading one. Its JSON becomes records
# that begin where its braces do, of commands, maps, entries and errors:
#   command:mapshowid7]output:    id:7type:array..frozen:1}}    key:000000000000]value:001002..]}
# Each byte is a 0 and two digits, and so it is in stage.batch when its spaces are made 0.
#
# The exit code of a batch says little, and the last it says may be an error although there was none.
# But it stops at a real one, which it says behind the command.

# Runs a batch from the standard input; what it says is in $work/said.
run_batch() { bpftool -j batch file - >"$work/said" 2>"$work/complaints"; }

# Prints the commands in a file of the seed, for this BPF file system.
commands() { sed "s#/sys/fs/bpf/#$BPFFS/#g" "$HERE/$1"; }

# Prints what a batch said, as records.
records() { tr -d '"[x, \n' <"$work/said"; }

# Shows the errors of a batch.
show_errors() {
  {
    cat "$work/complaints"
    tr '{' '\n' <"$work/said" | awk '
      /^"error":"/ && last ~ /:$/ { print substr($0, 10, index(substr($0, 10), "\"") - 1) }
      { last = $0 }'
  } | sed 's/^/tierc:   bpftool: /' | tail -n 3 >&2
}

# shellcheck disable=SC2016 # awk's own $
RECORDS='
function entry(   i) { # sets key and value
  i = index($0, "]value:")
  key = substr($0, 5, i - 5)
  value = substr($0, i + 7)
  value = substr(value, 1, index(value, "]") - 1)
}
function bytes(value,   i, out) {
  for (i = 2; i < length(value); i += 3) out = out substr(value, i, 2)
  return out
}
function number(value,   i, out) { # the least byte is the first
  for (i = length(value) - 1; i > 0; i -= 3) out = out * 256 + digit(value, i) * 16 + digit(value, i + 1)
  return out
}
function digit(value, i) { return index("0123456789abcdef", substr(value, i, 1)) - 1 }
/^error:/ && last ~ /:$/ { failed = 1 }
{ last = substr($0, length($0)) }
'

# --- What the slots hold ------------------------------------------------------------------------

# Prints the commands that read it.
ask_slots() {
  for table in abi active $TABLES; do printf 'map dump pinned %s\n' "$BPFFS/tierc_$table"; done
}

# From the answer to ask_slots: sets $abi and $active, in hexadecimal as they lie in memory, $slot,
# the one in force, and $held0 and $held1, the numbers of the maps in a slot, in the order of the
# tables, with - for none. All are empty if anything could not be read.
read_slots() {
  answer=$(
    records | awk -v RS='{' -v tables="$TABLES" "$RECORDS"'
      /^command:mapdump/ { table++ }
      /^key:00[01]000000000]value:/ {
        entry()
        held[table, substr(key, 3, 1) + 0] = value
      }
      END {
        n = split(tables, name, " ")
        if (failed || table != n + 2) exit
        printf "%s|%s", bytes(held[1, 0]), bytes(held[2, 0])
        for (slot = 0; slot < 2; slot++)
          for (i = 1; i <= n; i++) {
            id = number(held[i + 2, slot])
            printf "%s%s", (i > 1 ? " " : "|"), (id ? id : "-")
          }
        print ""
      }'
  )
  IFS='|' read -r abi active held0 held1 <<END
$answer
END
  slot=${active#?}
  slot=${slot%??????????????}
}

# Sets $held to the maps of a slot.
look_into() { # SLOT
  case $1 in
  0) held=$held0 ;;
  1) held=$held1 ;;
  *) held= ;;
  esac
}

# Prints the number of the map head among the maps of a slot.
head_of() { # HELD
  # shellcheck disable=SC2086 # the numbers are words
  set -- $1
  for table in $TABLES; do
    [ "$table" != head ] || printf '%s\n' "${1:-}"
    [ $# = 0 ] || shift
  done
}

# --- Maps compared with the seed ----------------------------------------------------------------

# Prints the commands that read a map.
ask_map() { # "pinned PATH" or "id NUMBER"
  printf 'map show %s\nmap dump %s\n' "$1" "$1"
}

# From the answer to ask_map for each of some tables: true when each of them has the entries that
# stage.batch writes into it, and no others, and is frozen if it has to be. Sets $ids, the numbers of
# the maps, or $wrong, what is not so.
same_maps() { # TABLES
  tr ' ' 0 <"$HERE/stage.batch" >"$work/wanted"
  answer=$(
    records | awk -v tables="$1" -v frozen=" $FROZEN " -v arrays=" $ARRAYS " "$RECORDS"'
      function among(words, word) { return index(words, " " word " ") }
      function zeros(long) {
        while (length(zero) < long) zero = zero "000000000000"
        return substr(zero, 1, long)
      }
      function is_wrong(text) { if (wrong == "") wrong = text }
      BEGIN { n = split(tables, name, " ") }
      RS == "\n" {
        k = index($0, "0key0hex0")
        v = index($0, "0value0hex0")
        if (!k || v < k) next
        table = substr($0, 1, k - 1)
        sub(/.*\//, "", table)
        wanted[table, substr($0, k + 8, v - k - 8)] = substr($0, v + 10)
        left[table]++
        next
      }
      /^id:/ {
        table = name[++maps]
        ids = ids (maps > 1 ? " " : "") (substr($0, 4) + 0)
        if (among(frozen, table) && !index($0, "frozen:1")) is_wrong(table " is not frozen")
      }
      /^command:mapdump/ { dumps++ }
      /^key:/ {
        entry()
        if ((table, key) in wanted) {
          if (wanted[table, key] != value) is_wrong(table " has another entry than was written")
          left[table]--
        } else if (!among(arrays, table) || value != zeros(length(value)))
          is_wrong(table " has an entry that was not written")
      }
      END {
        for (i = 1; i <= n; i++) if (left[name[i]]) is_wrong(name[i] " lacks an entry")
        if (failed || maps != n || dumps != n) wrong = name[maps < n ? maps + 1 : n] " cannot be read"
        print (wrong == "" ? ids : "") "|" wrong
      }' "$work/wanted" RS='{' -
  )
  IFS='|' read -r ids wrong <<END
$answer
END
  [ -n "$ids" ]
}
