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
      [ ! -e "$UNITS/$unit.d/{{ drop_in_name }}" ] || remember "$1" "$2" "$3" - "$4" none
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
