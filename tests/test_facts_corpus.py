"""Every sysfs snapshot of the shared corpus, against the facts its manifest expects."""

from __future__ import annotations

import csv
import re
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from compiler.cpuset import CpuSet, union
from compiler.facts.collect import FactsError, collect
from compiler.facts.write import facts_yaml
from compiler.model.facts import FactsSpec
from tests.conftest import shared_dir

# Folder of the corpus -> how many sysfs snapshots it holds.
FOLDERS = {
    "hwloc-sysfs": 14,
    "ghw-snapshots": 5,
    "nri-plugins-sysfs": 1,
    "lscpu-dumps": 6,
    "openshift-mustgather": 3,
}
# Parts of a tree that no fact is read from, and that are most of its 97,000 files.
UNREAD = re.compile(
    r"/memory\d+(/|$)|(^|/)proc/(irq|device-tree)/|/node\d+/(hugepages|vmstat|cpu\d+)|/msi_irqs/"
    r"|/(power|cpuidle|thermal_throttle|microcode|hotplug|driver)/|/uevent$|/core_id$"
    r"|/cache/index\d+/(coherency|number|ways|physical|allocation|write)_\w+$"
    r"|/topology/(core_siblings|package_cpus|die|cluster|book|drawer|ppin)\w*$"
)
GPU_VENDORS = {"0x10de", "0x1002", "0x8086"}

# (file, field) -> why the manifest, and not the reader, is wrong there.  Nothing so far.
MANIFEST_WRONG: dict[tuple[str, str], str] = {}

MAX_MEMBER = 8 * 1024 * 1024


def unpack(archive: Path, into: Path) -> Path:
    """Unpack files, then links, so that nothing is written through a link; return the sysroot."""
    links = []
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            assert not path.is_absolute()
            assert ".." not in path.parts
            if UNREAD.search(member.name):
                continue
            target = into / path
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                links.append((target, member.linkname))
            elif member.isreg():
                assert member.size <= MAX_MEMBER
                data = tar.extractfile(member)
                assert data is not None
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data.read())
    for target, name in links:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink() and not target.exists():
            target.symlink_to(name)
    roots = [path.parents[3] for path in into.glob("**/sys/devices/system/cpu")]
    assert len(roots) == 1, archive
    return roots[0]


def rows(corpus: Path) -> dict[str, str]:
    with (corpus / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {
            row["file"]: row["expected_facts"]
            for row in table
            if row["file"].split("/")[0] in FOLDERS and "online=" in row["expected_facts"]
        }


def cpus_of(text: str) -> CpuSet:
    return CpuSet() if text == "-" else CpuSet.parse(text)


def shorter(text: str, expected: str) -> str:
    """Cut ``text`` where the manifest was cut, which it is after 40 characters or so."""
    return text[: len(expected)] if len(expected) >= 30 else text


def compare(spec: FactsSpec, expected: str) -> dict[str, tuple[object, object]]:
    """Return field -> (expected, found) wherever they differ."""
    fields = dict(part.split("=", 1) for part in re.sub(r"^[\w-]+: ", "", expected).split("; "))
    cores = [core for group in spec.cores for core in group.cores()]
    found: dict[str, tuple[object, object]] = {}

    def check(field: str, want: object, got: object) -> None:
        if want != got:
            found[field] = (want, got)

    masks = re.fullmatch(
        r"(\d+)\[(.*?)\] \(online file=(.*?), present=(.*?), possible=(.*?)\)", fields["online"]
    )
    assert masks is not None
    check(
        "online", (int(masks[1]), CpuSet.parse(masks[2])), (len(spec.cpus.online), spec.cpus.online)
    )
    for name, text in (("present", masks[4]), ("possible", masks[5])):
        check(name, None if text == "None" else CpuSet.parse(text), getattr(spec.cpus, name))
    check("cores", int(fields["cores"]), len(cores))
    width = re.fullmatch(r"\[(.*)\] sib0=(.*)", fields["threads/core"])
    assert width is not None
    check("threads", {int(n) for n in width[1].split(", ")}, {len(core) for core in cores})
    of_zero = next(core for core in cores if min(spec.cpus.online) in core)
    check("sib0", cpus_of(width[2]) or CpuSet((0,)), of_zero)
    packages = re.fullmatch(r"(\d+)\((.*)\)", fields["packages"])
    assert packages is not None
    got = {group.package for group in spec.cores} - {None}
    want = {int(p) for p in packages[2].split(",")} - {-1}
    check("packages", int(packages[1]) if want else 0, len(got))
    check("package ids", True, want <= got)
    nodes = fields["numa"]
    check(
        "numa",
        [] if nodes == "no node dir" else [int(n) for n in nodes.split(",")],
        [node.id for node in spec.numa],
    )
    check(
        "cpuless",
        cpus_of(fields["cpuless"]),
        CpuSet(node.id for node in spec.numa if not node.cpus),
    )
    if spec.numa:
        homeless = spec.cpus.online - union(node.cpus for node in spec.numa)
        check("cpus_in_no_node", cpus_of(fields["cpus_in_no_node"]), homeless)
        by_group = union(group.cpus for group in spec.cores if group.numa is None)
        check("cores without numa", cpus_of(fields["cpus_in_no_node"]), by_group)
    llc = re.fullmatch(r"L(None|\d) x(\d+)\[(.*)\]", fields["llc"])
    assert llc is not None
    check("llc count", int(llc[2]), len(spec.llcs))
    if llc[1] != "None":
        check("llc level", {int(llc[1])}, {one.level for one in spec.llcs})
        sets = llc[3].split(" | ")
        check(
            "llc sets",
            [str(CpuSet.parse(s)) if len(s) < 30 else s for s in sets],
            [shorter(str(one.cpus), s) for one, s in zip(spec.llcs, sets, strict=False)],
        )
    for part in [] if fields["capacity"] == "-" else fields["capacity"].split():
        value, cpus = part.split(":")
        named = union(g.cpus for g in spec.cores if g.capacity == int(value))
        check(f"capacity {value}", CpuSet.parse(cpus), named)
    for name in ("isolated", "nohz_full"):
        if fields[name] != "-":
            check(name, CpuSet.parse(fields[name]), getattr(spec.cpus, name))
    if fields["core_ids"] != "-":
        for part in fields["core_ids"].split(" / "):
            pmu, cpus = part.split(":")
            kind = {"cpu_core": "performance", "cpu_atom": "efficiency"}[pmu]
            named = union(g.cpus for g in spec.cores if g.kind == kind)
            check(pmu, CpuSet.parse(cpus), named)
    check_devices(spec, fields["devs"], check)
    return found


def check_devices(spec: FactsSpec, expected: str, check) -> None:  # type: ignore[no-untyped-def]
    wanted = {}
    for part in [] if expected == "-" else expected.split(" "):
        match = re.fullmatch(r"(gpu|nic)@(\S+?):vendor=(0x\w+),numa_node=(-?\d+),local=(.*)", part)
        assert match is not None, part
        # A display controller of another vendor is the VGA of a BMC or of a virtual machine.
        if match[1] == "nic" or match[3] in GPU_VENDORS:
            wanted[match[2]] = match
    check("device addresses", sorted(wanted), sorted(d.bdf for d in spec.devices if d.bdf))
    bearing = [node for node in spec.numa if node.cpus]
    for device in spec.devices:
        match = wanted.get(device.bdf or "")
        if match is None:
            continue
        bdf, node, local = match[2], int(match[4]), match[5]
        check(f"{bdf} type", match[1], device.type)
        check(f"{bdf} vendor", match[3], f"0x{device.vendor}")
        if node < 0:
            assert len(bearing) == 1
            node = bearing[0].id
            check(f"{bdf} confidence", "inferred", device.locality.confidence)
        check(f"{bdf} numa", node, device.numa)
        near = device.locality.cpus
        check(f"{bdf} local", local, shorter("" if near is None else str(near), local))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_sysfs_snapshot_of_the_corpus(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    corpus = shared / "corpus" / "topology"
    expected = {file: facts for file, facts in rows(corpus).items() if file.startswith(folder)}
    right, wrong, refused = [], {}, {}
    excused = set()
    for number, (file, facts) in enumerate(sorted(expected.items())):
        root = unpack(corpus / file, tmp_path / str(number))
        try:
            collected = collect(root, name="node", live=False)
        except FactsError as error:
            refused[file] = str(error)
            continue
        differences = compare(collected.spec, facts)
        for field in list(differences):
            if (file, field) in MANIFEST_WRONG:
                excused.add((file, field))
                del differences[field]
        if differences:
            wrong[file] = differences
        else:
            right.append(file)
        if number % 6 == 0:
            assert facts_yaml(collect(root, name="node", live=False)) == facts_yaml(collected)
    with capsys.disabled():
        print(
            f"\n{folder}: {len(right)} right, {len(refused)} refused, {len(wrong)} wrong, "
            f"{len(excused)} facts where the manifest is wrong"
        )
    assert wrong == {}
    assert refused == {}
    assert excused == {key for key in MANIFEST_WRONG if key[0].startswith(folder)}
    assert len(right) == FOLDERS[folder]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("online=12[0-1,3-4,6-12,15]", "online=12[0-11]", "online"),
        ("cores=7", "cores=8", "cores"),
        ("threads/core=[1, 2]", "threads/core=[2]", "threads"),
        ("sib0=0,8", "sib0=0-1", "sib0"),
        ("packages=4(0,1,3,2)", "packages=4(0,1,3,9)", "package ids"),
        ("numa=0;", "numa=0,1;", "numa"),
        ("cpuless=-", "cpuless=1", "cpuless"),
        ("L3 x4", "L2 x4", "llc level"),
        ("| 1,9 |", "| 1,10 |", "llc sets"),
        ("devs=-", "devs=nic@0000:01:00.0:vendor=0x8086,numa_node=0,local=0", "device addresses"),
    ],
)
def test_the_comparison_sees_a_difference(
    shared: Path, tmp_path: Path, old: str, new: str, field: str
) -> None:
    corpus = shared / "corpus" / "topology"
    file = "hwloc-sysfs/16em64t-4s2c2t-offlines.tar.bz2"
    spec = collect(unpack(corpus / file, tmp_path), name="node", live=False).spec
    expected = rows(corpus)[file]
    assert old in expected
    assert field in compare(spec, expected.replace(old, new))


def test_hybrid_laptops_of_the_corpus(shared: Path, tmp_path: Path) -> None:
    """Kinds are not in the manifest's columns; the machines are named in its descriptions."""
    corpus = shared / "corpus" / "topology"
    alder_lake = "hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2"
    root = unpack(corpus / alder_lake, tmp_path / "alder")
    spec = collect(root, name="node", live=False).spec
    fast = union(g.cpus for g in spec.cores if g.kind == "performance")
    small = union(g.cpus for g in spec.cores if g.kind == "efficiency")
    assert (fast, small) == (CpuSet(range(12)), CpuSet(range(12, 20)))
    made_up = "hwloc-sysfs/fakeheterocpunuma.tar.bz2"
    root = unpack(corpus / made_up, tmp_path / "fake")
    spec = collect(root, name="node", live=False).spec
    fast = union(g.cpus for g in spec.cores if g.kind == "performance")
    small = union(g.cpus for g in spec.cores if g.kind == "efficiency")
    assert (small, fast) == (CpuSet(range(12)), CpuSet(range(12, 24)))


def test_the_corpus_is_found_where_it_must_be() -> None:
    assert len(rows(shared_dir() / "corpus" / "topology")) == sum(FOLDERS.values())
