# --- Settings --------------------------------------------------------------------------------

LC_ALL=C # names and paths are bytes
export LC_ALL
unset IFS CDPATH
NL='
'
# The TIERC_* variables point the script at another tree; they are for tests.
PROC=${TIERC_PROC:-/proc}
SYS=${TIERC_SYS:-/sys}
{% if own.cgroups %}
CGROUP=${TIERC_CGROUP:-/sys/fs/cgroup}
{% endif %}
STATE=/var/lib/tierc/{{ own.target }}
FORMAT=tierc-{{ own.target }}-state-1
DRY=
QUIET=
STOP=
work=
locked=

# Exit codes
PARTLY=1  # some {{ own.thing }} could not be set or put back, or lines of the state were damaged
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
{{ own.tool_lines }}; do
    command -v "$tool" >/dev/null 2>&1 || die "$BROKEN" "$tool is not installed"
  done
  [ -r "$PROC/self/stat" ] || [ -n "${TIERC_PROC-}" ] || die "$BROKEN" "$PROC is not mounted"
  if [ -z "$DRY" ] && [ "$(id -u)" != 0 ]; then
    die "$DENIED" "not root: {{ own.why_root }} (--dry-run does not)"
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
