"""What placement and the checks of a finished plan found, at the lines that asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.codes import placement as codes
from compiler.codes.safety import NODE_SOFTWARE_STARVED
from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Span
from compiler.model.base import Preference
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.place import Refusal
from compiler.plan import Degradation
from compiler.policy import Policy
from compiler.resolve.overlap import user_line
from compiler.resolve.types import Resolution, ResolvedLane
from compiler.safety import Violation
from compiler.topology import Topology
from compiler.words import listed

HOUSEKEEPING: Final = "housekeeping"
_SHOWN: Final = 4
"""Names of starved node software in one message."""
_WORDS: Final[Mapping[str, Preference]] = {
    "gpu-local": "gpu-local",
    "nic-local": "nic-local",
    "same-llc": "same-llc",
    "performance": "performance",
    "efficiency": "efficiency",
    "whole-cores": "whole-cores",
    "isolated": "isolated",
    "no-leftovers": "leftovers",
}
"""Kinds of degradation that are a preference not met."""
_LANES_ATE: Final = (
    "lower the cores of a lane; a number in reserve.housekeeping would make it an error"
)
_HELP: Final[Mapping[str, str]] = {
    "split-core": "lower the lane's cores, or leave all siblings of its cores to tierc",
    "no-locality": "drop the word: every CPU is as near as any other",
    "housekeeping-shrunk": _LANES_ATE,
    "housekeeping-shared": _LANES_ATE,
    "guard-dropped": "lower the cores of a lane, or write share: open to say so",
    "reservation-shared": (
        "set strict-cpu-reservation in the kubelet's cpuManagerPolicyOptions, or take it as it is"
    ),
    "family-collapsed": "lower the cores of a lane; under require: [gpu-local] its members stay",
    "not-divided": "write same-llc under prefer: then it has cores near all of its GPUs",
    "locality-too-small": "nothing is wrong; gpus in the workload may name those that are meant",
    "no-near-nic": "drop nic-local where the NICs are elsewhere",
    "search-stopped": "ask for fewer preferences or lanes, or take the plan as it is",
}
"""What to do about the other kinds."""


def refused(
    policy: Policy, refusal: Refusal, resolution: Resolution, node: Loaded[NodeFacts]
) -> Diagnostic:
    """Say why a node has no plan, at the word that asks for too much."""
    span, help = _about(refusal.about, resolution, node), refusal.help
    lane = resolution.asked(refusal.about)
    if lane is not None and any(note.kind == "not-divided" for note in lane.notes):
        help = f"{_HELP['not-divided']}; or {help}"
    if refusal.about == HOUSEKEEPING:  # no lane is called so (TRC331)
        span = _housekeeping(policy, node)
    elif refusal.kind.startswith("require-"):
        word = refusal.kind.removeprefix("require-")
        span = _written("require", word, _members(refusal.about, resolution)) or span
    return unplaceable(policy, node, span, refusal.message, help)


def unplaceable(
    policy: Policy, node: Loaded[NodeFacts], span: Span, message: str, help: str
) -> Diagnostic:
    """Say that a node has no plan, as the error or the warning that the project asks for."""
    quarantine = policy.project.spec.on_unplaceable == "quarantine"
    return (codes.QUARANTINED if quarantine else codes.UNPLACEABLE).at(
        span,
        f"no plan for this node: {message}" if quarantine else message,
        related=[Related(node.key_span("spec", "cores"), f"the CPUs of {node.name}")],
        help=help,
    )


def degraded(
    row: Degradation, resolution: Resolution, topology: Topology, node: Loaded[NodeFacts]
) -> Diagnostic:
    """Say what a plan falls short of, at the preference where it is one."""
    lane = resolution.asked(row.about)
    subject = row.about if lane is None else _subject(row.about, resolution)
    word = _WORDS.get(row.kind)
    otherwise = "under require it would be an error"
    span = _about(row.about, resolution, node)
    if word is None:
        return codes.DEGRADED.at(span, f"{subject}: {row.message}", help=_HELP.get(row.kind, ""))
    if lane is None:
        intent = resolution.unit(row.about).draft.intent
        members: tuple[Loaded[Intent], ...] = () if intent is None else (intent,)
        how = f"lower cores.max of a lane, or drop {word}"
    else:
        members = _members(row.about, resolution)
        how = f"lower the lane's cores, or drop {word}"
        if not _some(word, lane, topology):
            how = f"drop {word}"
        if word == "same-llc" and _spans(row.about, resolution):
            how = "drop same-llc"
            otherwise = "under require the lane would not be spread over the localities of its GPUs"
    return codes.DEGRADED.at(
        _written("prefer", word, members) or span,
        f"{subject}: {word} not met: {row.message}",
        help=f"{how}; {otherwise}",
    )


def _subject(name: str, resolution: Resolution) -> str:
    """Name a lane as it can be asked for: a share of a spanning lane is no lane of its own."""
    whole = _spans(name, resolution)
    return f"lane {name}" if whole in (None, name) else f"lane {whole}: its share {name}"


def _spans(name: str, resolution: Resolution) -> str | None:
    """Return the spanning lane that is called so or has such a share; None: there is none."""
    for lane in resolution.lanes:
        if lane.divided == "spanning" and name in (lane.name, *(part.name for part in lane.parts)):
            return lane.name
    return None


def _some(word: Preference, lane: ResolvedLane, topology: Topology) -> bool:
    """Tell whether a smaller lane could meet a preference: some core of the machine does."""
    if word in ("gpu-local", "nic-local"):
        devices = topology.of_type("gpu" if word == "gpu-local" else "nic")
        return any(
            device.cpus is not None and device.cpus & topology.effective
            for device in devices
            if word == "nic-local" or device.id in lane.devices
        )
    if word == "isolated":
        return bool(topology.isolated)
    if word == "whole-cores":
        return any(core.cpus and not core.split for core in topology.cores)
    return word != "same-llc" or bool(topology.llcs)


def _members(lane: str, resolution: Resolution) -> tuple[Loaded[Intent], ...]:
    """Return the intents that share a lane, or a family of which it names a member, by name."""
    known = resolution.asked(lane)
    names = set(known.intents) if known is not None else set[str]()
    found = {
        unit.draft.intent.name: unit.draft.intent
        for unit in resolution.units
        if unit.draft.intent is not None
    }
    return tuple(found[name] for name in sorted(names & found.keys()))


def _written(key: str, word: str, intents: Sequence[Loaded[Intent]]) -> Span | None:
    """Return where a preference is written in the first intent that has it."""
    for intent in intents:
        words: tuple[str, ...] = getattr(intent.model.spec, key)
        if word in words:
            return intent.span("spec", key, words.index(word))
    return None


def _housekeeping(policy: Policy, node: Loaded[NodeFacts]) -> Span:
    doc = policy.project_doc
    if doc is not None and "housekeeping" in policy.project.spec.reserve.model_fields_set:
        return doc.span("spec", "reserve", "housekeeping")
    return node.key_span("spec", "cores")


def _about(about: str, resolution: Resolution, node: Loaded[NodeFacts]) -> Span:
    """Return the line a lane or unit comes from; the node's facts for anything else."""
    if (lane := resolution.asked(about)) is not None:
        return lane.span
    for unit in resolution.units:
        if unit.name == about and unit.draft.intent is not None:
            return unit.draft.intent.key_span("spec", "workload")
    return node.key_span("spec", "cores")


# --- broken invariants ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """A broken invariant in words; what starves node software, once for each line."""

    code: Code
    span: Span | None
    """None: nothing that a document says is behind it."""
    message: str
    help: str


def verdicts(found: Sequence[Violation], resolution: Resolution) -> Iterator[Verdict]:
    """Yield what the violations of a plan, or of a target's view of it, amount to."""
    starved: dict[tuple[Span | None, str, str], list[Violation]] = {}
    for one in found:
        if one.code is not NODE_SOFTWARE_STARVED:
            yield Verdict(
                one.code,
                None,
                one.message,
                "this is a fault of tierc; please report it with these documents",
            )
            continue
        span, who = (None, "") if one.rule is None else _culprit(one.rule, resolution)
        starved.setdefault((span, who, one.tier), []).append(one)
    for (span, who, tier), rows in starved.items():
        names = _software(rows)
        yield Verdict(
            NODE_SOFTWARE_STARVED,
            span,
            f"{who} puts {names} into tier {tier}, below background"
            if who
            else f"{names} fall to tier {tier}, below background, as no rule matches",
            "narrow the demotion, or keep node-infra with a higher precedence",
        )


def _culprit(id: int, resolution: Resolution) -> tuple[Span, str]:
    """Return the line and the intent that give a rule its tier: not always those of the rule."""
    rule = resolution.rules[id]
    draft = resolution.unit(rule.tier_unit).draft
    matcher = rule.matcher if rule.tier_unit == rule.unit else draft.matchers[0]
    who = draft.name if draft.intent is None else draft.intent.name
    return user_line(draft.intent, matcher), who


def _software(rows: Sequence[Violation]) -> str:
    """Name processes, the first with a cgroup it may be in, and how it is started if it matters."""
    shown = rows[0]
    command = f'"{shown.command}" ' if shown.command else ""
    first, *others = dict.fromkeys(row.process for row in rows)
    words = [f"{first} (such as {command}in {shown.cgroup})", *others]
    more = len(words) - _SHOWN
    return listed(words if more < 2 else [*words[:_SHOWN], f"{more} more"])
