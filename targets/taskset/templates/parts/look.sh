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
