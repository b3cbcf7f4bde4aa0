"""What resolution produces: every value with its winner, its losers and their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from compiler.decode import Loaded
from compiler.diagnostics import Span
from compiler.graph import Need
from compiler.model.base import Preference, Stage
from compiler.model.intent import Intent, Share
from compiler.plan import Condition, Degradation, Effect

T_co = TypeVar("T_co", covariant=True)

NODE_UNIT = "node"
"""First part of the names of units that belong to the node.  An intent may be called so too: its
units have other stages."""


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """One definition of a unit's tier."""

    tier: int
    effect: Effect
    span: Span
    text: str
    """As a person would say it: ``protect ttft``, ``demote background``."""
    intent: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """One way to recognise a unit's threads."""

    condition: Condition
    span: Span
    spawns: bool = False
    needs: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class UnitDraft:
    """The threads one intent speaks of, before anything is decided."""

    name: str
    intent: Loaded[Intent] | None
    stage: Stage | None
    matchers: tuple[Matcher, ...]
    asks: tuple[Ask, ...]
    precedence: int
    builtin: bool
    """Whether its matchers come from a built-in group: those yield to what users wrote."""


@dataclass(frozen=True)
class Expansion:
    """One intent as units, before any node is looked at."""

    intent: Loaded[Intent]
    units: tuple[UnitDraft, ...]
    node_asks: tuple[tuple[Stage, Ask], ...] = ()
    """Tiers asked for units of the node."""
    needs: tuple[Need, ...] = ()
    reasons: Mapping[str, Span] = field(default_factory=dict)
    """Where each ``Need.why`` is written."""


@dataclass(frozen=True, slots=True)
class Defined(Generic[T_co]):
    """One definition of a value."""

    value: T_co
    span: Span
    intent: str
    precedence: int


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """A value, the definition that won, and those that lost."""

    winner: Defined[T_co]
    losers: tuple[Defined[T_co], ...] = ()

    @property
    def value(self) -> T_co:
        """The value in force."""
        return self.winner.value


@dataclass(frozen=True)
class ResolvedUnit:
    """A unit with its tier and lane."""

    draft: UnitDraft
    tier: int
    """The highest that some of its threads have: also what other intents give its rules."""
    own_tier: int
    """Of threads of its rules to which no other intent gives a tier."""
    effect: Effect
    winner: Ask | None
    losers: tuple[Ask, ...]
    chain: tuple[Need, ...]
    """The needs that raised it; empty where its tier is its own."""
    order: int
    """Place in ``tier``."""
    own_order: int
    """Place in ``own_tier``."""
    lane: str | None
    leftovers: bool

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.draft.name

    def by_itself(self) -> ResolvedUnit:
        """Return what it gives to threads whose tier it leaves open and no other intent gives."""
        if self.effect != "place":
            return self
        return replace(
            self, tier=self.own_tier, order=self.own_order, winner=None, losers=(), chain=()
        )


@dataclass(frozen=True)
class ResolvedRule:
    """One line of the ordered rule list."""

    unit: str
    matcher: Matcher
    precedence: int
    builtin: bool
    tier_unit: str
    """Unit whose ``own_tier`` the rule gives: its own, or that of the wider rule it takes it
    from."""
    lane_unit: str
    """Unit whose CPUs the rule gives."""

    @property
    def condition(self) -> Condition:
        """What a thread must be."""
        return self.matcher.condition


@dataclass(frozen=True, slots=True)
class ResolvedPart:
    """What a lane asks for in one locality: a member of a family, or a part of a spanning lane."""

    name: str
    """``chat@numa0``."""
    min: int
    max: int | None
    cores: str
    """Its size, for people."""
    devices: tuple[str, ...]
    """Ids of the GPUs of the locality that are meant."""
    nics: tuple[str, ...] | None = None
    """Ids of the NICs near it; None: every NIC of the machine."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that no placement on this node could meet."""

    span: Span
    message: str
    help: str


@dataclass(frozen=True)
class ResolvedLane:
    """A lane asked for on this node.

    ``min`` and ``max`` are those of one lane for everything: what a family becomes where the
    machine is too small for its members.
    """

    name: str
    tier: int
    order: int
    min: int
    max: int | None
    share: Decided[Share]
    cores: Decided[str]
    """The size as written or derived, for people."""
    prefer: tuple[Preference, ...]
    require: tuple[Preference, ...]
    devices: tuple[str, ...]
    """Ids of the GPUs that ``gpu-local`` refers to."""
    intents: tuple[str, ...]
    span: Span
    divided: Literal["family", "spanning"] | None = None
    """Whether the lane is one for each locality of its GPUs, or one with cores near all of them."""
    parts: tuple[ResolvedPart, ...] = ()
    """The localities it is divided into, by name; empty where it is not."""
    nics: tuple[str, ...] | None = None
    """Ids of the NICs that ``nic-local`` refers to; None: every NIC of the machine."""
    notes: tuple[Degradation, ...] = ()
    """What the facts could not answer."""
    unmet: tuple[Unmet, ...] = ()

    def as_part(self, part: ResolvedPart) -> ResolvedLane:
        """Return one of its parts as a lane of its own."""
        return replace(
            self,
            name=part.name,
            min=part.min,
            max=part.max,
            cores=replace(self.cores, winner=replace(self.cores.winner, value=part.cores)),
            devices=part.devices,
            nics=part.nics,
            divided=None,
            parts=(),
            notes=(),
            unmet=(),
        )


@dataclass(frozen=True)
class IrqClaim:
    """What one intent says of the interrupts of the devices it uses."""

    intent: Loaded[Intent]
    where: Literal["lane", "housekeeping", "leave"]
    written: bool
    """Whether the intent has ``irqs``; else it is the default."""
    lane: str | None
    """Lane, or family of lanes, that its units live in."""
    gpus: frozenset[str]
    """Ids of the GPUs it is about."""
    nics: bool
    """Whether it is about the NICs near its lane, too."""
    tier: int
    """Highest tier among the intent's units."""
    order: int
    """Order inside the tier."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sorts the claims on one device; equal ones have equal standing."""
        return (self.tier, self.order, -self.intent.model.spec.precedence)


@dataclass(frozen=True)
class Resolution:
    """What the intents mean together on one class of nodes."""

    units: tuple[ResolvedUnit, ...]
    rules: tuple[ResolvedRule, ...]
    lanes: tuple[ResolvedLane, ...]
    reasons: Mapping[str, Span]
    irqs: tuple[IrqClaim, ...] = ()
    """What intents say of interrupts, those that win first."""

    def unit(self, name: str) -> ResolvedUnit:
        """Return the unit of that name.

        Raises:
            KeyError: there is none.
        """
        for unit in self.units:
            if unit.name == name:
                return unit
        raise KeyError(name)

    def asked(self, name: str) -> ResolvedLane | None:
        """Return what was asked for a lane, or for a member of a family as a lane of its own.

        None where no lane and no member is called so.
        """
        for lane in self.lanes:
            if lane.name == name:
                return lane
            for part in lane.parts:
                if part.name == name:
                    return lane.as_part(part)
        return None
