"""What is asked of the placer and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from compiler.cpuset import CpuSet
from compiler.model.base import Preference
from compiler.model.intent import Share
from compiler.plan import Degradation


@dataclass(frozen=True, slots=True)
class LaneRequest:
    """A lane that units of one machine ask for, in whole cores.

    Raises:
        ValueError: ``min`` is below 1 (0 for a part), ``max`` below ``min`` or 1, or ``tier``
            below 0; the language does not let such a lane be written.
    """

    name: str
    tier: int
    """0 is the highest."""
    order: int
    """Place among the lanes of a tier, 0 first; equal ones go by name."""
    min: int
    max: int | None
    """None: all that is left once the other lanes have theirs."""
    share: Share
    prefer: tuple[Preference, ...] = ()
    require: tuple[Preference, ...] = ()
    devices: tuple[str, ...] | None = None
    """Ids of the GPUs that ``gpu-local`` refers to; None: every GPU of the machine; empty: none
    of the machine's GPUs is meant."""
    nics: tuple[str, ...] | None = None
    """Ids of the NICs that ``nic-local`` refers to; None: every NIC of the machine."""
    divided: Literal["family", "spanning"] | None = None
    """How ``parts`` stand to each other.  A *family* is a lane for each part; where its
    ``gpu-local`` is only preferred, the machine may be too small for that, and it is then one lane
    of the sizes given here.  A *spanning* lane is one lane with cores in every part."""
    parts: tuple[LaneRequest, ...] = ()
    """The request for each locality."""
    part_of: str | None = None
    """Name of the spanning lane that this is a part of; a part may end up without cores."""
    member_of: str | None = None
    """Name of the family that this is a member of.  Where it prefers ``gpu-local`` it does not
    grow past its locality, where another member would be near its own GPUs."""

    def __post_init__(self) -> None:
        least = 1 if self.part_of is None else 0
        most = self.max is not None and self.max < max(self.min, 1)
        if self.min < least or most or self.tier < 0 or bool(self.divided) != bool(self.parts):
            raise ValueError(f"lane {self.name}: min {self.min}, max {self.max}, tier {self.tier}")

    @property
    def rank(self) -> tuple[int, int, str]:
        """Order in which lanes are served."""
        return (self.tier, self.order, self.name)


@dataclass(frozen=True, slots=True)
class Granted:
    """The CPUs a lane got."""

    cpus: CpuSet
    cores: int
    isolated: bool
    """Whether they are isolated CPUs (all are or none is)."""


@dataclass(frozen=True)
class Placement:
    """Where everything is on one machine."""

    housekeeping: CpuSet
    lanes: Mapping[str, Granted]
    """By name, in the order in which they were served; members of a family by their own names,
    a family that collapsed and a spanning lane by its."""
    open_lanes: frozenset[str]
    """Lanes asked as guarded that had to be opened; anyone may run there."""
    degradations: tuple[Degradation, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a machine cannot hold what was asked."""

    about: str
    """Name of a lane, or ``housekeeping``."""
    kind: str
    """Kebab-case word, stable."""
    message: str
    help: str
