"""Answers agree with the plan: for any thread, known wholly or in part."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.explain import Thread, explain_node, explain_thread, match
from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import Condition
from compiler.provenance import provenance
from tests.machines import random_machine
from tests.policies import linted
from tests.test_pipeline_properties import repository

NAMES = ("a", "ab", "abc", "xb", "vllm", "VLLM::Worker_TP", "sshd", "VLLM::EngineCor", "nvidia")
CGROUPS = ("ci.slice/a", "system.slice", "system.slice/x.service", "q/x/r", "ab/b", "")
CMDLINES = ("VLLM::EngineCore", "python3 -m vllm.entrypoints.openai.api_server --port 1", "sshd")


def first(rules: list[Condition], thread: Thread) -> int | None:
    """Return the first rule whose every condition holds, without what ``explain`` does itself."""
    for i, rule in enumerate(rules):
        if rule.pods is not None or (rule.kthread is not None) != thread.kthread:
            continue
        checks = [
            (rule.kthread, Glob.comm, thread.comm),
            (rule.comm, Glob.comm, thread.comm),
            (rule.leader_comm, Glob.comm, thread.leader_comm),
            (rule.cgroup, Glob.cgroup, thread.cgroup),
            (rule.cmdline, CmdlineRegex.parse, thread.cmdline),
        ]
        if all(text is None or read(text).matches(have or "") for text, read, have in checks):
            return i
    return None


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_explain_agrees_with_the_plan(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = Random(seed)
    facts = random_machine(rng, 9)
    compilation, _ = linted(repository(tmp_path_factory.mktemp("p"), seed, facts))
    (group,) = compilation.classes
    if group.plan is None:
        return
    ladder, rules = compilation.policy.ladder, [rule.match for rule in group.plan.rules]
    explain_node(compilation, group.nodes[0])
    for _ in range(40):
        full = Thread(
            rng.choice(NAMES),
            rng.choice(NAMES),
            rng.choice(CGROUPS),
            rng.choice(CMDLINES),
            rng.random() < 0.2,
        )
        answer = explain_thread(group, ladder, "box", full)
        right = first(rules, full)
        assert (answer.winner.rule if answer.winner else None) == right
        assert answer.possible == ()
        hidden = {f: None for f in ("leader_comm", "cgroup", "cmdline") if rng.random() < 0.6}
        known = {"comm": full.comm, "leader_comm": full.leader_comm, "cgroup": full.cgroup}
        part = Thread(**{**known, "cmdline": full.cmdline, **hidden}, kthread=full.kthread)
        answer = explain_thread(group, ladder, "box", part)
        candidates = {one.rule for one in (*answer.possible, *filter(None, [answer.winner]))}
        # What is unknown may turn out any way: the right rule is the winner or a possible one.
        assert right is None or right in candidates
        assert right is not None or answer.winner is None
        if answer.winner is not None:
            assert all(one.rule < answer.winner.rule for one in answer.possible)
            assert all(one.rule > answer.winner.rule for one in answer.losers)
    assert b'"classes"' in provenance(compilation).data


def test_a_cgroup_as_proc_writes_it_is_understood() -> None:
    rule = Condition(cgroup="system.slice/**")
    assert match(rule, Thread(comm="a", cgroup="/system.slice/x"))[0] == "matches"


def test_a_pod_selector_is_never_certain() -> None:
    verdict, unknown = match(Condition(comm="a", pods="app=x"), Thread(comm="a"))
    assert (verdict, unknown) == ("could", ("pods app=x",))


@pytest.mark.parametrize(
    ("shown", "pattern"),
    [
        ("kworker/u8:1-events_unbound", "kworker/u8:1"),
        ("kworker/0:0H+kblockd", "kworker/0:0H"),
        ("kworker/R-mm_percpu_wq", "kworker/R-mm_pe"),
        ("nvidia-modeset/", "nvidia-modeset/"),
    ],
)
def test_kernel_names_are_matched_as_the_scheduler_sees_them(shown: str, pattern: str) -> None:
    assert match(Condition(kthread=pattern), Thread(shown, kthread=True)) == ("matches", ())
