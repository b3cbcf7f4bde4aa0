"""What is asked of the placer and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.model.base import Preference
from compiler.model.intent import Share
from compiler.plan import Degradation


@dataclass(frozen=True, slots=True)
class LaneRequest:
    """A lane that units of one machine ask for, in whole cores.

    Raises:
        ValueError: ``min`` is below 1, ``max`` below ``min``, or ``tier`` below 0; the language
            does not let such a lane be written.
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
    of the machine's GPUs is meant.  ``nic-local`` refers to every NIC."""

    def __post_init__(self) -> None:
        if self.min < 1 or (self.max is not None and self.max < self.min) or self.tier < 0:
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
    """By name, in the order in which they were served."""
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
