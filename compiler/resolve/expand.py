"""One intent becomes units: design 5.1 and the direct half of 5.2, without any node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Sink, Span
from compiler.graph import Need
from compiler.model.base import NODE_STAGES, Model, Stage
from compiler.model.intent import Intent, Match, Protect
from compiler.model.profile import EngineProfile
from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import Condition, Effect
from compiler.policy import Policy
from compiler.profiles import StageMatch, carriers, stage_matches
from compiler.resolve.types import NODE_UNIT, Ask, Expansion, Matcher, UnitDraft
from compiler.suggest import nearest
from compiler.versions import contains as version_in

ALL = "all"
"""The path that means every stage."""


def expand(policy: Policy, intent: Loaded[Intent], sink: Sink) -> Expansion:
    """Return the intent's units with the tiers it asks for them.

    What is wrong with the intent by itself (unknown engine, path or tier, a stage its engine
    version gives no name) is a finding here, once, whatever nodes it selects.
    """
    work = intent.model.spec.workload
    if work.engine is not None:
        return _engine(policy, intent, work.engine, sink)
    asks = _whole_asks(policy, intent, sink)
    if work.group == "gpu-driver":
        _refuse_placing(intent, sink)
        return Expansion(
            intent,
            (),
            node_asks=tuple((stage, ask) for stage in sorted(NODE_STAGES) for ask in asks),
        )
    if work.group is not None:
        group = policy.groups[work.group]
        matchers = tuple(
            Matcher(
                _condition(row),
                _pattern_span(group, ("spec", "match", i), row),
                row.spawns,
                row.needs,
                row.evidence,
            )
            for i, row in enumerate(group.model.spec.match)
        )
    else:
        matchers = tuple(
            Matcher(_condition(row), _pattern_span(intent, ("spec", "workload", "match", i), row))
            for i, row in enumerate(work.match or ())
        )
    return Expansion(intent, (_unit(intent, None, matchers, asks),))


def _engine(policy: Policy, intent: Loaded[Intent], engine: str, sink: Sink) -> Expansion:
    profile = policy.profiles.get(engine)
    if profile is None:
        close = nearest(engine, policy.profiles)
        sink.add(
            codes.UNKNOWN_ENGINE.at(
                intent.span("spec", "workload", "engine"),
                f'no profile describes an engine "{engine}"',
                help=(f'did you mean "{close[0]}"? ' if close else "")
                + f"known: {', '.join(sorted(policy.profiles))}; or add an EngineProfile "
                "document, or use workload.match",
            )
        )
        return Expansion(intent, ())
    work = intent.model.spec.workload
    _check_version(intent, profile, sink)
    found = stage_matches(
        profile.model,
        work.version,
        work.tensor_parallel,
        narrowed=work.cgroup is not None or work.pods is not None,
    )
    carried = carriers(profile.model, found)
    asks: dict[Stage, list[Ask]] = {stage: [] for stage, rows in found.items() if rows}
    node_asks: list[tuple[Stage, Ask]] = []
    needs: set[Need] = set()
    reasons: dict[str, Span] = {}
    for ask, stages in _stage_asks(policy, intent, profile, sink):
        threads = _threads(carried, stages)
        for stage in dict.fromkeys(threads):
            if stage in asks:
                asks[stage].append(ask)
        if ask.effect != "protect":
            continue
        missing = [s for s in stages if s not in NODE_STAGES and not carried[s]]
        if missing:
            _not_recognised(intent, profile, missing, ask, sink)
        if all(stage in NODE_STAGES for stage in threads):
            # `protect: [{stage: gpu-driver}]`: nothing of the engine stands beside it
            node_asks += [(stage, ask) for stage in threads]
            continue
        for left, right in pairwise(threads):
            for source, target in ((left, right), (right, left)):
                if source != target:
                    why = f"{ask.intent} needs {target} ({ask.text})"
                    reasons[why] = ask.span
                    needs.add(
                        Need(_unit_name(intent, source), _unit_name(intent, target), ask.tier, why)
                    )
    units = tuple(
        _unit(intent, stage, _profile_matchers(profile, found[stage]), tuple(asks[stage]))
        for stage in sorted(asks)
    )
    return Expansion(intent, units, tuple(node_asks), tuple(sorted(needs)), reasons)


def _profile_matchers(
    profile: Loaded[EngineProfile], rows: Sequence[StageMatch]
) -> tuple[Matcher, ...]:
    return tuple(
        Matcher(
            _condition(row.match),
            _pattern_span(profile, row.route, row.match),
            row.match.spawns,
            row.match.needs,
            row.match.evidence,
        )
        for row in rows
    )


def _threads(carried: Mapping[Stage, Sequence[Stage]], stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages whose threads do the work of ``stages``, in path order, runs joined."""
    out: list[Stage] = []
    for stage in stages:
        out += [stage] if stage in NODE_STAGES else carried[stage]
    return [stage for i, stage in enumerate(out) if i == 0 or out[i - 1] != stage]


def _not_recognised(
    intent: Loaded[Intent],
    profile: Loaded[EngineProfile],
    missing: list[Stage],
    ask: Ask,
    sink: Sink,
) -> None:
    version = intent.model.spec.workload.version or "of any version"
    sink.add(
        codes.STAGE_NOT_RECOGNISED.at(
            ask.span,
            f"{profile.name} {version} gives stage {', '.join(missing)} no name of its own, so no "
            "rule can find its threads",
            help="match the service by cgroup instead: workload: "
            '{match: [{cgroup: "system.slice/NAME.service/**"}]}, protect: all',
        )
    )


def _stage_asks(
    policy: Policy, intent: Loaded[Intent], profile: Loaded[EngineProfile], sink: Sink
) -> list[tuple[Ask, tuple[Stage, ...]]]:
    spec = intent.model.spec
    paths = profile.model.spec.paths
    every: tuple[Stage, ...] = tuple(profile.model.spec.stages)
    if spec.protect is None:
        return [(ask, every) for ask in _whole_asks(policy, intent, sink)]
    out: list[tuple[Ask, tuple[Stage, ...]]] = []
    for i, item in enumerate(spec.protect):
        ask = _protect_ask(policy, intent, i, item, sink)
        if ask is None:
            continue
        known: tuple[str, ...]
        if item.stage is not None:
            if item.stage in NODE_STAGES or item.stage in profile.model.spec.stages:
                out.append((ask, (item.stage,)))
                continue
            word, known, given = "stage", (*every, *sorted(NODE_STAGES)), str(item.stage)
        elif item.path == ALL:
            out.append((ask, (*every, *sorted(NODE_STAGES))))
            continue
        elif (path := paths.get(item.path or "")) is not None:
            out.append((ask, path))
            continue
        else:
            word, known, given = "path", (*sorted(paths), ALL), item.path or ""
        close = nearest(given, known)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        if word == "path" and given in profile.model.spec.stages:
            hint = f"{given} is a stage: write {{stage: {given}}}; "
        sink.add(
            codes.UNKNOWN_PATH.at(
                ask.span,
                f'engine {profile.name} has no {word} "{given}"',
                help=f"{hint}known: {', '.join(known)}",
            )
        )
    return out


def _whole_asks(policy: Policy, intent: Loaded[Intent], sink: Sink) -> tuple[Ask, ...]:
    """Return what the intent asks for all its threads: its demote, keep or ``protect: all``."""
    spec = intent.model.spec
    asks: list[Ask] = []
    for i, item in enumerate(spec.protect or ()):
        if item.path != ALL:
            given = item.path or item.stage
            sink.add(
                codes.UNKNOWN_PATH.at(
                    _item_span(intent, i, item),
                    f'a workload without an engine has no path or stage "{given}"',
                    help="write protect: all, or {path: all, tier: NAME}",
                )
            )
        elif (ask := _protect_ask(policy, intent, i, item, sink)) is not None:
            asks.append(ask)
    words: tuple[tuple[Effect, str | None], ...] = (("demote", spec.demote), ("keep", spec.keep))
    for effect, name in words:
        if name is None:
            continue
        span = intent.span("spec", effect)
        tier = _tier(policy, name, span, sink)
        if tier is None:
            continue
        if effect == "demote" and tier <= policy.ladder.normal:
            _wrong_direction(
                span,
                f"demote: {name} does not lower anything: {name} is not below normal",
                "use keep to hold software at a tier",
                sink,
            )
            continue
        background = policy.ladder.id("background")
        if spec.workload.group == "node-infra" and background is not None and tier > background:
            _wrong_direction(
                span,
                f"node software cannot go below background, and {name} is "
                "lower: sshd and the kubelet would starve",
                "use keep: system",
                sink,
            )
            continue
        asks.append(Ask(tier, effect, span, f"{effect} {name}", intent.name))
    return tuple(asks)


def _protect_ask(
    policy: Policy, intent: Loaded[Intent], i: int, item: Protect, sink: Sink
) -> Ask | None:
    span = _item_span(intent, i, item)
    what = item.path or f"stage {item.stage}"
    if item.tier is None:
        return Ask(policy.ladder.latency, "protect", span, f"protect {what}", intent.name)
    place = intent.span("spec", "protect", i, "tier")
    tier = _tier(policy, item.tier, place, sink)
    if tier is None:
        return None
    if tier >= policy.ladder.normal:
        _wrong_direction(
            place,
            f"protect with tier {item.tier} protects nothing: it is not above normal",
            "choose a tier above normal, or use demote or keep",
            sink,
        )
        return None
    return Ask(tier, "protect", span, f"protect {what} at {item.tier}", intent.name)


def _item_span(intent: Loaded[Intent], i: int, item: Protect) -> Span:
    key = "path" if item.path is not None else "stage"
    return intent.span("spec", "protect", i, key)


def _tier(policy: Policy, name: str, span: Span, sink: Sink) -> int | None:
    tier = policy.ladder.id(name)
    if tier is None:
        close = nearest(name, policy.ladder.names)
        sink.add(
            codes.UNKNOWN_TIER.at(
                span,
                f'no tier is called "{name}"',
                help=(f'did you mean "{close[0]}"? ' if close else "")
                + f"tiers, highest first: {', '.join(policy.ladder.names)}",
            )
        )
    return tier


def _wrong_direction(span: Span, message: str, help: str, sink: Sink) -> None:
    sink.add(codes.WRONG_DIRECTION.at(span, message, help=help))


def _refuse_placing(intent: Loaded[Intent], sink: Sink) -> None:
    spec = intent.model.spec
    for word in ("lane", "prefer", "require"):
        if getattr(spec, word):
            sink.add(
                codes.NODE_UNIT_PLACED.at(
                    intent.doc.key_span("spec", word),
                    f"{word} has no meaning for group gpu-driver, whose threads every engine of "
                    "the node shares",
                    help="drop it; protect and keep are what the group takes",
                )
            )


def _check_version(intent: Loaded[Intent], profile: Loaded[EngineProfile], sink: Sink) -> None:
    version = intent.model.spec.workload.version
    oldest, newest = profile.model.spec.known
    if version is None:
        sink.add(
            codes.ALL_VARIANTS.at(
                intent.span("spec", "workload", "engine"),
                f"no version given: rules for every {profile.name} from {oldest} to {newest} "
                "are compiled",
                help='add version: "X.Y.Z" to be exact',
            )
        )
    elif not version_in(f">={oldest},<={newest}", version):
        sink.add(
            codes.VERSION_UNKNOWN.at(
                intent.span("spec", "workload", "version"),
                f"the {profile.name} profile was checked against {oldest} to {newest}, not "
                f"{version}",
                help="compare ps -eLo comm on a node with the profile's names",
            )
        )


def _unit_name(intent: Loaded[Intent], stage: Stage | None) -> str:
    if stage in NODE_STAGES:
        return f"{NODE_UNIT}/{stage}"
    return f"{intent.name}/{stage}" if stage else intent.name


def _unit(
    intent: Loaded[Intent],
    stage: Stage | None,
    matchers: tuple[Matcher, ...],
    asks: tuple[Ask, ...],
) -> UnitDraft:
    spec = intent.model.spec
    return UnitDraft(
        name=_unit_name(intent, stage),
        intent=intent,
        stage=stage,
        matchers=matchers,
        asks=asks,
        precedence=spec.precedence,
        builtin=spec.workload.group is not None,
    )


def _pattern_span(loaded: Loaded[Model], route: tuple[str | int, ...], row: Match) -> Span:
    for key, value in (
        ("comm", row.comm),
        ("leaderComm", row.leader_comm),
        ("kthread", row.kthread),
        ("cmdline", row.cmdline),
        ("cgroup", row.cgroup),
    ):
        if value is not None:
            return loaded.span(*route, key)
    return loaded.span(*route)


def _condition(row: Match) -> Condition:
    return Condition(
        comm=_comm(row.comm),
        leader_comm=_comm(row.leader_comm),
        kthread=_comm(row.kthread),
        cgroup=row.cgroup,
        cmdline=CmdlineRegex.parse(row.cmdline).text if row.cmdline is not None else None,
    )


def _comm(text: str | None) -> str | None:
    """Return the glob in its shortest form: an exact name, or a prefix and ``*``."""
    if text is None:
        return None
    glob = Glob.comm(text)
    if glob.exact is not None:
        return glob.exact.decode("utf-8", "surrogateescape")
    if glob.prefix is not None:
        return glob.prefix.decode("utf-8", "surrogateescape") + "*"
    return text
