#!/bin/sh
# Keeps a node as its plan has it, from a pod: runs the scripts of the plan, again and again.
# Written by tierc; it is the same for every policy, class and node.
#
# It starts the apply.sh of each directory of the plan that has one (cpuset, taskset, irq), then
# waits and does so again. They change nothing where all is as it should be. It puts back what a
# script changed that the plan has no more, by the revert.sh that was kept from then. It ends on
# SIGTERM and puts nothing back. It asks no API server and changes nothing else.
# Usage and exit codes: run.sh --help

set -u

LC_ALL=C # names and paths are bytes
export LC_ALL
unset IFS CDPATH

usage() {
  cat <<'END'
usage: run.sh [--once]

Runs the scripts of a node's plan in a pod, again and again.

  --once   run them once and stop
  --help   print this

It is told by the environment:
  NODE_NAME        the node it runs on
  TIERC_CLASS      the class whose plan it has, TIERC_MODE the plan's mode
  TIERC_PLAN       the hash of the plan
  TIERC_NODES      the nodes that the plan is for; empty: those that the plan's fingerprint fits
  TIERC_INTERVAL   seconds between two runs (default 30)
  TIERC_ETC        the directory that the kill switch, "disabled", is looked for in (default
                   /etc/tierc)

The irq scripts also read TIERC_IRQS, a directory with interrupts and irq/ of the host's /proc.

The state is in /var/lib/tierc/kubernetes/status.json. The file /tmp/ready appears when all scripts
have done their work, or refused it because this is another machine than planned.

exit codes: 0 ended by a signal, or done with --once
            1 with --once: some script did not do all it should
            2 wrong usage
            7 a tool is missing, the files of the plan are not whole, a directory cannot be written,
              or one of the node's was replaced meanwhile
END
}

# These are for tests.
FILES=${TIERC_FILES:-/tierc/plan} # what the kubelet unpacked
STATE=${TIERC_STATE:-/var/lib/tierc}
WORK=${TIERC_WORK:-/tmp}
ETC=${TIERC_ETC:-/etc/tierc} # for nodes whose /etc cannot be written as well
MOUNTS=${TIERC_MOUNTS:-/proc/self/mountinfo}

OWN=$STATE/kubernetes
SCRIPTS='cpuset taskset irq' # in this order: threads are placed within cpusets
INTERVAL=${TIERC_INTERVAL:-30}
ONCE=
STOP=
child=
lost=
told=
cycles=0

say() { printf '%s\n' "tierc: $*"; }
warn() { printf '%s\n' "tierc: $*" >&2; }
die() { # CODE MESSAGE
  code=$1
  shift
  warn "$*"
  exit "$code"
}

# shellcheck disable=SC2317 # called by the trap
stop() {
  STOP=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

# Puts a file in place at once, unless it is there already.
put() { # FILE DESTINATION
  if cmp -s -- "$1" "$2"; then return 0; fi
  if ! cp -- "$1" "$2.new" || ! mv -f -- "$2.new" "$2"; then die 7 "cannot write $2"; fi
}

# --- The plan -------------------------------------------------------------------------------------

# Sets $tree to the node's files, joined where they were too large for one object.
unpack() {
  tree=$FILES/node
  [ -f "$FILES/SHA256SUMS" ] || die 7 "there is no plan in $FILES"
  whole=$FILES
  if [ -f "$FILES/PARTS" ]; then
    whole=$WORK/plan
    tree=$whole/node
    rm -rf -- "$whole"
    mkdir -p -- "$tree" || die 7 "cannot write to $WORK"
    [ ! -d "$FILES/node" ] || cp -RL -- "$FILES/node/." "$tree/" || die 7 "cannot write to $WORK"
    while read -r number count mode path; do
      mkdir -p -- "$(dirname -- "$tree/$path")" || die 7 "cannot write to $WORK"
      part=0
      while [ "$part" -lt "$count" ]; do
        cat -- "$FILES/parts/$number.$part" || die 7 "part $part of $path is missing"
        part=$((part + 1))
      done >"$tree/$path"
      chmod "$mode" "$tree/$path"
    done <"$FILES/PARTS"
  fi
  (cd "$whole" && sha256sum -c "$FILES/SHA256SUMS") >"$WORK/sums" 2>&1 ||
    die 7 "the files of the plan are not whole: $(grep -v ': OK$' "$WORK/sums")"
}

# Says once how this plan and the one before relate.
compare() {
  before=
  { IFS= read -r before <"$OWN/plan"; } 2>/dev/null
  case $before in
  "$TIERC_PLAN") say "plan $TIERC_PLAN is in place: nothing is rewritten" ;;
  '') say "plan $TIERC_PLAN is the first here" ;;
  *) say "plan $TIERC_PLAN takes the place of $before" ;;
  esac
}

# --- Who has the node -----------------------------------------------------------------------------
#
# A node that changes its class has pods of both until the old DaemonSet is pruned, which is when the
# whole rollout is through, or never. The pod that began last has the node; the others touch nothing
# while that one lives.

# Sets $born to the start time of a process, the 22nd field of its stat; false if it is gone.
born_of() { # PID
  case $1 in '' | *[!0-9]*) return 1 ;; esac
  { IFS= read -r born; } 2>/dev/null <"/proc/$1/stat" || return 1
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ born _ <<END
${born##*) }
END
}

take_node() {
  printf '%s\n' "$me" >"$WORK/owner" || die 7 "cannot write to $WORK"
  put "$WORK/owner" "$OWN/owner"
  rm -f -- "$WORK/lost"
}

# True where this pod has the node, or has it from now on because who had it is gone.
has_node() {
  owner=
  { IFS= read -r owner <"$OWN/owner"; } 2>/dev/null
  [ "$owner" != "$me" ] || return 0
  read -r pid since where class <<END
$owner
END
  if [ "$where" != "$boot" ] || ! born_of "$pid" || [ "$born" != "$since" ]; then
    take_node
    return 0
  fi
  [ -n "$lost" ] || say "a newer pod, of class $class, has this node: nothing is touched while it runs"
  lost=1
  : >"$WORK/lost" # also when this container starts again
  : >"$WORK/ready"
  return 1
}

# Sets $roots to which directories of the node are mounted here, as they are called there now. A mount
# keeps the directory it was made of: where that is removed or moved away on the node, nothing here
# sees what has its name since, and the kill switch in it.
look_at_mounts() {
  roots=
  { while read -r _ _ _ root point _; do
    case $point in "$ETC" | "$STATE") roots="$roots $root" ;; esac
  done; } 2>/dev/null <"$MOUNTS"
}

check_mounts() {
  look_at_mounts
  [ "$roots" = "$began_with" ] ||
    die 7 "$ETC or $STATE was removed or moved on the node: this container must start again to see it"
}

# --- A run of the scripts -------------------------------------------------------------------------

# Runs a script, printing warnings only if they are others than last time; sets $code.
script() { # NAME SCRIPT
  quiet=--quiet
  [ "$cycles" != 1 ] || quiet=
  (
    exec sh "$2" ${quiet:+"$quiet"} --state "$STATE/$1" 2>"$WORK/warnings.new"
  ) &
  child=$!
  finish
  cmp -s -- "$WORK/warnings.new" "$WORK/warnings.$1" || cat -- "$WORK/warnings.new" >&2
  mv -f -- "$WORK/warnings.new" "$WORK/warnings.$1"
}

# Waits for the child, also if a signal comes, which is passed on to it; sets $code. A wait that a
# signal ends says nothing of the child.
finish() {
  [ -z "$STOP" ] || kill -TERM "$child" 2>/dev/null
  wait "$child"
  code=$?
  while [ "$code" -gt 128 ] && kill -0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
  done
  child=
}

# Takes the result of a script into the state of all: the worst has it.
judge() { # NAME CODE
  case $2 in
  0) word="done" rank=0 ;;
  8) # cpuset: of units, which only systemd could put back
    word=leftover rank=0
    leave "$1"
    ;;
  3) word=refused rank=1 ;;
  1) word=partly rank=2 ;;
  4) word=locked rank=3 ;;
  *) word=failed rank=4 ;;
  esac
  [ "$rank" -le "$worst" ] || worst=$rank
  results="$results${results:+, }\"$1\": {\"exit\": $2, \"state\": \"$word\"}"
}

# Notes what cannot be put back from here, and says once what to do.
leave() { # NAME
  left="$left${left:+, }\"$1\""
  case " $told " in *" $1 "*) return 0 ;; esac
  told="$told $1"
  warn "$1: something stays set that a pod cannot put back; on the node run: sh $OWN/revert/$1.sh --state $STATE/$1"
}

# Puts back what scripts changed that the plan has no more. Where that fails, such as for want of a
# privilege that the pod needs no more, the new plan is none the worse for it.
drop() {
  for kept in "$OWN/revert"/*.sh; do
    name=${kept##*/}
    name=${name%.sh}
    [ -f "$kept" ] || continue
    [ ! -f "$tree/$name/apply.sh" ] || continue
    if [ -n "$STOP" ] || ! has_node; then return 0; fi
    script "$name" "$kept"
    [ -z "$STOP" ] || return 0 # it may have ended before its end
    if [ "$code" = 0 ]; then
      say "$name: the plan has it no more; what it changed is put back"
      rm -f -- "$kept" "$WORK/warnings.$name"
    else
      leave "$name"
    fi
  done
}

# Runs the apply.sh of $name, and keeps the revert.sh that goes with what it records. A record of
# another version is put back first, by the script of that version.
apply() {
  kept=$OWN/revert/$name.sh
  [ -e "$kept" ] || put "$tree/$name/revert.sh" "$kept"
  script "$name" "$tree/$name/apply.sh"
  if [ "$code" = 6 ] && [ -z "$STOP" ] && ! cmp -s -- "$tree/$name/revert.sh" "$kept"; then
    script "$name" "$kept"
    [ -z "$STOP" ] || return 0
    if [ "$code" = 0 ]; then
      say "$name: the record of another version is put back first"
      script "$name" "$tree/$name/apply.sh"
    else
      code=6 # the record is still there, and so must be the script that can read it
    fi
  fi
  [ "$code" = 6 ] || put "$tree/$name/revert.sh" "$kept"
}

cycle() {
  cycles=$((cycles + 1))
  results=
  worst=-1
  left=
  check_mounts
  has_node || return 0
  lost=
  drop
  for name in $SCRIPTS; do
    [ -f "$tree/$name/apply.sh" ] || continue
    if [ -n "$STOP" ] || ! has_node; then return 0; fi
    apply
    [ -z "$STOP" ] || return 0
    judge "$name" "$code"
  done
  case $worst in
  -1) state=idle ;;
  0) state=applied ;;
  1) state=refused ;;
  2) state=partly ;;
  3) state=locked ;;
  *) state=failed ;;
  esac
  case $state:${TIERC_MODE-} in applied:observe) state=observed ;; esac
  case $state:$left in applied:?* | observed:?* | idle:?*) state=leftover ;; esac
  if [ "$worst" -le 0 ] && [ -e "$ETC/disabled" ]; then state=disabled; fi
  if [ -n "$STOP" ] || ! has_node; then return 0; fi
  report
}

# Tells what came of it: in the status file, and by the file that the readiness probe looks for.
report() {
  {
    printf '{"class": "%s", "mode": "%s", "node": "%s", "plan": "%s", ' \
      "$TIERC_CLASS" "${TIERC_MODE-}" "$NODE_NAME" "$TIERC_PLAN"
    printf '"scripts": {%s}, "leftover": [%s], "state": "%s"}\n' "$results" "$left" "$state"
  } >"$WORK/status" || die 7 "cannot write to $WORK"
  cmp -s -- "$WORK/status" "$OWN/status.json" || say "state: $state"
  put "$WORK/status" "$OWN/status.json"
  case $state in
  applied | observed | idle | leftover)
    printf '%s\n' "$TIERC_PLAN" >"$WORK/hash"
    put "$WORK/hash" "$OWN/plan"
    ;;
  esac
  [ "$worst" -gt 1 ] || [ -e "$WORK/ready" ] || : >"$WORK/ready"
}

pause() {
  sleep "$1" >/dev/null 2>&1 &
  child=$!
  finish
}

# --- Running --------------------------------------------------------------------------------------

while [ $# -gt 0 ]; do
  case $1 in
  --once) ONCE=1 ;;
  --help)
    usage
    exit 0
    ;;
  *) die 2 "no such option: $1; see --help" ;;
  esac
  shift
done
for word in "${NODE_NAME-}" "${TIERC_CLASS-}" "${TIERC_PLAN-}"; do
  case $word in
  '' | *[!a-zA-Z0-9.-]*) die 2 "NODE_NAME, TIERC_CLASS and TIERC_PLAN must be set; see --help" ;;
  esac
done
case $INTERVAL in
'' | *[!0-9]* | 0* | ??????*) die 2 "TIERC_INTERVAL is a number of seconds from 1 to 99999" ;;
esac

trap stop HUP INT TERM
umask 022
rm -f -- "$WORK/ready" "$WORK"/warnings.*
case " ${TIERC_NODES:-$NODE_NAME} " in
*" $NODE_NAME "*) ;;
*)
  # The pod of this node's own class may run here as well, so that nothing here is ours to touch.
  warn "refused: node $NODE_NAME is not of class $TIERC_CLASS; nothing is touched"
  : >"$WORK/ready"
  [ -z "$ONCE" ] || exit 1
  while [ -z "$STOP" ]; do pause 86400; done
  exit 0
  ;;
esac
for tool in cat chmod cmp cp dirname grep mkdir mv rm sha256sum sleep; do
  command -v "$tool" >/dev/null 2>&1 ||
    die 7 "$tool is not installed: the image must have the tools of busybox"
done
look_at_mounts
began_with=$roots
unpack
umask 077
mkdir -p -- "$OWN/revert" || die 7 "cannot write to $STATE"
boot=
{ IFS= read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
born_of "$$" || die 7 "/proc is not mounted"
me="$$ $born ${boot:=-} $TIERC_CLASS"
[ -e "$WORK/lost" ] || take_node
compare
cycle
if [ -n "$ONCE" ]; then
  [ "$worst" -le 0 ] || exit 1
  exit 0
fi
while [ -z "$STOP" ]; do
  pause "$INTERVAL"
  [ -n "$STOP" ] || cycle
done
exit 0
