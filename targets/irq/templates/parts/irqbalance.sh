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
      warn_once "irqbalance (process ${process##*/}) moves interrupts and has not been told to leave these:{{ " stop it, or see docs/irq.md" if mode == "observe" else " install irqbalance-policy.sh and irqbalance.env, which say how, and restart it" }}"
      ;;
    2)
      warn_once "irqbalance (process ${process##*/}) moves interrupts and asks $policies, which cannot be seen from here:\
 see on the host whether it {{ "leaves these alone" if mode == "observe" else "is irqbalance-policy.sh of this plan" }}"
      ;;
    esac
  done
}
