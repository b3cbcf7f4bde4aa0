"""What a lane needs of a machine: a number of cores in one of several places."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.place.reserve import Option


@dataclass(frozen=True, slots=True)
class Demand:
    """A number of cores, from one of the options."""

    cores: int
    options: tuple[Option, ...]
    wide: Option = field(init=False, repr=False, compare=False)
    """All cells of its options."""

    def __post_init__(self) -> None:
        wide = self.options[0] if len(self.options) == 1 else frozenset().union(*self.options)
        object.__setattr__(self, "wide", wide)
