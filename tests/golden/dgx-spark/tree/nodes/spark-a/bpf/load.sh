#!/bin/sh
# Loads this seed into the tierc scheduler of this machine, attaching that first if it is not.
# Written by tierc: change the intents and build again rather than this file.
#
# Each step can be stopped at any moment, and what is in force stays as it is: the new maps are made
# beside the old ones (stage.batch), read back and compared, put into the slot that is not in force
# (slotN/publish.batch), and then put in force with one write (slotN/flip.batch). The slot before is
# kept for --rollback. A scheduler that is not tierc's is never touched. On a machine with another
# CPU layout nothing is loaded, and while /etc/tierc/disabled exists everything is unloaded.
# Usage and exit codes: load.sh --help
#
# Left out: it changes no setting of the kernel, and installs nothing. The object of the scheduler
# (tierc.bpf.o) is not made here; --object says where it is.
#
# 2 parts of the policy are not in this seed:
#   bpf cannot match a command line: a rule of chat/ipc left out
#   bpf cannot match a command line: a rule of chat/api left out

# shellcheck disable=SC2034 # the parts that scripts share set more than each of them uses
set -u

HERE=$(cd -- "$(dirname -- "$0")" && pwd) || exit 7
OBJECT=${TIERC_OBJECT:-/usr/lib/tierc/tierc.bpf.o}

# The seed in ./stage.batch, and the layout of the maps it is for (struct tierc_abi).
SEED=894a10a6
ABI=5449524301000000200000001400000044000000980000001000000008000000020000000001000040000000000400000001000008000000800000000e000000
# What tierc_active says while the seed is in force: in slot 0, in slot 1.
ACTIVE0=00000000a6104a89
ACTIVE1=01000000a7104a89

# The machine the seed is for.
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
usage: load.sh [--dry-run] [--ensure] [--rollback] [--object FILE] [--pause SECONDS]
               [--state DIR] [--quiet]

Puts this seed in force in tierc's scheduler, and attaches that if no scheduler is attached.
unload.sh undoes it.

  --dry-run        say what would be done; change nothing
  --ensure         for a timer: as without, but when the scheduler has gone although it was
                   loaded, or cannot be attached, run ../cpuset/apply.sh or
                   ../taskset/apply.sh, and attach it again only after the pause; and a seed
                   that was rolled back stays so, until the next boot
  --pause SECONDS  how long (default 300)
  --rollback       put the seed in force that was before this one
  --object FILE    the scheduler (default /usr/lib/tierc/tierc.bpf.o)
  --state DIR      where to keep the lock and notes (default /var/lib/tierc/bpf)
  --quiet          print warnings only
  --help           print this

While /etc/tierc/disabled exists, the scheduler is detached and its maps are removed.

exit codes: 0 done, also when there was nothing to do
            1 --ensure: not attached, and the pause is not over; or CPU affinity that was set
              meanwhile could not be taken back
            2 wrong usage
            3 another CPU layout than planned: nothing was changed
            4 another process holds the lock
            5 not root
            7 a tool or a file is missing, or a directory cannot be read or written
            8 this kernel, as it was started, takes no scheduler
            9 another scheduler is attached: nothing was changed
           10 the scheduler could not be attached, or detached
           11 the scheduler is for maps of another layout
           12 what was read back is not what was written: the seed before is in force
           13 there is no seed to roll back to
           14 stopped by a signal: the seed before is in force
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
STATE=/var/lib/tierc/bpf
FORMAT=tierc-bpf-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some map could not be set or put back, or lines of the state were damaged
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
  for tool in awk cat cp dirname grep id ln mkdir mktemp mv rm sed sha256sum sleep sort tail tr \
    uname xargs; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: maps and the scheduler are root's to set (--dry-run does not)"
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
REFUSED=3   # another CPU layout than planned
INCAPABLE=8 # this kernel takes no scheduler
OTHERS=9    # another scheduler is attached
NOT_UP=10   # the scheduler could not be attached
LAYOUT=11   # maps of another layout
DIFFERS=12  # what was read back is not what was written
NO_SLOT=13  # nothing to roll back to
STOPPED=14  # by a signal

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

# --- The maps and the scheduler -----------------------------------------------------------------

PATH=${PATH-}:/usr/sbin:/sbin # bpftool is there, and cron's PATH ends before
export PATH
BPFFS=${TIERC_BPFFS:-/sys/fs/bpf}
LINK=$BPFFS/tierc_link # the scheduler stays attached as long as this is pinned
STAGE=$BPFFS/tierc_stage
SCX=$SYS/kernel/sched_ext

# Starts up, with the lock. What this script starts has descriptor 9 open, so that the next one sees
# it when only the script was killed.
begin() {
  start_up
  [ -z "$DRY" ] || return 0
  printf '' 2>/dev/null >>"$STATE/users" || die "$BROKEN" "cannot write to $STATE"
  exec 9<"$STATE/users"
  # Whoever else has it open was started by a script that was killed: some seconds for that.
  turns=0
  while find_orphan; do
    [ "$turns" -lt 20 ] ||
      die "$BUSY" "process $pid, of a script that was killed, is still at work; stop it, or wait for it"
    sleep 1
    turns=$((turns + 1))
  done
}

# True when there is one. Sets $pid.
find_orphan() {
  for opened in /proc/[0-9]*/fd/9; do
    pid=${opened#/proc/}
    pid=${pid%%/*}
    # shellcheck disable=SC3013 # dash and busybox know -ef
    [ "$pid" = "$$" ] || [ ! "$opened" -ef "$STATE/users" ] || return 0
  done
  return 1
}

# Sets $state and $ops: what sched_ext does, and which scheduler is attached.
read_scx() {
  state=none
  ops=
  { IFS= read -r state <"$SCX/state"; } 2>/dev/null || state=none
  { IFS= read -r ops <"$SCX/root/ops"; } 2>/dev/null || ops=
}

# True when our scheduler is attached.
is_ours() {
  read_scx
  [ "$state" = enabled ] && [ "$ops" = tierc ]
}

# Waits, a few seconds at most, until sched_ext is in the state $1.
await_state() {
  turns=0
  while [ "$turns" -lt 20 ]; do
    read_scx
    [ "$state" != "$1" ] || return 0
    sleep 1
    turns=$((turns + 1))
  done
  return 1
}

# Detaches our scheduler, if it is attached; its maps stay. One that goes may have no name any more.
detach() {
  rm -rf -- "$LINK"
  read_scx
  case $state:$ops in
  disabled:* | none:*) ;;
  *:tierc | *ing:) await_state disabled ;;
  esac
}

# Removes the pins of our maps; the kernel frees what nobody uses.
remove_maps() {
  rm -rf -- "$BPFFS"/tierc_*
  for pin in "$BPFFS"/tierc_*; do
    [ ! -e "$pin" ] || die "$BROKEN" "$pin cannot be removed"
  done
}

# --- Seeds in maps ------------------------------------------------------------------------------

TABLES='comm leader cgroup kind level dontcare rules bands head group groupvec'
# Tables that nobody may change once they are filled; the others are filled on the node.
FROZEN='comm leader cgroup kind level dontcare rules bands head'
# Tables whose every entry exists: those that are not written are zero.
ARRAYS='kind level dontcare rules bands head groupvec'

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

# --- What has to hold before anything is done ---------------------------------------------------

warn_once() { warn "$1"; }

# A signal takes effect between two steps, so that nothing is left half done.
heed_signals() {
  [ -n "$STOP" ] || return 0
  rm -rf -- "$STAGE"
  die "$STOPPED" "stopped by a signal; the seed that was in force stays so"
}

# Names threads that no sched_ext scheduler sees, because their class comes first.
note_realtime() {
  # A thread's name may hold anything, also ") ": the last of these is behind it.
  {
    cd "$PROC" && printf '%s\n' [0-9]*/task/[0-9]*/stat | xargs cat
  } 2>/dev/null | awk '
    {
      end = 0
      rest = $0
      while ((i = index(rest, ") "))) {
        end += i + 1
        rest = substr(rest, i + 2)
      }
      if (split(rest, field, " ") < 39 || field[39] !~ /^[12]$/ || int(field[7] / 2097152) % 2) next
      name = substr($0, index($0, "(") + 1)
      name = substr(name, 1, end - 2 - index($0, "("))
      gsub(/[^ -~]/, "?", name)
      n[name]++
    }
    END { for (name in n) print n[name] " of " name }' | sort -k3 >"$work/realtime"
  [ ! -s "$work/realtime" ] || {
    warn "real-time threads go before every tier, and the scheduler does not see them:"
    sed 's/^/tierc:   /' "$work/realtime" >&2
  }
}

check_kernel() {
  command -v bpftool >/dev/null 2>&1 || die "$BROKEN" "bpftool is not installed"
  read_scx
  [ "$state" != none ] || die "$INCAPABLE" "this kernel has no sched_ext"
  [ -r "$SYS/kernel/btf/vmlinux" ] || die "$INCAPABLE" "this kernel has no type information (BTF)"
  # Of isolcpus=, only what takes CPUs out of the scheduling domains is listed here.
  isolated=
  { IFS= read -r isolated <"$SYS/devices/system/cpu/isolated"; } 2>/dev/null
  [ -z "$isolated" ] ||
    die "$INCAPABLE" "the kernel was started with isolcpus= for $isolated: with that it takes no scheduler"
  # One that comes or goes is soon there or gone.
  turns=0
  while [ "$turns" -lt 10 ]; do
    case $state in
    enabling | disabling) sleep 1 ;;
    *) break ;;
    esac
    turns=$((turns + 1))
    heed_signals
    read_scx
  done
  case $state:$ops in
  disabled:* | enabled:tierc) ;;
  *:tierc) die "$NOT_UP" "sched_ext is still $state tierc's scheduler; nothing was changed" ;;
  *) die "$OTHERS" "the scheduler ${ops:-without a name} is attached ($state); nothing was changed" ;;
  esac
  [ -n "$DRY" ] || [ -w "$BPFFS" ] || die "$BROKEN" "no BPF file system in $BPFFS, or it is read-only"
}

check_machine() {
  if ! is_planned_machine; then
    die "$REFUSED" "the CPUs of this machine are not those of the plan; nothing was changed:$NL$(differences "$PLANNED" "$live" "planned: " "live:    ")"
  fi
  check_devices
}

# --- The scheduler ------------------------------------------------------------------------------

attach() {
  [ -r "$OBJECT" ] || die "$BROKEN" "no scheduler in $OBJECT; see --object"
  rm -rf -- "$LINK"
  mkdir -- "$LINK" 2>/dev/null ||
    die "$BROKEN" "cannot make $LINK: is there a BPF file system (mount -t bpf bpf $BPFFS)?"
  bpftool struct_ops register "$OBJECT" "$LINK" >"$work/register" 2>&1
  await_up && return
  # Registering says that it went well when it did not, too.
  rm -rf -- "$LINK"
  heed_signals
  tail -n 3 "$work/register" | sed 's/^/tierc:   bpftool: /' >&2
  [ -z "$ENSURE" ] || give_way
  die "$NOT_UP" "the scheduler could not be attached (sched_ext is ${state}); the kernel's log may say why"
}

await_up() {
  turns=0
  while [ "$turns" -lt 10 ]; do
    is_ours && return 0
    [ "$state" = enabling ] || [ "$turns" -lt 2 ] || return 1
    [ -z "$STOP" ] || return 1
    sleep 1
    turns=$((turns + 1))
  done
  return 1
}

check_layout() {
  ask_slots | run_batch
  read_slots
  [ -n "$abi" ] || {
    heed_signals
    show_errors
    die "$BROKEN" "the maps of the scheduler that runs cannot be read with bpftool in $BPFFS"
  }
  [ "$abi" = "$ABI" ] ||
    die "$LAYOUT" "the scheduler that runs is for maps of another layout than this seed; unload it first, with unload.sh"
  case $active in
  0[01]000000????????) ;;
  *) die "$LAYOUT" "tierc_active holds ${active:-nothing}, which is no slot; unload the scheduler first, with unload.sh" ;;
  esac
}

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

# --- For a timer: a scheduler that has gone -----------------------------------------------------

# Sets $seconds, since the machine was started: they do not jump when its clock is set.
now() {
  seconds=0
  { IFS=' .' read -r seconds _ <"$PROC/uptime"; } 2>/dev/null || seconds=0
}

# Sets $since, when the scheduler was found to be gone, or nothing if that was not in this boot.
read_since() {
  now
  since=
  since_boot=
  { read -r since since_boot <"$STATE/ejected"; } 2>/dev/null
  case $since in
  '' | *[!0-9]* | ??????????*) since= ;;
  *) [ "$since_boot" = "$boot" ] && [ "$since" -le "$seconds" ] || since= ;;
  esac
}

# Sets CPU affinity instead, by whichever artifact was built beside this one. That it may have to be
# taken back is written down first.
fall_back() {
  for target in cpuset taskset; do
    [ -x "$HERE/../$target/apply.sh" ] || continue
    printf '%s\n' "$target" >"$STATE/fallen_back" || die "$BROKEN" "cannot write to $STATE"
    if "$HERE/../$target/apply.sh" ${QUIET:+--quiet}; then
      say "$target/apply.sh holds the lanes meanwhile"
    else
      warn "$target/apply.sh came to nothing, or not to all: the lanes may not hold"
    fi
    return
  done
  warn "neither cpuset/apply.sh nor taskset/apply.sh is beside this directory: nothing holds the lanes"
}

# Begins the pause. That is written down last: if this is stopped on the way, the next one does it
# again.
give_way() {
  now
  since=$seconds
  fall_back
  heed_signals
  printf '%s\n' "$since $boot" >"$STATE/ejected" || die "$BROKEN" "cannot write to $STATE"
}

# Sets $end to what the scheduler could say of its end, if anything: struct tierc_exit.
read_end() {
  printf 'map dump pinned %s\n' "$BPFFS/tierc_exit" | run_batch
  end=$(records | awk -v RS='{' "$RECORDS"'
    function text(value,   i, code, out) {
      for (i = 2; (code = digit(value, i) * 16 + digit(value, i + 1)) > 0; i += 3)
        out = out (code > 31 && code < 127 ? sprintf("%c", code) : "?")
      return out
    }
    /^key:/ && entries++ == 0 {
      entry()
      reason = text(substr(value, 49, 192))
      message = text(substr(value, 241))
      print reason (reason != "" && message != "" ? ": " : "") message
    }')
}

# True when it may be attached now. The scheduler was ejected if it was loaded in this boot, by us,
# and is not attached.
may_attach() {
  read_since
  if [ -z "$since" ]; then
    loaded=
    { IFS= read -r loaded <"$STATE/loaded"; } 2>/dev/null
    [ "$loaded" = "$boot" ] || return 0
    read_end
    warn "the kernel has detached the scheduler${end:+ ($end)}; its log says more (dmesg)"
    give_way
  fi
  [ "$((seconds - since))" -ge "$PAUSE" ] && return 0
  say "the scheduler is attached again in $((since + PAUSE - seconds)) s"
  return 1
}

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

# --- Running ------------------------------------------------------------------------------------

ETC=${TIERC_ETC:-/etc/tierc}
ENSURE=
ROLLBACK=
PAUSE=300

while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --ensure) ENSURE=1 ;;
  --rollback) ROLLBACK=1 ;;
  --quiet) QUIET=1 ;;
  --help)
    usage
    exit 0
    ;;
  --object | --pause | --state)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    case $1 in
    --object) OBJECT=$2 ;;
    --pause) PAUSE=$2 ;;
    *) STATE=$2 ;;
    esac
    shift
    ;;
  --object=*) OBJECT=${1#*=} ;;
  --pause=*) PAUSE=${1#*=} ;;
  --state=*) STATE=${1#*=} ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $PAUSE in
'' | *[!0-9]* | ??????* | 0?*) die "$USAGE" "--pause takes a number of seconds from 0 to 99999" ;;
esac
[ -z "$ENSURE" ] || [ -z "$ROLLBACK" ] || die "$USAGE" "--ensure and --rollback exclude each other"
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac

begin
if [ -e "$ETC/disabled" ]; then
  warn "nothing is loaded: $ETC/disabled exists"
  if [ -n "$DRY" ]; then
    ! is_ours || say "dry run: the scheduler would be detached"
    exit 0
  fi
  detach || die "$NOT_UP" "the scheduler could not be detached (sched_ext is $state)"
  remove_maps
  rm -f -- "$STATE/loaded" "$STATE/ejected" "$STATE/rolled_back"
  come_back || exit "$PARTLY"
  exit 0
fi
check_kernel
check_machine
[ -n "$ENSURE" ] || note_realtime
if [ -n "$ROLLBACK" ]; then
  is_ours || die "$NO_SLOT" "the scheduler is not attached"
  roll_back
  exit 0
fi
if [ -n "$DRY" ]; then
  if ! is_ours; then
    say "dry run: the scheduler would be attached"
    ask_slots | run_batch
    read_slots
  elif [ "$(id -u)" != 0 ]; then
    say "dry run: the scheduler is attached; whether seed $SEED is in force, only root can see"
    exit 0
  else
    check_layout
  fi
  if is_in_force; then
    say "dry run: seed $SEED is in force already, in slot $slot"
  else
    say "dry run: seed $SEED would be put in force"
  fi
  exit 0
fi
if ! is_ours; then
  [ -z "$ENSURE" ] || {
    may_attach || exit "$PARTLY"
    note_realtime # every minute would be too often
  }
  heed_signals
  attach
  # At once: whatever becomes of the rest, an ejection is one from now on, and has its own pause.
  note_loaded
  say "the scheduler is attached"
fi
check_layout
put_in_force
is_ours || die "$NOT_UP" "the kernel has detached the scheduler again; its log says why (dmesg)"
note_loaded
come_back || exit "$PARTLY"
