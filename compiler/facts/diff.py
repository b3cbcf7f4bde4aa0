"""In what the facts of two machines differ, in the words of the model.

Not differences: the order of lists, the numbers that a source gave to caches, the nodes' names,
and what is said about the facts rather than by them (sources, warnings).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.facts.diff_devices import device_changes, link_changes, numbered
from compiler.facts.diff_unknown import Incomparable, comparable, incomparable, same_placement
from compiler.facts.diff_values import NOT_GIVEN, Change, changed, fields
from compiler.facts.fingerprint import facts_fingerprint_text
from compiler.model.facts import FactsSpec, NodeFacts


@dataclass(frozen=True, slots=True)
class FactsDiff:
    """The differences of two nodes' facts.

    Attributes:
        changes: by section, sections in the order of the model.
        incomparable: what only one of the two knows; the fingerprint and placement are judged by
            the rest, as a node leaves out what facts do not know.
        fingerprint_a, fingerprint_b: lines of the CPU part of the fingerprint that only one has;
            both empty: the parts are equal, so that a plan for one may be applied to the other.
        same_placement: whether placement sees the same machine, device names included.
        remarks: differences of sources and warnings, which do not count.
    """

    changes: tuple[Change, ...]
    incomparable: tuple[Incomparable, ...]
    fingerprint_a: tuple[str, ...]
    fingerprint_b: tuple[str, ...]
    same_placement: bool
    remarks: tuple[Change, ...]

    @property
    def same_fingerprint(self) -> bool:
        """Whether the CPU parts of the fingerprints are equal."""
        return not self.fingerprint_a and not self.fingerprint_b


def diff_facts(a: NodeFacts, b: NodeFacts) -> FactsDiff:
    """Return in what two nodes' facts differ."""
    left, right = a.spec, b.spec
    changes = (
        *_labels(a.metadata.labels, b.metadata.labels),
        *changed("arch", "arch", left.arch, right.arch),
        *fields("cpus", "", left.cpus, right.cpus),
        *_cores(left, right),
        *_kinds(left, right),
        *_caches(left, right),
        *_numa(left, right),
        *device_changes(left.devices, right.devices),
        *link_changes(left, right),
        *fields("kernel", "", left.kernel, right.kernel),
        *fields("kubelet", "", left.kubelet, right.kubelet),
        *fields("virtualization", "", left.virtualization, right.virtualization),
        *_overrides(left, right),
    )
    apart = incomparable(a, b)
    one, other = (comparable(facts, apart) for facts in (a, b))
    text_a = facts_fingerprint_text(one).splitlines()
    text_b = facts_fingerprint_text(other).splitlines()
    in_a, in_b = set(text_a), set(text_b)
    return FactsDiff(
        changes=changes,
        incomparable=apart,
        fingerprint_a=tuple(line for line in text_a if line not in in_b),
        fingerprint_b=tuple(line for line in text_b if line not in in_a),
        same_placement=same_placement(one, other),
        remarks=tuple(_remarks(left, right)),
    )


def _labels(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted({*a, *b}):
        yield from changed("labels", key, a.get(key), b.get(key), missing=NOT_GIVEN)


def _cores(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    """Compare what is said of each CPU that both have online."""
    common = a.cpus.online & b.cpus.online
    mine, theirs = _siblings(a, common), _siblings(b, common)
    if differ := CpuSet(cpu for cpu in common if mine[cpu] != theirs[cpu]):
        yield from changed(
            "cores",
            f"threads of the cores of CPU {differ}",
            _cut(mine, differ),
            _cut(theirs, differ),
        )
    for name in ("package", "die", "cluster", "kind", "capacity"):
        before, after = _by_cpu(a, name), _by_cpu(b, name)
        groups: dict[tuple[object, object], list[int]] = {}
        for cpu in common:
            groups.setdefault((before[cpu], after[cpu]), []).append(cpu)
        for (one, other), cpus in groups.items():
            yield from changed("cores", f"{name} of CPU {CpuSet(cpus)}", one, other)


def _siblings(spec: FactsSpec, common: CpuSet) -> dict[int, CpuSet]:
    return {cpu: core & common for group in spec.cores for core in group.cores() for cpu in core}


def _cut(siblings: Mapping[int, CpuSet], cpus: CpuSet) -> str:
    cores = {siblings[cpu] for cpu in cpus}
    return " ".join("+".join(map(str, core)) for core in sorted(cores, key=lambda c: c.lowest))


def _by_cpu(spec: FactsSpec, name: str) -> dict[int, object]:
    return {cpu: getattr(group, name) for group in spec.cores for cpu in group.cpus}


def _kinds(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    mine, theirs = ({row.name: row for row in spec.kinds} for spec in (a, b))
    for name in sorted({*mine, *theirs}):
        yield from fields("kinds", name, mine.get(name), theirs.get(name), skip=("name", "cpus"))


def _caches(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    """Compare caches by their CPUs, and which cache each CPU is said to have."""
    mine, theirs = ({llc.cpus: llc for llc in spec.llcs} for spec in (a, b))
    for cpus in sorted({*mine, *theirs}, key=lambda cpus: cpus.mask):
        what = f"of CPU {cpus or 'none'}"
        yield from fields("caches", what, mine.get(cpus), theirs.get(cpus), skip=("id", "cpus"))
    common = a.cpus.online & b.cpus.online
    said_a, said_b = _with_cache(a) & common, _with_cache(b) & common
    yield from changed("caches", "CPUs whose cache is known", said_a, said_b)


def _with_cache(spec: FactsSpec) -> CpuSet:
    return CpuSet(cpu for group in spec.cores if group.llc is not None for cpu in group.cpus)


def _numa(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    mine, theirs = ({node.id: node for node in spec.numa} for spec in (a, b))
    for id_ in sorted({*mine, *theirs}):
        one, other = mine.get(id_), theirs.get(id_)
        yield from fields("numa", f"node {id_}", one, other, skip=("id", "distances"))
        if one is not None and other is not None:
            yield from changed(
                "numa",
                f"node {id_} distances",
                _distances(a, one.distances),
                _distances(b, other.distances),
            )
    before, after = _by_cpu(a, "numa"), _by_cpu(b, "numa")
    groups: dict[tuple[object, object], list[int]] = {}
    for cpu in a.cpus.online & b.cpus.online:
        groups.setdefault((before[cpu], after[cpu]), []).append(cpu)
    for (here, there), cpus in groups.items():
        yield from changed("numa", f"node of CPU {CpuSet(cpus)}", here, there)


def _distances(spec: FactsSpec, row: Sequence[int]) -> str | None:
    ids = sorted(node.id for node in spec.numa)
    pairs = zip(ids, row, strict=bool(row))
    return ", ".join(f"{id_}: {value}" for id_, value in pairs) or None


def _overrides(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    yield from fields(
        "overrides", "", a.overrides, b.overrides, skip=("devices",), missing=NOT_GIVEN
    )
    mine, theirs = ({one.id: one for one in spec.overrides.devices} for spec in (a, b))
    for id_ in sorted({*mine, *theirs}, key=numbered):
        yield from fields(
            "overrides", id_, mine.get(id_), theirs.get(id_), skip=("id",), missing=NOT_GIVEN
        )


def _remarks(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    readers = [sorted({one.reader for one in spec.sources}) for spec in (a, b)]
    yield from changed(
        "sources", "sources", tuple(readers[0]), tuple(readers[1]), missing=NOT_GIVEN
    )
    for warning in sorted({*a.warnings} ^ {*b.warnings}):
        yield from changed(
            "warnings",
            "warning",
            warning if warning in a.warnings else None,
            warning if warning in b.warnings else None,
            missing=NOT_GIVEN,
        )
