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
