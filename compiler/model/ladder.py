"""TierLadder: the service levels, highest first."""

from itertools import pairwise
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from compiler.model.base import Duration, Metadata, Misfit, Model, Name

REQUIRED_TIERS: Final = ("latency", "system", "normal", "background")
"""Tiers the language itself speaks of: the default of ``protect``, of node software, of what
nothing matches, and the floor below which ``system`` never goes."""


class Tier(Model):
    """One service level."""

    name: Name
    slice: Duration
    """Longest run before another thread of the tier gets its turn."""
    weight: Annotated[int, Field(ge=1, le=10_000)]
    """Share inside contention, relative; 100 is ordinary."""
    share: Annotated[int, Field(ge=0, le=500)] = 0
    """CPU time the tier keeps under contention from higher tiers, in thousandths."""
    preempt: bool = False
    """Whether its threads preempt lower tiers on wake-up."""


class LadderSpec(Model):
    """The body of a ladder."""

    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=16)]
    """Highest first; a tier's id is its place from 0."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        names = [tier.name for tier in self.tiers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            places = [("tiers", i, "name") for i, name in enumerate(names) if name == twice[0]]
            raise Misfit(f"tier {twice[0]} is defined twice", *places)
        for name in REQUIRED_TIERS:
            if name not in names:
                raise Misfit(f"tier {name} is missing; the language needs it", ("tiers",))
        order = [names.index(name) for name in REQUIRED_TIERS]
        if order != sorted(order):
            late = next(a for a, b in pairwise(order) if a > b)
            raise Misfit(
                f"tiers must keep the order {' > '.join(REQUIRED_TIERS)}", ("tiers", late, "name")
            )
        total = sum(tier.share for tier in self.tiers)
        if total > 900:
            raise Misfit(
                f"shares add up to {total} thousandths; at most 900 may be promised", ("tiers",)
            )
        return self


class TierLadder(Model):
    """The service levels of a policy."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["TierLadder"]
    metadata: Metadata
    spec: LadderSpec
