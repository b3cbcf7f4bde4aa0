"""Running tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic, Span
from compiler.model.policytest import GivenThread, PolicyTest
from compiler.pipeline import CompiledClass
from compiler.policytest.findings import (
    check_absent,
    check_none,
    check_present,
    describe,
    in_reach,
)
from compiler.policytest.lanes import check_lane
from compiler.policytest.load import Suite, beside, nodes_of
from compiler.policytest.results import Broken, Case, Failure, Report, Result, merged
from compiler.policytest.snapshot import check_snapshot, content, same_plan
from compiler.policytest.threads import check_thread
from compiler.policytest.worlds import World, Worlds, is_in
from compiler.words import counted

_ERRORS_SHOWN: Final = 3

Check = Callable[[], Iterable[Failure]]
Item = tuple[str, Span, Check]
"""Name and place of a case, and what finds its failures."""


def run_tests(
    suite: Suite,
    worlds: Worlds,
    findings: Sequence[Diagnostic] = (),
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    update: bool = False,
) -> Report:
    """Run the tests; ``wanted`` says which, of each ``test: case``.

    ``findings`` are those on the documents of the tests.  A test with any does not run: it is
    broken, and so is a file with some outside its tests.  With ``update`` snapshots are not
    compared; the report has what to write.
    """
    snapshots: dict[str, tuple[bytes, str]] = {}
    left = list(findings)
    broken: list[Broken] = []
    results: list[Result] = []
    for test in suite.tests:
        mine = tuple(d for d in left if is_in(d.span, test.doc))
        left = [d for d in left if d not in mine]
        if mine:
            if wanted(test.name):
                broken.append(Broken(test.name, test.key_span("kind"), mine))
            continue
        items = _cases(test, suite, worlds, snapshots if update else None)
        cases = [
            Case(name, span, merged(check()))
            for name, span, check in _with_names_of_their_own(items)
            if wanted(f"{test.name}: {name}")
        ]
        if cases:
            results.append(Result(test.name, test.key_span("kind"), tuple(cases)))
    for doc in suite.unread:
        mine = tuple(d for d in left if is_in(d.span, doc))
        left = [d for d in left if d not in mine]
        if mine and wanted(doc.name or doc.path):
            broken.append(Broken(doc.name or doc.path, doc.key_span("kind"), mine))
    for path in sorted({d.span.path for d in left}):
        if wanted(path):
            mine = tuple(d for d in left if d.span.path == path)
            broken.append(Broken(path, Span.of_file(path), mine))
    return Report(
        tuple(results),
        tuple(sorted(broken, key=lambda one: one.span)),
        tuple((path, data) for path, (data, _) in sorted(snapshots.items())),
    )


def _cases(
    test: Loaded[PolicyTest],
    suite: Suite,
    worlds: Worlds,
    snapshots: dict[str, tuple[bytes, str]] | None,
) -> Iterator[Item]:
    """Yield the items of a test: name, place, and what checks it."""
    spec = test.model.spec
    for i, thread in enumerate(spec.threads):
        span = partial(test.span, "spec", "threads", i)
        check = partial(_thread, test, worlds, i)
        yield f"thread {i + 1}, {_describe(thread.given)}", span(), check
    for i, lane in enumerate(spec.lanes):
        yield f"lane {lane.name}", test.span("spec", "lanes", i), partial(_lane, test, worlds, i)
    yield from _finding_cases(test, worlds)
    if spec.snapshot is not None:
        check = partial(_snapshot, test, suite, worlds, snapshots)
        yield f"snapshot {spec.snapshot}", test.span("spec", "snapshot"), check


def _with_names_of_their_own(items: Iterable[Item]) -> Iterator[Item]:
    """Number the items of one name from the second on: readers of JUnit tell cases by name."""
    seen: dict[str, int] = {}
    for name, span, check in items:
        seen[name] = count = seen.get(name, 0) + 1
        yield (f"{name} ({count})" if count > 1 else name), span, check


def _finding_cases(test: Loaded[PolicyTest], worlds: Worlds) -> Iterator[Item]:
    findings = test.model.spec.findings
    if findings is None:
        return
    every = test.model.spec.nodes is None

    def checking(check: Callable[[World, list[Diagnostic]], tuple[Failure, ...]]) -> Check:
        def run() -> tuple[Failure, ...]:
            world = worlds.of(test)
            nodes = nodes_of(test, world.policy.nodes)
            return check(world, in_reach(world, nodes, all_nodes=every))

        return run

    for i, item in enumerate(findings.present):
        span = test.span("spec", "findings", "present", i)
        check = partial(check_present, item=item, span=span)
        yield f"finding {describe(item)} present", span, checking(check)
    for i, item in enumerate(findings.absent):
        span = test.span("spec", "findings", "absent", i)
        check = partial(check_absent, item=item, span=span)
        yield f"finding {describe(item)} absent", span, checking(check)
    if findings.none is not None:
        span = test.span("spec", "findings", "none")
        check = partial(check_none, level=findings.none, span=span)
        yield f"findings none {findings.none}", span, checking(check)


def _thread(test: Loaded[PolicyTest], worlds: Worlds, i: int) -> Iterator[Failure]:
    thread = test.model.spec.threads[i]
    world = worlds.of(test)
    span = partial(test.span, "spec", "threads", i)
    planned, failures = _planned(test, world, span())
    for group, nodes in planned:
        for failure in check_thread(group, world.policy.ladder, thread.given, thread.expect, span):
            yield replace(failure, nodes=nodes)
    yield from failures


def _lane(test: Loaded[PolicyTest], worlds: Worlds, i: int) -> Iterator[Failure]:
    world = worlds.of(test)
    span = partial(test.span, "spec", "lanes", i)
    planned, failures = _planned(test, world, span())
    for group, nodes in planned:
        for failure in check_lane(group, world.policy.ladder, test.model.spec.lanes[i], span):
            yield replace(failure, nodes=nodes)
    yield from failures


def _snapshot(
    test: Loaded[PolicyTest],
    suite: Suite,
    worlds: Worlds,
    snapshots: dict[str, tuple[bytes, str]] | None,
) -> Iterator[Failure]:
    span = test.span("spec", "snapshot")
    path = beside(test.doc, test.model.spec.snapshot or "")
    world = worlds.of(test)
    planned, failures = _planned(test, world, span)
    yield from failures
    yield from (several := same_plan(planned, span, path))
    plan = planned[0][0].plan if planned else None
    if plan is None or failures or several:
        return
    if snapshots is None:
        nodes = planned[0][1]
        for failure in check_snapshot(suite.root, path, plan, span):
            yield replace(failure, nodes=nodes)
        return
    data = content(plan)
    kept, by = snapshots.setdefault(path, (data, test.name))
    if kept != data:
        yield Failure(
            span,
            f"one plan in {path}",
            f"another one, of test {by}",
            help="give each test a file of its own",
        )


def _planned(
    test: Loaded[PolicyTest], world: World, span: Span
) -> tuple[list[tuple[CompiledClass, tuple[str, ...]]], list[Failure]]:
    """Return the classes that a test asks; those without a plan are failures."""
    expected = "a plan to ask"
    nodes = nodes_of(test, world.policy.nodes)
    if not nodes:
        help = "add node facts to the policy, or name a file of them under spec.facts"
        return [], [Failure(span, expected, "the policy has no nodes", help=help)]
    planned: list[tuple[CompiledClass, tuple[str, ...]]] = []
    failures: list[Failure] = []
    for group, mine in world.classes(nodes):
        if group.plan is not None:
            planned.append((group, mine))
            continue
        errors = world.errors_of(mine)
        count = counted(len(errors), "error")
        why = tuple(f"error[{d.code}]: {d.message}, {d.span}" for d in errors[:_ERRORS_SHOWN])
        more = len(errors) - _ERRORS_SHOWN
        rest = (f"and {more} more",) if more > 0 else ()
        got = f"no plan: {count}" if errors else "no plan; see tierc lint"
        failures.append(Failure(span, expected, got, (*why, *rest), nodes=mine))
    return planned, failures


def _describe(given: GivenThread) -> str:
    words = {
        "kernel thread" if given.kthread else "comm": given.comm,
        "leader comm": given.leader_comm,
        "cgroup": given.cgroup,
        "cmdline": given.cmdline,
        "pod in": given.pod.namespace if given.pod is not None else None,
    }
    return next(f'{word} "{text}"' for word, text in words.items() if text is not None)
