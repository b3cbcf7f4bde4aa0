"""Every lint rule against its cases in ``tests/rules``, and the examples of its documentation.

A case is a policy; ``project`` adds to the spec of its ``tierc.yaml``, ``spec`` is the whole of it.
Lines that a finding must point at end in ``#!``; the rule must report those
lines and no others, and the other rules nothing but what the case lists under ``also``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from ruamel.yaml import YAML

from compiler.cpuset import CpuSet
from compiler.diagnostics import Diagnostic
from compiler.patterns import CmdlineRegex
from compiler.rules import RULES, splits_siblings
from compiler.rules.rule import Rule
from tests.policies import BOX, HEAD, PROJECT, intent, linted, write

CASES = Path(__file__).parent / "rules"
FILE = "intents/all.yaml"
SUPPORT = {
    "__init__",
    "cgroups",
    "engines",
    "machine",
    "outcomes",
    "reach",
    "rule",
    "selectors",
    "threads",
    "written",
}
"""Modules of the rules that are no rule."""
OURS = re.compile(r"TRC2\d\d")


@dataclass(frozen=True)
class Case:
    code: str
    name: str
    documents: str
    expect: tuple[dict[str, Any], ...] = ()
    nodes: dict[str, dict[str, str]] = field(default_factory=lambda: {"box": {}})
    also: tuple[str, ...] = ()
    project: str = ""
    spec: str = ""


def read_cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("*.yaml")):
        for row in YAML(typ="safe", pure=True).load(path):
            expect, also = (tuple(row.pop(key, ())) for key in ("expect", "also"))
            yield Case(code=path.stem, expect=expect, also=also, **row)


ALL = tuple(read_cases())


def facts(name: str, changes: dict[str, str]) -> str:
    """Return the facts of a node: 8 cores of two threads, 8 GPUs, with what the case changes.

    ``cpus``, ``cores`` and ``labels`` replace what the facts have; ``kubelet`` and ``overrides``
    are added.  ``numa`` has the CPUs of two nodes, from either half of the cores.  ``gpus`` is how
    many there are, near the CPUs of the one; ``instances`` how many of ``gpu0`` (MIG).
    """
    text = BOX.replace("name: box", f"name: {name}")
    if (labels := changes.get("labels")) is not None:
        text = text.replace("labels: {pool: small}", f"labels: {labels}")
    if (cpus := changes.get("cpus")) is not None:
        text = text.replace('{online: 0-15, isolated: ""}', cpus)
    if (cores := changes.get("cores")) is not None:  # and what else names CPUs
        text = text.replace(
            "{cpus: 0-15, smt: [0-7, 8-15], llc: 0, numa: 0, kind: standard}", cores
        )
        text = text.replace("cpus: 0-15", f"cpus: {cores[7 : cores.index(',')]}")
    if (numa := changes.get("numa")) is not None:
        text = _two_nodes(text, [CpuSet.parse(cpus) for cpus in YAML(typ="safe").load(numa)])
    text = _gpus(text, int(changes.get("gpus", 8)), int(changes.get("instances", 0)))
    if (over := changes.get("overrides")) is not None:
        text += f"  overrides: {over}\n"
    if (kubelet := changes.get("kubelet")) is not None:
        text += f"  kubelet: {kubelet}\n"
    return text


def _gpus(text: str, gpus: int, instances: int) -> str:
    start, end = text.index("    - id: gpu0"), text.index("  kernel:")
    one = text[start:end]
    rows = [one.replace("gpu0", f"gpu{i}").replace("0:01:", f"0:{i + 1:02}:") for i in range(gpus)]
    rows += [f"    - {{id: gpu0.{i}, type: gpu, parent: gpu0}}\n" for i in range(instances)]
    text = text[:start] + "".join(rows) + text[end:]
    return text if rows else text.replace("  devices:\n", "  devices: []\n")


def _two_nodes(text: str, nodes: list[CpuSet]) -> str:
    core, llc, numa = (
        next(line for line in text.splitlines() if line.lstrip().startswith(start))
        for start in ("- {cpus:", "llcs:", "numa:")
    )
    groups, caches, rows = [], [], []
    for i, cpus in enumerate(nodes):
        planes = [cpus & CpuSet.parse("0-7"), cpus & CpuSet.parse("8-15")]
        smt = ", ".join(f'"{plane}"' for plane in planes)
        groups.append(f'    - {{cpus: "{cpus}", smt: [{smt}], llc: {i}, numa: {i}}}')
        caches.append(f'{{id: {i}, level: 3, cpus: "{cpus}"}}')
        rows.append(f'{{id: {i}, cpus: "{cpus}", role: cpu}}')
    near = str(nodes[0])
    text = text.replace("locality: {cpus: 0-15,", f'locality: {{cpus: "{near}",')
    text = text.replace(core, "\n".join(groups))
    text = text.replace(llc, f"  llcs: [{', '.join(caches)}]")
    return text.replace(numa, f"  numa: [{', '.join(rows)}]")


def documents(text: str) -> str:
    """Return the documents of a case with the line that all of them begin with."""
    return "---\n".join(HEAD + part for part in re.split(r"(?m)^---\n", text))


def project_of(spec: str) -> str:
    """Return a project file with this spec."""
    return f"{HEAD}kind: Project\nspec:\n{indent(spec, '  ')}"


def lint(
    tmp_path: Path, text: str, nodes: dict[str, str], project: str = PROJECT
) -> list[Diagnostic]:
    """Return the findings; a policy without nodes has an empty directory of them."""
    files = {FILE: text, "tierc.yaml": project}
    files |= {f"nodes/{name}.yaml": node for name, node in nodes.items()}
    root = write(tmp_path, files)
    if "box" not in nodes:
        (root / "nodes/box.yaml").unlink()
    return list(linted(root)[1])


@pytest.mark.parametrize("case", ALL, ids=lambda c: f"{c.code}-{c.name}".replace(" ", "-"))
def test_case(case: Case, tmp_path: Path) -> None:
    text = documents(case.documents)
    nodes = {name: facts(name, changes or {}) for name, changes in case.nodes.items()}
    project = project_of(case.spec) if case.spec else PROJECT + case.project
    findings = lint(tmp_path, text, nodes, project)
    read = [f for f in findings if re.match(r"TRC[016]|TRC92", f.code)]
    assert not read, "the case itself is malformed"
    mine = [f for f in findings if f.code == case.code]
    marked = [
        (path, n)
        for path, written in ((FILE, text), ("tierc.yaml", project))
        for n, line in enumerate(written.splitlines(), 1)
        if line.endswith("#!")
    ]
    assert [(f.span.path, f.span.line) for f in mine] == marked
    assert len(mine) == len(case.expect), "a finding expected is not a line marked"
    for found, expected in zip(mine, case.expect, strict=True):
        check(found, expected)
    others = [f.code for f in findings if OURS.fullmatch(f.code) and f.code != case.code]
    assert sorted(others) == sorted(case.also)


def check(found: Diagnostic, expected: dict[str, Any]) -> None:
    for word in texts(expected["message"]):
        assert word in found.message
    for word in texts(expected.get("help", ())):
        assert word in found.help
    for word in texts(expected.get("not", ())):
        assert word not in found.message + found.help
    assert found.severity.label == expected.get("severity", default_severity(found.code))
    if "col" in expected:
        assert found.span.col == expected["col"]
    if "nodes" in expected:
        assert list(found.nodes) == expected["nodes"]
    if "related" in expected:
        assert [r.message for r in found.related] == expected["related"]
    assert found.help
    assert not found.message.endswith(".")
    assert "\n" not in found.message


def texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def default_severity(code: str) -> str:
    return next(r.code.severity.label for r in RULES if r.code.id == code)


def test_the_table_is_complete_and_in_order() -> None:
    ids = [rule.code.id for rule in RULES]
    assert ids == [f"TRC{n}" for n in range(201, 201 + len(RULES))]
    assert all(rule.code.adjustable for rule in RULES)
    assert len({rule.code.name for rule in RULES}) == len(RULES)
    modules = {p.stem for p in Path(__file__).parents[1].glob("compiler/rules/*.py")}
    assert len(modules) == len(RULES) + len(SUPPORT)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code.id)
def test_a_rule_has_cases_that_fail_and_cases_that_pass(rule: Rule) -> None:
    mine = [case for case in ALL if case.code == rule.code.id]
    assert len([case for case in mine if case.expect]) >= 4
    assert len([case for case in mine if not case.expect]) >= 4


@pytest.mark.parametrize(
    ("pattern", "meant", "others"),
    [
        ("VLLM::Worker_TP0", ["VLLM::Worker_TP0", "VLLM::Worker_DP1_TP0"], ["VLLM::Worker_TP1"]),
        ("VLLM::Worker_TP?", ["VLLM::Worker_TP3"], ["VLLM::Worker_TP10", "VLLM::EngineCore"]),
        ("VLLM::EngineCor_DP1", ["VLLM::EngineCore_DP1"], ["VLLM::EngineCore_DP10"]),
        ("sglang::scheduler_TP1", ["sglang::scheduler_TP1"], ["VLLM::Worker_TP1"]),
        ("*_TP1", ["sglang::scheduler_TP1", "VLLM::Worker_TP1"], ["VLLM::Worker_TP11"]),
    ],
)
def test_the_command_line_advised_for_a_rank_is_that_ranks(
    tmp_path: Path, pattern: str, meant: list[str], others: list[str]
) -> None:
    text = intent("a", f'workload: {{match: [{{comm: "{pattern}"}}]}}\nkeep: interactive')
    (found,) = (f for f in lint(tmp_path, text, {"box": BOX}) if f.code == "TRC202")
    advised = re.search(r'cmdline: "([^"]*)"', found.help)
    assert advised is not None
    regex = CmdlineRegex.parse(advised[1])
    assert all(regex.matches(title) for title in meant)
    assert not any(regex.matches(title) for title in others)


def test_an_exclusive_lane_is_judged_by_the_plan_and_not_by_who_made_it(tmp_path: Path) -> None:
    """No placer of today splits a core for an exclusive lane; the rule would say so if one did."""
    lane = (
        "workload: {match: [{cgroup: x.slice}]}\nprotect: all\nlane: {cores: 2, share: exclusive}"
    )
    compilation, _ = linted(write(tmp_path, {FILE: intent("mine", lane)}))
    (group,) = compilation.classes
    assert group.plan is not None
    (planned,) = group.plan.lanes
    assert not list(splits_siblings.check(compilation))
    half = planned.model_copy(update={"cpus": CpuSet.parse("4-5,13")})
    bad = replace(group, plan=group.plan.model_copy(update={"lanes": (half,)}))
    (found,) = splits_siblings.check(replace(compilation, classes=(bad,)))
    assert found.message == (
        "exclusive lane mine has CPUs 4 and not their siblings 12, where others run"
    )
    assert found.nodes == ("box",)


def test_interrupts_of_gpus_without_an_address_are_left(tmp_path: Path) -> None:
    text = intent("a", "workload: {group: node-infra}\nkeep: system")
    bare = BOX.replace('      bdf: "0000:01:00.0"\n', "")
    nodes = {"box": bare, "n2": bare.replace("name: box", "name: n2"), "n3": facts("n3", {})}
    for targets, named in (("taskset: {}, irq: {}", ["box", "n2"]), ("taskset: {}", [])):
        project = project_of(f"enforce: [{{mode: fallback}}]\ntargets: {{{targets}}}\n")
        found = lint(tmp_path / str(len(named)), text, nodes, project)
        told = [f for f in found if f.code == "TRC233"]
        assert [name for f in told for name in f.nodes] == named
        for one in told:
            assert "the interrupts of gpu0: the facts give no PCI address" in one.message
            assert (str(one.span), one.severity.label) == ("tierc.yaml:5:26", "info")
            assert [r.message for r in one.related] == ["devices of box"]


@pytest.mark.parametrize("code", ["TRC205", "TRC229"])
def test_no_selector_is_blamed_while_facts_could_not_be_read(code: str, tmp_path: Path) -> None:
    spec = "enforce: [{nodes: {names: [other]}, mode: fallback}]\n"
    text = intent("a", "nodes: {names: [other]}\nworkload: {group: node-infra}\nkeep: system")
    other = BOX.replace("name: box", "name: other")
    for name, more, reported in (
        ("missing", {}, True),
        ("there", {"other": other}, False),
        ("unreadable", {"other": other.replace("online: 0-15", "online: x")}, False),
    ):
        found = lint(tmp_path / name, text, {"box": BOX, **more}, project_of(spec))
        assert (code in {f.code for f in found}) == reported


# -- documentation -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code.id)
def test_documentation_says_what_why_and_what_to_do(rule: Rule) -> None:
    doc = rule.code.doc
    assert re.findall(r"(?m)^## (.*)$", doc) == ["Why it matters", "What to do", "Example"]
    title, what = doc.split("\n\n")[:2]
    assert title.endswith(".")
    assert not what.startswith("#")
    for section in re.split(r"(?m)^## .*$", doc)[1:3]:
        assert len(section.split()) >= 20
    assert max(map(len, doc.splitlines())) <= 100


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code.id)
def test_examples_of_the_documentation_are_what_they_say(rule: Rule, tmp_path: Path) -> None:
    blocks = re.findall(r"(?ms)^([^\n]*)\n\n```yaml\n(.*?)^```$", rule.code.doc)
    assert len(blocks) == 2
    wrong, right = (text for _, text in blocks)
    assert "wrong" in blocks[0][0].lower() or "Wrong" in rule.code.doc
    assert blocks[1][0].startswith("Right")
    bad = lint(tmp_path / "wrong", *example(wrong))
    good = lint(tmp_path / "right", *example(right))
    assert {f.code for f in bad if OURS.fullmatch(f.code)} == {rule.code.id}
    assert not [f for f in good if OURS.fullmatch(f.code) or f.severity.label == "error"]


def example(text: str) -> tuple[str, dict[str, str], str]:
    """Return a documented example as documents, nodes and the project file.

    Its parts are bodies of intents, CPUs, NUMA nodes or GPUs of the machine, a demand's body, and
    what ``enforce`` of the project is.
    """
    project = PROJECT
    changes: dict[str, str] = {}
    out: list[str] = []
    for part in text.split("---\n"):
        word, _, rest = part.partition(": ")
        if word in ("cpus", "numa", "gpus"):
            changes[word] = rest.strip()
        elif word == "demand":
            out.append(f"{HEAD}kind: Demand\nmetadata: {{name: measured}}\nspec: {rest}")
        elif word.partition(":")[0] == "enforce":
            project = project_of(part)
        else:
            out.append(intent(f"intent-{len(out)}", part))
    return "---\n".join(out), {"box": facts("box", changes)}, project
