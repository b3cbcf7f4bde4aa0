# --- CPU lists, for the awk programs below ------------------------------------------------------
#
# inter(a, b)   the CPUs in both, as a list in the kernel's form: 0-3,8
# norm(a)       the same list in that form
# size[norm(a)] how many CPUs

CPUS='
function load(list,   parts, ends, n, i, cpu) {
  if (list in size) return
  size[list] = 0
  top[list] = -1
  n = split(list, parts, ",")
  for (i = 1; i <= n; i++) {
    if (split(parts[i], ends, "-") < 2) ends[2] = ends[1]
    if (ends[1] + 0 <= top[list]) unsorted[list] = 1
    for (cpu = ends[1] + 0; cpu <= ends[2] + 0 && cpu < 8192; cpu++)
      if (!((list, cpu) in has)) {
        has[list, cpu] = 1
        size[list]++
        if (cpu > top[list]) top[list] = cpu
      }
  }
}
function inter(a, b,   parts, ends, n, i, cpu, first, last, out) {
  if ((a, b) in both) return both[a, b]
  load(a)
  load(b)
  first = -1
  n = split((a in unsorted) ? "0-" top[a] : a, parts, ",")
  for (i = 1; i <= n; i++) {
    if (split(parts[i], ends, "-") < 2) ends[2] = ends[1]
    for (cpu = ends[1] + 0; cpu <= ends[2] + 0 && cpu <= top[a]; cpu++) {
      if (!((a, cpu) in has) || !((b, cpu) in has)) continue
      if (first >= 0 && cpu > last + 1) {
        out = out first (last > first ? "-" last : "") ","
        first = -1
      }
      if (first < 0) first = cpu
      last = cpu
    }
  }
  if (first >= 0) out = out first (last > first ? "-" last : "")
  both[a, b] = out
  load(out)
  return out
}
function norm(a) { return inter(a, a) }
'
