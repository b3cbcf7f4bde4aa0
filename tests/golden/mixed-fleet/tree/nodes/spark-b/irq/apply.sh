#!/bin/sh
# Gives the interrupts of the devices below their CPUs, and touches no others.
# Written by tierc: change the intents and build again rather than this file.
#
# It looks up which interrupts each device has now and writes their CPUs, as far as they are online,
# to /proc/irq/N/smp_affinity_list. What an interrupt had before is recorded first; revert.sh puts
# it back. It starts nothing, stops nothing and installs nothing. On a machine with another CPU
# layout, or while /etc/tierc/disabled exists, it puts back what it changed and applies nothing.
# Usage and exit codes: apply.sh --help
#
# Left out: /proc/irq/default_smp_affinity, so that interrupts of other devices stay as they are;
# interrupts that the kernel places itself (managed), which take no affinity and are reported; and
# irqbalance, which moves interrupts on its own unless it is told not to. It is reported if it runs.
# irqbalance-policy.sh and irqbalance.env beside this file tell it, and say how to install them.
#
# Devices whose interrupts are left as they are:
#   no intent speaks of it: 0000:01:00.0 0000:01:00.1 0002:01:00.0 0002:01:00.1 0007:01:00.0
#     0009:01:00.0

set -u

MODE=sched_ext

# PCI address, kind, CPUs, whose CPUs they are, and the intents that decided it.
devices() {
  cat <<'END'
# device      kind  CPUs    where         intents
000f:01:00.0  gpu   5-9,15  lane:serving  chat
END
}

# This line in a policy script of irqbalance tells that it leaves these devices alone.
POLICY='DEVICES="000f:01:00.0"'

# The machine the plan is for.
PLANNED_SHA256=cc83534818c7b80116940d44855d94342ac52db56646e99c1a188caee3512be8
PLANNED='tierc-cpu-2
arch aarch64
online 0-19
core 0
core 1
core 2
core 3
core 4
core 5
core 6
core 7
core 8
core 9
core 10
core 11
core 12
core 13
core 14
core 15
core 16
core 17
core 18
core 19
llc 0-9
llc 10-19'
# Its GPUs and network devices; others are a warning.
PLANNED_DEVICES='tierc-devices-1
gpu 000f:01:00.0
nic 0000:01:00.0
nic 0000:01:00.1
nic 0002:01:00.0
nic 0002:01:00.1
nic 0007:01:00.0
nic 0009:01:00.0'

usage() {
  cat <<'END'
usage: apply.sh [--dry-run] [--watch SECONDS] [--state DIR] [--quiet]
       apply.sh --fingerprint | --devices

Gives the interrupts of the devices that the policy names their CPUs. revert.sh undoes it.

  --dry-run         print what would change, a line an interrupt; change nothing
  --watch SECONDS   repeat until stopped, telling news only, so that a driver that is loaded again
                    keeps its CPUs; SIGTERM and SIGINT end it and revert nothing
  --state DIR       where to record what was changed (default /var/lib/tierc/irq)
  --quiet           print warnings only
  --fingerprint     print what identifies this machine's CPUs, and stop
  --devices         print its GPUs and network devices as they are compared, and stop
  --help            print this

While /etc/tierc/disabled exists, everything is put back and nothing is applied. It is looked for
when a run starts, and in each cycle of --watch.

exit codes: 0 done, also when there was nothing to do, or the kernel places an interrupt itself
            1 some interrupts could not be set or put back
            2 wrong usage
            3 another CPU layout than planned: put back, nothing applied
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

# --- irqbalance -----------------------------------------------------------------------------------

# Sets $policies and $banned from the arguments of an irqbalance, one a line on stdin.
read_arguments() {
  policies=
  banned=' '
  option=
  while IFS= read -r word; do
    if [ -z "$option" ]; then
      case $word in
      --policyscript=* | --banirq=*)
        option=${word%%=*}
        word=${word#*=}
        ;;
      -l?* | -i?*)
        option=${word%"${word#??}"}
        word=${word#??}
        ;;
      --policyscript | -l | --banirq | -i)
        option=$word
        continue
        ;;
      esac
    fi
    case $option in
    --policyscript | -l) policies=$word ;;
    --banirq | -i) banned="$banned$word " ;;
    esac
    option=
  done
}

# 0 where the irqbalance of a process has been told to leave these interrupts alone: by a policy
# script of this plan, alone or in a directory of them, or one by one. 2 where its policy script
# cannot be seen: a container has another root, and may not look at that of the process.
is_told() { # PROCESS
  theirs=$1/root
  tr '\000' '\n' <"$1/cmdline" 2>/dev/null >"$work/arguments"
  read_arguments <"$work/arguments"
  if [ -n "$policies" ]; then # a path as that process sees it
    set -- "$theirs$policies" "$policies" "$theirs$policies"/* "$policies"/*
    for path; do
      [ -f "$path" ] && grep -qsxF -e "$POLICY" -- "$path" && return 0
    done
  fi
  while read -r number _; do
    case $banned in
    *" $number "*) ;;
    *)
      [ -z "$policies" ] || [ -e "$theirs/." ] || [ -e "$policies" ] || return 2
      return 1
      ;;
    esac
  done <"$work/placed"
}

# Warns where an irqbalance runs that would move the interrupts again.
check_irqbalance() {
  awk 'what == "devices" { is[$1] = 1; next } $2 in is' \
    what=devices "$work/devices" what=found "$work/found" >"$work/placed"
  [ -s "$work/placed" ] || return 0
  for process in "$PROC"/[0-9]*; do
    read_file "$process/comm" || continue
    [ "$text" = irqbalance ] || continue
    is_told "$process"
    case $? in
    1)
      warn_once "irqbalance (process ${process##*/}) moves interrupts and has not been told to leave these: install irqbalance-policy.sh and irqbalance.env, which say how, and restart it"
      ;;
    2)
      warn_once "irqbalance (process ${process##*/}) moves interrupts and asks $policies, which cannot be seen from here:\
 see on the host whether it is irqbalance-policy.sh of this plan"
      ;;
    esac
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

# What the kernel was started with that concerns interrupts; nothing of it is changed.
note_command_line() {
  read_file "$PROC/cmdline" || return 0
  for word in $text; do
    case $word in
    irqaffinity=*) say "the kernel runs with $word: a new interrupt starts there, until it is set" ;;
    isolcpus=*managed_irq*) say "the kernel runs with $word: it keeps managed interrupts off these CPUs where it can" ;;
    esac
  done
}

cycle() {
  result=0
  release=
  said=$saying
  saying=
  cycles=$((cycles + 1))
  [ -z "$OBSERVE" ] || choose_dry_run
  read_machine
  if [ -e "$ETC/disabled" ]; then
    release="$ETC/disabled exists"
  elif ! is_planned_machine; then
    release="the CPUs of this machine are not those of the plan:$NL$(differences "$PLANNED" "$live" "planned: " "live:    ")"
    result=$REFUSED
  else
    check_devices
  fi
  load_state
  : >"$work/devices"
  if [ -n "$release" ]; then
    warn_once "nothing is applied: $release"
  else
    devices | grep -v '^#' >"$work/devices"
  fi
  if [ -s "$work/state" ]; then
    case $MODE:$DRY:$release in
    observe:1:*) warn_once "some interrupts still have what an earlier plan gave them; revert.sh puts it back" ;;
    *::?*) warn_once "what was changed is put back" ;;
    *:1:?*) warn_once "what was changed would be put back" ;;
    esac
  fi
  look
  decide
  act
  [ -n "$release" ] || check_irqbalance
  [ -n "$DRY" ] || case $changed:$restored:$failed in 0:0:0) news= ;; *) news=1 ;; esac
  while IFS= read -r line; do warn_once "$line"; done <"$work/skips"
  [ "$failed" = 0 ] || [ "$result" != 0 ] || result=$PARTLY
  [ -z "$QUIET" ] || return 0
  if [ "$cycles" = 1 ]; then
    while IFS= read -r line; do say "$line"; done <"$work/summary"
    note_command_line
  elif [ -z "$news" ]; then
    return 0
  fi
  read -r found right managed skipped _ <"$work/counts"
  would=
  total="$found interrupts, $changed changed"
  if [ -n "$DRY" ]; then
    total="dry run, nothing was touched: $found interrupts, $changed would change"
    would="would be "
  fi
  managed=$((managed + kernels))
  total="$total, $right already right, $managed left to the kernel, $skipped skipped"
  say "$total, $restored ${would}restored, $failed failed"
}

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
