"""Sets of logical CPU ids, and the kernel's text forms of them.

The list format is the kernel's (Documentation/core-api/kernel-api, ``bitmap_parselist``):
comma-separated ``N``, ``A-B`` and ``A-B:used/group``.  Masks are 32-bit hexadecimal words, most
significant first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

MAX_CPUS: Final = 8192
"""Highest CPU id accepted, plus one: the largest CONFIG_NR_CPUS of the common kernels.

It bounds what a short hostile text such as ``0-4294967294`` can make us allocate.
"""

_ITEM: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+)/(\d+))?)?\Z", re.ASCII)
_WORD: Final = re.compile(r"[0-9a-fA-F]{1,8}\Z")
_MAX_DIGITS: Final = 9
_MAX_SHOWN: Final = 80


class CpuListError(ValueError):
    """A text is not a CPU list; the message says what and why, in lower case."""


class CpuSet:
    """An immutable set of CPU ids, ordered by id.

    Backed by an int bit mask, so the algebra is cheap at 1,024 CPUs.
    """

    __slots__ = ("_mask",)
    _mask: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        """Make a set of the given ids.

        Raises:
            CpuListError: an id is negative or not below :data:`MAX_CPUS`.
        """
        mask = 0
        for cpu in cpus:
            if not 0 <= cpu < MAX_CPUS:
                raise CpuListError(f"CPU {cpu} is outside 0-{MAX_CPUS - 1}")
            mask |= 1 << cpu
        self._mask = mask

    @classmethod
    def from_mask(cls, mask: int) -> CpuSet:
        """Return the set whose CPU *n* is bit *n* of ``mask``.

        Raises:
            CpuListError: the mask is negative or has a bit at or above :data:`MAX_CPUS`.
        """
        if mask < 0 or mask.bit_length() > MAX_CPUS:
            raise CpuListError(f"mask names a CPU outside 0-{MAX_CPUS - 1}")
        new = cls()
        new._mask = mask
        return new

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Read a kernel CPU list.

        Surrounding white space, a trailing NUL, the empty text and ``(null)`` (what
        ``nohz_full`` reads without the boot option) are accepted, the last three as the empty
        set.  Items may be unsorted and may overlap.

        Raises:
            CpuListError: anything else, among them a reversed range, a leading zero (``010``
                is 8 to some readers and 10 to others) and an id at or above :data:`MAX_CPUS`.
        """
        body = text.strip(" \t\r\n\0")
        if body in ("", "(null)"):
            return cls()
        mask = 0
        for raw in body.split(","):
            item = raw.strip(" \t")
            match = _ITEM.match(item)
            if match is None:
                what = "an empty item" if not item else _shown(item)
                raise CpuListError(f"{what} in CPU list {_shown(body)} is neither N nor A-B")
            numbers = [_number(part, body) for part in match.groups() if part is not None]
            first, last = numbers[0], numbers[1] if len(numbers) > 1 else numbers[0]
            used, group = numbers[2:4] if len(numbers) == 4 else (1, 1)
            if last < first:
                raise CpuListError(
                    f"range {_shown(item)} runs backwards; write {last}-{first} if that is meant"
                )
            if last >= MAX_CPUS:
                raise CpuListError(
                    f"CPU {last} in {_shown(item)} is above the highest CPU supported, "
                    f"{MAX_CPUS - 1}"
                )
            if group == 0 or used > group:
                raise CpuListError(f"{_shown(item)} takes {used} of every {group} CPUs")
            if used == group:
                mask |= (1 << (last + 1)) - (1 << first)
            else:
                for start in range(first, last + 1, group):
                    stop = min(start + used, last + 1)
                    mask |= (1 << stop) - (1 << start)
        return cls.from_mask(mask)

    @classmethod
    def parse_hex_mask(cls, text: str) -> CpuSet:
        """Read a kernel hexadecimal mask such as ``ff,00000000`` (32-bit words, highest first).

        Raises:
            CpuListError: a word is not hexadecimal or is longer than 8 digits, or a CPU is at or
                above :data:`MAX_CPUS`.
        """
        words = text.strip(" \t\r\n\0").split(",")
        for word in words:
            if not _WORD.match(word):
                raise CpuListError(f"{_shown(word)} is not a 32-bit word of a CPU mask")
        # Only the words that may name a CPU are shifted: a long mask costs no more than reading it.
        fitting = words[-(MAX_CPUS // 32) :]
        if any(word.strip("0") for word in words[: -len(fitting)]):
            raise CpuListError(f"mask names a CPU outside 0-{MAX_CPUS - 1}")
        mask = 0
        for word in fitting:
            mask = mask << 32 | int(word, 16)
        return cls.from_mask(mask)

    @property
    def mask(self) -> int:
        """The set as an int: bit *n* is CPU *n*."""
        return self._mask

    @property
    def lowest(self) -> int:
        """The lowest id.

        Raises:
            ValueError: the set is empty.
        """
        if not self._mask:
            raise ValueError("an empty CPU set has no lowest CPU")
        return (self._mask & -self._mask).bit_length() - 1

    @property
    def highest(self) -> int:
        """The highest id.

        Raises:
            ValueError: the set is empty.
        """
        if not self._mask:
            raise ValueError("an empty CPU set has no highest CPU")
        return self._mask.bit_length() - 1

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the maximal runs of ids as (first, last), ascending."""
        mask, base = self._mask, 0
        while mask:
            skip = (mask & -mask).bit_length() - 1
            mask >>= skip
            base += skip
            run = (~mask & (mask + 1)).bit_length() - 1
            yield base, base + run - 1
            mask >>= run
            base += run

    def words(self, bits: int, count: int) -> tuple[int, ...]:
        """Return the mask as ``count`` words of ``bits`` bits, lowest first.

        Raises:
            CpuListError: the set has a CPU that does not fit.
        """
        if self._mask.bit_length() > bits * count:
            raise CpuListError(f"CPU {self.highest} does not fit in {bits * count} bits")
        unit = (1 << bits) - 1
        return tuple(self._mask >> (bits * i) & unit for i in range(count))

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self._mask | other._mask)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self._mask & other._mask)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self._mask & ~other._mask)

    def __le__(self, other: CpuSet) -> bool:
        return self._mask & ~other._mask == 0

    def __lt__(self, other: CpuSet) -> bool:
        return self <= other and self._mask != other._mask

    def isdisjoint(self, other: CpuSet) -> bool:
        """Return whether no CPU is in both sets."""
        return self._mask & other._mask == 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self._mask >> cpu & 1)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __bool__(self) -> bool:
        return self._mask != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuSet) and self._mask == other._mask

    def __hash__(self) -> int:
        return hash((CpuSet, self._mask))

    def __str__(self) -> str:
        return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"CpuSet.parse({str(self)!r})"


def union(sets: Iterable[CpuSet]) -> CpuSet:
    """Return the union of any number of sets; empty for none."""
    mask = 0
    for one in sets:
        mask |= one.mask
    return CpuSet.from_mask(mask)


def _shown(text: str) -> str:
    """Return a text quoted and short: a list in a file may have megabytes."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}...")


def _number(digits: str, whole: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise CpuListError(
            f"CPU {_shown(digits)[1:-1]} is above the highest CPU supported, {MAX_CPUS - 1}"
        )
    if len(digits) > 1 and digits[0] == "0":
        raise CpuListError(
            f"{digits!r} in CPU list {_shown(whole)} has a leading zero, which some readers take "
            f"as octal; write {digits.lstrip('0') or '0'}"
        )
    return int(digits)
