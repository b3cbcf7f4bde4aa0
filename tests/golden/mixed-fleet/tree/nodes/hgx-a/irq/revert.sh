#!/bin/sh
# Puts back the CPUs of interrupts that apply.sh changed, from its record alone.
# Written by tierc; it is the same for every policy.
#
# It touches only interrupts that still are the same device's under the same name and still have
# what apply.sh gave them. The others are reported and left. Afterwards the record is gone.
# Usage and exit codes: revert.sh --help

set -u

usage() {
  cat <<'END'
usage: revert.sh [--dry-run] [--state DIR] [--quiet]

Puts back what apply.sh changed. Stop apply.sh --watch first. Or leave it running and create
/etc/tierc/disabled: then it puts everything back itself, in its next cycle.

  --dry-run     print what would be put back, a line an interrupt; change nothing
  --state DIR   where apply.sh recorded it (default /var/lib/tierc/irq)
  --quiet       print warnings only
  --help        print this

exit codes: 0 done, also when there was nothing to do
            1 some interrupts could not be put back; they stay recorded
            2 wrong usage
            4 another process holds the lock
            5 not root
            6 the state file is not one of ours
            7 a tool is missing, or a directory cannot be read or written
END
}

# --- Settings --------------------------------------------------------------------------------

LC_ALL=C # names and paths are bytes
export LC_ALL
unset IFS CDPATH
NL='
'
# The TIERC_* variables point the script at another tree; they are for tests.
PROC=${TIERC_PROC:-/proc}
SYS=${TIERC_SYS:-/sys}
STATE=/var/lib/tierc/irq
FORMAT=tierc-irq-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some interrupt could not be set or put back, or lines of the state were damaged
USAGE=2   # wrong usage
BUSY=4    # another process holds the lock
DENIED=5  # not root
FOREIGN=6 # the state file is not one of ours
BROKEN=7  # a tool is missing, or a directory cannot be read or written

say() { [ -n "$QUIET" ] || printf '%s\n' "tierc: $*"; }
warn() { printf '%s\n' "tierc: $*" >&2; }
die() { # CODE MESSAGE
  code=$1
  shift
  warn "$*"
  exit "$code"
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [ -z "$work" ] || rm -rf -- "$work"
  [ -z "$locked" ] || rm -f -- "$STATE/lock"
}

start_up() {
  for tool in awk cat cmp cp find grep id ln mkdir mktemp mv rm rmdir sed sha256sum sleep sort tr \
    uname xargs; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: the affinity of interrupts is root's to set (--dry-run does not)"
  fi
  trap clean_up EXIT
  trap 'STOP=1' HUP INT TERM
  umask 077
  work=$(mktemp -d "${TMPDIR:-/tmp}/tierc.XXXXXX") || die "$BROKEN" "no temporary directory"
  export work
  : >"$work/told"
  boot=-
  { IFS= read -r boot <"$PROC/sys/kernel/random/boot_id"; } 2>/dev/null || boot=-
  [ -n "$DRY" ] || take_lock
}

# --- Files of /proc, read without starting a program -------------------------------------------

# Sets $text to a whole file, which may hold newlines (a thread's name can); false if it is gone.
read_file() {
  text=
  { IFS= read -r text && while IFS= read -r line; do text=$text$NL$line; done; } 2>/dev/null <"$1"
}

# Sets $stat to a stat file from its third field on. The name before may hold anything, also ") ".
read_stat() { read_file "$1" && stat=${text##*) }; }

# Sets $start to the start time of a process or thread, the 22nd field.
read_start() { # FILE
  read_stat "$1" || return 1
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ start _ <<END
$stat
END
}

# --- The lock: one owner of the state -----------------------------------------------------------

# 0: the lock's owner lives, 1: it is gone, 2: there is no lock. A start time and a boot make a
# pid unique. After a power cut the lock may be empty.
owner_lives() { # [LOCK]
  opened=
  owner=
  { opened=1 && IFS= read -r owner; } 2>/dev/null <"$STATE/${1:-lock}"
  [ -n "$opened" ] || return 2
  read -r owner_pid owner_start owner_boot _ <<END
$owner - -
END
  case $owner_pid in '' | *[!0-9]*) return 1 ;; esac
  [ "$owner_boot" = "$boot" ] && read_start "/proc/$owner_pid/stat" && [ "$start" = "$owner_start" ]
}

# The lock is a hard link, because that appears at once with its owner in it. The lock of an owner
# that is gone is removed only by who has made the link lock.steal: so nobody can remove the lock of
# the next owner instead.
take_lock() {
  mkdir -p -- "$STATE" 2>/dev/null || die "$BROKEN" "cannot make $STATE"
  read_start "/proc/$$/stat" || die "$BROKEN" "/proc is not mounted"
  printf '%s\n' "$$ $start $boot" >"$work/lock" || die "$BROKEN" "cannot write to $work"
  { cp -- "$work/lock" "$STATE/lock.$$"; } 2>/dev/null || die "$BROKEN" "cannot write to $STATE"
  tries=0
  until ln -- "$STATE/lock.$$" "$STATE/lock" 2>/dev/null; do
    owner_lives
    case $? in
    0) lock_refused "locked by process $owner_pid; stop it, or wait for it" ;;
    1) remove_lock ;;
    esac
    tries=$((tries + 1))
    [ "$tries" -lt 5 ] || lock_refused "locked by others in turn; try again"
  done
  rm -f -- "$STATE/lock.$$"
  locked=1
}

# Removes the lock of an owner that is gone, unless somebody else is at it.
remove_lock() {
  if ln -- "$STATE/lock.$$" "$STATE/lock.steal" 2>/dev/null; then
    owner_lives
    [ $? != 1 ] || rm -f -- "$STATE/lock"
    rm -f -- "$STATE/lock.steal"
    return
  fi
  owner_lives lock.steal
  gone=$?
  looked_at=$owner
  sleep 1
  [ "$gone" = 1 ] || return 0
  # Whoever was at it was killed there. It is moved before it is removed: if it is another one by
  # now, it goes back.
  mv -- "$STATE/lock.steal" "$STATE/lock.stale.$$" 2>/dev/null || return 0
  owner_lives "lock.stale.$$"
  [ "$owner" = "$looked_at" ] || ln -- "$STATE/lock.stale.$$" "$STATE/lock.steal" 2>/dev/null
  rm -f -- "$STATE/lock.stale.$$"
}
lock_refused() {
  rm -f -- "$STATE/lock.$$"
  die "$BUSY" "$STATE is $1"
}

# --- The state: what we changed, and what it was ------------------------------------------------
#
# A header with the boot it is of, then a line an interrupt:
#   IRQ DEVICE NAME ORIGINAL WRITTEN BEFORE ASKED
# DEVICE and NAME tell whether a number is still the same interrupt: numbers are given anew
# when a driver is loaded. BEFORE is "-", or, while a change is under way, the CPUs the
# interrupt had just before it. ASKED is what was asked for, of which the kernel may have
# made fewer, WRITTEN; "-" where it refused.

# Copies the valid lines to work/state.
load_state() {
  : >"$work/state"
  dirty=
  [ -e "$STATE/state" ] || return 0
  dirty=1
  [ -s "$STATE/state" ] || return 0
  IFS= read -r header <"$STATE/state" || header=
  case $header in
  "$FORMAT $boot") ;;
  "$FORMAT "*)
    say "the state is of an earlier boot; nothing of it is left to put back"
    return 0
    ;;
  *) die "$FOREIGN" "$STATE/state is not a state of this version; nothing was changed. Move it away to go on without it" ;;
  esac
  dirty=
  awk 'function list(x) { return length(x) < 9999 && x ~ /^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$/ }
    NR == 1 { next }
    NF == 7 && $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.[0-7]$/ && list($4) && list($5) && ($6 == "-" || list($6)) && ($7 == "-" || list($7)) {
      print > (ENVIRON["work"] "/state")
      next
    }
    { bad++ }
    END { print bad + 0 }' "$STATE/state" >"$work/bad"
  read -r bad <"$work/bad"
  [ "$bad" = 0 ] && return 0
  warn "$bad damaged lines in $STATE/state: their interrupts cannot be put back"
  [ "$result" != 0 ] || result=$PARTLY
  dirty=1
  [ -n "$DRY" ] || cp -- "$STATE/state" "$STATE/state.damaged"
}

# Puts a file of lines in place of the state, at once or not at all. A power cut needs no care:
# affinity does not outlive it either.
store_state() { # FILE
  if [ ! -s "$1" ]; then
    rm -f -- "$STATE/state"
    return
  fi
  digest=$(sorted_state "$1" | sha256sum)
  # The tools of busybox end well on a full disk: so what has been written is read back.
  if ! sorted_state "$1" >"$STATE/state.new" ||
    [ "$(sha256sum <"$STATE/state.new")" != "$digest" ] ||
    ! mv -f -- "$STATE/state.new" "$STATE/state"; then
    rm -f -- "$STATE/state.new"
    die "$BROKEN" "cannot write $STATE/state"
  fi
}
sorted_state() { printf '%s\n' "$FORMAT $boot" && sort -n "$1"; }

# --- CPU lists, for the awk programs below ------------------------------------------------------
#
# inter(a, b)   the CPUs in both, as a list in the kernel's form: 0-3,8
# norm(a)       the same list in that form
# size[norm(a)] how many CPUs

CPUS='
function load(list,   parts, ends, n, i, cpu) {
  if (list in size) return
  size[list] = 0
  top[list] = -1
  n = split(list, parts, ",")
  for (i = 1; i <= n; i++) {
    if (split(parts[i], ends, "-") < 2) ends[2] = ends[1]
    if (ends[1] + 0 <= top[list]) unsorted[list] = 1
    for (cpu = ends[1] + 0; cpu <= ends[2] + 0 && cpu < 8192; cpu++)
      if (!((list, cpu) in has)) {
        has[list, cpu] = 1
        size[list]++
        if (cpu > top[list]) top[list] = cpu
      }
  }
}
function inter(a, b,   parts, ends, n, i, cpu, first, last, out) {
  if ((a, b) in both) return both[a, b]
  load(a)
  load(b)
  first = -1
  n = split((a in unsorted) ? "0-" top[a] : a, parts, ",")
  for (i = 1; i <= n; i++) {
    if (split(parts[i], ends, "-") < 2) ends[2] = ends[1]
    for (cpu = ends[1] + 0; cpu <= ends[2] + 0 && cpu <= top[a]; cpu++) {
      if (!((a, cpu) in has) || !((b, cpu) in has)) continue
      if (first >= 0 && cpu > last + 1) {
        out = out first (last > first ? "-" last : "") ","
        first = -1
      }
      if (first < 0) first = cpu
      last = cpu
    }
  }
  if (first >= 0) out = out first (last > first ? "-" last : "")
  both[a, b] = out
  load(out)
  return out
}
function norm(a) { return inter(a, a) }
'

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

# --- A dry run ------------------------------------------------------------------------------------

# Says what a dry run would do, but nothing that it said in the cycle before. Sets $news if it is
# not the same.
tell_actions() {
  while read -r verb _; do
    case $verb in set) changed=$((changed + 1)) ;; *) restored=$((restored + 1)) ;; esac
  done <"$work/actions"
  news=
  # shellcheck disable=SC2034 # read by apply.sh
  cmp -s "$work/actions" "$work/told" || news=1
  awk 'what == "told" { told[$0] = 1; next } !($0 in told)' \
    what=told "$work/told" what=actions "$work/actions" >"$work/untold"
  while read -r verb _ _ _ description; do
    say "would $verb $description"
  done <"$work/untold"
  mv -f "$work/actions" "$work/told"
}

# --- Deciding -------------------------------------------------------------------------------------
#
# Writes, from the files above:
#   work/actions  "set|restore IRQ CPUS fresh|known DESCRIPTION"
#   work/next     the state as it must be while the actions run
#   work/skips    what was not done, and why
#   work/summary  a line a device
#   work/counts   interrupts, right, left to the kernel, skipped, foreign

# shellcheck disable=SC2016 # awk's own $
DECIDE='
function tell(text) { print text > skipped }
# Whether an interrupt has the CPUs we wrote, or what the kernel makes of them when all went away.
function is_ours(n, cur) {
  if (cur == wrote[n] || (inter(wrote[n], online) == "" && cur == online)) return 1
  return before[n] != "-" && cur == norm(before[n])
}
function named(n) { return n (text[n] == "" ? "" : " " text[n]) " of " device[n] }
function keep_line(n, orig, written, earlier, wish) {
  print n, device[n], name[n], orig, written, earlier, wish > next_state
}
function act(verb, n, cpus, fresh, shown) { print verb, n, cpus, fresh, shown > actions }
function put_back(n, cur,   target) {
  target = inter(original[n], online) == "" ? online : original[n]
  if (cur == norm(target)) return # the change never happened
  keep_line(n, original[n], wrote[n], before[n], asked[n])
  act("restore", n, target, "known", named(n) ": " cur " -> " target)
}
function decide(n,   d, known, cur, want, orig, shown) {
  d = device[n]
  known = (n in wrote) && device_of[n] == d && name_of[n] == name[n]
  cur = norm(mask[n])
  if (!(d in cpus)) { # of the state alone
    if (!known) return
    if (is_ours(n, cur)) put_back(n, cur)
    else if (cur != norm(original[n])) {
      foreign++
      tell("left, changed by someone else since: interrupt " named(n) ": " cur ", not " wrote[n])
    }
    return
  }
  found++
  count[d, "all"]++
  if (known && !is_ours(n, cur)) known = 0
  orig = known ? original[n] : cur
  want = inter(cpus[d], online)
  if (want == "") {
    skipped_count++
    if (!(d in told)) tell("skipped, " d ": none of its CPUs " cpus[d] " is online, but " online)
    told[d] = 1
    if (known) put_back(n, cur)
    return
  }
  # What the kernel made of the same request stays; another request is another write.
  if (cur == want || (known && cur == wrote[n] && before[n] == "-" && want == asked[n])) {
    right++
    count[d, "right"]++
    if (known) keep_line(n, orig, cur, "-", want)
    return
  }
  shown = named(n) " (" where[d] "): " cur " -> " want
  if ((n in fixed) || (n in refused)) {
    managed++
    count[d, "managed"]++
    tell("left to the kernel, which places it itself: interrupt " shown)
    return
  }
  count[d, "change"]++
  keep_line(n, orig, want, cur, want)
  if (n in now_on) shown = shown " (on " now_on[n] ")"
  act("set", n, want, known ? "known" : "fresh", shown)
}
BEGIN {
  online = norm(ENVIRON["online"])
  actions = ENVIRON["work"] "/actions"
  next_state = ENVIRON["work"] "/next"
  skipped = ENVIRON["work"] "/skips"
}
what == "devices" {
  order[++devices] = $1
  kind[$1] = $2
  cpus[$1] = $3
  where[$1] = $4
}
what == "names" {
  n = $1
  sub(/^[0-9]+ ?/, "")
  text[n] = $0
}
what == "fixed" { sub(/\/.*/, ""); fixed[$0] = 1 }
what == "refused" { refused[$1] = 1 }
what == "absent" { tell($0) }
what == "state" {
  device_of[$1] = $2
  name_of[$1] = $3
  original[$1] = $4
  wrote[$1] = norm($5)
  before[$1] = $6
  asked[$1] = $7 == "-" ? "-" : norm($7)
}
what == "found" {
  if (!($1 in device)) {
    device[$1] = $2
    list[++numbers] = $1
  } else if (device[$1] != $2 && ($2 in cpus) && (device[$1] in cpus) && inter(cpus[$2], online) != inter(cpus[device[$1]], online))
    tell("interrupt " $1 " is shared by " device[$1] " and " $2 ": it goes where those of " device[$1] " do")
}
what == "masks" || what == "effective" {
  i = index($0, "/")
  n = substr($0, 1, i - 1)
  sub(/^[^:]*:/, "")
  if (what == "masks") mask[n] = $0
  else if ($0 != "") now_on[n] = $0
}
END {
  for (i = 1; i <= numbers; i++) {
    n = list[i]
    name[n] = substr(text[n], 1, 100)
    gsub(/[^!-~]/, "_", name[n])
    if (name[n] == "") name[n] = "-"
    if ((n in mask) && mask[n] ~ /^[0-9]/) decide(n)
    else if (device[n] in cpus) {
      found++
      count[device[n], "all"]++
      skipped_count++
      tell("skipped, interrupt " named(n) ": what CPUs it has cannot be read")
    }
  }
  for (n in wrote) {
    if (!(n in mask) || ((n in device) && device[n] == device_of[n] && name[n] == name_of[n])) continue
    foreign++
    tell("left, another interrupt now: " n (text[n] == "" ? "" : " " text[n]) ", which was " name_of[n] " of " device_of[n])
  }
  for (i = 1; i <= devices; i++) {
    d = order[i]
    line = d " (" kind[d] ", " where[d] ", CPUs " cpus[d] "): " count[d, "all"] + 0 " interrupts, "
    line = line count[d, "change"] + 0 " to change, " count[d, "right"] + 0 " already right, "
    print line count[d, "managed"] + 0 " left to the kernel" > (ENVIRON["work"] "/summary")
  }
  print found + 0, right + 0, managed + 0, skipped_count + 0, foreign + 0 > (ENVIRON["work"] "/counts")
}
'

refused= # interrupts that the kernel refused to move, in this process

decide() {
  for file in actions next skips summary counts; do : >"$work/$file"; done
  for number in $refused; do printf '%s\n' "$number"; done >"$work/refused"
  awk "$CPUS$DECIDE" what=devices "$work/devices" what=names "$work/names" \
    what=fixed "$work/fixed" what=refused "$work/refused" what=absent "$work/absent" \
    what=state "$work/state" what=found "$work/found" what=masks "$work/masks" \
    what=effective "$work/effective" || die "$BROKEN" "awk failed; nothing was changed"
  [ -s "$work/counts" ] || die "$BROKEN" "awk was stopped; nothing was changed"
  sort -k2,2n "$work/actions" >"$work/sorted" && mv -f "$work/sorted" "$work/actions"
  sort "$work/skips" >"$work/sorted" && mv -f "$work/sorted" "$work/skips"
}

# --- Acting -----------------------------------------------------------------------------------------

# 0: written, or the interrupt has gone; 1: the kernel places it itself; 2: failed, $text says why.
put() { # IRQ CPUS
  file=$IRQS/irq/$1/smp_affinity_list
  printf '%s\n' "$2" >"$work/value"
  [ -e "$file" ] || return 0
  { cat -- "$work/value" >"$file"; } 2>"$work/error" && return 0
  [ -e "$file" ] || return 0
  read_file "$work/error" || text=
  case $text in
  *"nput/output error"* | *"I/O error"* | *"peration not permitted"*) return 1 ;;
  *"o space left"*) text="the CPUs have no vector left: $text" ;;
  esac
  return 2
}

# Does work/actions. The originals are on disk before the first interrupt is touched; afterwards
# the state is what the kernel really has.
act() {
  changed=0 restored=0 failed=0 kernels=0
  if [ -n "$DRY" ]; then
    tell_actions
    return 0
  fi
  if ! [ -s "$work/actions" ]; then
    sort -n "$work/state" >"$work/old"
    sort -n "$work/next" >"$work/new"
    if [ -n "$dirty" ] || ! cmp -s "$work/old" "$work/new"; then store_state "$work/next"; fi
    return 0
  fi
  store_state "$work/next"
  : >"$work/results"
  while read -r verb number cpus _ description; do
    [ -z "$STOP" ] || break
    put "$number" "$cpus"
    case $? in
    0)
      printf '%s\n' "$number done" >>"$work/results"
      if [ "$verb" = set ]; then
        changed=$((changed + 1))
        say "set $description"
      else
        restored=$((restored + 1))
        say "restored $description"
      fi
      ;;
    1)
      printf '%s\n' "$number failed" >>"$work/results"
      # shellcheck disable=SC2034 # read by apply.sh
      kernels=$((kernels + 1))
      refused="$refused $number"
      printf '%s\n' "left to the kernel, which places it itself: interrupt ${description% (on *}" >>"$work/skips"
      ;;
    *)
      printf '%s\n' "$number failed" >>"$work/results"
      failed=$((failed + 1))
      warn "could not $verb $description: $text"
      ;;
    esac
  done <"$work/actions"
  awk '{ print $2 }' "$work/actions" | grep_irqs smp_affinity_list >"$work/masks"
  : >"$work/odd"
  awk "$CPUS"'
    function subset(a, b) { return inter(a, b) == norm(a) }
    what == "masks" {
      i = index($0, "/")
      n = substr($0, 1, i - 1)
      sub(/^[^:]*:/, "")
      mask[n] = norm($0)
    }
    what == "actions" { verb[$2] = $1; want[$2] = $3; fresh[$2] = $4 }
    what == "results" { result[$1] = $2 }
    what == "next" {
      n = $1
      if (!(n in verb)) { print; next }
      if (!(n in mask)) next # it has gone
      if (verb[n] == "restore") {
        if (result[n] != "done") print
        next
      }
      if (result[n] == "done") {
        $5 = mask[n]
        $6 = "-"
        if (mask[n] == "" || !subset(mask[n], want[n])) print n, mask[n], want[n] > (ENVIRON["work"] "/odd")
      } else if (fresh[n] == "fresh") next
      else {
        $5 = $6
        $6 = $7 = "-" # asked for again the next time
      }
      print
    }
    END { print "end" }
  ' what=masks "$work/masks" what=actions "$work/actions" what=results "$work/results" \
    what=next "$work/next" >"$work/settled"
  # Cut short by a signal: the state on disk still has every original.
  [ "$(sed -n '$p' "$work/settled")" = end ] || return 0
  sed '$d' "$work/settled" >"$work/final"
  while read -r number got wanted; do
    failed=$((failed + 1))
    changed=$((changed - 1))
    warn "interrupt $number did not take $wanted: it has $got"
  done <"$work/odd"
  store_state "$work/final"
}

# --- Running ------------------------------------------------------------------------------------

while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --quiet) QUIET=1 ;;
  --help)
    usage
    exit 0
    ;;
  --state)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    STATE=$2
    shift
    ;;
  --state=*) STATE=${1#*=} ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac

start_up
result=0
online=
{ IFS= read -r online <"$SYS/devices/system/cpu/online"; } 2>/dev/null
[ -n "$online" ] || online=0-8191
export online
load_state
: >"$work/devices"
look
decide
act
while IFS= read -r line; do warn "$line"; done <"$work/skips"
[ "$failed" = 0 ] || result=$PARTLY
read -r _ _ _ _ foreign <"$work/counts"
total="$restored restored"
[ -z "$DRY" ] || total="dry run, nothing was touched: $restored would be restored"
say "$total, $foreign left to who changed them since, $failed failed"
exit "$result"
