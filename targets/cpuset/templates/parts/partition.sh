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
