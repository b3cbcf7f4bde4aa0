#!/bin/sh
# Sets the CPU affinity of the threads that this policy names, and of no others.
# Written by tierc: change the intents and build again rather than this file.
#
# It looks at every thread of the machine, finds the first rule below that matches it, and gives
# it the CPUs of that rule, as far as they are online and in its cpuset. What a thread had before
# is recorded first; revert.sh puts it back. It starts nothing, stops nothing, and changes nothing
# else. On a machine with another CPU layout, or while /etc/tierc/disabled exists, it puts back
# what it changed and applies nothing. Usage and exit codes: apply.sh --help
#
# Mode sched_ext: the seeds in ../bpf are for a scheduler that enforces this plan. Run this script
# on nodes where no such scheduler is loaded, or to keep the lanes when it is unloaded. Running both
# is safe: sched_ext never runs a thread outside its affinity. But affinity is strict where a
# scheduler may lend CPUs, so once the scheduler is trusted, run revert.sh and leave it to that.
#
# Lane serving: guarded, for chat
# 1 part of the policy is not in this script:
#   taskset leaves out tier weights, slices and preemption

set -u

MODE=sched_ext

# The CPUs, by the names that the rules use. With fewer than "min" of them a thread is left alone.
#   lane:NAME     the lane's                shared     in no guarded and no exclusive lane
#   all           all that tierc may use    leftovers  in no lane, and not kept for node software
#   housekeeping  kept for node software    D1, D2...  others
cpu_lists() {
  cat <<'END'
# name        min  CPUs
lane:serving  6    2-7,18-23
all           1    0-31
shared        1    0-1,8-17,24-31
leftovers     1    8-15,24-31
END
}

# The rules in order; the first that matches a thread has it.
#   move    its threads get these CPUs
#   keep    its threads stay as they are: any CPU
#   spawns  its threads stay as they are: what the process starts would inherit its CPUs
# Rules of plan.json that are treated alike and differ only in a name share an entry, where their
# order makes no difference. The indented lines say what an entry matches, for the reader: a comm is
# a thread's name, a leaderComm its process's, and the tests themselves are in open_rules, names,
# cgroup_globs and command_lines.
rules() {
  cat <<'END'
# id  how     CPUs          tier         unit                 rules
0     move    lane:serving  interactive  chat/ipc             0
        comm "ZMQbg/*" and leaderComm "python*" and cgroup "kubepods.slice/**"
        and cmdline "^([^ ]*/)?python[0-9.]*( -[^ ]+)* -m vllm\.entrypoints\.openai\.api_server( |$)"
1     move    lane:serving  latency      chat/engine-step     1-2
        comm "EngineCore*" | "Thread-*" and leaderComm "VLLM::EngineCor"
        and cgroup "kubepods.slice/**"
3     move    lane:serving  interactive  chat/ipc             3
        comm "ZMQbg/*" and leaderComm "VLLM::*" and cgroup "kubepods.slice/**"
4     move    lane:serving  interactive  chat/ipc             4
        comm "ZMQbg/*" and leaderComm "vllm" and cgroup "kubepods.slice/**"
5     move    lane:serving  interactive  chat/api             5,8-9
        comm "VLLM::APIServer" | "vllm" | "vllm-rs" and cgroup "kubepods.slice/**"
6     move    lane:serving  interactive  chat/dp-coordinator  6
        comm "VLLM::DPCoordin" and cgroup "kubepods.slice/**"
7     move    lane:serving  latency      chat/engine-step     7
        comm "VLLM::EngineCor" and cgroup "kubepods.slice/**"
10    move    lane:serving  interactive  chat/api             10
        leaderComm "VLLM::APIServer" and cgroup "kubepods.slice/**"
11    move    lane:serving  interactive  chat/api             11
        leaderComm "vllm" and cgroup "kubepods.slice/**"
12    move    lane:serving  interactive  chat/api             12
        cgroup "kubepods.slice/**"
        and cmdline "^([^ ]*/)?python[0-9.]*( -[^ ]+)* -m vllm\.entrypoints\.openai\.api_server( |$)"
13    move    leftovers     background   batch                13
        cgroup "kubepods.slice/besteffort/**"
14    move    leftovers     background   batch                14
        cgroup "kubepods.slice/kubepods-besteffort.slice/**"
15    keep    all           latency      node/gpu-driver      15-19
        kthread "UVM GPU*" | "UVM global queu" | "nv_open_q" | "nv_queue" | "nvidia"
20    spawns  shared        system       node-infra           20-23,25-28,30-34,36-37,39,41,43-45,48,50-52,57,59-64,70
        comm "NetworkManager" | "agetty" | "atd" | "calico-node" | "cilium-agent" | "conmon" |
        "containerd" | "containerd-shim" | "cri-dockerd" | "crio" | "cron" | "crond" | "crun" |
        "dbus-broker-lau" | "dbus-daemon" | "dockerd" | "flanneld" | "k0s" | "k3s-agent" |
        "k3s-server" | "kube-proxy" | "kubelet" | "kubelite" | "login" | "rke2" | "runc" |
        "sshd" | "sshd-auth" | "sshd-session" | "systemd" | "systemd-executo" | "systemd-udevd"
24    move    shared        system       node-infra           24,29,35,38,40,42,46-47,49,53-56,58,65-69
        comm "chronyd" | "coredns" | "dbus-broker" | "docker-proxy" | "etcd" | "irqbalance" |
        "kube-apiserver" | "kube-controller" | "kube-scheduler" | "nv-fabricmanage" |
        "nvidia-device-p" | "nvidia-persiste" | "polkitd" | "rsyslogd" | "systemd-journal" |
        "systemd-logind" | "systemd-network" | "systemd-resolve" | "systemd-timesyn"
END
}

# The control groups they ask for, from the root of the tree: number and regular expression.
#   0 is "kubepods.slice/**"
#   1 is "kubepods.slice/besteffort/**"
#   2 is "kubepods.slice/kubepods-besteffort.slice/**"
cgroup_globs() {
  cat <<'END'
0 ^kubepods[.]slice(/.*)?$
1 ^kubepods[.]slice/besteffort(/.*)?$
2 ^kubepods[.]slice/kubepods-besteffort[.]slice(/.*)?$
END
}

# The command lines they ask for: entries and regular expression.
command_lines() {
  cat <<'END'
0,12 ^([^ ]*/)?python[.0-9]*( -[^ ]+)* -m vllm[.]entrypoints[.]openai[.]api_server( |$)
END
}

# Entries that take every name, and those that look at the command line.
ANY_NAME=' 10 11 12 13 14 '
BY_CMDLINE=' 0 12 '

# Sets $open: the entries that may have a thread of this process ($kind, $leader, control group).
# shellcheck disable=SC2016 # a $ in a name is only a $
open_rules() {
  open=
  case $kind in
  user)
    case $leader in 'python'*) in_cgroup 0 && open="$open 0" ;; esac # chat/ipc
    case $leader in 'VLLM::EngineCor') in_cgroup 0 && open="$open 1" ;; esac # chat/engine-step
    case $leader in 'VLLM::'*) in_cgroup 0 && open="$open 3" ;; esac # chat/ipc
    case $leader in 'vllm') in_cgroup 0 && open="$open 4" ;; esac # chat/ipc
    in_cgroup 0 && open="$open 5" # chat/api
    in_cgroup 0 && open="$open 6" # chat/dp-coordinator
    in_cgroup 0 && open="$open 7" # chat/engine-step
    case $leader in 'VLLM::APIServer') in_cgroup 0 && open="$open 10" ;; esac # chat/api
    case $leader in 'vllm') in_cgroup 0 && open="$open 11" ;; esac # chat/api
    in_cgroup 0 && open="$open 12" # chat/api
    in_cgroup 1 && open="$open 13" # batch
    in_cgroup 2 && open="$open 14" # batch
    open="$open 20" # node-infra
    open="$open 24" # node-infra
    ;;
  kernel)
    open="$open 15" # node/gpu-driver
    ;;
  *) ;;
  esac
}

# Sets $named: the entries that take the name of a thread ($comm).
# shellcheck disable=SC2016 # a $ in a name is only a $
names() {
  named=
  case $comm in 'ZMQbg/'*) named="$named 0" ;; esac # chat/ipc
  case $comm in
  'EngineCore'* | 'Thread-'*) named="$named 1" ;;
  esac # chat/engine-step
  case $comm in 'ZMQbg/'*) named="$named 3" ;; esac # chat/ipc
  case $comm in 'ZMQbg/'*) named="$named 4" ;; esac # chat/ipc
  case $comm in
  'VLLM::APIServer' | 'vllm' | 'vllm-rs') named="$named 5" ;;
  esac # chat/api
  case $comm in 'VLLM::DPCoordin') named="$named 6" ;; esac # chat/dp-coordinator
  case $comm in 'VLLM::EngineCor') named="$named 7" ;; esac # chat/engine-step
  case $comm in
  'UVM GPU'* | 'UVM global queu' | 'nv_open_q' | 'nv_queue' | 'nvidia') named="$named 15" ;;
  esac # node/gpu-driver
  case $comm in
  'NetworkManager' | 'agetty' | 'atd' | 'calico-node' | 'cilium-agent' | 'conmon' | 'containerd' | \
    'containerd-shim' | 'cri-dockerd' | 'crio' | 'cron' | 'crond' | 'crun' | 'dbus-broker-lau' | \
    'dbus-daemon' | 'dockerd' | 'flanneld' | 'k0s' | 'k3s-agent' | 'k3s-server' | 'kube-proxy' | \
    'kubelet' | 'kubelite' | 'login' | 'rke2' | 'runc' | 'sshd' | 'sshd-auth' | 'sshd-session' | \
    'systemd' | 'systemd-executo' | 'systemd-udevd') named="$named 20" ;;
  esac # node-infra
  case $comm in
  'chronyd' | 'coredns' | 'dbus-broker' | 'docker-proxy' | 'etcd' | 'irqbalance' | \
    'kube-apiserver' | 'kube-controller' | 'kube-scheduler' | 'nv-fabricmanage' | \
    'nvidia-device-p' | 'nvidia-persiste' | 'polkitd' | 'rsyslogd' | 'systemd-journal' | \
    'systemd-logind' | 'systemd-network' | 'systemd-resolve' | \
    'systemd-timesyn') named="$named 24" ;;
  esac # node-infra
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
usage: apply.sh [--dry-run] [--watch SECONDS] [--state DIR] [--quiet]
       apply.sh --fingerprint | --devices

Gives the threads that the policy names their CPUs. revert.sh undoes it.

  --dry-run         print what would change, a line a thread; change nothing
  --watch SECONDS   repeat until stopped, telling news only; SIGTERM and SIGINT end it and revert
                    nothing
  --state DIR       where to record what was changed (default /var/lib/tierc/taskset)
  --quiet           print warnings only
  --fingerprint     print what identifies this machine's CPUs, and stop
  --devices         print its GPUs and network devices as they are compared, and stop
  --help            print this

While /etc/tierc/disabled exists, everything is put back and nothing is applied. It is looked for
when a run starts, and in each cycle of --watch.

exit codes: 0 done, also when there was nothing to do
            1 some threads could not be set or put back
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

# --- The scan: which rules may have which thread ------------------------------------------------

# Makes work/groups: "PID PATTERN...", for processes in a control group that a rule asks for. It
# walks the host's tree, because /proc/PID/cgroup hides what is outside the reader's namespace.
walk_cgroups() {
  : >"$work/groups"
  globs=$(cgroup_globs)
  [ -n "$globs" ] || return 0
  if [ -f "$CGROUP/cgroup.controllers" ]; then
    tree=$CGROUP
  elif [ -f "$CGROUP/unified/cgroup.procs" ]; then # hybrid: systemd keeps both trees alike
    tree=$CGROUP/unified
  elif [ -f "$CGROUP/systemd/cgroup.procs" ]; then
    tree=$CGROUP/systemd
  else
    warn_once "no control group tree in $CGROUP: the rules that ask for a control group are inactive"
    return 0
  fi
  (cd "$tree" && find . -type d 2>/dev/null) | GLOBS=$globs awk '
    BEGIN {
      n = split(ENVIRON["GLOBS"], lines, "\n")
      for (i = 1; i <= n; i++) {
        cut = index(lines[i], " ")
        if (cut) ere[substr(lines[i], 1, cut - 1)] = substr(lines[i], cut + 1)
      }
    }
    {
      path = substr($0, 3)
      found = ""
      for (id in ere) if (path ~ ere[id]) found = found " " id
      if (found != "") print found "\t/" path
    }' >"$work/cgroups"
  tab=$(printf '\t')
  while IFS= read -r line; do
    { # a threaded group cannot be read, and one may vanish: neither is an error
      while read -r pid; do
        case $pid in '' | *[!0-9]*) ;; *) printf '%s\n' "$pid${line%%"$tab"*}" ;; esac
      done <"$tree${line#*"$tab"}/cgroup.procs"
    } 2>/dev/null
  done <"$work/cgroups" >"$work/groups"
}

# Makes work/matched: "TID PID RULE...", the rules that may have the thread, in order, as far as
# the first that needs no look at the command line; and work/asked, the processes that need one.
scan() {
  walk_cgroups
  while read -r pid groups; do
    eval "groups_$pid=\" \$groups \""
  done <"$work/groups"
  exec 3>"$work/matched" 4>"$work/asked"
  for process in "$PROC"/[0-9]*; do
    pid=${process##*/}
    case $pid in *[!0-9]* | "$$") ;; *) scan_process ;; esac
  done
  exec 3>&- 4>&-
  while read -r pid groups; do
    unset "groups_$pid"
  done <"$work/groups"
}

# shellcheck disable=SC2317 # used if a rule asks for one
in_cgroup() { case $groups in *" $1 "*) return 0 ;; esac; return 1; }

scan_process() {
  read_file "$process/comm" || return 0
  first=$text
  kind=user
  if ! [ -e "$process/exe" ]; then # a kernel thread, or one that ends, or not ours to look at
    read_stat "$process/stat" || return 0
    read -r _ _ _ _ _ _ flags _ <<END
$stat
END
    [ "$((flags & 0x200000))" = 0 ] || kind=kernel # PF_KTHREAD
  fi
  eval "groups=\${groups_$pid-}"
  # shellcheck disable=SC2034 # read by open_rules if a rule asks for it
  leader=$first
  open_rules
  [ -n "$open" ] || return 0
  any=
  for rule in $open; do
    case $ANY_NAME in *" $rule "*) any=1 ;; esac
  done
  asked=
  for thread in "$process/task"/[0-9]*; do
    tid=${thread##*/}
    if [ "$tid" = "$pid" ]; then
      comm=$first
    else
      read_file "$thread/comm" || continue
      comm=$text
    fi
    [ "$kind" = user ] || kernel_name
    names
    [ -z "$any$named" ] || scan_thread
  done
  [ -z "$asked" ] || printf '%s\n' "$pid" >&4
}

# /proc shows more of a kernel thread than the 15 bytes of its name, which are all that a scheduler
# and the rules see: behind the name of a worker what it works on, and the whole of a long name.
kernel_name() {
  case $comm in kworker/[0-9u]*) comm=${comm%%[-+]*} ;; esac
  rest=${comm#???????????????}
  [ "$rest" = "$comm" ] || comm=${comm%"$rest"}
}

scan_thread() {
  found=
  for rule in $open; do
    case "$ANY_NAME$named " in *" $rule "*) ;; *) continue ;; esac
    found="$found $rule"
    case $BY_CMDLINE in *" $rule "*) asked=1 ;; *) break ;; esac
  done
  [ -z "$found" ] || printf '%s\n' "$tid $pid$found" >&3
}

# Makes work/hits: "N ENTRY,..." where the N-th process of work/asked has a command line that these
# entries take. NUL and newline read as spaces; the NULs at the end, which programs that write a
# title leave, are no part of it. No command line matches nothing. grep rather than awk: mawk 1.3.4
# dies of anchors inside an expression.
match_command_lines() {
  while read -r pid; do
    { tr '\001\000\n' '\002\001 ' <"$PROC/$pid/cmdline"; } 2>/dev/null
    printf '\n'
  done <"$work/asked" | awk '
    BEGIN { nul = sprintf("%c", 1) }
    { sub(nul "+$", ""); gsub(nul, " "); print }' >"$work/argv"
  [ -s "$work/argv" ] || return 0
  while IFS= read -r line; do
    grep -anE -e "${line#* }" "$work/argv" | sed -e '/^[0-9]*:$/d' -e "s/:.*/ ${line%% *}/"
  done <"$work/cmdlines" >"$work/hits"
}

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
  clear_findings
  if [ -n "$release" ]; then
    warn_once "nothing is applied: $release"
  else
    cpu_lists | grep -v '^#' >"$work/cpus"
    rules | grep '^[0-9]' >"$work/rules"
    command_lines >"$work/cmdlines"
    scan
    match_command_lines
  fi
  if [ -s "$work/state" ]; then
    case $MODE:$DRY:$release in
    observe:1:*) warn_once "some threads still have what an earlier plan gave them; revert.sh puts it back" ;;
    *::?*) warn_once "what was changed is put back" ;;
    *:1:?*) warn_once "what was changed would be put back" ;;
    esac
  fi
  look
  decide
  act
  [ -n "$DRY" ] || case $changed:$restored:$failed in 0:0:0) news= ;; *) news=1 ;; esac
  while IFS= read -r line; do warn_once "$line"; done <"$work/skips"
  [ "$failed" = 0 ] || [ "$result" != 0 ] || result=$PARTLY
  [ -z "$QUIET" ] || return 0
  if [ "$cycles" = 1 ]; then
    while IFS= read -r line; do say "$line"; done <"$work/units"
    say "1 part of the policy is not in this script, see its head"
  elif [ -z "$news" ]; then
    return 0
  fi
  read -r matched right skipped alone _ <"$work/counts"
  skipped=$((skipped + excluded))
  if [ -n "$DRY" ]; then
    total="dry run, nothing was touched: $matched matched, $changed would change"
    would="would be "
  else
    total="$matched matched, $changed changed"
    would=
  fi
  total="$total, $right already right, $skipped skipped, $alone left alone"
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
