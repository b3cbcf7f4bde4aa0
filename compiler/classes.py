"""Classes: the nodes for which one plan is made, and a name for each class that lasts.

Two nodes are in one class when everything a plan is made from is equal: what placement and the
decision about the mode read of the facts, the intents and demands that select them, and the mode.
What tells two machines of one kind apart and no plan reads (UUIDs of GPUs with a PCI address, the
exact size of memory, the kernel's release) is not part of it: no two machines of a fleet are equal
in that.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compiler.decode import Loaded
from compiler.model.facts import Device, NodeFacts
from compiler.modes import decide
from compiler.policy import Policy
from compiler.select import selects
from compiler.topology import pci_addresses

_LETTERS: Final = "bcdfghjklmnpqrstvwxz"
"""What names are made of: no vowels, so no words, and no digits, so nothing that a YAML reader
could take for a number."""
_FACTS_LETTERS: Final = 7
_VARIANT_LETTERS: Final = 4

_UNREAD: Final[dict[str, Any]] = {
    "sources": True,
    "warnings": True,
    "virtualization": True,
    "numa": {"__all__": {"memory_mib"}},
    # The mode that follows from the kernel is a part of the key by itself.
    "kernel": {"release", "sched_ext", "preempt_rt", "btf"},
}
"""Facts that no plan reads.  What is not named here counts, also what is added later."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes with one plan.

    Attributes:
        name: see :func:`class_names`.
        members: sorted by name; at least one.
        key: what they have in common.
    """

    name: str
    members: tuple[Loaded[NodeFacts], ...]
    key: ClassKey


@dataclass(frozen=True, slots=True)
class ClassKey:
    """What nodes of a class have in common.

    Attributes:
        machine: digest of the facts that plans read.
        choices: what the policy has chosen for them: intents, demands, and the mode unless it is
            ``observe``, as (kind, name).
    """

    machine: bytes
    choices: frozenset[tuple[str, str]]


def classes_of(policy: Policy) -> tuple[NodeClass, ...]:
    """Group the nodes by everything a plan depends on, in order of their first names."""
    groups: dict[ClassKey, list[Loaded[NodeFacts]]] = {}
    selection = _Selection(policy)
    for node in policy.nodes:
        groups.setdefault(selection.key(node), []).append(node)
    names = class_names(groups)
    return tuple(NodeClass(names[key], tuple(members), key) for key, members in groups.items())


def class_names(
    keys: Iterable[ClassKey],
    *,
    letters: int = _FACTS_LETTERS,
    variant_letters: int = _VARIANT_LETTERS,
) -> dict[ClassKey, str]:
    """Return a name for each class of a fleet: lower-case letters, fit for a DNS label.

    A name is a hash of the machine.  Only where classes of the fleet have equal machines, those
    that were given something more than all of them got have a hash of that after it.  So a name
    stays when lanes, tiers or matches of intents change, when an intent for all of them is added,
    renamed or removed, and when nodes come and go.

    Args:
        keys: of all classes of the fleet, each once.
        letters: of the machine's hash; more are taken where two of the fleet would be equal.
        variant_letters: the same for what comes after it.
    """
    by_machine: dict[bytes, list[ClassKey]] = {}
    for key in keys:
        by_machine.setdefault(key.machine, []).append(key)
    texts: dict[ClassKey, tuple[str, str]] = {}
    for machine, variants in by_machine.items():
        common = frozenset.intersection(*(key.choices for key in variants))
        for key in variants:
            own = sorted(key.choices - common)
            texts[key] = (_letters(machine), _letters(_digest(own)) if own else "")
    lengths = dict.fromkeys(texts, (letters, variant_letters))
    while True:
        names = {
            key: text[: lengths[key][0]] + variant[: lengths[key][1]]
            for key, (text, variant) in texts.items()
        }
        times = Counter(names.values())
        clashes = [key for key, name in names.items() if times[name] > 1]
        if not clashes:
            return names
        for key in clashes:
            first, second = lengths[key]
            lengths[key] = (first + 1, second + 1)


class _Selection:
    """The keys of a policy's nodes; what depends on labels alone is looked up once."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.named = {
            intent.name: frozenset(gpu.lower() for gpu in wanted if isinstance(gpu, str))
            for intent in policy.intents
            if not isinstance(wanted := intent.model.spec.workload.gpus, str)
        }

    def key(self, node: Loaded[NodeFacts]) -> ClassKey:
        meta, policy = node.model.metadata, self.policy
        intents = [intent.name for intent in policy.intents_of(node)]
        enforce, _ = policy.enforce_of(node)
        decision = decide(enforce, node.model)
        choices = {("intent", name) for name in intents}
        choices |= {
            ("demand", demand.name)
            for demand in policy.demands
            if selects(demand.model.spec.nodes, meta.name, meta.labels)
        }
        if decision.mode != "observe":
            choices.add(("mode", decision.mode))
        release = node.model.spec.kernel.release
        choices |= {
            ("not sched_ext", why.replace(release, "") if release else why)
            for why in decision.refused
        }
        named = frozenset().union(*(self.named.get(name, ()) for name in intents))
        return ClassKey(_digest(_machine(node.model, named)), frozenset(choices))


def _machine(facts: NodeFacts, named: frozenset[str]) -> Mapping[str, object]:
    """Return what plans read of a machine; ``named``: UUIDs that intents of the node ask for."""
    spec = facts.spec
    data = spec.model_dump(mode="json", exclude=_UNREAD, exclude_defaults=True)
    for device, row in zip(spec.devices, data.get("devices", ()), strict=True):
        if not _uuid_counts(device, named):
            row.pop("uuid", None)
    # Of the sources it counts whether they looked for devices.
    data["pci"] = [pci_addresses(spec, "gpu"), pci_addresses(spec, "nic")]
    return data


def _uuid_counts(device: Device, named: frozenset[str]) -> bool:
    """Whether a plan may name the device by its UUID, or an intent does."""
    if device.uuid is None:
        return False
    return (device.bdf is None and device.parent is None) or device.uuid.lower() in named


def _digest(value: Mapping[str, object] | Sequence[object]) -> bytes:
    # On one line: the library indents in Python and writes one line in C.
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).digest()


def _letters(digest: bytes) -> str:
    """Return the digest in letters: 59 of them are less than 256 bits."""
    number, out = int.from_bytes(digest), []
    for _ in range(59):
        number, rest = divmod(number, len(_LETTERS))
        out.append(_LETTERS[rest])
    return "".join(out)
