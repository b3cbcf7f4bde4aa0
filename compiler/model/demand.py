"""Demand: CPU time an intent's threads were measured to need."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.model.base import Duration, Metadata, Misfit, Model, Name
from compiler.model.selector import NodeSelector


class CoreDemand(Model):
    """Cores kept busy, over windows."""

    p50: Annotated[float, Field(ge=0, le=4096)]
    p99: Annotated[float, Field(ge=0, le=4096)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.p99 < self.p50:
            raise Misfit(f"p99 {self.p99:g} is below p50 {self.p50:g}", ("p50",), ("p99",))
        return self


class DemandSpec(Model):
    """The body of a demand document."""

    intent: Name
    """The intent whose threads were measured."""
    nodes: NodeSelector | None = None
    """Nodes for which the figure holds."""
    cores: CoreDemand
    window: Duration
    """Length of one measuring window."""
    spin_suspect: bool
    """Whether the reading looks like a spin loop, which is no demand."""


class Demand(Model):
    """What was measured."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["Demand"]
    metadata: Metadata
    spec: DemandSpec
