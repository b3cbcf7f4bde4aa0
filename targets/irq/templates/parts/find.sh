# --- Looking: which interrupts the devices have now ----------------------------------------------

# Where interrupts and irq/ of /proc are. Elsewhere in a container: runtimes hide the one in its /proc
# and let nobody write to the other.
IRQS=${TIERC_IRQS:-$PROC}

# Makes work/names: "IRQ TEXT", what /proc/interrupts says behind the counts of the CPUs, which its
# first line tells. The same words and nothing else make the name by which an interrupt is known.
read_interrupts() {
  awk '
    NR == 1 { counts = NF; next }
    $1 ~ /^[0-9]+:$/ {
      irq = $1
      sub(/:$/, "", irq)
      text = ""
      for (i = counts + 2; i <= NF; i++) text = text (text == "" ? "" : " ") $i
      gsub(/[^ -~]/, "?", text)
      print irq + 0, text
    }
    END { exit NR == 0 }' "$IRQS/interrupts" 2>/dev/null >"$work/names"
}

# Sets $numbers to the interrupts whose text names the device: by its address, or by what the
# system calls it (virtio3-rx, eth0-TxRx-1), which stands before the end or a - or : there.
named_irqs() { # DEVICE, whose directory is $path
  calls=$1
  for below in "$path"/virtio[0-9]* "$path"/net/* "$path"/virtio[0-9]*/net/*; do
    [ ! -e "$below" ] || calls="$calls ${below##*/}"
  done
  numbers=$(device=$1 calls=$calls awk '
    BEGIN {
      device = ENVIRON["device"]
      n = split(ENVIRON["calls"], call, " ")
    }
    {
      rest = $0
      for (i = index(rest, device); i; i = index(rest, device)) {
        before = substr(rest, i - 1, 1)
        rest = substr(rest, i + length(device))
        if (before !~ /[0-9a-fA-F]/ && rest !~ /^[0-9a-fA-F]/) {
          print $1
          next
        }
      }
      for (i = 2; i <= n; i++)
        for (k = 2; k <= NF; k++) {
          word = $k
          sub(/,$/, "", word)
          if (word == call[i] || index(word, call[i] "-") == 1 || index(word, call[i] ":") == 1) {
            print $1
            next
          }
        }
    }' "$work/names")
}

# Makes work/found: "IRQ DEVICE", for the devices of the table and then those of the state.
find_irqs() {
  {
    cat "$work/devices"
    awk '{ print $2 }' "$work/state" | sort -u
  } | while read -r device kind _; do
    path=$SYS/bus/pci/devices/$device
    numbers=
    if [ -d "$path" ]; then
      for file in "$path/msi_irqs"/*; do
        case ${file##*/} in *[!0-9]*) ;; *) numbers="$numbers ${file##*/}" ;; esac
      done
      [ -n "$numbers" ] || named_irqs "$device"
      if [ -z "$numbers" ] && read_file "$path/irq"; then # a line of its own, not a message
        case $text in 0 | '' | *[!0-9]*) ;; *) grep -q "^$text " "$work/names" && numbers=$text ;; esac
      fi
    fi
    if [ -n "$kind" ] && ! [ -d "$path" ]; then
      printf '%s\n' "skipped, $device: no such device here"
    elif [ -n "$kind" ] && [ -z "$numbers" ]; then
      printf '%s\n' "skipped, $device: it has no interrupts now, its driver may not be loaded"
    fi >>"$work/absent"
    for number in $numbers; do
      [ ! -d "$IRQS/irq/$number" ] || printf '%s\n' "$number $device"
    done
  done >"$work/found"
}

# grep_irqs FILE: "IRQ/FILE:LINE" of the interrupts on stdin. What vanishes is left out.
grep_irqs() { (cd "$IRQS/irq" 2>/dev/null && sed "s,\$,/$1," | xargs grep -Hs '' /dev/null); }

# Makes the files that decide reads.
look() {
  : >"$work/absent"
  # Without names every interrupt of the record would be another one's, and its original lost.
  if ! read_interrupts && { [ -s "$work/state" ] || [ -s "$work/devices" ]; }; then
    die "$BROKEN" "$IRQS/interrupts cannot be read, or is empty; nothing was changed"
  fi
  find_irqs
  { sed 's/ .*//' "$work/found" && sed 's/ .*//' "$work/state"; } | sort -un >"$work/numbers"
  grep_irqs smp_affinity_list <"$work/numbers" >"$work/masks"
  grep_irqs effective_affinity_list <"$work/numbers" >"$work/effective"
  # A file that not even root may write is that of an interrupt the kernel places itself.
  (cd "$IRQS/irq" 2>/dev/null && find . -name smp_affinity_list ! -perm -200) |
    sed 's,^\./,,' >"$work/fixed"
}
