"""The exact words and places of findings that once misled their readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic
from tests.policies import PROJECT, compiled, intent, linted, write
from tests.test_resolve import match, only

ENGINE = 'workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}\n'
TTFT = "protect: [decode, {path: ttft, tier: interactive}]"


def build(tmp_path: Path, *documents: str, **files: str) -> tuple[Diagnostic, ...]:
    """Compile a policy; files are named as keywords, with __ for / and _ for a dot."""
    named = {key.replace("__", "/").replace("_", "."): text for key, text in files.items()}
    return compiled(write(tmp_path, {"intents/all.yaml": "---\n".join(documents), **named}))[1]


def related(found: Diagnostic) -> list[tuple[str, str]]:
    return [(str(r.span), r.message) for r in found.related]


def lane(name: str, comm: str, lane: str) -> str:
    return match(name, f"comm: {comm}", f"protect: all\nlane: {{name: media, {lane}}}")


# -- lanes ---------------------------------------------------------------------------------------


def test_a_contradiction_lists_all_definitions_and_the_line_to_change(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            lane("a", "x", "cores: 1"),
            lane("b", "y", "cores: 2"),
            lane("c", "z", "cores: 1"),
        ),
        "TRC311",
    )
    assert found.message == "lane media: a and c say 1, b says 2 cores, at equal precedence"
    assert str(found.span) == "intents/all.yaml:15:30"
    assert related(found) == [
        ("intents/all.yaml:7:30", "a says 1"),
        ("intents/all.yaml:23:30", "c says 1"),
    ]
    assert found.help == (
        "change this line to cores: 1, as a and c have it, or give one intent a higher precedence"
    )


def test_a_contradiction_of_more_than_two_values(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            lane("a", "x", "cores: {min: 1, max: 2}"),
            lane("b", "y", "cores: {min: 1, max: 2}"),
            lane("c", "z", "cores: 3"),
            lane("d", "w", "cores: rest"),
        ),
        "TRC311",
    )
    assert found.message == (
        "lane media: a and b say 1 to 2, c says 3, d says rest, at equal precedence"
    )
    assert found.help == (
        "change the lines of c and d to cores: {min: 1, max: 2}, as a and b have it, or give one "
        "intent a higher precedence"
    )


def test_a_contradiction_without_a_majority(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            lane("a", "x", "cores: 1, share: open"),
            lane("b", "y", "cores: 1, share: exclusive"),
        ),
        "TRC311",
    )
    assert found.message == "lane media, share: a says open, b says exclusive, at equal precedence"
    assert found.help == (
        "write the same share in a and b, keep it in one of them, or give one intent a higher "
        "precedence"
    )


def test_definitions_of_lower_precedence_do_not_contradict(tmp_path: Path) -> None:
    found = build(
        tmp_path,
        match("a", "comm: x", "protect: all\nprecedence: 1\nlane: {name: media, cores: 1}"),
        lane("b", "y", "cores: 2"),
        lane("c", "z", "cores: 3"),
    )
    assert not [f for f in found if f.code == "TRC311"]


# -- ties ----------------------------------------------------------------------------------------


def test_a_tie_of_three_is_one_finding_with_all_places(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            match("a", "comm: job", "keep: interactive"),
            match("b", "comm: job", "demote: idle"),
            match("c", "comm: job", "keep: interactive"),
        ),
        "TRC310",
    )
    assert found.message == (
        'a, b and c all claim threads with comm "job", with tier interactive (a and c) and tier '
        "idle (b)"
    )
    assert str(found.span) == "intents/all.yaml:19:29"
    assert related(found) == [
        ("intents/all.yaml:5:29", "a claims them here"),
        ("intents/all.yaml:12:29", "b claims them here"),
    ]
    assert found.help.startswith(
        "change all but one of these lines: give a, b and c different precedences"
    )


def test_only_intents_that_claim_the_very_thread_shown_are_listed_together(tmp_path: Path) -> None:
    # z-y is b's and c's, x-y is a's and b's; no thread is a's and c's
    found = build(
        tmp_path,
        match("a", 'comm: "x-*"', "keep: interactive"),
        match("b", 'comm: "*-y"', "demote: idle"),
        match("c", 'comm: "z-*"', "keep: system"),
    )
    assert [f.message for f in found if f.code == "TRC310"] == [
        'a and b both claim threads such as comm "x-y", with tiers interactive and idle',
        'b and c both claim threads such as comm "z-y", with tiers idle and system',
    ]


def test_three_lanes_for_one_thread(tmp_path: Path) -> None:
    found = only(
        build(tmp_path, *(match(name, "comm: job", "lane: {cores: 1}") for name in "abc")),
        "TRC310",
    )
    assert found.message == (
        'a, b and c all claim threads with comm "job", with lane a (a), lane b (b) and lane c (c)'
    )


def test_engines_of_one_kind_tie_by_a_name_and_not_by_a_command_line(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            intent("chat", ENGINE + "protect: decode"),
            intent("embed", ENGINE + "protect: [{path: decode, tier: critical}]"),
        ),
        "TRC310",
    )
    assert found.message == (
        'chat and embed both claim threads such as comm "VLLM::EngineCor" and cgroup '
        '"serving.slice", with tiers latency and critical'
    )


# -- threads of the node -------------------------------------------------------------------------


def test_a_wide_demotion_spares_what_a_path_needs(tmp_path: Path) -> None:
    found = only(
        build(
            tmp_path,
            intent("chat", ENGINE + TTFT),
            match("quiet", 'kthread: "nvidia*"', "demote: idle"),
        ),
        "TRC330",
    )
    assert (found.severity.label, str(found.span)) == ("info", "intents/all.yaml:12:32")
    assert found.message == "this demotion spares node/gpu-driver, which chat needs"
    assert related(found) == [("intents/all.yaml:6:13", "chat needs gpu-driver (protect decode)")]


@pytest.mark.parametrize(
    ("pattern", "code"), [("nvidia", "TRC312"), ('"nvidia*"', "TRC330"), ('"kworker*"', None)]
)
def test_each_demotion_of_kernel_threads_is_one_finding(
    tmp_path: Path, pattern: str, code: str | None
) -> None:
    found = build(
        tmp_path,
        intent("chat", ENGINE + TTFT),
        match("quiet", f"kthread: {pattern}", "demote: idle"),
    )
    assert [f.code for f in found] == ([code] if code else [])
    assert not [f for f in found if f.span.path.startswith("tierc:")]


# -- single intents ------------------------------------------------------------------------------


def test_above_itself(tmp_path: Path) -> None:
    found = only(build(tmp_path, match("chat", "comm: a", "protect: all\nabove: [chat]")), "TRC313")
    assert (found.message, found.help) == ("chat is above itself", "remove it")
    assert str(found.span) == "intents/all.yaml:7:11"


def test_a_cgroup_that_excludes_its_matcher(tmp_path: Path) -> None:
    body = 'workload: {match: [{cgroup: "a.slice/**"}], cgroup: "b.slice/**"}\ndemote: idle'
    found = only(build(tmp_path, intent("x", body)), "TRC315")
    assert found.help == "drop one of the two: together they match nothing"


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ("[{model: H100}]", 'the node has no GPU whose model contains "H100"'),
        ('["0000:99:00.0"]', 'the node has no GPU "0000:99:00.0"'),
    ],
)
def test_a_gpu_that_is_not_there(tmp_path: Path, gpus: str, message: str) -> None:
    body = (
        f'workload: {{engine: vllm, version: "0.24.0", gpus: {gpus}}}\n{TTFT}\nprefer: [gpu-local]'
    )
    assert only(build(tmp_path, intent("chat", body)), "TRC318").message == message


@pytest.mark.parametrize(("p99", "words"), [("1", "1 core"), ("1.5", "1.5 cores")])
def test_a_spin_loop(tmp_path: Path, p99: str, words: str) -> None:
    demand = f"""\
apiVersion: tierc.dev/v1alpha1
kind: Demand
metadata: {{name: read}}
spec: {{intent: chat, cores: {{p50: 1, p99: {p99}}}, window: 600s, spinSuspect: true}}
"""
    chat = match("chat", "comm: a", "protect: all\nlane: {cores: measured}")
    assert only(build(tmp_path, chat, demand), "TRC317").message == (
        f"demand read looks like a spin loop: a polling engine keeps {words} busy whether it works "
        "or waits"
    )


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("", True),
        ("precedence: 3", True),
        ('knobs: "off"', True),
        ("irqs: leave", False),
        ("prefer: [leftovers]", False),
        ("require: [leftovers]", False),
        ("lane: {cores: 1}", False),
        ("demote: idle", False),
        ("keep: normal", False),
        ("protect: all", False),
    ],
)
def test_an_intent_that_asks_for_nothing(tmp_path: Path, rest: str, found: bool) -> None:
    _, findings = linted(write(tmp_path, {"intents/a.yaml": match("x", "comm: a", rest)}))
    hits = [f for f in findings if f.code == "TRC329"]
    assert len(hits) == found
    for hit in hits:
        assert (hit.severity.label, hit.message) == ("warning", "intent x asks for nothing")
        assert (str(hit.span), hit.help) == ("intents/a.yaml:5:3", "add protect, demote or keep")


def test_a_warning_of_an_intent_without_words_can_be_turned_off(tmp_path: Path) -> None:
    off = PROJECT + '  lint: {severity: {TRC329: "off"}}\n'
    files = {"intents/a.yaml": match("x", "comm: a", ""), "tierc.yaml": off}
    assert not [f for f in linted(write(tmp_path, files))[1] if f.code == "TRC329"]


def test_a_name_that_is_too_long_is_reported_once(tmp_path: Path) -> None:
    bpf = PROJECT.replace("fallback", "sched_ext") + "  targets: {taskset: {}, bpf: {}}\n"
    files = {
        "intents/a.yaml": match("x", 'comm: "vllm-engine-core*x"', "demote: idle"),
        "tierc.yaml": bpf,
    }
    assert [f.code for f in linted(write(tmp_path, files))[1]] == ["TRC201"]
