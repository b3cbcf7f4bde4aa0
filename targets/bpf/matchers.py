"""What a rule's globs amount to in the dimensions of the map ABI.

The ABI expresses names that are exact or share a prefix, and cgroup paths by the names at fixed
depths, the number of components, and one name at any depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.patterns import Glob
from compiler.plan import Rule
from targets.bpf.layout import (
    CGROUP_DEPTH,
    CGROUP_NAME_LEN,
    KIND_KERNEL,
    KIND_USER,
    LEVEL_DEEPER,
)

ALL_LEVELS: Final = frozenset(range(LEVEL_DEEPER + 1))


@dataclass(frozen=True, slots=True)
class Name:
    """A thread name, or with ``exact`` false all names that start with it."""

    text: bytes
    exact: bool

    def covers(self, other: Name) -> bool:
        """Tell whether every name that ``other`` stands for is among ours."""
        if self.exact:
            return self == other
        return other.text.startswith(self.text)


@dataclass(frozen=True, slots=True)
class CgroupForm:
    """A set of cgroup paths.

    Attributes:
        names: (depth, name) pairs that must all hold; depth 0 is any depth.
        levels: numbers of components the path may have; the last one stands for all above.
    """

    names: tuple[tuple[int, bytes], ...]
    levels: frozenset[int]


@dataclass(frozen=True, slots=True)
class RuleForm:
    """A rule as the ABI sees it; None does not constrain."""

    comm: Name | None
    leader: Name | None
    kinds: frozenset[int]
    cgroup: CgroupForm | None


def rule_form(rule: Rule) -> RuleForm:
    """Return the form of a rule.

    Raises:
        ValueError: the ABI cannot express it.  The features it needs are not among those the
            target supports, so the compiler should not have handed it over.
    """
    match = rule.match
    if match.cmdline is not None or match.pods is not None:
        raise ValueError(f"rule {rule.id}: a seed knows neither command lines nor pods")
    names = (match.comm, match.leader_comm, match.kthread)
    try:
        if any(Glob.comm(name).is_empty for name in names if name is not None):
            # It asks for more than the 15 bytes of a name, so it has no thread at all.
            return RuleForm(comm=None, leader=None, kinds=frozenset(), cgroup=None)
        comm = None if match.comm is None else name_form(match.comm)
        leader = None if match.leader_comm is None else name_form(match.leader_comm)
        cgroup = None if match.cgroup is None else cgroup_form(match.cgroup)
        kinds = frozenset({KIND_USER})
        if match.kthread is not None:
            # The other fields never match a kernel thread, and this one matches nothing else.
            alone = match.comm is None and match.leader_comm is None and match.cgroup is None
            kinds = frozenset({KIND_KERNEL}) if alone else frozenset()
            comm = name_form(match.kthread)
    except ValueError as error:
        raise ValueError(f"rule {rule.id}: {error}") from error
    return RuleForm(comm=comm, leader=leader, kinds=kinds, cgroup=cgroup)


def name_form(text: str) -> Name | None:
    """Return what a glob on thread names asks for; None when every name will do.

    Raises:
        ValueError: it is neither one name nor a prefix.
    """
    glob = Glob.comm(text)
    if glob.exact is not None:
        return Name(glob.exact, exact=True)
    if glob.prefix is None:
        raise ValueError(f"{text!r} is neither a name nor the beginning of one")
    return Name(glob.prefix, exact=False) if glob.prefix else None


def cgroup_form(text: str) -> CgroupForm | None:
    """Return what a cgroup glob asks for; None when every path will do.

    Raises:
        ValueError: it is not made of whole names and ``*``, at most 8 deep and perhaps with
            ``**`` behind, nor of the form ``**/name/**``; or a name is longer than 63 bytes.
    """
    parts = Glob.cgroup(text).text.split("/")
    if len(parts) == 3 and parts[0] == parts[2] == "**" and parts[1] not in ("*", "**"):
        return CgroupForm(((0, _component(parts[1], text)),), ALL_LEVELS)
    # In a run of wild components at the end, the order says nothing: a/**/* is a/*/**.
    tail = len(parts)
    while tail and parts[tail - 1] in ("*", "**"):
        tail -= 1
    if "**" in parts[:tail]:
        raise ValueError(f"{text!r} has '**' before a name")
    deep = "**" in parts
    parts = [part for part in parts if part != "**"]
    depth = len(parts)
    if depth > CGROUP_DEPTH:
        raise ValueError(f"{text!r} is more than {CGROUP_DEPTH} components deep")
    if deep and depth == 0:
        return None
    names = tuple((n, _component(part, text)) for n, part in enumerate(parts, 1) if part != "*")
    levels = frozenset(range(depth, LEVEL_DEEPER + 1)) if deep else frozenset({depth})
    return CgroupForm(names, levels)


def _component(part: str, text: str) -> bytes:
    name = part.encode()
    if "*" in part or "?" in part:
        raise ValueError(f"{text!r} has a wildcard inside the name {part!r}")
    if len(name) >= CGROUP_NAME_LEN:
        raise ValueError(f"{text!r} has a name over {CGROUP_NAME_LEN - 1} bytes")
    return name
