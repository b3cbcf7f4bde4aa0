"""Lanes that are divided over localities, as single requests; and which of them give way.

A family whose ``gpu-local`` is only preferred may become one lane, and a spanning lane that only
prefers isolated CPUs may lie on ordinary ones: it never lies on both, so its parts decide together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.place.aims import aim_of
from compiler.place.cells import Cells, total
from compiler.place.request import LaneRequest
from compiler.plan import Degradation
from compiler.words import counted, listed


@dataclass(frozen=True)
class Level:
    """The requests of a machine, with nothing divided any more."""

    requests: tuple[LaneRequest, ...]
    """In the order in which they are served."""
    notes: tuple[Degradation, ...]
    """What was given up."""


def levels(requests: Sequence[LaneRequest], cells: Cells) -> Iterator[Level]:
    """Yield the requests with ever more given up: families one by one, the lowest first."""
    soft = sorted(
        (r for r in requests if r.divided == "family" and "gpu-local" not in r.require),
        key=lambda request: request.rank,
        reverse=True,
    )
    on_isolated = {r.name for r in requests if _fits_isolated(r, cells)}
    choices = (on_isolated, set[str]()) if on_isolated else (on_isolated,)
    for isolated in choices:
        for number in range(len(soft) + 1):
            yield _level(requests, {r.name for r in soft[:number]}, isolated, cells)


def _level(
    requests: Sequence[LaneRequest], collapsed: set[str], isolated: set[str], cells: Cells
) -> Level:
    flat: list[LaneRequest] = []
    notes: list[Degradation] = []
    for request in requests:
        if request.name in collapsed:
            flat.append(replace(request, divided=None, parts=()))
            notes.append(_collapsed(request))
        elif request.divided == "family":
            flat += request.parts
        elif request.divided == "spanning":
            flat += (_part(part, request.name in isolated) for part in request.parts)
            if "isolated" in request.prefer and request.name not in isolated:
                notes.append(_not_isolated(request, cells))
        else:
            flat.append(request)
    return Level(tuple(sorted(flat, key=lambda request: request.rank)), tuple(notes))


def _part(part: LaneRequest, isolated: bool) -> LaneRequest:
    if "isolated" not in part.prefer:
        return part
    prefer = tuple(word for word in part.prefer if word != "isolated")
    return replace(
        part, prefer=prefer, require=(*part.require, "isolated") if isolated else part.require
    )


def _fits_isolated(request: LaneRequest, cells: Cells) -> bool:
    """Tell whether a spanning lane that prefers isolated CPUs has room on them, alone."""
    if request.divided != "spanning" or "isolated" not in request.prefer:
        return False
    return _isolated_cores(request, cells) >= request.min


def _isolated_cores(request: LaneRequest, cells: Cells) -> int:
    prefer = tuple(word for word in request.prefer if word != "isolated")
    hard = replace(request, prefer=prefer, require=(*request.require, "isolated"))
    aim = aim_of(hard, cells)
    if isinstance(aim, tuple):
        return 0
    return max((total(cells.free, option) for option in aim.options), default=0)


def _collapsed(request: LaneRequest) -> Degradation:
    names = listed([part.name for part in request.parts])
    return Degradation(
        about=request.name,
        kind="family-collapsed",
        message=(
            f"one lane for all its GPUs instead of {names}: the machine cannot hold them beside "
            "housekeeping and the other lanes"
        ),
    )


def _not_isolated(request: LaneRequest, cells: Cells) -> Degradation:
    cores = counted(_isolated_cores(request, cells), "isolated core")
    return Degradation(
        about=request.name,
        kind="isolated",
        message=f"the machine has {cores} for it, and it needs {request.min} beside other lanes",
    )
