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
        print n ? line[1] : "{{ device_format }}"
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
