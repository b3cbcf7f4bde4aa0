"""Kinds of cores of all sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.log import Log
from compiler.facts.merge.online import seen_by
from compiler.facts.partial import KindPart, Partial
from compiler.model.facts import CoreKind, KindRow


@dataclass(frozen=True, slots=True)
class _Said:
    partial: Partial
    kinds: tuple[KindPart, ...]
    seen: CpuSet

    def of(self, common: CpuSet) -> dict[CoreKind, CpuSet]:
        """Return the CPUs of each kind among ``common``; ``standard`` where nothing is said."""
        found: dict[CoreKind, CpuSet] = {}
        for kind in self.kinds:
            found[kind.name] = found.get(kind.name, CpuSet()) | kind.cpus & common
        rest = common - union(found.values())
        found["standard"] = found.get("standard", CpuSet()) | rest
        return {name: cpus for name, cpus in found.items() if cpus}


def merge_kinds(
    log: Log, partials: Sequence[Partial], online: CpuSet, cores: Sequence[CpuSet]
) -> tuple[Mapping[int, CoreKind], tuple[KindRow, ...]]:
    """Return the kind of each CPU, and the rows, fastest first.

    The kinds are those of the most trusted source that tells any; a core is of the kind of its
    lowest CPU.  A source that groups the CPUs alike adds names of models and figures that the
    first lacks.  No row where all cores are of one kind.
    """
    said = [
        _Said(one, one.kinds, seen_by(one) & online or online)
        for one in partials
        if one.kinds is not None
    ]
    if not said:
        return {}, ()
    first = said[0]
    for other in said[1:]:
        common = first.seen & other.seen
        ours, theirs = first.of(common), other.of(common)
        if set(ours.values()) != set(theirs.values()) or (
            len(ours) > 1 and [*_ranked(ours)] != [*_ranked(theirs)]
        ):
            log.disagree("kinds", first.partial, _text(ours), other.partial, _text(theirs))
    log.supplied(first.partial, "kinds")
    kind_of: dict[int, CoreKind] = {}
    for kind in first.kinds:
        for cpu in kind.cpus & online:
            kind_of.setdefault(cpu, kind.name)
    by_core: dict[CoreKind, CpuSet] = {}
    for core in cores:
        name = kind_of.get(core.lowest, "standard")
        by_core[name] = by_core.get(name, CpuSet()) | core
    if len(by_core) < 2:
        return dict.fromkeys(online, "standard"), ()
    kind_of = {cpu: name for name, cpus in by_core.items() for cpu in cpus}
    names = dict.fromkeys(kind.name for kind in first.kinds)
    rows = [_row(name, by_core[name], said) for name in names if name in by_core]
    return kind_of, tuple(row for row in rows if row is not None)


def _row(name: CoreKind, cpus: CpuSet, said: Sequence[_Said]) -> KindRow | None:
    """Return the row of one kind, if a source says how it is known.

    Parts of the first source with one name become one.
    """
    mine = [kind for kind in said[0].kinds if kind.name == name and kind.cpus & cpus]
    alike = [
        kind
        for other in said[1:]
        for kind in other.kinds
        if other.seen & kind.cpus == other.seen & cpus
    ]
    evidence = next((one.evidence for one in (*mine, *alike) if one.evidence is not None), None)
    if evidence is None:
        return None
    models = dict.fromkeys(kind.model for kind in mine if kind.model is not None)
    if not models:
        models = dict.fromkeys([kind.model for kind in alike if kind.model is not None][:1])
    ranked_by = max(
        (kind for kind in mine if kind.value is not None),
        key=lambda kind: kind.value or 0,
        default=next((kind for kind in alike if kind.value is not None), None),
    )
    return KindRow(
        name=name,
        cpus=cpus,
        evidence=evidence,
        model=", ".join(models) or None,
        figure=ranked_by.figure if ranked_by is not None else None,
        value=ranked_by.value if ranked_by is not None else None,
    )


def _ranked(kinds: Mapping[CoreKind, CpuSet]) -> list[CpuSet]:
    """Return the sets from fastest to slowest, whatever the two sources call them."""
    order: tuple[CoreKind, ...] = ("performance", "standard", "efficiency", "lowpower")
    return [kinds[name] for name in order if name in kinds]


def _text(kinds: Mapping[CoreKind, CpuSet]) -> str:
    return ", ".join(f"{name} {kinds[name]}" for name in sorted(kinds))
