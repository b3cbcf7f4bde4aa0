"""What findings about several intents say to change, and which threads and GPUs are meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.resolve.localities import device_suffix
from compiler.resolve.pods import pods_take
from tests.policies import intent
from tests.test_resolve import ask, build, errors, match, only, plan_of, tier_of


def in_media(name: str, cores: str) -> str:
    return match(
        name,
        f'cgroup: "{name}.slice/**"',
        f"keep: interactive\nlane: {{name: media, cores: {cores}}}",
    )


@pytest.mark.parametrize(
    ("most", "odd", "words"),
    [
        ("{min: 2, max: 4}", "3", "change this line to cores: {min: 2, max: 4}, as a and c have"),
        ("{min: 3, max: 3}", "2", "change this line to cores: 3, as a and c have"),
    ],
)
def test_the_size_that_most_give_is_written_as_a_document_has_it(
    tmp_path: Path, most: str, odd: str, words: str
) -> None:
    _, findings = build(tmp_path, in_media("a", most), in_media("b", odd), in_media("c", most))
    assert words in only(findings, "TRC311").help


def test_sizes_that_equally_many_give_go_by_the_first_intent(tmp_path: Path) -> None:
    sizes = {"a": "2", "b": "3", "c": "3", "d": "2"}
    _, findings = build(tmp_path, *(in_media(name, size) for name, size in sizes.items()))
    assert only(findings, "TRC311").message.startswith("lane media: a and d say 2, b and c say 3")


def test_the_help_for_a_tie_names_both_intents(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("one", 'comm: "job-*"', "keep: interactive"),
        match("two", 'comm: "*-live"', "demote: background"),
    )
    assert "give one or two a higher precedence" in only(findings, "TRC310").help


@pytest.mark.parametrize(
    ("placing", "keeping"), [("a", "z"), ("z", "a")], ids=["lane first", "tier first"]
)
def test_a_clash_of_a_tier_and_a_lane_reads_the_same_in_both_orders(
    tmp_path: Path, placing: str, keeping: str
) -> None:
    _, findings = build(
        tmp_path,
        match(placing, 'comm: "job-*"', "lane: {name: media, cores: 2}"),
        match(keeping, 'comm: "*-live"', "keep: interactive"),
    )
    message = only(findings, "TRC310").message
    assert message.endswith("with tier interactive from one and lane media from the other")


@pytest.mark.parametrize(
    "rows", ["{comm: job}, {cmdline: '^job'}", "{cmdline: '^job'}, {comm: job}"]
)
def test_a_tie_is_shown_by_the_rules_that_are_easiest_to_read(tmp_path: Path, rows: str) -> None:
    _, findings = build(
        tmp_path,
        intent("one", f"workload: {{match: [{rows}]}}\nkeep: interactive"),
        intent("two", f"workload: {{match: [{rows}]}}\ndemote: background"),
    )
    message = only(findings, "TRC310").message
    assert message.startswith('one and two both claim threads with comm "job"')


def test_three_intents_that_claim_one_thread_are_one_finding(tmp_path: Path) -> None:
    tiers = {"one": "keep: interactive", "two": "demote: background", "three": "keep: latency"}
    _, findings = build(tmp_path, *(match(n, "comm: job", body) for n, body in tiers.items()))
    assert only(findings, "TRC310").message == (
        'one, two and three all claim threads with comm "job", with tier interactive (one), tier '
        "background (two) and tier latency (three)"
    )


def using(model: str) -> str:
    return intent(
        "chat",
        f"""
        workload: {{engine: vllm, version: "0.24.0", gpus: [{{model: {model}}}]}}
        protect: decode
        lane: {{cores: 2}}
        prefer: [gpu-local]
        """,
    )


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("rtx 6000", []),  # the node has an NVIDIA RTX 6000 Ada
        ("H100", ['the node has no GPU whose model contains "H100"']),
    ],
)
def test_a_gpu_is_meant_by_a_part_of_its_model_in_any_case(
    tmp_path: Path, model: str, found: list[str]
) -> None:
    _, findings = build(tmp_path, using(model))
    assert [finding.message for finding in errors(findings)] == found


@pytest.mark.parametrize(
    ("text", "value", "taken"),
    [
        ("disk Gt (5)", "6", True),
        ("disk Gt (5)", "5", False),
        ("disk Gt (5)", "4", False),
        ("disk Lt (5)", "4", True),
        ("disk Lt (5)", "5", False),
        ("disk Lt (5)", "6", False),
        ("disk Lt (10)", "9", True),  # as numbers: as texts 9 would be more
        ("disk Lt (5)", "x", False),
        ("disk Lt (5)", None, False),
    ],
)
def test_pods_are_taken_by_numbers_in_labels(text: str, value: str | None, taken: bool) -> None:
    assert pods_take(text, "any", {} if value is None else {"disk": value}) is taken


def test_a_lane_has_room_for_stages_known_by_conditions_that_others_meet(tmp_path: Path) -> None:
    # before 0.10.1 engine-step is any spawned child: 1 to 2 cores beside the 1 to 2 of api
    body = """
        workload: {engine: vllm, version: "0.9.0", cgroup: "system.slice/**"}
        protect: decode
        prefer: [gpu-local]
        """
    compilation, findings = build(tmp_path, intent("chat", body))
    assert not errors(findings)
    (lane,) = plan_of(compilation).lanes
    assert (lane.min_cores, lane.max_cores) == (2, 4)


def test_a_tier_is_joined_with_each_lane_it_meets(tmp_path: Path) -> None:
    # what takes the tier as a whole comes first, and must not end the looking
    compilation, findings = build(
        tmp_path,
        match("whole", "comm: job-a", "lane: {name: one, cores: 1}\nprecedence: 2"),
        match("partly", "leaderComm: b", "lane: {name: two, cores: 1}\nprecedence: 1"),
        match("tier", 'comm: "job*"', "keep: interactive"),
    )
    assert not errors(findings)
    for thread, tier, lane in (
        ({"comm": "job-a", "leader_comm": "x"}, "interactive", "one"),
        ({"comm": "job-x", "leader_comm": "b"}, "interactive", "two"),
        ({"comm": "other", "leader_comm": "b"}, "normal", "two"),
        ({"comm": "job-x", "leader_comm": "x"}, "interactive", None),
    ):
        winner = ask(compilation, **thread).winner
        assert winner is not None
        assert (winner.tier, winner.lane) == (tier, lane)


def test_forty_characters_of_a_long_device_id_are_taken_over() -> None:
    assert device_suffix("GPU-" + "7" * 60) == "gpu-" + "7" * 36


def test_the_expression_that_every_command_line_meets_is_the_widest(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("all", 'cmdline: "^"', "demote: background"),
        match("some", 'cmdline: "^train"', "keep: interactive"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="a", cmdline="train x") == "interactive"
    assert tier_of(compilation, comm="a", cmdline="other") == "background"


def test_too_many_rules_are_counted_by_intent(tmp_path: Path) -> None:
    # those of chat belong to several stages of the engine, and are more than any other has
    many = [match(f"i{i}", f"comm: j{i}", "demote: idle") for i in range(250)]
    chat = intent("chat", "workload: {engine: vllm, tensorParallel: 2}\nprotect: all")
    _, findings = build(tmp_path, chat, *many)
    assert re.search(r"; chat has most, \d\d$", only(findings, "TRC319").message)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("prefer: [performance]\nlane: {share: guarded}", "lane"),
        ("require: [performance]\nlane: {share: open}", "lane"),
        ("prefer: [performance]", "prefer"),
        ("prefer: [whole-cores]\nrequire: [performance]", "require"),
        ("require: [performance]\nprefer: [whole-cores]", "require"),
    ],
)
def test_what_is_wrong_with_a_lane_is_said_where_it_is_asked_for(
    tmp_path: Path, words: str, key: str
) -> None:
    text = match("a", "comm: a", f"protect: all\n{words}")
    _, findings = build(tmp_path, text)
    (line,) = [i for i, row in enumerate(text.splitlines(), 1) if row.startswith(f"  {key}:")]
    found = only(findings, "TRC317")
    assert (found.span.line, found.span.col, found.span.end_col) == (line, 3, 3 + len(key))
