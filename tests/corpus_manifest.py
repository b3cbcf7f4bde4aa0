"""The rows of the corpus's manifest, and what NodeFacts must say to agree with one.

A row for a sysfs snapshot or an hwloc export is a list of ``field=value``; the rows of other files
are words for people, and :mod:`tests.corpus_eye` holds what they and the files say.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from compiler.cpuset import CpuSet, union
from compiler.model.facts import Device, FactsSpec

Differences = dict[str, tuple[object, object]]
"""Field -> (expected, found), where they differ."""

# A display controller of another vendor is the VGA of a BMC or of a virtual machine.
GPU_VENDORS = ("0x10de", "0x1002", "0x8086")
KINDS = {"cpu_core": "performance", "cpu_atom": "efficiency"}
BACKENDS = re.compile(r"(cuda|nvml|rsmi|opencl)\d")


def manifest(corpus: Path) -> dict[str, str]:
    """Return the expected facts of every file of the corpus."""
    with (corpus / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["file"]: row["expected_facts"] for row in table}


class Comparison:
    """Collects what differs."""

    def __init__(self) -> None:
        self.differences: Differences = {}

    def __call__(self, field: str, expected: object, found: object) -> None:
        if expected != found:
            self.differences[field] = (expected, found)


def fields_of(row: str) -> dict[str, str]:
    """Return the fields of a row, which may begin with the name of what it is about."""
    return dict(part.split("=", 1) for part in re.sub(r"^[\w-]+: ", "", row).split("; "))


def parts(pattern: str, text: str) -> tuple[str, ...]:
    """Return the groups of a field that must have the form ``pattern``."""
    match = re.fullmatch(pattern, text)
    assert match is not None, text
    return match.groups()


def cpus_of(text: str) -> CpuSet:
    return CpuSet() if text == "-" else CpuSet.parse(text)


def shorter(text: str, expected: str) -> str:
    """Cut ``text`` where the manifest was cut, which it is after 40 characters or so."""
    return text[: len(expected)] if len(expected) >= 30 else text


def cores_of(spec: FactsSpec) -> list[CpuSet]:
    return [core for group in spec.cores for core in group.cores()]


def of_kind(spec: FactsSpec, kind: str) -> CpuSet:
    return union(group.cpus for group in spec.cores if group.kind == kind)


# --- sysfs -------------------------------------------------------------------------------------


def sysfs_differences(spec: FactsSpec, row: str) -> Differences:
    """Compare facts with the row of a sysfs snapshot."""
    fields, check = fields_of(row), Comparison()
    _masks(spec, fields["online"], check)
    cores = cores_of(spec)
    check("cores", int(fields["cores"]), len(cores))
    widths, zero = parts(r"\[(.*)\] sib0=(.*)", fields["threads/core"])
    check("threads", {int(n) for n in widths.split(", ")}, {len(core) for core in cores})
    of_zero = next(core for core in cores if min(spec.cpus.online) in core)
    check("sib0", cpus_of(zero) or CpuSet((0,)), of_zero)
    number, ids = parts(r"(\d+)\((.*)\)", fields["packages"])
    known = {int(p) for p in ids.split(",")} - {-1}  # the kernel's word for unknown
    packages = {group.package for group in spec.cores} - {None}
    check("packages", int(number) if known else 0, len(packages))
    check("package ids", True, known <= packages)
    _nodes(spec, fields, check)
    _caches(spec, fields["llc"], check)
    for part in [] if fields["capacity"] == "-" else fields["capacity"].split():
        value, cpus = part.split(":")
        named = union(g.cpus for g in spec.cores if g.capacity == int(value))
        check(f"capacity {value}", CpuSet.parse(cpus), named)
    for name in ("isolated", "nohz_full"):
        if fields[name] != "-":
            check(name, CpuSet.parse(fields[name]), getattr(spec.cpus, name))
    for part in [] if fields["core_ids"] == "-" else fields["core_ids"].split(" / "):
        pmu, cpus = part.split(":")
        check(pmu, CpuSet.parse(cpus), of_kind(spec, KINDS[pmu]))
    _sysfs_devices(spec, fields["devs"], check)
    return check.differences


def _masks(spec: FactsSpec, text: str, check: Comparison) -> None:
    number, online, _, present, possible = parts(
        r"(\d+)\[(.*?)\] \(online file=(.*?), present=(.*?), possible=(.*?)\)", text
    )
    check("online", (int(number), CpuSet.parse(online)), (len(spec.cpus.online), spec.cpus.online))
    for name, cpus in (("present", present), ("possible", possible)):
        check(name, None if cpus == "None" else CpuSet.parse(cpus), getattr(spec.cpus, name))


def _nodes(spec: FactsSpec, fields: dict[str, str], check: Comparison) -> None:
    text = fields["numa"]
    ids = [] if text == "no node dir" else [int(n) for n in text.split(",")]
    check("numa", ids, [node.id for node in spec.numa])
    without = CpuSet(node.id for node in spec.numa if not node.cpus)
    check("cpuless", cpus_of(fields["cpuless"]), without)
    if spec.numa:
        homeless = cpus_of(fields["cpus_in_no_node"])
        by_node = spec.cpus.online - union(node.cpus for node in spec.numa)
        by_group = union(group.cpus for group in spec.cores if group.numa is None)
        check("cpus_in_no_node", homeless, by_node)
        check("cores without numa", homeless, by_group)


def _caches(spec: FactsSpec, text: str, check: Comparison) -> None:
    level, number, sets = parts(r"L(None|\d) x(\d+)\[(.*)\]", text)
    check("llc count", int(number), len(spec.llcs))
    if level == "None":
        return
    check("llc level", {int(level)}, {one.level for one in spec.llcs})
    wanted = sets.split(" | ")
    check(
        "llc sets",
        [str(CpuSet.parse(one)) if len(one) < 30 else one for one in wanted],
        [shorter(str(llc.cpus), one) for llc, one in zip(spec.llcs, wanted, strict=False)],
    )


def _sysfs_devices(spec: FactsSpec, text: str, check: Comparison) -> None:
    wanted = {}
    for part in [] if text == "-" else text.split(" "):
        form = r"(gpu|nic)@(\S+?):vendor=(0x\w+),numa_node=(-?\d+),local=(.*)"
        type_, bdf, vendor, node, local = parts(form, part)
        if type_ == "nic" or vendor in GPU_VENDORS:
            wanted[bdf] = (type_, vendor, int(node), local)
    check("device addresses", sorted(wanted), sorted(d.bdf for d in spec.devices if d.bdf))
    bearing = [node for node in spec.numa if node.cpus]
    for device in spec.devices:
        if device.bdf not in wanted:
            continue
        type_, vendor, number, local = wanted[device.bdf]
        check(f"{device.bdf} type", (type_, vendor), (device.type, f"0x{device.vendor}"))
        if number < 0:
            assert len(bearing) == 1  # then it is the one, and unknown on all other machines
            number = bearing[0].id
            check(f"{device.bdf} confidence", "inferred", device.locality.confidence)
        check(f"{device.bdf} numa", number, device.numa)
        check(f"{device.bdf} local", local, shorter(near(device), local))


def near(device: Device) -> str:
    return "unknown" if device.locality.cpus is None else str(device.locality.cpus)


# --- hwloc -------------------------------------------------------------------------------------


def xml_differences(spec: FactsSpec, row: str, *, alone: bool) -> Differences:
    """Compare facts with the row of an hwloc export.

    ``alone`` False: the file has no CPUs, and the facts are of it and of another source of them.
    """
    fields, check = fields_of(row), Comparison()
    cores = cores_of(spec)
    if alone:
        number, online = parts(r"(\d+)\[(.*)\]", fields["pus"])
        found = (len(spec.cpus.online), spec.cpus.online)
        check("pus", (int(number), CpuSet.parse(online)), found)
        check("cores", int(fields["cores"]), len(cores))
        widths = sorted({len(core) for core in cores})
        check("threads", fields["threads/core"], str(widths))
    packages = {group.package for group in spec.cores} - {None}
    check("packages", int(fields["packages"]), len(packages))
    check("numa", fields["numa"], ",".join(str(node.id) for node in spec.numa))
    without = CpuSet(node.id for node in spec.numa if not node.cpus)
    check("cpuless", cpus_of(fields["cpuless"]), without)
    number, _, sets = fields["llc_groups"].partition("[")
    third = [str(llc.cpus) for llc in spec.llcs if llc.level == 3]
    check("llc count", int(number), len(third))
    listed = re.findall(r"[0-9][0-9,-]*", sets)
    check("llc sets", listed, third[: len(listed)])
    groups = [] if fields["cpukinds"] == "-" else fields["cpukinds"].split(" / ")
    for kind in spec.kinds:  # each is some of hwloc's whole: kinds may differ in clock only
        inside = [CpuSet.parse(g) for g in groups if CpuSet.parse(g) & kind.cpus]
        check(f"kind {kind.name}", union(inside), kind.cpus)
    check("kinds", [], [] if groups or not spec.kinds else list(spec.kinds))
    check("complete", CpuSet.parse(fields["complete"]), spec.cpus.present)
    check("allowed", CpuSet.parse(fields["allowed"]), spec.cpus.allowed or spec.cpus.online)
    _xml_devices(spec, fields["devs"], check)
    return check.differences


def _xml_devices(spec: FactsSpec, text: str, check: Comparison) -> None:
    """Every GPU and interface of the row is there, under its address and near its CPUs.

    The manifest lists storage and memory too, and one GPU under all its names.  Nothing else is a
    network device; a GPU without a vendor's library stands in no row.
    """
    by_bdf = {device.bdf: device for device in spec.devices if device.bdf}
    by_name = {name: device for device in spec.devices for name in device.names}
    interfaces = set()
    for word in [] if text == "-" else text.split():
        label, bdf, cpus = parts(r"([^@]+)@(-|[0-9a-f:.]+):([0-9,-]+)", word)
        if label.startswith(("dax", "mem")):
            continue
        device = by_name.get(label) if bdf == "-" else by_bdf.get(bdf)
        if device is None:
            check(label, word, None)
            continue
        if BACKENDS.match(label):
            check(f"{label} type", "gpu", device.type)
        else:
            interfaces.add(label)
            check(f"{label} type", ("nic", True), (device.type, label in device.names))
        check(f"{label} cpus", cpus, near(device))
    named = {name for d in spec.devices if d.type == "nic" for name in d.names}
    check("interfaces", interfaces, named)
