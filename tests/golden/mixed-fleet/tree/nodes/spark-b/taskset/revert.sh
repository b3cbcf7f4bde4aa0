#!/bin/sh
# Puts back the CPU affinity that apply.sh changed, from its record alone.
# Written by tierc; it is the same for every policy.
#
# It touches only threads that still live and still have what apply.sh gave them, and threads that
# inherited it from these. The others are reported and left. Afterwards the record is gone.
# Usage and exit codes: revert.sh --help

set -u

usage() {
  cat <<'END'
usage: revert.sh [--dry-run] [--state DIR] [--quiet]

Puts back what apply.sh changed. Stop apply.sh --watch first. Or leave it running and create
/etc/tierc/disabled: then it puts everything back itself, in its next cycle.

  --dry-run     print what would be put back, a line a thread; change nothing
  --state DIR   where apply.sh recorded it (default /var/lib/tierc/taskset)
  --quiet       print warnings only
  --help        print this

exit codes: 0 done, also when there was nothing to do
            1 some threads could not be put back; they stay recorded
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
CGROUP=${TIERC_CGROUP:-/sys/fs/cgroup}
STATE=/var/lib/tierc/taskset
FORMAT=tierc-taskset-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some thread could not be set or put back, or lines of the state were damaged
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
  for tool in awk cat cmp cp find grep id ln mkdir mktemp mv rm rmdir sed sha256sum sleep sort \
    taskset tr uname xargs; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: the affinity of other users' threads needs CAP_SYS_NICE (--dry-run does not)"
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
# A header with the boot it is of, then a line a thread:
#   TID START PID ORIGINAL WRITTEN BEFORE
# START makes the TID unique within a boot. BEFORE is "-", or, while a change is under way, the
# CPUs the thread had just before it.

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
    NF == 6 && $1 $2 $3 ~ /^[0-9]+$/ && list($4) && list($5) && ($6 == "-" || list($6)) {
      print > (ENVIRON["work"] "/state")
      next
    }
    { bad++ }
    END { print bad + 0 }' "$STATE/state" >"$work/bad"
  read -r bad <"$work/bad"
  [ "$bad" = 0 ] && return 0
  warn "$bad damaged lines in $STATE/state: their threads cannot be put back"
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

# --- Looking closer: the threads that may change ------------------------------------------------

# grep_files SUFFIX PATTERN: "PATH:LINE" of files in /proc, for the directories on stdin. Files
# that vanish are left out.
grep_files() { (cd "$PROC" && sed "s,\$,/$1," | xargs grep -Hs -- "$2" /dev/null); }

# Empties what scan finds for decide, and the tables it goes by.
clear_findings() {
  for file in cpus rules cmdlines matched asked hits; do : >"$work/$file"; done
}

# In a container /proc names control groups as seen from the container's own: /../../x.slice. Sets $ns to
# where these paths begin below the root of the host's tree, and $in_ns to whether they do.
find_ns() {
  ns=
  in_ns=
  [ -s "$work/cpusets" ] || return 0
  { IFS= read -r mine; } 2>/dev/null <"$PROC/self/cgroup" || mine=
  case $mine in
  0::/) ;;
  ?*) grep -qE '^[^:]*:(0::)?/\.\.' "$work/cpusets" || return 0 ;;
  *) return 0 ;;
  esac
  in_ns=1
  own=$(cd "$CGROUP" 2>/dev/null && find . -name cgroup.procs -exec grep -slx -e "$$" {} +)
  mine=${mine#0::}
  mine=${mine%/}/cgroup.procs
  case $own in *"$mine") ns=${own%"$mine"} ;; *) in_ns=unknown ;; esac
  ns=${ns#.}
}

# Sets $place to a control group's path below the root of the host's tree; false where nobody knows it.
place_of() { # GROUP
  place=$1
  case $in_ns:$place in
  1:*) ;;
  unknown:* | :/.. | :/../*) return 1 ;;
  *) return 0 ;;
  esac
  rest=$1
  above=$ns
  while :; do
    case $rest in /.. | /../*) rest=${rest#/..} ;; *) break ;; esac
    [ -n "$above" ] || return 1
    above=${above%/*}
  done
  place=$above$rest
  place=${place:-/}
}

# Prints what $place has of CPUs, for the lines of $group; false where it has no cpuset.
limit_here() {
  for list in "$CGROUP$place/cpuset.cpus.effective" \
    "$CGROUP/unified$place/cpuset.cpus.effective" \
    "$CGROUP/cpuset$place/cpuset.effective_cpus" "$CGROUP/cpuset$place/cpuset.cpus"; do
    if read_file "$list" && [ -n "$text" ]; then
      printf '%s\n' "$text $group" "$place"
      return 0
    fi
  done
  return 1
}

# Makes the files that decide reads. Beside the matched threads it looks at every thread of the
# processes we changed and of those they started: affinity is inherited.
look() {
  : >"$work/procs"
  : >"$work/family"
  if [ -s "$work/state" ]; then
    (cd "$PROC" && printf '%s\n' [0-9]*) | grep_files stat '' >"$work/procs"
    awk '
      what == "state" { todo[++n] = $3; next }
      { i = index($0, "/"); pid = substr($0, 1, i - 1); text[pid] = text[pid] substr($0, i) }
      END {
        for (pid in text) {
          sub(/.*\) /, "", text[pid])
          split(text[pid], field, " ")
          children[field[2]] = children[field[2]] " " pid
        }
        for (i = 1; i <= n; i++) {
          if (todo[i] in seen) continue
          seen[todo[i]] = 1
          print todo[i]
          k = split(children[todo[i]], list, " ")
          while (k) todo[++n] = list[k--]
        }
      }' what=state "$work/state" what=procs "$work/procs" >"$work/family"
  fi
  {
    while read -r pid; do
      for thread in "$PROC/$pid/task"/[0-9]*; do
        case ${thread##*/} in *[!0-9]*) ;; *) printf '%s\n' "$pid/task/${thread##*/}" ;; esac
      done
    done <"$work/family"
    awk '
      what == "rules" { moves[$1] = $2 == "move"; next }
      { for (i = 3; i <= NF; i++) if (moves[$i]) { print $2 "/task/" $1; next } }
    ' what=rules "$work/rules" what=matched "$work/matched"
  } | sort -u >"$work/threads"
  grep_files stat '' <"$work/threads" >"$work/stats"
  grep_files status '^Cpus_allowed_list:' <"$work/threads" >"$work/masks"
  grep_files cpuset '' <"$work/threads" >"$work/cpusets"
  climbs=
  if ! [ -s "$work/cpusets" ]; then # a kernel without that file: the cpuset is of a group at or above
    climbs=1
    grep_files cgroup '^0::' <"$work/threads" >"$work/cpusets"
  fi
  find_ns
  sed -e 's/^[^:]*://' -e 's/^0:://' "$work/cpusets" | sort -u | while IFS= read -r group; do
    place_of "$group" || continue
    while :; do
      limit_here && break
      case $climbs$place in 1/?*) place=${place%/*} ;; *) break ;; esac
      place=${place:-/}
    done
  done >"$work/limits"
  possible=
  { IFS= read -r possible <"$SYS/devices/system/cpu/possible"; } 2>/dev/null
  export possible
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
  while read -r verb _ _ _ _ _ _ _ description; do
    [ "$verb" != set ] || verb=move
    say "would $verb $description"
  done <"$work/untold"
  mv -f "$work/actions" "$work/told"
}

# --- Deciding -------------------------------------------------------------------------------------
#
# Writes, from the files above:
#   work/actions  "set|restore TID PID START CPUS MINIMUM fresh|known WANTED DESCRIPTION"
#   work/next     the state as it must be while the actions run
#   work/skips    what was not done, and why
#   work/units    a line a unit
#   work/counts   matched, right, skipped, alone, foreign

# shellcheck disable=SC2016 # awk's own $
DECIDE='
function subset(a, b) { return inter(a, b) == norm(a) }
function clean(s) {
  gsub(/[^ -~]/, "?", s)
  return s
}
function tally(what, unit) {
  total[what]++
  if (unit != "") count[unit, what]++
}
function knows_cpuset(t) { return (t in group) && (group[t] in limit) }
# The CPUs the thread may have at all: online, and in its cpuset where that is known.
function limit_of(t) { return knows_cpuset(t) ? inter(limit[group[t]], online) : online }
# Whether a thread has the CPUs we wrote, or what the kernel made of them when CPUs went away.
function is_ours(t, cur, lim,   cut) {
  cut = inter(wrote[t], lim)
  if (cur == wrote[t] || cur == cut || (cut == "" && cur == lim)) return 1
  return before[t] != "-" && (cur == norm(before[t]) || subset(cur, wrote[t]))
}
# The original CPUs of a thread that has its mask from a thread of ours: in its own process, or in
# one of those above it. A record counts while its process is still the one it was made of.
function inherited(p, cur,   i, n, k, list) {
  for (n = 0; p > 1 && n < 64; n++) {
    if ((p in wrote) && wrote[p] == cur && pstart[p] <= start[p]) return original[p]
    k = split(recorded[p], list, " ")
    for (i = 1; i <= k; i++)
      if (wrote[list[i]] == cur && pstart[p] <= start[list[i]]) return original[list[i]]
    p = parent[p]
  }
  return ""
}
function first_rule(t,   list, n, i, p) {
  n = split(rules[t], list, " ")
  p = process[t]
  for (i = 1; i <= n; i++)
    if (!(list[i] in by_cmdline) || ((list[i], p) in hit)) return list[i]
  return ""
}
function skip(why, unit) {
  tally("skipped", unit)
  reason = "skipped, " unit ": " why
  if (!(reason in skips)) order[++reasons] = reason
  skips[reason]++
}
function act(verb, t, cpus, min, fresh, want, shown) {
  print verb, t, process[t], began[t], cpus, min, fresh, want, shown > actions
}
function keep_line(t, orig, written, earlier) {
  print t, began[t], process[t], orig, written, earlier > next_state
}
function put_back(t, orig, known, cur, lim, why,   target) {
  target = inter(orig, lim) == "" ? possible : orig # its cpuset has none of them any more
  if (known) keep_line(t, original[t], wrote[t], before[t])
  act("restore", t, target, 0, known ? "known" : "fresh", target, why ": " cur " -> " target)
}
function decide(t,   p, r, unit, orig, known, lim, cur, want, why, name, back, fresh, whole) {
  p = process[t]
  known = (t in wrote) && start[t] == began[t] && pid_of[t] == p
  r = first_rule(t)
  unit = r == "" ? "" : unit_of[r]
  if (r != "") tally("matched", unit)
  cur = norm(mask[t])
  lim = limit_of(t)
  if (known && !is_ours(t, cur, lim)) {
    if (cur != inter(original[t], lim) && r == "") {
      tally("foreign", "")
      name = "left, changed by someone else since: " p "/" t " " comm[t] ": " cur ", not " wrote[t]
      order[++reasons] = name
      skips[name] = 1
    }
    known = 0
  }
  orig = known ? original[t] : inherited(p, cur)
  # A record is always put back: where a cpuset hides our mask, the kernel still remembers it.
  back = known || (orig != "" && cur != inter(orig, lim) && cur != norm(orig))
  fresh = orig == ""
  # In a cpuset of its own, a thread with all of it has no affinity: give it none back.
  if (fresh) {
    whole = knows_cpuset(t) && group[t] != "/" && cur == norm(limit[group[t]])
    orig = whole && possible != "" ? possible : cur
  }
  name = p "/" t " " comm[t]
  if (r == "" || how[r] != "move") {
    if (r != "") tally("alone", unit)
    if (!fresh && back) put_back(t, orig, known, cur, lim, name)
    return
  }
  if (int(flags[t] / 67108864) % 2 || (int(flags[t] / 2097152) % 2 && fresh && size[cur] == 1)) {
    tally("alone", unit) # PF_NO_SETAFFINITY, or a kernel thread of one CPU
    return
  }
  want = inter(inter(cpus[r], online), lim)
  why = ""
  if (policy[t] == 6) why = "deadline scheduling takes no affinity"
  else if (want == "" || size[want] < min[r]) {
    why = "needs " min[r] " of CPUs " cpus[r] ", but has " (want == "" ? "none" : "only " want)
    why = why ": online are " online
    if (knows_cpuset(t)) why = why ", its cpuset " clean(place[group[t]]) " has " limit[group[t]]
  }
  if (why != "") {
    skip(why, unit)
    if (!fresh && back) put_back(t, orig, known, cur, lim, name)
    return
  }
  # Where the cpuset cannot be known, what the kernel made of our wish is right.
  if (cur == want || (known && cur == wrote[t] && !knows_cpuset(t) && subset(cur, want) && size[cur] >= min[r])) {
    tally("right", unit)
    if (!fresh) keep_line(t, orig, cur, "-")
    return
  }
  tally("change", unit)
  keep_line(t, orig, want, cur)
  act("set", t, want, min[r], known ? "known" : "fresh", want, name " (" unit "): " cur " -> " want)
}
BEGIN {
  online = norm(ENVIRON["online"])
  possible = norm(ENVIRON["possible"])
  actions = ENVIRON["work"] "/actions"
  next_state = ENVIRON["work"] "/next"
  skipped = ENVIRON["work"] "/skips"
}
what == "cpus" {
  least[$1] = $2
  listed[$1] = $3
}
what == "rules" {
  how[$1] = $2
  cpus[$1] = listed[$3]
  min[$1] = least[$3]
  unit_of[$1] = $5
  if (!($5 in is_unit)) {
    is_unit[$5] = 1
    units[++unit_count] = $5
  }
}
what == "cmdlines" {
  n = split($1, list, ",")
  while (n) by_cmdline[list[n--]] = 1
}
what == "asked" { asked[FNR] = $1 }
what == "hits" {
  n = split($2, list, ",")
  while (n) hit[list[n--], asked[$1]] = 1
}
what == "state" {
  start[$1] = $2
  pid_of[$1] = $3
  original[$1] = $4
  wrote[$1] = norm($5)
  before[$1] = $6
  recorded[$3] = recorded[$3] " " $1
}
what == "matched" {
  process[$1] = $2
  t = $1
  $1 = $2 = ""
  rules[t] = $0
}
what == "limits" && FNR % 2 == 0 { place[looked_at] = $0 }
what == "limits" && FNR % 2 {
  i = index($0, " ")
  looked_at = substr($0, i + 1)
  limit[looked_at] = substr($0, 1, i - 1)
}
what ~ /^(procs|stats|masks|cpusets)$/ {
  i = index($0, ":")
  path = substr($0, 1, i - 1)
  rest = substr($0, i + 1)
  n = split(path, part, "/")
  t = part[3]
  if (what == "masks") {
    sub(/^[^:]*:[ \t]*/, "", rest)
    mask[t] = rest
  } else if (what == "cpusets") {
    sub(/^0::/, "", rest)
    group[t] = rest
  } else if (path in stat) stat[path] = stat[path] "\n" rest # the name holds a newline
  else stat[path] = rest
}
END {
  for (path in stat) {
    n = split(path, part, "/")
    rest = stat[path]
    sub(/.*\) /, "", rest)
    split(rest, field, " ")
    if (n == 2) {
      parent[part[1]] = field[2]
      pstart[part[1]] = field[20]
      continue
    }
    t = part[3]
    process[t] = part[1]
    flags[t] = field[7]
    began[t] = field[20]
    policy[t] = field[39]
    rest = stat[path]
    sub(/^[0-9]+ \(/, "", rest)
    sub(/\) [^)]*$/, "", rest)
    comm[t] = clean(rest)
  }
  for (t in process)
    if ((t in began) && (t in mask)) decide(t)
    else if ((t in rules) && !(t in mask)) {
      r = first_rule(t) # not looked at: no rule that moves can have it
      if (r != "" && how[r] != "move") {
        tally("matched", unit_of[r])
        tally("alone", unit_of[r])
      }
    }
  for (i = 1; i <= reasons; i++)
    print order[i] (skips[order[i]] > 1 ? " (" skips[order[i]] " threads)" : "") > skipped
  for (i = 1; i <= unit_count; i++) {
    u = units[i]
    text = u ": " count[u, "matched"] + 0 " matched, " count[u, "change"] + 0 " to change, "
    text = text count[u, "right"] + 0 " already right, " count[u, "skipped"] + 0 " skipped, "
    print text count[u, "alone"] + 0 " left alone" > (ENVIRON["work"] "/units")
  }
  print total["matched"] + 0, total["right"] + 0, total["skipped"] + 0, total["alone"] + 0, total["foreign"] + 0 > (ENVIRON["work"] "/counts")
}
'

decide() {
  for file in actions next skips units counts; do : >"$work/$file"; done
  awk "$CPUS$DECIDE" what=cpus "$work/cpus" what=rules "$work/rules" \
    what=cmdlines "$work/cmdlines" what=asked "$work/asked" what=hits "$work/hits" what=state "$work/state" what=matched "$work/matched" \
    what=limits "$work/limits" what=procs "$work/procs" what=stats "$work/stats" \
    what=masks "$work/masks" what=cpusets "$work/cpusets" || die "$BROKEN" "awk failed; nothing was changed"
  [ -s "$work/counts" ] || die "$BROKEN" "awk was stopped; nothing was changed"
  sort -k2,2n "$work/actions" >"$work/sorted" && mv -f "$work/sorted" "$work/actions"
  sort "$work/skips" >"$work/sorted" && mv -f "$work/sorted" "$work/skips"
}

# --- Acting -----------------------------------------------------------------------------------------

# True while a thread is the one that was looked at: its id may be another's by now.
is_same() { # TID PID START
  read_start "$PROC/$2/task/$1/stat" && [ "$start" = "$3" ]
}

# 0: set; 1: failed, $text says why; 2: the thread has ended; 3: its cpuset has none of the CPUs.
pin() { # TID PID START CPUS
  is_same "$1" "$2" "$3" || return 2
  taskset -pc "$4" "$1" >/dev/null 2>"$work/error" && return 0
  is_same "$1" "$2" "$3" || return 2
  read_file "$work/error" || text=
  case $text in *"nvalid argument"*) return 3 ;; esac
  return 1
}

# Does work/actions. The originals are on disk before the first thread is touched; afterwards the
# state is what the kernel really has.
act() {
  changed=0 restored=0 failed=0 excluded=0
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
  while read -r verb tid pid born cpus _ _ _ description; do
    [ -z "$STOP" ] || break
    pin "$tid" "$pid" "$born" "$cpus"
    came=$?
    if [ "$came:$verb" = 3:restore ]; then # its cpuset has none of its own CPUs any more: all do the same
      pin "$tid" "$pid" "$born" "${possible:-0-8191}"
      came=$?
    fi
    case $came in
    0)
      printf '%s\n' "$tid done" >>"$work/results"
      if [ "$verb" = set ]; then
        changed=$((changed + 1))
        say "moved $description"
      else
        restored=$((restored + 1))
        say "restored $description"
      fi
      ;;
    2) printf '%s\n' "$tid gone" >>"$work/results" ;;
    *)
      printf '%s\n' "$tid failed" >>"$work/results"
      if [ "$came:$verb" = 3:set ]; then
        excluded=$((excluded + 1))
        printf '%s\n' "skipped, $description: its cpuset has none of these CPUs" >>"$work/skips"
      else
        failed=$((failed + 1))
        warn "could not $verb $description: $text"
      fi
      ;;
    esac
  done <"$work/actions"
  sed 's,^[a-z]* \([0-9]*\) \([0-9]*\) .*,\2/task/\1,' "$work/actions" |
    grep_files status '^Cpus_allowed_list:' >"$work/masks"
  : >"$work/undo"
  awk "$CPUS"'
    what == "masks" {
      split($1, part, "/")
      sub(/^[^:]*:[^:]*:[ \t]*/, "")
      mask[part[3]] = norm($0)
    }
    what == "actions" { verb[$2] = $1; min[$2] = $6; fresh[$2] = $7; want[$2] = $8 }
    what == "results" { result[$1] = $2 }
    what == "next" {
      t = $1
      if (!(t in verb)) { print; next }
      if (!(t in mask) || result[t] == "gone") next
      if (verb[t] == "restore") {
        if (result[t] != "done") print
        next
      }
      if (result[t] == "done") {
        $5 = mask[t]
        $6 = "-"
        if (size[mask[t]] < min[t]) print t, $3, $2, $4, mask[t], want[t] > (ENVIRON["work"] "/undo")
      } else if (fresh[t] == "fresh") next
      else {
        $5 = $6
        $6 = "-"
      }
      print
    }
    END { print "end" }
  ' what=masks "$work/masks" what=actions "$work/actions" what=results "$work/results" \
    what=next "$work/next" >"$work/settled"
  # Cut short by a signal: the state on disk still has every original.
  [ "$(sed -n '$p' "$work/settled")" = end ] || return 0
  sed '$d' "$work/settled" >"$work/final"
  while read -r tid pid born cpus got wanted; do
    pin "$tid" "$pid" "$born" "$cpus" || continue
    changed=$((changed - 1))
    warn "put $pid/$tid back: the kernel allowed only $got of $wanted"
    awk -v tid="$tid" '$1 != tid' "$work/final" >"$work/settled" && mv -f "$work/settled" "$work/final"
  done <"$work/undo"
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
clear_findings
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
