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
    for (cpu = ends[1] + 0; cpu <= ends[2] + 0 && cpu < 8192; cpu++)
      if (!((list, cpu) in has)) {
        has[list, cpu] = 1
        size[list]++
        if (cpu > top[list]) top[list] = cpu
      }
  }
}
function inter(a, b,   cpu, first, out) {
  if ((a, b) in both) return both[a, b]
  load(a)
  load(b)
  first = -1
  for (cpu = 0; cpu <= top[a] + 1; cpu++)
    if (((a, cpu) in has) && ((b, cpu) in has)) {
      if (first < 0) first = cpu
    } else if (first >= 0) {
      out = out (out == "" ? "" : ",") first (cpu - 1 > first ? "-" (cpu - 1) : "")
      first = -1
    }
  both[a, b] = out
  load(out)
  return out
}
function norm(a) { return inter(a, a) }
'
