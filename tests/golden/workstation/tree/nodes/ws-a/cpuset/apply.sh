#!/bin/sh
# Bounds the control groups that this policy names: their CPUs and their weights.
# Written by tierc: change the intents and build again rather than this file.
#
# A cpuset binds every thread in a group and below it. So each group gets the CPUs of all rules that
# may have a thread there, and no fewer: the table below says which, and why. Units of systemd are
# set with "systemctl set-property --runtime", everything else in the files of cgroup v2. It moves no
# thread, makes no group, and sets nothing on groups of pods or container runtimes. What was set
# before is recorded first; revert.sh puts it back. On a machine with another CPU layout, or while
# /etc/tierc/disabled exists, it puts back what it changed and applies nothing. Nothing of it
# outlives a reboot. Usage and exit codes: apply.sh --help
#
# Mode fallback: these bounds keep groups in their CPUs; the other scripts place threads in them.
#
# ci.slice: ci; all of tier background
# system.slice/forgejo-runner.service: ci; all of tier background
# web.slice: web; all of tier interactive
# serving.slice: nothing to restrict, it may use every CPU
#
# 72 of the 75 rules tell threads apart by more than their group, which no cpuset can.

set -u

MODE=fallback

# The groups. With fewer than "min" of its CPUs a group is left alone.
#   CPUs    its cpuset; -: every CPU
#   weight  its share beside the groups next to it, 100 is ordinary; idle: only what others leave
#   how     unit: by systemd where that knows it; group: by its files;
#           +lane: others are kept out of its CPUs, by a partition
groups() {
  cat <<'END'
# CPUs      min  weight  how   group
6-15,22-31  1    25      unit  ci.slice
6-15,22-31  1    25      unit  system.slice/forgejo-runner.service
2-5,18-21   2    500     unit  web.slice
END
}

# The machine the plan is for.
PLANNED_SHA256=def3c2d037bafa6a7e1dadf6d666e21284c83bab43735817e5c45cb436aea535
PLANNED='tierc-cpu-2
arch x86_64
online 0-31
core 0,16
core 1,17
core 2,18
core 3,19
core 4,20
core 5,21
core 6,22
core 7,23
core 8,24
core 9,25
core 10,26
core 11,27
core 12,28
core 13,29
core 14,30
core 15,31
llc 0-7,16-23
llc 8-15,24-31'
# Its GPUs and network devices; others are a warning.
PLANNED_DEVICES='tierc-devices-1
gpu 0000:21:00.0
gpu 0000:41:00.0
nic 0000:c1:00.0
nic 0000:c1:00.1'

usage() {
  cat <<'END'
usage: apply.sh [--dry-run] [--watch SECONDS] [--state DIR] [--quiet] [--cgroup-root DIR] [--v1]
       apply.sh --fingerprint | --devices

Gives the control groups that the policy names their CPUs and weights. revert.sh undoes it.

  --dry-run          print what would change, a line a setting; change nothing
  --watch SECONDS    repeat until stopped, telling news only; SIGTERM and SIGINT end it and revert
                     nothing
  --state DIR        where to record what was changed (default /var/lib/tierc/cpuset)
  --quiet            print warnings only
  --cgroup-root DIR  the cgroup tree (default /sys/fs/cgroup); with another one systemd is not asked
  --v1               without cgroup v2, set groups of the v1 cpuset instead of refusing
  --fingerprint      print what identifies this machine's CPUs, and stop
  --devices          print its GPUs and network devices as they are compared, and stop
  --help             print this

While /etc/tierc/disabled exists, everything is put back and nothing is applied. It is looked for
when a run starts, and in each cycle of --watch.

exit codes: 0 done, also when there was nothing to do
            1 some settings could not be made or put back
            2 wrong usage
            3 another CPU layout than planned, or no cgroup v2: put back, nothing applied
            4 another process holds the lock
            5 not root
            6 the state file is not one of ours
            7 a tool is missing, or a directory cannot be read or written
            8 done, but for units that a run on the host set through systemd, which is not here
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
STATE=/var/lib/tierc/cpuset
FORMAT=tierc-cpuset-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some setting could not be set or put back, or lines of the state were damaged
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
  for tool in awk cp find grep id ln mkdir mktemp mv rm rmdir sed sha256sum sleep sort tee tr \
    uname xargs; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: control groups of the system belong to root (--dry-run does not)"
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
# A header with the boot it is of, then a line a setting, fields separated by tabs:
#   NUMBER KIND PATH WHAT ORIGINAL WRITTEN BEFORE
# NUMBER is the order in which they were made. KIND is unit (a property of a systemd unit),
# held (the same, where somebody had set it at run time before), file (below the root of
# cgroup v2) or v1 (below that of the v1 cpuset). A value that is not set is -. BEFORE is
# none, or, while a later change is under way, what we had written before.

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
    split($0, f, "\t") == 7 && f[1] ~ /^[0-9]+$/ && f[2] ~ /^(unit|held|file|v1)$/ &&
      f[3] !~ /^\// && f[3] !~ /(^|\/)\.\.(\/|$)/ &&
      f[4] ~ /^(AllowedCPUs|CPUWeight|cpuset\.cpus(\.partition|\.exclusive)?|cpu\.(weight|idle)|\+cpuset|\+cpu)$/ &&
      f[5] ~ /^[0-9a-z,-]+$/ && f[6] ~ /^[0-9a-z,-]+$/ && f[7] ~ /^[0-9a-z,-]+$/ {
      print > (ENVIRON["work"] "/state")
      next
    }
    { bad++ }
    END { print bad + 0 }' "$STATE/state" >"$work/bad"
  read -r bad <"$work/bad"
  [ "$bad" = 0 ] && return 0
  warn "$bad damaged lines in $STATE/state: their settings cannot be put back"
  [ "$result" != 0 ] || result=$PARTLY
  dirty=1
  [ -n "$DRY" ] || cp -- "$STATE/state" "$STATE/state.damaged"
}

# Puts a file of lines in place of the state, at once or not at all. A power cut needs no care:
# what is set here does not outlive it either.
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

# --- The fingerprint: is this the machine the plan was made for? --------------------------------

# shellcheck disable=SC2016 # awk's own $
FINGERPRINT='
function value(cpu, name) { return ((cpu, name) in file) ? file[cpu, name] : "?" }
function is_number(text, most) {
  return text ~ /^[0-9]+$/ && text !~ /^0./ && length(text) < 10 && text + 0 < most
}
# A list as the kernel writes them (0-3,8 or 0-31:2/4), in the form of norm(); "?" if it is none.
function list_of(text,   parts, ends, steps, n, i, k, first, last, used, every, out) {
  if (text in lists) return lists[text]
  lists[text] = "?"
  out = ""
  n = (text == "(null)") ? 0 : split(text, parts, ",")
  for (i = 1; i <= n; i++) {
    sub(/^[ \t]+/, "", parts[i])
    sub(/[ \t]+$/, "", parts[i])
    used = every = 1
    if (index(parts[i], ":")) {
      if (split(parts[i], steps, ":") != 2 || split(steps[2], ends, "/") != 2) return "?"
      used = ends[1]
      every = ends[2]
      parts[i] = steps[1]
      if (!is_number(used, 1e9) || !is_number(every, 1e9)) return "?"
      if (every + 0 < 1 || used + 0 > every + 0 || !index(parts[i], "-")) return "?"
    }
    k = split(parts[i], ends, "-")
    if (k < 1 || k > 2 || !is_number(ends[1], 8192) || !is_number(ends[k], 8192)) return "?"
    first = ends[1] + 0
    last = ends[k] + 0
    if (last < first) return "?"
    if (used == every) out = out "," first "-" last
    else if (used + 0)
      for (; first <= last; first += every) {
        k = first + used - 1
        out = out "," first "-" (k < last ? k : last)
      }
  }
  return lists[text] = norm(substr(out, 2))
}
# A mask: 32-bit words in hexadecimal, the most significant first.
function mask_of(text,   words, n, i, k, bit, cpu, out) {
  out = ""
  n = split(text, words, ",")
  if (!n) return "?"
  for (i = n; i > 0; i--) {
    if (words[i] !~ /^[0-9a-fA-F]+$/ || length(words[i]) > 8) return "?"
    if (words[i] ~ /^0+$/) continue
    cpu = (n - i) * 32
    for (k = length(words[i]); k > 0; k--) {
      bit = index("0123456789abcdef", tolower(substr(words[i], k, 1))) - 1
      if (bit % 2) out = out "," cpu
      if (int(bit / 2) % 2) out = out "," cpu + 1
      if (int(bit / 4) % 2) out = out "," cpu + 2
      if (bit > 7) out = out "," cpu + 3
      cpu += 4
    }
  }
  return norm(substr(out, 2))
}
function cpus_of(cpu, name, mask,   list) {
  list = ((cpu, name) in file) ? list_of(file[cpu, name]) : "?"
  if (list == "?" && ((cpu, mask) in file)) list = mask_of(file[cpu, mask])
  return list
}
function has_cpu(list, cpu) {
  load(list)
  return (list, cpu) in has
}
function put(word, list) { print word, list + 0, list | order }
{
  i = index($0, ":")
  path = substr($0, 1, i - 1)
  text = substr($0, i + 1)
  if (path in read) next # some old kernels end with a NUL behind the newline
  read[path] = 1
  sub(/^[ \t\r]+/, "", text)
  sub(/[ \t\r]+$/, "", text)
  if (path == "online") online = list_of(text)
  if (path !~ /^cpu[0-9]+\//) next
  cpu = substr(path, 4) + 0
  sub(/^cpu[0-9]+\//, "", path)
  file[cpu, path] = text
  if (path ~ /^cache\/index[0-9]+\/level$/) {
    sub(/^cache\/index/, "", path)
    if (path + 0 > indexes) indexes = path + 0
  } else if (path == "topology/") topology = topology (topology == "" ? "" : ",") cpu
  else if (path == "") there[cpu] = 1
}
END {
  order = "sort -k1,1 -k2,2n | sed \"s/ .* / /\""
  if (online == "?") online = ""
  if (online == "") online = norm(topology)
  if (online == "") { # nothing but directories: those that do not say that they are offline
    for (cpu in there)
      if (value(cpu, "online") ~ /^[?1]$/) online = online (online == "" ? "" : ",") cpu
    online = norm(online)
  }
  printf "%s\narch %s\nonline %s\n", ENVIRON["format"], ENVIRON["arch"], online
  fflush()
  # CPUs that name the same set make a core or a cache; of one that names others nobody is sure.
  for (cpu = 0; cpu <= top[online]; cpu++) {
    if (!has_cpu(online, cpu)) continue
    list = cpus_of(cpu, "topology/core_cpus_list", "topology/core_cpus")
    if (list == "?") list = cpus_of(cpu, "topology/thread_siblings_list", "topology/thread_siblings")
    if (list == "?" || !has_cpu(list, cpu)) list = cpu
    list = inter(list, online)
    core[list] = core[list] (core[list] == "" ? "" : ",") cpu
    best = 0
    for (i = 0; i <= indexes; i++) {
      level = value(cpu, "cache/index" i "/level")
      kind = value(cpu, "cache/index" i "/type")
      if (level !~ /^[1-5]$/ || kind !~ /^(Unified|Data)$/) continue
      rank = level * 2 + (kind == "Unified")
      if (rank >= best) {
        best = rank
        last = "cache/index" i
      }
    }
    if (!best) continue
    list = cpus_of(cpu, last "/shared_cpu_list", last "/shared_cpu_map")
    if (list == "?" || !has_cpu(list, cpu)) continue
    list = int(best / 2) " " inter(list, online)
    cache[list] = cache[list] (cache[list] == "" ? "" : ",") cpu
    caches = 1
  }
  for (list in core) put("core", norm(core[list]))
  for (list in cache) put("llc", norm(cache[list]))
  close(order)
  if (!caches) print "llc ?"
}
'

# Sets $live to the text whose SHA-256 the plan holds, from what sysfs says now. What the plan does
# not know (?) is not looked at, so that it cannot differ.
read_machine() {
  arch=${TIERC_ARCH:-$(uname -m)}
  case $PLANNED in *"${NL}arch ?$NL"*) arch='?' ;; esac
  format=${PLANNED%%"$NL"*}
  export arch format
  live=$(
    cd "$SYS/devices/system/cpu" 2>/dev/null || exit
    set -- topology/core_cpus_list topology/core_cpus \
      topology/thread_siblings_list topology/thread_siblings
    case $PLANNED in
    *"${NL}llc ?") ;;
    *)
      set -- "$@" 'cache/index[0-9]*/level' 'cache/index[0-9]*/type' \
        'cache/index[0-9]*/shared_cpu_list' 'cache/index[0-9]*/shared_cpu_map'
      ;;
    esac
    listed=
    { IFS= read -r listed <./online; } 2>/dev/null
    {
      case $listed in
      [0-9]*) ;;
      *)
        set -- "$@" online
        printf '%s/:\n' cpu[0-9]* cpu[0-9]*/topology
        ;;
      esac
      for name; do
        # shellcheck disable=SC2086 # the patterns of indexes have to be expanded
        printf '%s\n' cpu[0-9]*/$name
      done | grep -v '\[' | xargs grep -aHs '' online /dev/null | tr -d '\000'
    } | awk "$CPUS$FINGERPRINT"
  )
  online=${live#*"${NL}online "}
  online=${online%%"$NL"*}
  export online
  [ -n "$online" ] || die "$BROKEN" "no CPUs in $SYS/devices/system/cpu"
}

# True when every live core and cache is the planned one, less the CPUs that are offline now.
is_subset() {
  printf '%s\n%s\n' "$PLANNED" "$live" | awk "$CPUS"'
    /^tierc-/ { part++; next }
    $1 == "arch" { arch[part] = $2; next }
    $1 == "online" { on[part] = $2; next }
    { line[part, ++lines[part]] = $0 }
    END {
      if (arch[1] != arch[2] || inter(on[1], on[2]) != on[2]) exit 1
      for (i = 1; i <= lines[1]; i++) {
        split(line[1, i], word, " ")
        cut = word[2] == "?" ? "?" : inter(word[2], on[2])
        if (cut != "") want[word[1] " " cut] = 1
      }
      for (i = 1; i <= lines[2]; i++) {
        if (line[2, i] == "llc ?" && !("llc ?" in want)) continue # a planned one is missed below
        if (!(line[2, i] in want)) exit 1
        delete want[line[2, i]]
      }
      for (i in want) exit 1
    }'
}

# True when the plan may be applied here.
is_planned_machine() {
  read_machine
  hash=$(printf '%s\n' "$live" | sha256sum)
  [ "${hash%% *}" = "$PLANNED_SHA256" ] || is_subset
}

# Sets $live_devices to the text of the GPUs and network devices, from what sysfs says now. What the
# plan does not know (?) is not looked for. A virtual function has a link to its physical one.
read_devices() {
  live_devices=$(
    {
      cd "$SYS/bus/pci/devices" 2>/dev/null && {
        printf 'vf %s\n' */physfn
        printf 'net %s\n' */net/* */infiniband/*
        printf '%s\n' */class */vendor */device | grep -v '\*' | xargs grep -aHs '' /dev/null | tr -d '\000'
      }
    } | planned=$PLANNED_DEVICES awk '
      function digits(text) {
        text = tolower(text)
        sub(/^[ \t]*(0x)?0*/, "", text)
        sub(/[ \t\r]+$/, "", text)
        return text ~ /^[0-9a-f]*$/ ? text : "?"
      }
      function put(word, bdf,   domain) {
        if (bdf !~ /^[0-9a-f][0-9a-f][0-9a-f][0-9a-f]+:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f]\.[0-7]$/) return
        domain = substr(bdf, 1, index(bdf, ":") - 1)
        while (length(domain) < 8) domain = "0" domain
        print word, domain substr(bdf, index(bdf, ":")), bdf | order
      }
      /^vf / { sub(/^vf /, ""); sub(/\/.*/, ""); vf[$0] = 1; next }
      /^net / { sub(/^net /, ""); sub(/\/.*/, ""); net[$0] = 1; next }
      {
        i = index($0, "/")
        bdf = substr($0, 1, i - 1)
        text = substr($0, i + 1)
        i = index(text, ":")
        what = substr(text, 1, i - 1)
        if (!((bdf, what) in id)) id[bdf, what] = digits(substr(text, i + 1))
        if (what == "class") all[bdf] = 1
      }
      END {
        n = split(ENVIRON["planned"], line, "\n")
        for (i = 1; i <= n; i++) known[line[i]] = 1
        print n ? line[1] : "tierc-devices-1"
        fflush()
        order = "sort -k1,1 -k2,2 | sed \"s/ .* / /\""
        for (bdf in all) {
          if (bdf in vf || !((bdf, "vendor") in id)) continue
          class = id[bdf, "class"]
          class = substr(class, 1, length(class) - 4)
          vendor = id[bdf, "vendor"]
          # display controllers, and accelerators: those of Intel are no GPUs, and neither are the
          # Rage XL and ES1000 that boards have for their management
          gpu = class == "3" && vendor ~ /^(10de|1002|8086)$/
          if (vendor == "1002" && id[bdf, "device"] ~ /^(4752|515e|5969)$/) gpu = 0
          if (class == "12" && vendor ~ /^(10de|1002)$/) gpu = 1
          if (gpu) {
            if (!("gpu ?" in known)) put("gpu", bdf)
          } else if ((class == "2" || bdf in net) && !("nic ?" in known)) put("nic", bdf)
        }
        if ("gpu ?" in known) print "gpu", 0, "?" | order
        if ("nic ?" in known) print "nic", 0, "?" | order
        close(order)
      }'
  )
}

# Prints the lines of two texts ($1 and $2) that are in one of them only, five of each and then
# "...", with a word before: $3 where the first has them, $4 where the second has.
differences() {
  printf '%s\n%s\n' "$1" "$2" | awk -v first="$3" -v second="$4" '
    /^tierc-/ { part++ }
    { line[part, ++lines[part]] = $0; in_part[part, $0] = 1 }
    END {
      for (p = 1; p <= 2; p++)
        for (i = 1; i <= lines[p]; i++) {
          if ((3 - p, line[p, i]) in in_part) continue
          if (++n[p] == 6) print "  ..."
          if (n[p] < 6) print "  " (p == 1 ? first : second) line[p, i]
        }
    }'
}

# Warns where other devices are here than the plan was made for. They are no reason not to apply it.
check_devices() {
  [ -n "$PLANNED_DEVICES" ] || return 0
  read_devices
  [ "$live_devices" = "$PLANNED_DEVICES" ] ||
    warn_once "the devices of this machine are not those of the plan, which is applied all the same;\
 collect the facts again and build anew:$NL$(
      differences "$PLANNED_DEVICES" "$live_devices" "gone: " "new:  "
    )"
}

AWAY=8  # what was set through systemd is still set, and systemd is not here
KEEPS=1 # what could be put back in part only stays in the record

# --- Settings: read, written, recorded, put back ------------------------------------------------
#
# A setting is KIND PATH WHAT. KIND says where it lives: unit (a property of the systemd unit that
# PATH ends in), file (of cgroup v2) or v1 (of the v1 cpuset). A value that is not set is -.

TAB=$(printf '\t')
RUN=${TIERC_RUN:-/run}
UNITS=${TIERC_UNITS:-/etc/systemd/system}

# Sets $list to the CPUs that are in both of two lists, in the kernel's form, and $count to how many.
common() {
  found=$(awk "$CPUS"'BEGIN { both_of = inter(ARGV[1], ARGV[2]); print size[both_of] + 0, both_of }' "$1" "$2" </dev/null)
  # shellcheck disable=SC2034 # read by apply.sh
  count=${found%% *}
  list=${found#* }
}

# Sets $possible to every CPU that this kernel could have.
read_possible() {
  possible=
  { IFS= read -r possible <"$SYS/devices/system/cpu/possible"; } 2>/dev/null
  [ -n "$possible" ] || possible=${online:-0-8191}
}

# True where systemd can be asked: not in a container.
has_systemd() { [ -d "$RUN/systemd/system" ] && command -v systemctl >/dev/null 2>&1; }

# Sets $unit to the name of a group's unit: systemd puts a _ before names that the kernel might take.
unit_of() {
  unit=${1##*/}
  unit=${unit#_}
}

# Sets $value to a line of a file; false if it cannot be read.
first_line() {
  value=
  { IFS= read -r value || [ -n "$value" ]; } 2>/dev/null <"$1"
}

# Sets $file to the file that holds a setting.
file_of() { # KIND PATH WHAT
  case $1 in v1) file=$CGROUP/cpuset/$2 ;; *) file=$CGROUP/$2 ;; esac
  case $3 in +*) file=$file/cgroup.subtree_control ;; *) file=$file/$3 ;; esac
}

# Sets $value; false where there is no such setting.
value_of() { # KIND PATH WHAT
  case $1 in
  unit | held)
    unit_of "$2"
    value=$(systemctl show -p "$3" -- "$unit" 2>/dev/null) || return 1
    value=${value#*=}
    ;;
  *)
    file_of "$1" "$2" "$3"
    [ -e "$file" ] || return 1
    first_line "$file" || value=
    ;;
  esac
  case $3:$value in
  AllowedCPUs:*)
    value=$(printf '%s\n' "$value" | tr -s ' ' ',')
    common "$value" "$value"
    value=$list
    ;;
  cpuset.cpus:* | cpuset.cpus.exclusive:*)
    common "$value" "$value"
    value=$list
    ;;
  cpuset.cpus.partition:*' invalid'*)
    # shellcheck disable=SC2034 # read by apply.sh
    reason=${value#*invalid}
    value=${value%% *}-invalid
    ;;
  CPUWeight:0) value=idle ;;
  CPUWeight:'[not set]' | CPUWeight:18446744073709551615) value= ;;
  +*)
    case " $value " in *" ${3#+} "*) value=on ;; *) value=off ;; esac
    ;;
  esac
  value=${value:--}
}

# Writes a value. What came of it, only reading it again can tell; $text is what was said.
# tee rather than the shell: it tells the kernel's reason.
put_value() { # KIND PATH WHAT VALUE
  new=$4
  [ "$new" != - ] || new=
  case $1 in
  unit | held)
    unit_of "$2"
    systemctl set-property --runtime -- "$unit" "$3=$new" >"$work/error" 2>&1
    ;;
  *)
    file_of "$1" "$2" "$3"
    case $3:$new in
    +*:on) new=$3 ;;
    +*:off) new=-${3#+} ;;
    esac
    printf '%s\n' "$new" | tee -- "$file" >/dev/null 2>"$work/error"
    ;;
  esac
  read_file "$work/error" || text=
  text=${text:-no reason is given}
}

# Takes a setting out of the record.
forget_line() { # KIND PATH WHAT
  awk -F '\t' -v kind="$1" 'BEGIN { path = ARGV[2]; what = ARGV[3]; ARGV[2] = ARGV[3] = "" }
    !(($2 == kind || (kind == "unit" && $2 == "held")) && $3 == path && $4 == what)
  ' "$work/state" "$2" "$3" >"$work/less" && mv -f -- "$work/less" "$work/state"
}

forget() {
  forget_line "$@"
  [ -n "$DRY" ] || store_state "$work/state"
}

# A name for messages.
title() { # KIND PATH WHAT
  title=$2
  [ "$2" != . ] || title="the root of the tree"
  case $3 in +*) title="$title: controller ${3#+}" ;; *) title="$title: $3" ;; esac
}

# Puts back what a line of the record says, if it still is what we wrote.
put_back() { # KIND PATH WHAT ORIGINAL WRITTEN BEFORE
  note=
  title "$1" "$2" "$3"
  if ! value_of "$1" "$2" "$3"; then
    case $1 in
    unit | held)
      if has_systemd; then
        failed=$((failed + 1))
        warn_once "could not restore $title: systemctl does not answer"
      else
        away=$((away + 1))
      fi
      ;;
    *) forget "$1" "$2" "$3" ;; # the group is gone, and with it what was set
    esac
    return 0
  fi
  if [ "$value" = "$4" ]; then
    drop_runtime "$1" "$2" "$3" "$4"
    forget "$1" "$2" "$3"
    return 0
  fi
  narrow=
  case $3:$4 in
  cpuset.cpus:* | AllowedCPUs:-)
    widest "$2" "$4"
    # It was put back in part before, and what held it back still does.
    if [ -n "$KEEPS" ] && [ "$3:$value" = "cpuset.cpus:$5" ] && [ "$narrow:$wide" = "1:$5" ]; then
      return 0
    fi
    ;;
  esac
  if [ "$value" != "$5" ] && [ "$value" != "$6" ] && [ "$3:$value" != "cpuset.cpus.partition:$5-invalid" ]; then
    foreign=$((foreign + 1))
    warn_once "left as it is: $title is now $value, not what was written ($5)"
    forget "$1" "$2" "$3"
    return 0
  fi
  case $3 in
  +*)
    # In a dry run the groups below still have what would be taken from them.
    if [ -z "$DRY" ] && in_use "$1" "$2" "$3"; then
      warn_once "left as it is: $title, which others use"
      forget "$1" "$2" "$3"
      return 0
    fi
    ;;
  esac
  if [ -n "$DRY" ]; then
    restored=$((restored + 1))
    tell "would restore $title: $5 -> $4"
    return 0
  fi
  case $3:$4 in
  AllowedCPUs:-) widen_unit "$1" "$2" ;;
  cpuset.cpus:-) widen_file "$1" "$2" ;;
  cpuset.cpus:*)
    note=${narrow:+ (those outside the partitions beside it)}
    if [ -n "$wide" ]; then
      put_value "$1" "$2" "$3" "$wide"
      value_of "$1" "$2" "$3" || value=
    else
      text="they are those of a partition beside it"
    fi
    [ "$value" = "$wide" ]
    ;;
  *)
    put_value "$1" "$2" "$3" "$4"
    value_of "$1" "$2" "$3" || value=
    [ "$value" = "$4" ]
    ;;
  esac || {
    failed=$((failed + 1))
    warn_once "could not restore $title to $4: $text"
    return 0
  }
  drop_runtime "$1" "$2" "$3" "$4"
  restored=$((restored + 1))
  say "restored $title: $5 -> $4$note"
  forget "$1" "$2" "$3"
  # The rest follows when these partitions are gone.
  [ -z "$KEEPS" ] || [ -z "$narrow" ] || [ -z "$note" ] || remember file "$2" cpuset.cpus "$4" "$wide" none
}

# To take AllowedCPUs from a unit leaves its group as it is: the kernel empties no cpuset with
# processes in it, and some versions of systemd do not even ask. So it gets every CPU first.
widen_unit() { # KIND PATH
  note=${narrow:+ (every CPU outside the partitions beside it)}
  put_value "$1" "$2" AllowedCPUs "$wide"
  put_value "$1" "$2" AllowedCPUs -
  value_of "$1" "$2" AllowedCPUs || value=
  [ "$value" = - ] || return 1
  is_unbound "$2" || widen_file file "$2"
}

# An empty cpuset follows the group above. Where the kernel does not take it back, every CPU does
# the same: the kernel cuts it to what the group above has.
widen_file() { # KIND PATH
  note=
  put_value "$1" "$2" cpuset.cpus -
  value_of "$1" "$2" cpuset.cpus || return 0
  [ "$value" != - ] || return 0
  put_value "$1" "$2" cpuset.cpus "$wide"
  value_of "$1" "$2" cpuset.cpus || return 0
  note=" (every CPU${narrow:+ outside the partitions beside it}: the kernel empties no cpuset that has processes)"
  [ "$value" = "$wide" ]
}

# Sets $wide to CPUs, - for all, but those of partitions beside a group, and $narrow if there are such.
# A cpuset with one of their CPUs would end them.
widest() { # PATH CPUS
  all=$2
  [ "$all" != - ] || all=$possible
  case $1 in */*) above=${1%/*} ;; *) above=. ;; esac
  held=$value
  taken=
  for beside in "$CGROUP/$above"/*/; do
    [ "$beside" != "$CGROUP/$above/${1##*/}/" ] || continue
    first_line "${beside}cpuset.cpus.partition" || continue
    case $value in root | isolated) ;; *) continue ;; esac
    if ! first_line "${beside}cpuset.cpus.exclusive" || [ -z "$value" ]; then
      first_line "${beside}cpuset.cpus" || continue
    fi
    taken=$taken${taken:+,}$value
  done
  wide=$(awk "$CPUS"'BEGIN {
    load(ARGV[1])
    load(ARGV[2])
    for (cpu = 0; cpu <= top[ARGV[1]]; cpu++)
      if (((ARGV[1], cpu) in has) && !((ARGV[2], cpu) in has)) left = left (left == "" ? "" : ",") cpu
    print norm(left)
  }' "$all" "$taken" </dev/null)
  common "$all" "$all"
  [ "$wide" = "$list" ] || narrow=1
  value=$held
}

# True when a group has all CPUs of the group above, or is not there.
is_unbound() { # PATH
  case $1 in */*) above=${1%/*} ;; *) above=. ;; esac
  first_line "$CGROUP/$1/cpuset.cpus.effective" || return 0
  mine=$value
  first_line "$CGROUP/$above/cpuset.cpus.effective" || return 0
  [ "$value" = "$mine" ]
}

# systemctl keeps what it set at run time in a file. With the original in force again that file is
# only in the way of the administrator's own: it is removed, if it was not there before.
drop_runtime() { # KIND PATH WHAT ORIGINAL
  [ "$1" = unit ] && [ -z "$DRY" ] || return 0
  unit_of "$2"
  if [ -e "$UNITS/$unit.d/50-tierc.conf" ]; then
    warn_once "$UNITS/$unit.d/50-tierc.conf would set it again: remove it too"
    return 0
  fi
  rm -f -- "$RUN/systemd/system.control/$unit.d/50-$3.conf"
  rmdir -- "$RUN/systemd/system.control/$unit.d" 2>/dev/null
  return 0
}

# True when a controller that we turned on for the groups below PATH is used by one of them.
in_use() { # KIND PATH WHAT
  for child in "$CGROUP/$2"/*/; do
    case $3 in
    +cpuset)
      if first_line "${child}cpuset.mems" && [ -n "$value" ]; then return 0; fi
      if first_line "${child}cpuset.cpus" && [ -n "$value" ]; then
        common "$value" "$possible"
        first=$list
        common "$possible" "$possible"
        [ "$first" = "$list" ] || return 0
      fi
      ;;
    *)
      ! first_line "${child}cpu.weight" || [ "$value" = 100 ] || return 0
      ! first_line "${child}cpu.max" || [ "${value%% *}" = max ] || return 0
      ;;
    esac
  done
  return 1
}

# Says what has to be done elsewhere, and keeps the record of it.
tell_away() {
  [ "$away" = 0 ] || warn_once "not put back, settings of units that a run on the host made through systemd: $away;\
 it is not here, as in a pod: run revert.sh on the host, or start that again"
}

# Puts back every recorded setting that is not in work/wanted: partitions, which hold cpusets back,
# and then the last one first.
release_others() {
  sort -rn "$work/state" | awk -F '\t' '$4 == "cpuset.cpus.partition" { print; next }
    { rest = rest $0 "\n" }
    END { printf "%s", rest }' >"$work/lines"
  while IFS=$TAB read -r _ kind path what original written earlier <&3; do
    [ -z "$STOP" ] || break
    plain=$kind
    [ "$plain" != held ] || plain=unit
    grep -Fqx -e "$plain$TAB$path$TAB$what" "$work/wanted" || put_back "$kind" "$path" "$what" "$original" "$written" "$earlier"
  done 3<"$work/lines"
}

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

# --- Groups: what is wanted of each -------------------------------------------------------------

# Sets $tree to the kind of control groups of this machine, as far as this script may use them;
# false with $why where it may not. In a hybrid tree the cpuset is that of v1.
find_tree() {
  SYSTEMD=
  if [ -f "$CGROUP/cgroup.controllers" ]; then
    tree=v2
    [ -n "$OTHER_ROOT" ] || ! has_systemd || SYSTEMD=1
    first_line "$CGROUP/cgroup.controllers" || value=
    case " $value " in *' cpuset '*) return 0 ;; esac
    why="the kernel offers no cpuset controller in $CGROUP"
    return 1
  fi
  if [ -z "$V1" ]; then
    why="$CGROUP is no cgroup v2 tree (v1 or hybrid); use taskset, or --v1 for groups of the v1 cpuset"
    return 1
  fi
  tree=v1
  [ -f "$CGROUP/cpuset/cpuset.cpus" ] && return 0
  why="there is no cpuset of cgroup v1 in $CGROUP/cpuset"
  return 1
}

# Sets $limit to the CPUs that the group above leaves to a group, beside those of partitions at and
# below it: these are taken from the group above.
limit_of() { # PATH
  limit=$online
  above=$1
  while :; do
    case $above in */*) above=${above%/*} ;; .) break ;; *) above=. ;; esac
    if [ "$tree" = v1 ]; then
      first_line "$CGROUP/cpuset/$above/cpuset.effective_cpus" ||
        first_line "$CGROUP/cpuset/$above/cpuset.cpus" || continue
    else
      first_line "$CGROUP/$above/cpuset.cpus.effective" || continue
    fi
    [ -n "$value" ] || continue
    limit=$value
    break
  done
  if [ "$tree" = v2 ] && [ -d "$CGROUP/$1" ]; then
    find "$CGROUP/$1" -name cpuset.cpus.partition -exec grep -lx root {} \; 2>/dev/null >"$work/partitions"
    while IFS= read -r taken; do
      ! first_line "${taken%.partition}.effective" || limit=$limit,$value
    done <"$work/partitions"
  fi
  common "$limit" "$online"
  limit=$list
}

# Counts a setting that stays as it was, with the reason. What was set before is put back.
skip() { # GROUP REASON
  skipped=$((skipped + 1))
  warn_once "skipped, $1: $2"
}

# Makes a setting what is wanted. False when it could not; $value is what it is.
settle() { # KIND PATH WHAT VALUE
  printf '%s\n' "$1$TAB$2$TAB$3" >>"$work/wanted"
  title "$1" "$2" "$3"
  value_of "$1" "$2" "$3" || {
    value=
    text="there is no such setting"
    return 1
  }
  if [ "$value" = "$4" ]; then
    right=$((right + 1))
    if [ -z "$DRY" ] && [ "$1" = unit ] && ! recorded "$1" "$2" "$3"; then
      unit_of "$2"
      # A drop-in of ours that was copied there: to take it away does not reset the unit.
      [ ! -e "$UNITS/$unit.d/50-tierc.conf" ] || remember "$1" "$2" "$3" - "$4" none
    fi
    return 0
  fi
  if [ -n "$DRY" ]; then
    would_set "$title: $value -> $4"
    return 0
  fi
  before=$value
  origin=$before
  ours=none
  if recorded "$1" "$2" "$3"; then
    case $before in "$written" | "$earlier") origin=$original ours=$before ;; esac
  fi
  remember "$1" "$2" "$3" "$origin" "$4" "$ours"
  put_value "$1" "$2" "$3" "$4"
  value_of "$1" "$2" "$3" || value=
  if [ "$value" = "$4" ]; then
    [ "$ours" = none ] || remember "$1" "$2" "$3" "$origin" "$4" none
    changed=$((changed + 1))
    say "set $title: $before -> $4"
    return 0
  fi
  if [ "$value" = "$origin" ]; then forget "$1" "$2" "$3"; else remember "$1" "$2" "$3" "$origin" "${value:--}" none; fi
  return 1
}

# Several groups may want the same of one above them: a dry run counts it once.
would_set() {
  grep -Fqx -e "would set $1" "$work/telling" && return 0
  changed=$((changed + 1))
  tell "would set $1"
}

failed_to() { # WHAT
  failed=$((failed + 1))
  warn_once "could not set $title to $1: $text"
}

# True when a group has a controller to hand down. In a dry run only the root can tell.
offers() { # PATH CONTROLLER
  [ -z "$DRY" ] || [ "$1" = . ] || return 0
  first_line "$CGROUP/$1/cgroup.controllers" || value=
  case " $value " in *" $2 "*) return 0 ;; esac
  return 1
}

# Turns a controller on for the groups down to PATH. Where a group on the way has processes of its
# own the kernel refuses, and nothing is tried.
turn_on() { # PATH CONTROLLER
  parent=.
  rest=$1
  while :; do
    value_of file "$parent" "+$2" || value=
    case $value in
    on) printf '%s\n' "file$TAB$parent$TAB+$2" >>"$work/wanted" ;; # it stays, if it is ours
    off)
      if ! offers "$parent" "$2"; then
        skip "$1" "the groups above it do not have the controller $2"
        return 1
      fi
      if [ "$parent" != . ] && first_line "$CGROUP/$parent/cgroup.procs"; then
        skip "$1" "$parent has processes of its own, so that the groups in it get no controller $2"
        return 1
      fi
      settle file "$parent" "+$2" on || {
        failed_to on
        return 1
      }
      ;;
    esac
    case $rest in */*) ;; *) return 0 ;; esac
    if [ "$parent" = . ]; then parent=${rest%%/*}; else parent=$parent/${rest%%/*}; fi
    rest=${rest#*/}
  done
}

# Sets $kind to how a group is set: unit, file or v1; false where it is not there.
find_group() { # PATH HOW
  if [ "$tree" = v1 ]; then
    kind=v1
    [ -d "$CGROUP/cpuset/$1" ]
    return
  fi
  kind='file'
  case $2 in unit*) ;; *)
    [ -d "$CGROUP/$1" ]
    return
    ;;
  esac
  if [ -n "$SYSTEMD" ]; then
    unit_of "$1"
    shown=$(systemctl show -p LoadState -p ControlGroup -- "$unit" 2>/dev/null) || shown=
    case $NL$shown$NL in
    *"${NL}LoadState=loaded$NL"*)
      kind=unit
      place=${shown#*ControlGroup=}
      place=${place%%"$NL"*}
      case $place in
      '' | "/$1") return 0 ;; # one that does not run has no group yet
      esac
      skip "$1" "the unit $unit is in $place"
      return 1
      ;;
    esac
  fi
  [ -d "$CGROUP/$1" ]
}

# Gives a group what its line of groups says.
group() { # CPUS MIN WEIGHT HOW PATH
  known=$skipped
  if ! find_group "$5" "$4"; then
    [ "$known" != "$skipped" ] || absent=$((absent + 1))
    return 0
  fi
  # The variables of the callees are global: what is needed after a call is kept here.
  how=$kind
  if [ "$1" != - ]; then
    limit_of "$5"
    common "$1" "$limit"
    cpus=$list
    if [ "$count" -lt "$2" ]; then
      skip "$5" "needs $2 of CPUs $1, but the group above has $limit"
    else
      case $4 in *+lane) dissolve "$5" ;; esac
      if bound "$5" "$2"; then
        case $4 in *+lane) partition "$5" ;; esac
      fi
    fi
  fi
  [ "$3" = - ] || [ "$how" = v1 ] || weigh "$5" "$3"
}

# Sets the cpuset of a group to $cpus. False when it has not got them.
bound() { # PATH MIN
  case $how in
  unit) what=AllowedCPUs ;;
  v1)
    what=cpuset.cpus
    first_line "$CGROUP/cpuset/$1/cpuset.mems" || value=
    if [ -z "$value" ]; then
      skip "$1" "cpuset.mems is empty, so that it can have no processes"
      return 1
    fi
    ;;
  *)
    what=cpuset.cpus
    turn_on "$1" cpuset || return 1
    if [ -n "$DRY" ] && [ ! -e "$CGROUP/$1/cpuset.cpus" ]; then
      would_set "$1: cpuset.cpus: - -> $cpus"
      return 0
    fi
    ;;
  esac
  settle "$how" "$1" "$what" "$cpus" || {
    failed_to "$cpus"
    return 1
  }
  if [ -n "$DRY" ] || [ "$how" = v1 ]; then return 0; fi
  first_line "$CGROUP/$1/cpuset.cpus.effective" || return 0
  effective=$value
  common "$effective" "$cpus"
  if [ "$count" -ge "$2" ] && [ "$list" = "$effective" ]; then return 0; fi
  failed=$((failed + 1))
  warn_once "$1 has CPUs $effective instead of $cpus: something else sets it, or cuts it"
  return 1
}

weigh() { # PATH WEIGHT
  if [ "$how" = unit ]; then
    settle unit "$1" CPUWeight "$2" && return 0
    if [ "$2" = idle ]; then # before systemd 252
      settle unit "$1" CPUWeight 1 && return 0
    fi
    failed_to "$2"
    return 0
  fi
  turn_on "$1" cpu || return 0
  if [ ! -e "$CGROUP/$1/cpu.weight" ]; then
    [ -n "$DRY" ] || return 0
    would_set "$1: cpu.weight: - -> $2"
    return 0
  fi
  if [ "$2" = idle ]; then
    if [ -e "$CGROUP/$1/cpu.idle" ]; then # Linux 5.15
      # A group that is idle has no weight that could be put back.
      ! recorded file "$1" cpu.weight || put_back file "$1" cpu.weight "$original" "$written" "$earlier"
      settle file "$1" cpu.idle 1 || failed_to 1
      return 0
    fi
    settle file "$1" cpu.weight 1 || failed_to 1
    return 0
  fi
  if first_line "$CGROUP/$1/cpu.idle" && [ "$value" != 0 ]; then
    settle file "$1" cpu.idle 0 || {
      failed_to 0
      return 0
    }
  fi
  settle file "$1" cpu.weight "$2" || failed_to "$2"
}

# --- Partitions: keeping others out of the CPUs of a lane ----------------------------------------

put_value_quietly() { # KIND PATH WHAT VALUE
  was=$text
  put_value "$@"
  text=$was
}

# Keeps everyone else out of the CPUs of a group: they become a partition of their own. The kernel
# takes that or not; what it made of it is read back. Not "isolated": that would also switch off
# load balancing between the group's own CPUs, and its threads would pile up on one.
partition() { # PATH
  if [ ! -e "$CGROUP/$1/cpuset.cpus.partition" ]; then
    if [ -n "$DRY" ] || [ ! -d "$CGROUP/$1" ]; then return 0; fi
    skip "$1" "others are not kept out: the kernel has no partition for it"
    return 0
  fi
  case $1 in
  */*)
    if [ ! -e "$CGROUP/$1/cpuset.cpus.exclusive" ]; then
      skip "$1" "others are not kept out: a partition below ${1%/*} needs cpuset.cpus.exclusive (Linux 6.7)"
      return 0
    fi
    settle_exclusive "$1" || return 0
    ;;
  esac
  value_of file "$1" cpuset.cpus.partition || value=
  case $value in
  isolated*)
    skip "$1" "it is a partition of somebody else's: $value"
    return 0
    ;;
  esac
  reason=
  settle file "$1" cpuset.cpus.partition root && return 0
  case $value in *-invalid) text="invalid${reason}" ;; esac
  put_value_quietly file "$1" cpuset.cpus.partition member
  if value_of file "$1" cpuset.cpus.partition && [ "$value" = member ]; then
    forget file "$1" cpuset.cpus.partition
  fi
  skip "$1" "others are not kept out: the kernel takes no partition: $text"
}

# A partition that is no lane any more, or has CPUs that are not of its lane, ends before the groups get
# their CPUs: as long as it is there, no other group can have these.
end_partitions() {
  awk -F '\t' '$4 == "cpuset.cpus.partition" { print $3 }' "$work/state" >"$work/ending"
  while IFS= read -r path <&3; do
    lane=
    while read -r cpus _ _ how group; do
      case $how:$group in *"+lane:$path") lane=$cpus ;; esac
    done <"$work/groups"
    first_line "$CGROUP/$path/cpuset.cpus" || value=
    common "$value" "$value"
    has=$list
    common "$has" "$lane"
    [ "$list" != "$has" ] || continue
    for what in cpuset.cpus.partition cpuset.cpus.exclusive; do
      ! recorded file "$path" "$what" || put_back file "$path" "$what" "$original" "$written" "$earlier"
    done
  done 3<"$work/ending"
}

# A partition below the top has a list of its own, which holds against another cpuset. Where it is to
# have other CPUs, it is made anew.
dissolve() { # PATH
  if [ -n "$DRY" ] || ! recorded file "$1" cpuset.cpus.exclusive; then return 0; fi
  with_original "$cpus"
  [ "$written" != "$list" ] || return 0
  for what in cpuset.cpus.partition cpuset.cpus.exclusive; do
    ! recorded file "$1" "$what" || put_back file "$1" "$what" "$original" "$written" "$earlier"
  done
}

# Sets $list to CPUs and those of the $original.
with_original() { # CPUS
  case $original in -) wish=$1 ;; *) wish=$original,$1 ;; esac
  common "$wish" "$wish"
}

# Takes from the groups above what no partition in them needs any more.
trim_exclusive() {
  awk -F '\t' '{ all[$1] = all[$1] (all[$1] == "" ? "" : ",") $2 }
    END { for (path in all) print all[path] "\t" path }' "$work/handed" | sort >"$work/trim"
  while IFS=$TAB read -r needed path <&3; do
    recorded file "$path" cpuset.cpus.exclusive || continue
    with_original "$needed"
    [ "$written" != "$list" ] || continue
    settle file "$path" cpuset.cpus.exclusive "$list" || failed_to "$list"
  done 3<"$work/trim"
}

# Hands the CPUs down from group to group, which a partition below the top needs.
settle_exclusive() { # PATH
  parent=
  rest=$1/
  while [ -n "$rest" ]; do
    parent=$parent${parent:+/}${rest%%/*}
    rest=${rest#*/}
    printf '%s\t%s\n' "$parent" "$cpus" >>"$work/handed"
    value_of file "$parent" cpuset.cpus.exclusive || value=-
    case $value in -) wish=$cpus ;; *) wish=$value,$cpus ;; esac
    common "$wish" "$wish"
    settle file "$parent" cpuset.cpus.exclusive "$list" && continue
    skip "$1" "others are not kept out: cpuset.cpus.exclusive of $parent stays ${value:--}: $text"
    return 1
  done
}

# --- Running ------------------------------------------------------------------------------------

ETC=${TIERC_ETC:-/etc/tierc}
REFUSED=3 # another CPU layout than planned
WATCH=
PRINT_ONLY=
OBSERVE= # the plan, not the caller, wants a dry run
said=
saying=
cycles=0

# With --watch, what was said in the last cycle is not said again.
warn_once() {
  case $NL$said in *"$NL$1$NL"*) ;; *) warn "$1" ;; esac
  saying=$saying$1$NL
}

# In mode observe the kill switch acts too, on what an earlier plan changed. Only then is the lock
# needed.
choose_dry_run() {
  DRY=1
  if ! [ -e "$ETC/disabled" ] || ! [ -e "$STATE/state" ]; then
    [ -z "$locked" ] || rm -f -- "$STATE/lock"
    locked=
  elif [ -n "$locked" ]; then
    DRY=
  elif [ "$(id -u)" != 0 ]; then
    warn_once "not root: what an earlier plan changed is not put back"
  elif owner_lives; then
    warn_once "$STATE is locked by process $owner_pid: putting back is left to that"
  else
    take_lock
    DRY=
  fi
}

# Says what a dry run would do, but nothing that it said in the cycle before.
tell() {
  printf '%s\n' "$1" >>"$work/telling"
  grep -Fqx -e "$1" "$work/told" && return 0
  news=1
  say "$1"
}

cycle() {
  result=0
  release=
  said=$saying
  saying=
  cycles=$((cycles + 1))
  changed=0 right=0 skipped=0 absent=0 restored=0 failed=0 foreign=0 away=0
  news=
  [ -z "$OBSERVE" ] || choose_dry_run
  read_machine
  read_possible
  if [ -e "$ETC/disabled" ]; then
    release="$ETC/disabled exists"
  elif ! is_planned_machine; then
    release="the CPUs of this machine are not those of the plan:$NL$(differences "$PLANNED" "$live" "planned: " "live:    ")"
    result=$REFUSED
  elif ! find_tree; then
    release=$why
    result=$REFUSED
  else
    check_devices
  fi
  load_state
  : >"$work/wanted"
  : >"$work/telling"
  : >"$work/handed"
  if [ -n "$release" ]; then
    warn_once "nothing is applied: $release"
  else
    groups | grep -v '^#' >"$work/groups"
    [ -n "$STOP" ] || [ -n "$DRY" ] || end_partitions
    while read -r cpus min weight how path <&3; do
      [ -z "$STOP" ] || break
      group "$cpus" "$min" "$weight" "$how" "$path"
    done 3<"$work/groups"
    [ -n "$STOP" ] || [ -n "$DRY" ] || trim_exclusive
  fi
  if [ -s "$work/state" ]; then
    case $MODE:$DRY:$release in
    observe:1:*) warn_once "some groups still have what an earlier plan gave them; revert.sh puts it back" ;;
    *::?*) warn_once "what was changed is put back" ;;
    *:1:?*) warn_once "what was changed would be put back" ;;
    esac
  fi
  [ -n "$STOP" ] || release_others
  tell_away
  [ -n "$DRY" ] || [ -z "$dirty" ] || store_state "$work/state"
  mv -f -- "$work/telling" "$work/told"
  case $changed:$restored:$failed in 0:0:0) ;; *) [ -n "$DRY" ] || news=1 ;; esac
  [ "$failed" = 0 ] || [ "$result" != 0 ] || result=$PARTLY
  [ "$away" = 0 ] || [ "$result" != 0 ] || result=$AWAY
  [ -z "$QUIET" ] || return 0
  [ "$cycles" = 1 ] || [ -n "$news" ] || return 0
  if [ -n "$DRY" ]; then
    total="dry run, nothing was touched: $changed would change"
    would="would be "
  else
    total="$changed changed"
    would=
  fi
  total="$total, $right already right, $skipped skipped, $absent groups not there"
  say "$total, $restored ${would}restored, $foreign left to who changed them since, $failed failed"
}

# --- Options of these scripts alone; the others are left to what follows -------------------------

V1=
OTHER_ROOT=
asked= # for the value of an option
for option; do
  shift
  case $asked:$option in
  root:*)
    OTHER_ROOT=${option:-.}
    asked=
    ;;
  other:*)
    set -- "$@" "$option"
    asked=
    ;;
  :--cgroup-root) asked=root ;;
  :--cgroup-root=*)
    OTHER_ROOT=${option#*=}
    OTHER_ROOT=${OTHER_ROOT:-.}
    ;;
  :--v1) V1=1 ;;
  :--state | :--watch)
    set -- "$@" "$option"
    asked=other
    ;;
  *) set -- "$@" "$option" ;;
  esac
done
[ "$asked" != root ] || die "$USAGE" "--cgroup-root needs a value; see --help"
case $OTHER_ROOT in
'') ;;
/*) CGROUP=$OTHER_ROOT ;;
*) die "$USAGE" "--cgroup-root takes an absolute path" ;;
esac

while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --quiet) QUIET=1 ;;
  --fingerprint | --devices) PRINT_ONLY=$1 ;;
  --help)
    usage
    exit 0
    ;;
  --state | --watch)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    if [ "$1" = --state ]; then STATE=$2; else WATCH=${2:-0}; fi
    shift
    ;;
  --state=*) STATE=${1#*=} ;;
  --watch=*)
    WATCH=${1#*=}
    WATCH=${WATCH:-0}
    ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $WATCH in
*[!0-9]* | 0* | ??????*) die "$USAGE" "--watch takes a number of seconds from 1 to 99999" ;;
esac
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac

case $PRINT_ONLY in
--fingerprint)
  read_machine
  printf '%s\n' "$live"
  exit 0
  ;;
--devices)
  read_devices
  printf '%s\n' "$live_devices"
  exit 0
  ;;
esac
if [ "$MODE" = observe ] && [ -z "$DRY" ]; then
  OBSERVE=1
  DRY=1
  say "the plan's mode is observe: this only reports what would change"
fi
start_up
cycle
while [ -n "$WATCH" ] && [ -z "$STOP" ]; do
  sleep "$WATCH" >/dev/null 2>&1 &
  sleeper=$!
  wait "$sleeper"
  kill "$sleeper" 2>/dev/null
  [ -n "$STOP" ] || cycle
done
[ -z "$WATCH" ] || result=0
exit "$result"
