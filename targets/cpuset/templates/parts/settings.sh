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
  if [ -e "$UNITS/$unit.d/{{ drop_in_name }}" ]; then
    warn_once "$UNITS/$unit.d/{{ drop_in_name }} would set it again: remove it too"
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
