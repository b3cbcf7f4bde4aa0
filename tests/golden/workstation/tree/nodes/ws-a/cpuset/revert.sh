#!/bin/sh
# Puts back the CPUs and weights of control groups that apply.sh changed, from its record alone.
# Written by tierc; it is the same for every policy.
#
# It touches only settings that still are what apply.sh made them. The others are reported and left.
# Afterwards the record is gone. Usage and exit codes: revert.sh --help

set -u

usage() {
  cat <<'END'
usage: revert.sh [--dry-run] [--state DIR] [--quiet] [--cgroup-root DIR]

Puts back what apply.sh changed. Stop apply.sh --watch first. Or leave it running and create
/etc/tierc/disabled: then it puts everything back itself, in its next cycle.

  --dry-run          print what would be put back, a line a setting; change nothing
  --state DIR        where apply.sh recorded it (default /var/lib/tierc/cpuset)
  --quiet            print warnings only
  --cgroup-root DIR  the cgroup tree, as it was given to apply.sh (default /sys/fs/cgroup)
  --help             print this

exit codes: 0 done, also when there was nothing to do
            1 some settings could not be put back; they stay recorded
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

KEEPS= # nothing stays in the record for later

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

warn_once() { warn "$1"; }
tell() { say "$1"; }

# --- Options of these scripts alone; the others are left to what follows -------------------------

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
restored=0 failed=0 foreign=0 away=0
online=
{ IFS= read -r online <"$SYS/devices/system/cpu/online"; } 2>/dev/null
read_possible
load_state
: >"$work/wanted"
release_others
tell_away
[ -n "$DRY" ] || [ -z "$dirty" ] || store_state "$work/state"
[ "$failed:$away" = 0:0 ] || result=$PARTLY
total="$restored restored"
[ -z "$DRY" ] || total="dry run, nothing was touched: $restored would be restored"
say "$total, $foreign left to who changed them since, $failed failed"
exit "$result"
