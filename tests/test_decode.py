"""Decoding: every broken document gives the right finding at the right place, in plain words.

Fixtures: ``tests/fixtures/decode/broken/NAME.yaml`` beside ``NAME.yaml.expected``, which has a line
``CODE line:col-line:col message`` per finding, then its help and further places, indented.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.codes import language
from compiler.decode import KINDS, Loaded, check_unique, decode, of_kind
from compiler.diagnostics import Code, Diagnostic, Severity, Sink, Span
from compiler.model.base import Model
from compiler.model.intent import Intent
from compiler.model.ladder import TierLadder
from compiler.source import parse_source

BROKEN = Path(__file__).parent / "fixtures" / "decode" / "broken"
HEAD = "apiVersion: tierc.dev/v1alpha1\n"


def load(text: str, path: str = "a.yaml") -> tuple[list[Loaded[Model]], list[Diagnostic]]:
    sink = Sink()
    source = parse_source(path, text.encode(), sink)
    loaded = [decode(doc, sink) for doc in source.documents]
    return [one for one in loaded if one is not None], list(sink)


def shown(found: list[Diagnostic]) -> list[str]:
    lines = []
    for one in found:
        span = one.span
        where = f"{span.line}:{span.col}-{span.end_line}:{span.end_col}"
        lines.append(f"{one.code} {where} {one.message}")
        lines += [f"  help: {line}" for line in one.help.splitlines()]
        lines += [f"  also: {r.span.line}:{r.span.col} {r.message}" for r in one.related]
    return lines


def broken_names() -> list[str]:
    return sorted(path.name for path in BROKEN.iterdir() if path.suffix != ".expected")


def test_every_expectation_has_its_document() -> None:
    expected = {path.name.removesuffix(".expected") for path in BROKEN.glob("*.expected")}
    assert expected == set(broken_names())
    assert len(expected) >= 40


@pytest.mark.parametrize("name", broken_names())
def test_broken_document(name: str) -> None:
    sink = Sink()
    source = parse_source(name, (BROKEN / name).read_bytes(), sink)
    loaded = [decode(doc, sink) for doc in source.documents]
    assert all(one is None for one in loaded)
    assert shown(list(sink)) == (BROKEN / f"{name}.expected").read_text().splitlines()


@pytest.mark.parametrize("name", broken_names())
def test_findings_are_complete_and_in_our_words(name: str) -> None:
    sink = Sink()
    for doc in parse_source(name, (BROKEN / name).read_bytes(), sink).documents:
        decode(doc, sink)
    ids = {code.id for code in vars(language).values() if isinstance(code, Code)}
    for one in sink:
        assert one.code in ids
        assert one.severity is Severity.ERROR
        assert one.span.path == name
        assert not one.message.endswith(".")
        text = f"{one.message} {one.help}"
        for word in ("Input should", "pydantic", "Value error", "None", "Field required"):
            assert word not in text


@pytest.mark.parametrize("name", broken_names())
def test_findings_of_one_document_are_in_order(name: str) -> None:
    for doc in parse_source(name, (BROKEN / name).read_bytes(), Sink()).documents:
        sink = Sink()
        decode(doc, sink)
        assert list(sink) == list(sink.sorted())


def test_whole_intent_of_the_design_is_accepted() -> None:
    text = (
        HEAD
        + """\
kind: Intent
metadata: {name: chat, labels: {team: inference}}
spec:
  nodes:
    matchLabels: {accelerator: gb10}
    matchExpressions: [{key: zone, operator: In, values: [a, b]}]
    names: [spark-a]
  workload:
    engine: vllm
    version: "0.24.0"
    tensorParallel: 1
    instances: 1
    traffic: steady
    gpus: allocated
    pods: {namespace: serving, matchLabels: {app: vllm}}
    cgroup: "@pods/**"
  protect: [decode, {path: ttft, tier: interactive}]
  prefer: [gpu-local, performance]
  require: []
  lane: {name: serving, cores: {min: 2, max: 6}, share: guarded}
  above: [embeddings]
  irqs: lane
  knobs: auto
  precedence: 0
"""
    )
    loaded, found = load(text)
    assert found == []
    (intent,) = of_kind(loaded, Intent)
    assert intent.name == "chat"
    assert [item.path for item in intent.model.spec.protect or ()] == ["decode", "ttft"]
    assert str(intent.span("spec", "lane", "cores", "min")) == "a.yaml:21:38"
    assert str(intent.key_span("spec", "lane")) == "a.yaml:21:3"
    assert of_kind(loaded, TierLadder) == ()


@pytest.mark.parametrize(
    ("short", "paths", "stages"),
    [
        ("all", ["all"], [None]),
        ("decode", ["decode"], [None]),
        ("[decode, ttft]", ["decode", "ttft"], [None, None]),
        ("{stage: engine-step}", [None], ["engine-step"]),
        ("[{path: decode, tier: critical}]", ["decode"], [None]),
    ],
)
def test_short_forms_of_protect(
    short: str, paths: list[str | None], stages: list[str | None]
) -> None:
    spec = f"spec: {{workload: {{engine: vllm}}, protect: {short}}}\n"
    loaded, found = load(HEAD + "kind: Intent\nmetadata: {name: a}\n" + spec)
    assert found == []
    (intent,) = of_kind(loaded, Intent)
    assert [item.path for item in intent.model.spec.protect or ()] == paths
    assert [item.stage for item in intent.model.spec.protect or ()] == stages


def test_null_means_unknown_in_facts_and_default_in_targets() -> None:
    facts = (
        "kind: NodeFacts\nmetadata: {name: n}\nspec:\n  arch: \n"
        "  cpus: {online: 0, isolated: }\n  cores: [{cpus: 0, llc: }]\n"
    )
    loaded, found = load(HEAD + facts)
    assert found == []
    assert len(loaded) == 1
    _, found = load(HEAD + "kind: Project\nspec:\n  targets:\n    taskset:\n    bpf:\n")
    assert found == []


def test_same_name_twice_is_reported_at_the_later_place() -> None:
    intent = "kind: Intent\nmetadata: {name: a}\nspec: {workload: {engine: vllm}}\n"
    one, _ = load(HEAD + intent + "---\n" + HEAD + intent, "b.yaml")
    other, _ = load(HEAD + intent, "a.yaml")
    ladder, _ = load(
        HEAD + "kind: Demand\nmetadata: {name: a}\n"
        "spec: {intent: a, cores: {p50: 1, p99: 1}, window: 1s, spinSuspect: false}\n",
        "c.yaml",
    )
    for order in ([*one, *other, *ladder], [*ladder, *other, *reversed(one)]):
        sink = Sink()
        check_unique(order, sink)
        found = sink.sorted()
        assert [str(d.span) for d in found] == ["b.yaml:3:18", "b.yaml:8:18"]
        assert {d.message for d in found} == {"Intent `a` is defined twice"}
        assert {str(d.related[0].span) for d in found} == {"a.yaml:3:18"}


def test_no_suggestion_is_made_for_a_foreign_object() -> None:
    _, found = load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert [d.code for d in found] == ["TRC100"]
    assert "keep the file out" in found[0].help


def test_a_key_that_looks_like_a_marker_of_the_validator() -> None:
    text = HEAD + 'kind: Intent\nmetadata: {name: a, labels: {"[key]": 3}}\n'
    _, found = load(text + 'spec: {workload: {engine: vllm}, "[key]": 1}\n')
    assert [(d.code, str(d.span)) for d in found] == [
        ("TRC106", "a.yaml:3:30"),
        ("TRC104", "a.yaml:3:39"),
        ("TRC102", "a.yaml:4:34"),
    ]


def test_findings_of_many_documents_do_not_mix() -> None:
    good = "kind: Intent\nmetadata: {name: good}\nspec: {workload: {engine: vllm}}\n"
    loaded, found = load(HEAD + good + "---\n" + HEAD + good.replace("spec", "spce"))
    assert [one.name for one in loaded] == ["good"]
    assert [(d.code, d.span.line) for d in found] == [("TRC102", 9)]


def test_codes_are_documented_and_unique() -> None:
    codes = [code for code in vars(language).values() if isinstance(code, Code)]
    assert len({code.id for code in codes}) == len({code.name for code in codes}) == len(codes)
    for code in codes:
        assert 100 <= int(code.id[3:]) <= 149
        assert not code.adjustable
        assert len(code.doc.split("\n\n")) >= 2


def test_kinds_are_those_of_the_language() -> None:
    assert set(KINDS) == {
        "Intent", "EngineProfile", "TierLadder", "NodeFacts", "Demand", "Project",
        "PolicyTest",
    }  # fmt: skip


def test_column_of_a_pattern_fault_counts_characters() -> None:
    head = HEAD + "kind: Intent\nmetadata: {name: a}\nspec:\n  workload:\n    match:\n"
    _, found = load(head + '    - {comm: "größe", cgroup: "é𝛼/[!a]x"}\n')
    assert found[0].span == Span("a.yaml", 7, 35, 7, 36)


def test_a_flood_of_faults_is_cut() -> None:
    items = "".join("  - x\n" for _ in range(20_000))
    text = (
        HEAD + "kind: Intent\nmetadata: {name: a}\nspec:\n  workload: {engine: vllm}\n  prefer:\n"
    )
    _, found = load(text + items)
    assert len(found) == 51
    assert found[0].span.line == 7
    assert (found[-1].code, found[-1].span.line) == ("TRC115", 57)
    assert "more than 50 findings" in found[-1].message


def test_a_name_longer_than_the_kernel_keeps_is_for_a_lint_rule_to_judge() -> None:
    text = HEAD + "kind: Intent\nmetadata: {name: a}\n"
    text += "spec: {workload: {match: [{comm: vllm-engine-core}]}, demote: background}\n"
    loaded, found = load(text)
    assert found == []
    assert len(loaded) == 1


def test_built_in_kinds_are_for_tierc_only() -> None:
    text = HEAD + "kind: WorkloadGroup\nmetadata: {name: g}\n"
    text += "spec: {description: d, match: [{comm: /x, cgroup: /x, evidence: tried}]}\n"
    (doc,) = parse_source("g.yaml", text.encode(), Sink()).documents
    for built_in, code in ((False, "TRC113"), (True, "TRC111")):
        sink = Sink()
        assert decode(doc, sink, built_in=built_in) is None
        assert [found.code for found in sink] == [code]
