# --- Deciding -------------------------------------------------------------------------------------
#
# Writes, from the files above:
#   work/actions  "{{ own.actions }} DESCRIPTION"
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
