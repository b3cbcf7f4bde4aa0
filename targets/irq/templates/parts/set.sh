# --- Deciding -------------------------------------------------------------------------------------
#
# Writes, from the files above:
#   work/actions  "{{ own.actions }} DESCRIPTION"
#   work/next     the state as it must be while the actions run
#   work/skips    what was not done, and why
#   work/summary  a line a device
#   work/counts   interrupts, right, left to the kernel, skipped, foreign

# shellcheck disable=SC2016 # awk's own $
DECIDE='
function tell(text) { print text > skipped }
# Whether an interrupt has the CPUs we wrote, or what the kernel makes of them when all went away.
function is_ours(n, cur) {
  if (cur == wrote[n] || (inter(wrote[n], online) == "" && cur == online)) return 1
  return before[n] != "-" && cur == norm(before[n])
}
function named(n) { return n (text[n] == "" ? "" : " " text[n]) " of " device[n] }
function keep_line(n, orig, written, earlier, wish) {
  print n, device[n], name[n], orig, written, earlier, wish > next_state
}
function act(verb, n, cpus, fresh, shown) { print verb, n, cpus, fresh, shown > actions }
function put_back(n, cur,   target) {
  target = inter(original[n], online) == "" ? online : original[n]
  if (cur == norm(target)) return # the change never happened
  keep_line(n, original[n], wrote[n], before[n], asked[n])
  act("restore", n, target, "known", named(n) ": " cur " -> " target)
}
function decide(n,   d, known, cur, want, orig, shown) {
  d = device[n]
  known = (n in wrote) && device_of[n] == d && name_of[n] == name[n]
  cur = norm(mask[n])
  if (!(d in cpus)) { # of the state alone
    if (!known) return
    if (is_ours(n, cur)) put_back(n, cur)
    else if (cur != norm(original[n])) {
      foreign++
      tell("left, changed by someone else since: interrupt " named(n) ": " cur ", not " wrote[n])
    }
    return
  }
  found++
  count[d, "all"]++
  if (known && !is_ours(n, cur)) known = 0
  orig = known ? original[n] : cur
  want = inter(cpus[d], online)
  if (want == "") {
    skipped_count++
    if (!(d in told)) tell("skipped, " d ": none of its CPUs " cpus[d] " is online, but " online)
    told[d] = 1
    if (known) put_back(n, cur)
    return
  }
  # What the kernel made of the same request stays; another request is another write.
  if (cur == want || (known && cur == wrote[n] && before[n] == "-" && want == asked[n])) {
    right++
    count[d, "right"]++
    if (known) keep_line(n, orig, cur, "-", want)
    return
  }
  shown = named(n) " (" where[d] "): " cur " -> " want
  if ((n in fixed) || (n in refused)) {
    managed++
    count[d, "managed"]++
    tell("left to the kernel, which places it itself: interrupt " shown)
    return
  }
  count[d, "change"]++
  keep_line(n, orig, want, cur, want)
  if (n in now_on) shown = shown " (on " now_on[n] ")"
  act("set", n, want, known ? "known" : "fresh", shown)
}
BEGIN {
  online = norm(ENVIRON["online"])
  actions = ENVIRON["work"] "/actions"
  next_state = ENVIRON["work"] "/next"
  skipped = ENVIRON["work"] "/skips"
}
what == "devices" {
  order[++devices] = $1
  kind[$1] = $2
  cpus[$1] = $3
  where[$1] = $4
}
what == "names" {
  n = $1
  sub(/^[0-9]+ ?/, "")
  text[n] = $0
}
what == "fixed" { sub(/\/.*/, ""); fixed[$0] = 1 }
what == "refused" { refused[$1] = 1 }
what == "absent" { tell($0) }
what == "state" {
  device_of[$1] = $2
  name_of[$1] = $3
  original[$1] = $4
  wrote[$1] = norm($5)
  before[$1] = $6
  asked[$1] = $7 == "-" ? "-" : norm($7)
}
what == "found" {
  if (!($1 in device)) {
    device[$1] = $2
    list[++numbers] = $1
  } else if (device[$1] != $2 && ($2 in cpus) && (device[$1] in cpus) && inter(cpus[$2], online) != inter(cpus[device[$1]], online))
    tell("interrupt " $1 " is shared by " device[$1] " and " $2 ": it goes where those of " device[$1] " do")
}
what == "masks" || what == "effective" {
  i = index($0, "/")
  n = substr($0, 1, i - 1)
  sub(/^[^:]*:/, "")
  if (what == "masks") mask[n] = $0
  else if ($0 != "") now_on[n] = $0
}
END {
  for (i = 1; i <= numbers; i++) {
    n = list[i]
    name[n] = substr(text[n], 1, 100)
    gsub(/[^!-~]/, "_", name[n])
    if (name[n] == "") name[n] = "-"
    if ((n in mask) && mask[n] ~ /^[0-9]/) decide(n)
    else if (device[n] in cpus) {
      found++
      count[device[n], "all"]++
      skipped_count++
      tell("skipped, interrupt " named(n) ": what CPUs it has cannot be read")
    }
  }
  for (n in wrote) {
    if (!(n in mask) || ((n in device) && device[n] == device_of[n] && name[n] == name_of[n])) continue
    foreign++
    tell("left, another interrupt now: " n (text[n] == "" ? "" : " " text[n]) ", which was " name_of[n] " of " device_of[n])
  }
  for (i = 1; i <= devices; i++) {
    d = order[i]
    line = d " (" kind[d] ", " where[d] ", CPUs " cpus[d] "): " count[d, "all"] + 0 " interrupts, "
    line = line count[d, "change"] + 0 " to change, " count[d, "right"] + 0 " already right, "
    print line count[d, "managed"] + 0 " left to the kernel" > (ENVIRON["work"] "/summary")
  }
  print found + 0, right + 0, managed + 0, skipped_count + 0, foreign + 0 > (ENVIRON["work"] "/counts")
}
'

refused= # interrupts that the kernel refused to move, in this process

decide() {
  for file in actions next skips summary counts; do : >"$work/$file"; done
  for number in $refused; do printf '%s\n' "$number"; done >"$work/refused"
  awk "$CPUS$DECIDE" what=devices "$work/devices" what=names "$work/names" \
    what=fixed "$work/fixed" what=refused "$work/refused" what=absent "$work/absent" \
    what=state "$work/state" what=found "$work/found" what=masks "$work/masks" \
    what=effective "$work/effective" || die "$BROKEN" "awk failed; nothing was changed"
  [ -s "$work/counts" ] || die "$BROKEN" "awk was stopped; nothing was changed"
  sort -k2,2n "$work/actions" >"$work/sorted" && mv -f "$work/sorted" "$work/actions"
  sort "$work/skips" >"$work/sorted" && mv -f "$work/sorted" "$work/skips"
}

# --- Acting -----------------------------------------------------------------------------------------

# 0: written, or the interrupt has gone; 1: the kernel places it itself; 2: failed, $text says why.
put() { # IRQ CPUS
  file=$IRQS/irq/$1/smp_affinity_list
  printf '%s\n' "$2" >"$work/value"
  [ -e "$file" ] || return 0
  { cat -- "$work/value" >"$file"; } 2>"$work/error" && return 0
  [ -e "$file" ] || return 0
  read_file "$work/error" || text=
  case $text in
  *"nput/output error"* | *"I/O error"* | *"peration not permitted"*) return 1 ;;
  *"o space left"*) text="the CPUs have no vector left: $text" ;;
  esac
  return 2
}

# Does work/actions. The originals are on disk before the first interrupt is touched; afterwards
# the state is what the kernel really has.
act() {
  changed=0 restored=0 failed=0 kernels=0
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
  while read -r verb number cpus _ description; do
    [ -z "$STOP" ] || break
    put "$number" "$cpus"
    case $? in
    0)
      printf '%s\n' "$number done" >>"$work/results"
      if [ "$verb" = set ]; then
        changed=$((changed + 1))
        say "set $description"
      else
        restored=$((restored + 1))
        say "restored $description"
      fi
      ;;
    1)
      printf '%s\n' "$number failed" >>"$work/results"
      # shellcheck disable=SC2034 # read by apply.sh
      kernels=$((kernels + 1))
      refused="$refused $number"
      printf '%s\n' "left to the kernel, which places it itself: interrupt ${description% (on *}" >>"$work/skips"
      ;;
    *)
      printf '%s\n' "$number failed" >>"$work/results"
      failed=$((failed + 1))
      warn "could not $verb $description: $text"
      ;;
    esac
  done <"$work/actions"
  awk '{ print $2 }' "$work/actions" | grep_irqs smp_affinity_list >"$work/masks"
  : >"$work/odd"
  awk "$CPUS"'
    function subset(a, b) { return inter(a, b) == norm(a) }
    what == "masks" {
      i = index($0, "/")
      n = substr($0, 1, i - 1)
      sub(/^[^:]*:/, "")
      mask[n] = norm($0)
    }
    what == "actions" { verb[$2] = $1; want[$2] = $3; fresh[$2] = $4 }
    what == "results" { result[$1] = $2 }
    what == "next" {
      n = $1
      if (!(n in verb)) { print; next }
      if (!(n in mask)) next # it has gone
      if (verb[n] == "restore") {
        if (result[n] != "done") print
        next
      }
      if (result[n] == "done") {
        $5 = mask[n]
        $6 = "-"
        if (mask[n] == "" || !subset(mask[n], want[n])) print n, mask[n], want[n] > (ENVIRON["work"] "/odd")
      } else if (fresh[n] == "fresh") next
      else {
        $5 = $6
        $6 = $7 = "-" # asked for again the next time
      }
      print
    }
    END { print "end" }
  ' what=masks "$work/masks" what=actions "$work/actions" what=results "$work/results" \
    what=next "$work/next" >"$work/settled"
  # Cut short by a signal: the state on disk still has every original.
  [ "$(sed -n '$p' "$work/settled")" = end ] || return 0
  sed '$d' "$work/settled" >"$work/final"
  while read -r number got wanted; do
    failed=$((failed + 1))
    changed=$((changed - 1))
    warn "interrupt $number did not take $wanted: it has $got"
  done <"$work/odd"
  store_state "$work/final"
}
