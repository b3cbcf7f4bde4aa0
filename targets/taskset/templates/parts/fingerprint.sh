# --- The fingerprint: is this the machine the plan was made for? --------------------------------

# shellcheck disable=SC2016 # awk's own $
FINGERPRINT='
function value(cpu, name) { return ((cpu, name) in file) ? file[cpu, name] : "?" }
# A list, or else a mask: 32-bit words in hexadecimal, the most significant first.
function cpus_of(cpu, name, mask,   text, i, k, bit, n, out) {
  text = value(cpu, name)
  if (text != "?") return norm(text)
  text = value(cpu, mask)
  if (text == "?") return "?"
  n = 0
  for (i = length(text); i > 0; i--) {
    bit = index("0123456789abcdef", tolower(substr(text, i, 1))) - 1
    if (bit < 0) continue
    for (k = 1; k < 16; k *= 2) {
      if (int(bit / k) % 2) out = out (out == "" ? "" : ",") n
      n++
    }
  }
  return norm(out)
}
function has_cpu(list, cpu) {
  load(list)
  return (list, cpu) in has
}
# Equal sets once, by lowest CPU, then by mask.
function put(word, list,   i, key) {
  if (list == "" || (word, list) in seen) return
  seen[word, list] = 1
  key = ""
  for (i = top[list]; i >= 0; i--) key = key ((list, i) in has ? 1 : 0)
  print word, list + 0, length(key), key, list | order
}
{
  i = index($0, ":")
  path = substr($0, 1, i - 1)
  text = substr($0, i + 1)
  if (path in read) next # some old kernels end with a NUL behind the newline
  read[path] = 1
  if (path == "online") online = text
  if (path !~ /^cpu[0-9]+\//) next
  cpu = substr(path, 4) + 0
  sub(/^cpu[0-9]+\//, "", path)
  file[cpu, path] = text
  if (path ~ /^topology\//) topology = topology (topology == "" ? "" : ",") cpu
  if (path ~ /^cache\/index[0-9]+\/level$/) {
    sub(/^cache\/index/, "", path)
    if (path + 0 > indexes) indexes = path + 0
  }
}
END {
  order = "sort -k1,1 -k2,2n -k3,3n -k4,4 | sed \"s/ .* / /\""
  online = norm(online)
  if (online == "") online = norm(topology)
  printf "tierc-cpu-1\narch %s\nonline %s\n", ENVIRON["arch"], online
  fflush()
  for (cpu = 0; cpu <= top[online]; cpu++) {
    if (!has_cpu(online, cpu)) continue
    list = cpus_of(cpu, "topology/core_cpus_list", "topology/core_cpus")
    if (list == "?") list = cpus_of(cpu, "topology/thread_siblings_list", "topology/thread_siblings")
    if (list == "?" || !has_cpu(list, cpu)) list = cpu
    list = inter(list, online)
    group[list] = group[list] (group[list] == "" ? "" : ",") cpu
    best = 0
    for (i = 0; i <= indexes; i++) {
      level = value(cpu, "cache/index" i "/level")
      kind = value(cpu, "cache/index" i "/type")
      if (level !~ /^[1-5]$/ || kind !~ /^(Unified|Data)$/) continue
      rank = level * 2 + (kind == "Unified")
      if (rank > best) {
        best = rank
        last = "cache/index" i
      }
    }
    if (!best) continue
    list = cpus_of(cpu, last "/shared_cpu_list", last "/shared_cpu_map")
    if (list != "?" && has_cpu(list, cpu)) put("llc", inter(list, online))
  }
  for (list in group) put("core", norm(group[list]))
  close(order)
}
'

# Sets $live to the text whose SHA-256 the plan holds, from what sysfs says now.
read_machine() {
  arch=${TIERC_ARCH:-$(uname -m)}
  case $PLANNED in *"${NL}arch -$NL"*) arch=- ;; esac # the facts did not know it
  export arch
  live=$(
    cd "$SYS/devices/system/cpu" 2>/dev/null || exit
    for name in topology/core_cpus_list topology/core_cpus topology/thread_siblings_list \
      topology/thread_siblings 'cache/index[0-9]*/level' 'cache/index[0-9]*/type' \
      'cache/index[0-9]*/shared_cpu_list' 'cache/index[0-9]*/shared_cpu_map'; do
      # shellcheck disable=SC2086 # the patterns of indexes have to be expanded
      printf '%s\n' cpu[0-9]*/$name
    done | grep -v '\[' | xargs grep -aHs '' online /dev/null | tr -d '\000' | awk "$CPUS$FINGERPRINT"
  )
  online=${live#*"${NL}online "}
  online=${online%%"$NL"*}
  export online
  [ -n "$online" ] || die "$BROKEN" "no CPUs in $SYS/devices/system/cpu"
}

# True when every live core and cache is the planned one, less the CPUs that are offline now.
is_subset() {
  printf '%s\n%s\n' "$PLANNED" "$live" | awk "$CPUS"'
    $1 == "tierc-cpu-1" { part++; next }
    $1 == "arch" { arch[part] = $2; next }
    $1 == "online" { on[part] = $2; next }
    { line[part, ++lines[part]] = $0 }
    END {
      if (arch[1] != arch[2] || inter(on[1], on[2]) != on[2]) exit 1
      for (i = 1; i <= lines[1]; i++) {
        split(line[1, i], word, " ")
        cut = inter(word[2], on[2])
        if (cut != "") want[word[1] " " cut] = 1
      }
      for (i = 1; i <= lines[2]; i++) {
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

# The lines in which the plan and the machine differ.
machine_difference() {
  printf '%s\n%s\n' "$PLANNED" "$live" | awk '
    $1 == "tierc-cpu-1" { part++ }
    { line[part, ++lines[part]] = $0; in_part[part, $0] = 1 }
    END {
      for (p = 1; p <= 2; p++)
        for (i = 1; i <= lines[p]; i++) {
          if ((3 - p, line[p, i]) in in_part) continue
          if (++n[p] == 6) print "  ..."
          if (n[p] < 6) print (p == 1 ? "  planned: " : "  live:    ") line[p, i]
        }
    }'
}
