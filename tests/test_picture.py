"""Pictures of the tier graph: what is in them, and that both formats say it, whatever the names."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from compiler.cpuset import CpuSet
from compiler.picture import Box, Edge, Key, Picture, Rank, node_picture, policy_picture
from compiler.picture.words import cpu_text, matcher_lines, short
from compiler.plan import Condition
from compiler.report.cells import printable
from compiler.report.dot import render_dot
from compiler.report.layout import COLUMNS, rows_of
from compiler.report.mermaid import MAX_EDGES, MAX_TEXT, render_mermaid, too_large
from compiler.report.palette import TINTS
from tests.pictures import draw_svg, hostile_pictures, plain, read_chart
from tests.policies import BOX, compiled, intent, write

ENGINE = """\
workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/%s.service/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {name: %s, cores: 2}
"""
BATCH = 'workload: {match: [{comm: "job-*"}]}\ndemote: background'
KEEP = "workload: {group: node-infra}\nkeep: system"


def policy(root: Path, **intents: str) -> Picture:
    files = {f"intents/{n}.yaml": intent(n.replace("_", "-"), b) for n, b in intents.items()}
    return policy_picture(compiled(write(root, files))[0])


def boxes(picture: Picture) -> dict[str, Box]:
    return {box.name: box for rank in picture.ranks for box in rank.boxes}


def tier_of(picture: Picture, name: str) -> str:
    return next(r.tier for r in picture.ranks if name in [box.name for box in r.boxes])


# --- the model -------------------------------------------------------------------------------


def test_units_stand_in_their_tiers_highest_first(tmp_path: Path) -> None:
    picture = policy(tmp_path, chat=ENGINE % ("chat", "chat"), jobs=BATCH, infra=KEEP)
    assert [r.tier for r in picture.ranks] == [
        "latency", "interactive", "system", "normal", "background",
    ]  # fmt: skip
    assert tier_of(picture, "chat/engine-step") == "latency"
    assert tier_of(picture, "chat/api") == "interactive"
    assert tier_of(picture, "infra") == "system"
    assert tier_of(picture, "jobs") == "background"
    assert tier_of(picture, "everything else") == "normal"
    assert "tiers without units: critical, idle" in picture.notes
    kinds = {name: box.kind for name, box in boxes(picture).items()}
    assert kinds["chat/api"] == "protect"
    assert kinds["infra"] == "keep"
    assert kinds["jobs"] == "demote"
    assert kinds["node/gpu-driver"] == "needed"
    assert boxes(picture)["chat/api"].lane == "chat"
    assert boxes(picture)["jobs"].lane is None


def test_a_raised_unit_says_from_which_tier_and_why(tmp_path: Path) -> None:
    picture = policy(tmp_path, chat=ENGINE % ("chat", "chat"))
    text = " ".join(" ".join(boxes(picture)["node/gpu-driver"].lines).split())
    # `protect` is the second line of `spec`, the sixth of the file
    assert text.startswith(
        "raised from normal: chat needs gpu-driver (protect decode), intents/chat.yaml:6 "
    )
    (edge,) = [e for e in picture.edges if e.target == "node/gpu-driver" and e.kind == "raise"]
    assert edge.source == "chat/engine-step"
    assert edge.why == "chat needs gpu-driver (protect decode)"


def test_units_of_the_node_are_shared_and_each_intent_joins_them_once(tmp_path: Path) -> None:
    engines = {name: ENGINE % (name, name) for name in ("one", "two", "three")}
    picture = policy(tmp_path, **engines)
    assert [name for name in boxes(picture) if name.startswith("node/")] == [
        "node/gpu-driver",
        "node/gpu-irq",
    ]
    joins: dict[str, int] = {}
    for edge in picture.edges:
        ends = (edge.source, edge.target)
        if edge.kind == "need" and sum(end.startswith("node/") for end in ends) == 1:
            own = next(end for end in ends if not end.startswith("node/"))
            joins[own.split("/")[0]] = joins.get(own.split("/")[0], 0) + 1
    raising = {e.source.split("/")[0] for e in picture.edges if e.kind == "raise"}
    assert set(joins) | raising == {"one", "two", "three"}
    assert all(count == 1 for count in joins.values())


def test_stages_that_need_each_other_are_joined_once(tmp_path: Path) -> None:
    picture = policy(tmp_path, chat=ENGINE % ("chat", "chat"))
    pairs = [frozenset((e.source, e.target)) for e in picture.edges]
    assert len(pairs) == len(set(pairs))
    api = next(e for e in picture.edges if {e.source, e.target} == {"chat/api", "chat/ipc"})
    assert api.mutual
    assert api.kind == "need"


def test_above_is_an_edge_and_a_cycle_is_marked(tmp_path: Path) -> None:
    one = 'workload: {match: [{comm: "a*"}]}\nkeep: interactive\nabove: [two]'
    two = 'workload: {match: [{comm: "b*"}]}\nkeep: interactive\nabove: [three]'
    three = 'workload: {match: [{comm: "c*"}]}\nkeep: interactive'
    picture = policy(tmp_path / "good", one=one, two=two, three=three)
    assert [(e.source, e.target, e.kind, e.cycle) for e in picture.edges] == [
        ("one", "two", "above", False),
        ("two", "three", "above", False),
    ]
    order = [box.name for box in next(r for r in picture.ranks if r.tier == "interactive").boxes]
    assert order == ["one", "two", "three"]
    bad = policy(tmp_path / "bad", one=one, two=two.replace("three", "one"), three=three)
    assert [(e.source, e.target, e.cycle) for e in bad.edges] == [
        ("one", "two", True),
        ("two", "one", True),
    ]
    dot = render_dot(bad)
    assert dot.count('label="above (cycle)"') == 2
    chart = read_chart(render_mermaid(bad))
    assert [link for _, link, _ in chart.links] == ['-. "above, cycle" .->'] * 2
    assert chart.styled == {0, 1}


def test_an_intent_above_itself_is_a_cycle(tmp_path: Path) -> None:
    picture = policy(
        tmp_path, one='workload: {match: [{comm: "a*"}]}\nkeep: interactive\nabove: [one]'
    )
    assert [(e.source, e.target, e.cycle) for e in picture.edges] == [("one", "one", True)]


def test_where_classes_differ_the_unit_says_so(tmp_path: Path) -> None:
    files = {
        "nodes/other.yaml": BOX.replace("name: box, labels: {pool: small}", "name: other"),
        "intents/a.yaml": intent("a", 'workload: {match: [{comm: "x*"}]}\nkeep: system'),
        "intents/b.yaml": intent(
            "b",
            "nodes: {matchLabels: {pool: small}}\n"
            'workload: {match: [{comm: "y*"}]}\nprefer: [leftovers]',
        ),
        "intents/c.yaml": intent(
            "c",
            "nodes: {names: [other]}\n"
            'workload: {match: [{comm: "y*"}, {comm: "x*"}, {comm: "z*"}]}\nkeep: interactive',
        ),
        "intents/d.yaml": intent("d", "nodes: {names: [gone]}\nworkload: {match: [{comm: q}]}"),
    }
    picture = policy_picture(compiled(write(tmp_path, files))[0])
    assert "only on box" in boxes(picture)["b"].lines
    assert "only on other" in boxes(picture)["c"].lines
    assert not any("only on" in line for line in boxes(picture)["a"].lines)
    assert "not drawn, they select no node: d" in picture.notes
    assert "2 nodes in 2 classes" in picture.title


def test_a_tier_that_differs_between_nodes_is_drawn_at_its_highest(tmp_path: Path) -> None:
    files = {
        "nodes/other.yaml": BOX.replace("name: box, labels: {pool: small}", "name: other"),
        "intents/place.yaml": intent(
            "place", 'workload: {match: [{comm: "xy*"}]}\nlane: {cores: 2}'
        ),
        "intents/wide.yaml": intent(
            "wide", 'nodes: {names: [other]}\nworkload: {match: [{comm: "x*"}]}\nkeep: interactive'
        ),
    }
    picture = policy_picture(compiled(write(tmp_path, files))[0])
    assert tier_of(picture, "place") == "interactive"
    text = " ".join(" ".join(boxes(picture)["place"].lines).split())
    assert "tier differs: interactive on other; normal on box" in text


def test_a_node_shows_its_cpus_and_its_lanes_cpus(tmp_path: Path) -> None:
    files = {
        "intents/chat.yaml": intent("chat", ENGINE % ("chat", "serving")),
        "nodes/twin.yaml": BOX.replace("name: box", "name: twin"),
    }
    compilation, _ = compiled(write(tmp_path, files))
    plan = compilation.classes[0].plan
    assert plan is not None
    (lane,) = plan.lanes
    picture = node_picture(compilation, "twin")
    assert picture.lanes == (Key("serving", f"CPUs {lane.cpus}, guarded"),)
    assert f"CPUs {lane.cpus}" in boxes(picture)["chat/api"].lines
    assert f"housekeeping: CPUs {plan.housekeeping}" in picture.notes
    assert "the same for box" in picture.notes
    whole = policy_picture(compilation)
    assert whole.lanes == (Key("serving", "cores: 2, guarded"),)
    assert not any(line.startswith("CPUs") for line in boxes(whole)["chat/api"].lines)
    with pytest.raises(ValueError, match="no node 'nope'"):
        node_picture(compilation, "nope")


def test_a_node_without_a_plan_is_drawn_without_cpus(tmp_path: Path) -> None:
    files = {
        "intents/big.yaml": intent(
            "big", "workload: {match: [{comm: x}]}\nprotect: all\nlane: {cores: 99}"
        )
    }
    compilation, findings = compiled(write(tmp_path, files))
    assert findings
    assert compilation.classes[0].plan is None
    picture = node_picture(compilation, "box")
    assert tier_of(picture, "big") == "latency"
    assert picture.lanes == (Key("big", "cores: 99, guarded"),)
    assert "no plan, see the findings: box" in picture.notes


def test_without_nodes_the_intents_alone_are_drawn(tmp_path: Path) -> None:
    files = {
        "intents/chat.yaml": intent("chat", ENGINE % ("chat", "chat")),
        "intents/jobs.yaml": intent("jobs", BATCH),
    }
    root = write(tmp_path, files)
    (root / "nodes/box.yaml").unlink()
    with_node = policy(tmp_path / "other", chat=ENGINE % ("chat", "chat"), jobs=BATCH)
    picture = policy_picture(compiled(root)[0])
    assert {n: tier_of(picture, n) for n in boxes(picture)} == {
        n: tier_of(with_node, n) for n in boxes(with_node)
    }
    assert picture.edges == with_node.edges
    assert "no node facts: drawn from the intents alone, no lane is placed" in picture.notes
    read_chart(render_mermaid(picture))


def test_an_intent_without_units_is_named(tmp_path: Path) -> None:
    picture = policy(tmp_path, odd="workload: {engine: nosuch}\nprotect: decode", jobs=BATCH)
    assert "not drawn, they have no unit of their own: odd" in picture.notes


# --- words -----------------------------------------------------------------------------------


def test_long_texts_are_cut_in_the_middle_and_cpu_lists_between_ranges() -> None:
    assert short("a" * 38) == "a" * 38
    cut = short("system.slice/" + "x" * 60 + "/vllm.service")
    assert len(cut) == 38
    assert cut.startswith("system.slice/")
    assert cut.endswith("/vllm.service")
    assert cpu_text(CpuSet()) == "none"
    assert cpu_text(CpuSet.parse("0-3,8-11")) == "0-3,8-11"
    assert cpu_text(CpuSet(range(0, 64, 2))) == "0,2,4,6,8,10,12,14,16,... (32 CPUs)"


def test_matchers_are_summed_up() -> None:
    slices = [Condition(comm=f"t{i}*", cgroup="a.slice/**") for i in range(4)]
    assert matcher_lines(slices) == (
        "comm t0*", "comm t1*", "and 2 more patterns", "in cgroup a.slice/**",
    )  # fmt: skip
    assert matcher_lines([Condition(cgroup="ci.slice/**")]) == ("cgroup ci.slice/**",)
    mixed = [Condition(comm="a", cgroup="x"), Condition(comm="b", cgroup="y")]
    assert matcher_lines(mixed)[-1] == "in cgroups that differ"
    assert matcher_lines([Condition(comm="a", pods="app=x")]) == ("comm a", "in pods app=x")


# --- layout ----------------------------------------------------------------------------------


def wide(count: int) -> Picture:
    lone = tuple(Box(f"u{i:03}", f"g{i:03}", "demote", None, ()) for i in range(count))
    stages = tuple(Box(f"e/{i}", "e", "keep", "l", ()) for i in range(8))
    return Picture("t", (Rank("a", lone), Rank("b", stages)), (), (Key("l", ""),))


def test_a_wide_tier_is_broken_into_rows(tool: Callable[[str], str]) -> None:
    picture = wide(2 * COLUMNS + 1)
    rows = rows_of(picture)
    assert [len(row.groups) for row in rows] == [COLUMNS, COLUMNS, 1, 1]
    svg = draw_svg(tool("dot"), render_dot(picture))
    heights = [
        {round(svg.centers[f"u{i}"][1]) for i in range(first, last)}
        for first, last in ((0, COLUMNS), (COLUMNS, 2 * COLUMNS), (2 * COLUMNS, 2 * COLUMNS + 1))
    ]
    assert [len(row) for row in heights] == [1, 1, 1]
    assert heights[0] > heights[1] or min(heights[0]) > max(heights[1])
    assert min(heights[1]) > max(heights[2])


def test_every_box_of_a_tier_is_above_every_box_of_the_next(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    engines = {name: ENGINE % (name, name) for name in ("one", "two")}
    picture = policy(tmp_path, **engines, jobs=BATCH, infra=KEEP)
    svg = draw_svg(tool("dot"), render_dot(picture))
    ids = iter(range(1000))
    ranks = [[svg.centers[f"u{next(ids)}"][1] for _ in rank.boxes] for rank in picture.ranks]
    for upper, lower in pairwise(ranks):
        assert min(upper) > max(lower)


# --- formats ---------------------------------------------------------------------------------


def expected(box: Box) -> list[str]:
    return [plain(printable(text)) for text in (box.name, *box.lines)]


EMPTY = Picture("", (), (), ())
BARE = Picture("", (Rank("", (Box("", "", "default", None, ("",)),)),), (), ())


@example(EMPTY)
@example(BARE)
@given(hostile_pictures())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_graphviz_shows_hostile_texts_as_they_are(
    tool: Callable[[str], str], picture: Picture
) -> None:
    svg = draw_svg(tool("dot"), render_dot(picture))
    all_boxes = [box for rank in picture.ranks for box in rank.boxes]
    for i, box in enumerate(all_boxes):
        assert [t for t in svg.nodes[f"u{i}"] if t] == [t for t in expected(box) if t]
        lines = [printable(line).replace("\\", "\u29f5") for line in box.why or (box.name,)]
        assert plain(svg.tooltips.get(f"u{i}", "")) == plain(" ".join(lines))
    for i, rank in enumerate(picture.ranks):
        assert svg.clusters[f"cluster_t{i}"][:1] == [plain(printable(rank.tier))] or not plain(
            printable(rank.tier)
        )
    assert {n for n in svg.nodes if n.startswith("u")} == {f"u{i}" for i in range(len(all_boxes))}
    assert b"<script" not in svg.bytes
    for lane in picture.lanes:
        assert plain(f"lane {printable(lane.name)}") in svg.nodes["legend"]


@example(EMPTY)
@example(BARE)
@given(hostile_pictures())
@settings(max_examples=150)
def test_mermaid_is_in_its_grammar_whatever_the_texts(picture: Picture) -> None:
    chart = read_chart(render_mermaid(picture))
    i = 0
    for rank in picture.ranks:
        for box in rank.boxes:
            assert chart.nodes[f"u{i}"] == expected(box)
            assert chart.inside[f"u{i}"][0] == plain(printable(rank.tier))
            i += 1
    assert len(chart.links) == len(picture.edges)


def test_lanes_and_effects_are_told_apart_without_colour(tmp_path: Path) -> None:
    picture = policy(
        tmp_path, chat=ENGINE % ("chat", "one"), b=ENGINE % ("b", "two"), jobs=BATCH, infra=KEEP
    )
    dot, chart = render_dot(picture), read_chart(render_mermaid(picture))
    looks: dict[str, set[str]] = {}
    found = [box for rank in picture.ranks for box in rank.boxes]
    for i, box in enumerate(found):
        line = next(text for text in dot.splitlines() if text.strip().startswith(f"u{i} ["))
        style = re.sub(r"label=<.*>, (?=\w+=)|, fillcolor.*|^ *u\d+ \[", "", line)
        looks.setdefault(box.kind, set()).add(style)
        if box.lane is not None:
            assert f"lane {box.lane}" in box.lines
        assert chart.classes[f"u{i}"][0] == f"{box.kind}_"
    assert all(len(styles) == 1 for styles in looks.values())
    assert len({next(iter(styles)) for styles in looks.values()}) == len(looks) == 5
    fills = {box.lane: set[str]() for box in found}
    for i, box in enumerate(found):
        fills[box.lane].add(chart.classes[f"u{i}"][1])
    assert all(len(names) == 1 for names in fills.values())
    assert len({next(iter(names)) for names in fills.values()}) == 3


def test_every_tint_carries_black_text() -> None:
    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for tint in TINTS:
        assert (luminance(tint) + 0.05) / 0.05 > 7  # WCAG 2, level AAA


def test_more_lanes_than_tints_still_have_names() -> None:
    lanes = tuple(Key(f"l{i}", "") for i in range(len(TINTS) + 1))
    box = Box("u", "u", "keep", lanes[-1].name, (f"lane {lanes[-1].name}",))
    picture = Picture("t", (Rank("r", (box,)),), (), lanes)
    assert f'fillcolor="{TINTS[0]}"' in render_dot(picture)
    assert "l0" in read_chart(render_mermaid(picture)).nodes


def test_an_arrow_that_points_up_keeps_its_direction(tool: Callable[[str], str]) -> None:
    boxes_ = tuple(Box(name, name, "keep", None, ()) for name in ("a", "b"))
    ranks = (Rank("upper", boxes_[:1]), Rank("lower", boxes_[1:]))
    one = Picture("t", ranks, (Edge("b", "a", "raise"),), ())
    assert "u0 -> u1 [penwidth=2.6" in render_dot(one)
    assert "dir=back" in render_dot(one)
    above = Picture("t", ranks, (Edge("b", "a", "above"),), ())
    assert re.search(r"u1 -> u0 \[.*constraint=false\]", render_dot(above))
    assert ("u1", "u0") in draw_svg(tool("dot"), render_dot(above)).edges
    assert read_chart(render_mermaid(one)).links == [("u1", "==>", "u0")]


def test_limits_of_mermaid_are_seen() -> None:
    lone = Box("u", "u", "keep", None, ())
    rank = (Rank("r", (lone, Box("v", "v", "keep", None, ()))),)
    around = 2 + 2  # both boxes to the gate of their row, the gate to the legend
    for kind in ("need", "raise", "above"):
        edges = (Edge("u", "v", kind),) * (MAX_EDGES - around)  # type: ignore[arg-type]
        assert not too_large(render_mermaid(Picture("t", rank, edges, ())))
        assert too_large(render_mermaid(Picture("t", rank, edges + edges[:2], ())))
    title = "x" * MAX_TEXT
    assert too_large(render_mermaid(Picture(title, rank, (), ())))
