"""What the map ABI can express, and which plans are refused because it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import targets.bpf.seed
from compiler import features
from compiler.plan import NodePlan
from targets.bpf import TARGET
from targets.bpf.layout import CGROUP_DEPTH, CGROUP_NAME_LEN, MAX_CPUS, TABLES
from targets.bpf.matchers import ALL_LEVELS, CgroupForm, Name, cgroup_form, name_form
from tests.bpf_eval import dump_of_stage
from tests.bpf_plans import band, plan, rule


def tables(a_plan: NodePlan) -> dict[str, dict[bytes, bytes]]:
    stage = next(a for a in TARGET.emit(a_plan) if a.path == "bpf/stage.batch")
    return dump_of_stage(stage.data.decode())


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("abc", Name(b"abc", exact=True)),
        ("abc*", Name(b"abc", exact=False)),
        ("abc**", Name(b"abc", exact=False)),
        ("*", None),
        ("VLLM::EngineCor*", Name(b"VLLM::EngineCor", exact=True)),
        ("[x]y", Name(b"[x]y", exact=True)),
        ("é", Name("é".encode(), exact=True)),
    ],
)
def test_name_forms(text: str, form: Name | None) -> None:
    assert name_form(text) == form


LEVELS = {n: frozenset(range(n, 10)) for n in range(10)}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("**", None),
        ("**/**", None),
        ("*", CgroupForm((), frozenset({1}))),
        ("*/**", CgroupForm((), LEVELS[1])),
        ("**/*", CgroupForm((), LEVELS[1])),
        ("**/*/**", CgroupForm((), LEVELS[1])),
        ("a", CgroupForm(((1, b"a"),), frozenset({1}))),
        ("a/**", CgroupForm(((1, b"a"),), LEVELS[1])),
        ("a/*/**", CgroupForm(((1, b"a"),), LEVELS[2])),
        ("a/**/*", CgroupForm(((1, b"a"),), LEVELS[2])),
        ("a/*/b", CgroupForm(((1, b"a"), (3, b"b")), frozenset({3}))),
        ("**/a/**", CgroupForm(((0, b"a"),), ALL_LEVELS)),
        ("1/2/3/4/5/6/7/8", CgroupForm(tuple((n, b"%d" % n) for n in range(1, 9)), frozenset({8}))),
        ("*/*/*/*/*/*/*/x/**", CgroupForm(((8, b"x"),), frozenset({8, 9}))),
        ("x" * 63, CgroupForm(((1, b"x" * 63),), frozenset({1}))),
    ],
)
def test_cgroup_forms(text: str, form: CgroupForm | None) -> None:
    assert cgroup_form(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "a*",
        "a?/b",
        "**/a",
        "a/**/b",
        "**/a/b/**",
        "**/a*/**",
        "**/a/*/**",
        "1/2/3/4/5/6/7/8/9",
        "1/2/3/4/5/6/7/8/*/**",
        "x" * 64,
        "**/" + "x" * 64 + "/**",
        "é" * 32,
        "/a",
    ],
)
def test_cgroups_that_cannot_be_expressed(text: str) -> None:
    with pytest.raises(ValueError):
        cgroup_form(text)


@pytest.mark.parametrize(
    "match",
    [
        {"comm": "a?"},
        {"comm": "*a"},
        {"leader_comm": "a*b"},
        {"kthread": "?"},
        {"cgroup": "a*/**"},
        {"cgroup": "/a"},
        {"comm": ""},
        {"cmdline": "x"},
        {"pods": "x"},
    ],
)
def test_rules_that_should_have_been_kept_away(match: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rule 4: "):
        TARGET.emit(plan([rule(4, **match)]))


def test_a_name_too_long_to_exist_matches_nothing() -> None:
    maps = tables(plan([rule(0, comm="vllm-engine-core"), rule(1, comm="vllm-engine-cor")]))
    key = b"\x80\0\0\0vllm-engine-cor\0"
    assert maps["comm"] == {key: (1 << 1).to_bytes(32, "little")}
    assert list(maps["kind"].values()) == [(1 << 1).to_bytes(32, "little"), bytes(32)]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: plan([rule(256, comm="a")]), "outside 0-255"),
        (lambda: plan([rule(1, comm="a"), rule(0, comm="b")]), "ascending"),
        (lambda: plan([rule(1, comm="a"), rule(1, comm="b")]), "ascending"),
        (lambda: plan([rule(-1, comm="a")]), "outside 0-255"),
        (lambda: plan([rule(0, 9, comm="a")]), "rule 0 has band 9"),
        (lambda: plan(bands=[band(64)]), "band id 64"),
        (lambda: plan(bands=[band(0), band(0)]), "two bands"),
        (lambda: plan(bands=[band(0, tier=9)]), "band 0 has tier 9"),
        (lambda: plan(default_band=7), "default band 7"),
        (lambda: plan(bands=[band(0, cpus="1024")]), "does not fit"),
        (lambda: plan(bands=[band(0, order=1 << 16)]), "order 65536 does not fit"),
    ],
)
def test_broken_plans_are_refused(broken: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TARGET.emit(broken())


def test_most_there_can_be() -> None:
    """256 rules of 8 names each fill the cgroup table exactly."""
    rules = [
        rule(n, comm=f"c{n}", cgroup="/".join(f"{n}-{d}" for d in range(8))) for n in range(256)
    ]
    bands = [band(n) for n in range(64)]
    maps = tables(plan(rules, bands=bands))
    assert {name: len(maps[name]) for name in ("comm", "cgroup", "rules", "bands")} == {
        "comm": 256,
        "cgroup": 2048,
        "rules": 256,
        "bands": 64,
    }


def test_a_table_that_is_too_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are the kernel's: an entry too many would stop a batch midway."""
    small = tuple(replace(t, max_entries=1) if t.name == "leader" else t for t in TABLES)
    monkeypatch.setattr(targets.bpf.seed, "TABLES", small)
    rules = [rule(0, leader_comm="a"), rule(1, leader_comm="b")]
    with pytest.raises(ValueError, match="table leader would have 2 entries, more than 1"):
        TARGET.emit(plan(rules))


names = st.one_of(
    st.text("ab*?", min_size=1, max_size=4),
    st.builds("{}{}".format, st.text("ab", min_size=1, max_size=17), st.sampled_from(["", "*"])),
)
components = st.sampled_from(["*", "**", "a", "b", "c", "x" * 63, "x" * 64, "a*", "?", "é" * 32])
paths = st.one_of(
    st.lists(components, min_size=1, max_size=10).map("/".join),
    st.builds("**/{}/**".format, components),
    st.builds("{}/**".format, st.lists(components, min_size=1, max_size=3).map("/".join)),
)


@settings(max_examples=200)
@given(
    st.one_of(
        st.fixed_dictionaries({"comm": names}, optional={"leader_comm": names}),
        st.fixed_dictionaries({"kthread": names}),
        st.fixed_dictionaries({"cgroup": paths}),
    )
)
def test_what_is_declared_supported_is_emitted(match: dict[str, Any]) -> None:
    """A rule whose features the target supports always compiles; no other has to."""
    a_rule = rule(0, **match)
    supported = features.of_rule(a_rule) <= TARGET.supports
    event(f"supported: {supported}")
    if supported:
        TARGET.emit(plan([a_rule]))


@pytest.mark.parametrize(
    ("match", "feature"),
    [
        ({"comm": "a?b"}, "match.comm.glob"),
        ({"leader_comm": "*a"}, "match.leader.glob"),
        ({"kthread": "a*b"}, "match.kthread.glob"),
        ({"cgroup": "a*/b"}, "match.cgroup.glob"),
        ({"cgroup": "**/a"}, "match.cgroup.glob"),
        ({"cgroup": "1/2/3/4/5/6/7/8/9"}, "match.cgroup.glob"),
        ({"cgroup": "x" * 64}, "match.cgroup.long"),
        ({"cgroup": f"**/{'x' * 64}/**"}, "match.cgroup.long"),
        ({"cmdline": "a"}, "match.cmdline"),
        ({"pods": "a"}, "match.pods"),
    ],
)
def test_what_cannot_be_expressed_is_declared(match: dict[str, Any], feature: str) -> None:
    a_rule = rule(0, **match)
    assert features.of_rule(a_rule) - TARGET.supports == {feature}
    with pytest.raises(ValueError, match="rule 0: "):
        TARGET.emit(plan([a_rule]))


def test_feature_words_exist() -> None:
    assert TARGET.supports <= set(features.MEANING)
    assert features.MAX_CGROUP_DEPTH == CGROUP_DEPTH
    assert features.MAX_CGROUP_NAME == CGROUP_NAME_LEN - 1
    assert features.MAX_MAP_CPUS == MAX_CPUS
