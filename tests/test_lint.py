"""The lint engine: crashes, severities, suppressions, and that ordinary policies are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.catalog import all_codes
from compiler.commands.session import open_session
from compiler.diagnostics import Code, Diagnostic, Severity, Sink
from compiler.lint import Judged, judge, run_rules
from compiler.pipeline import Compilation, compile_policy
from compiler.project import Place, load
from compiler.rules import RULES
from compiler.rules.rule import Rule
from tests.conftest import ROOT
from tests.policies import BOX, HEAD, PROJECT, intent, write


def run(root: Path, rules: tuple[Rule, ...] = RULES) -> tuple[Compilation, Judged]:
    sink = Sink()
    policy = load(Place(root), sink)
    compilation = compile_policy(policy, sink)
    run_rules(compilation, sink, rules)
    return compilation, judge(sink, policy, policy.files)


def lint(tmp_path: Path, text: str, lint_options: str = "") -> Judged:
    project = PROJECT + (f"  lint: {lint_options}\n" if lint_options else "")
    files = {"intents/all.yaml": text, "tierc.yaml": project}
    return run(write(tmp_path, files))[1]


def codes_at(judged: Judged) -> list[tuple[str, int]]:
    return [(f.code, f.span.line) for f in judged.findings]


def long_name(comment: str = "", above: str = "") -> str:
    """Return an intent with one finding, TRC201, and comments behind it and above it."""
    return intent(
        "a",
        f"""
        workload:
          match:
            {above or "# a comment"}
            - {{comm: a-name-of-16-byte}}  {comment}
        demote: background
        """,
    )


# -- crashes -------------------------------------------------------------------------------------

BROKEN = Code("TRC201", "comm-too-long", Severity.ERROR, "", adjustable=True)


def crash_at_once(compilation: Compilation) -> Iterator[Diagnostic]:
    raise KeyError("no\nsuch  thing")


def crash_half_way(compilation: Compilation) -> Iterator[Diagnostic]:
    yield BROKEN.at(compilation.policy.intents[0].span("kind"), "found before")
    raise RecursionError("deep")


@pytest.mark.parametrize("check", [crash_at_once, crash_half_way])
def test_a_crash_in_a_rule_is_one_finding_that_names_it(tmp_path: Path, check) -> None:  # type: ignore[no-untyped-def]
    text = intent("a", 'workload: {match: [{comm: "*"}]}\ndemote: background')
    root = write(tmp_path, {"intents/all.yaml": text})
    rules = (Rule(BROKEN, check), *RULES[1:])
    _, judged = run(root, rules)
    crashes = [f for f in judged.findings if f.code == "TRC920"]
    assert len(crashes) == 1
    assert crashes[0].message.startswith("rule TRC201 (comm-too-long) failed: ")
    assert "\n" not in crashes[0].message
    assert crashes[0].severity is Severity.ERROR
    assert [f.code for f in judged.findings if f.code.startswith("TRC2")] == ["TRC204"]
    assert judged.fails(Severity.ERROR)


def test_what_a_crash_advises_helps(tmp_path: Path) -> None:
    _, judged = run(write(tmp_path, {}), (Rule(BROKEN, crash_at_once),))
    (found,) = (f for f in judged.findings if f.code == "TRC920")
    assert 'lint: {severity: {TRC201: "off"}}' in found.help
    write(tmp_path, {"tierc.yaml": PROJECT + '  lint: {severity: {TRC201: "off"}}\n'})
    _, judged = run(tmp_path, (Rule(BROKEN, crash_at_once),))
    assert not [f for f in judged.findings if f.code == "TRC920"]


# -- severities ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "severity"),
    [("info", "info"), ("warning", "warning"), ("error", "error"), ('"off"', None)],
)
def test_a_severity_is_changed_by_the_project(
    tmp_path: Path, level: str, severity: str | None
) -> None:
    judged = lint(tmp_path, long_name(), f"{{severity: {{TRC201: {level}}}}}")
    found = [f.severity.label for f in judged.findings if f.code == "TRC201"]
    assert found == ([] if severity is None else [severity])
    assert judged.suppressed == 0
    assert judged.fails(Severity.ERROR) == (severity == "error")
    assert judged.fails(Severity.WARNING) == (severity in ("warning", "error"))


def test_without_a_word_of_the_project_a_rule_has_its_own_severity(tmp_path: Path) -> None:
    (found,) = (f for f in lint(tmp_path, long_name()).findings if f.code == "TRC201")
    assert found.severity is Severity.ERROR


def test_the_severity_of_an_unknown_code_is_a_finding(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name(), "{severity: {TRC299: warning}}")
    (found,) = (f for f in judged.findings if f.code == "TRC923")
    assert found.span.path == "tierc.yaml"
    assert found.message == "no finding has the code TRC299"
    assert found.help == "tierc rule lists all codes"


@pytest.mark.parametrize("code", ["TRC310", "TRC400", "TRC920", "TRC102"])
def test_the_severity_of_an_error_of_the_compiler_is_fixed(tmp_path: Path, code: str) -> None:
    judged = lint(tmp_path, long_name(), f'{{severity: {{{code}: "off"}}}}')
    (found,) = (f for f in judged.findings if f.code == "TRC922")
    assert found.span.path == "tierc.yaml"
    assert found.message.startswith(f"{code} (")
    assert judged.fails(Severity.ERROR)


def test_a_conflict_stays_an_error_whatever_is_tried(tmp_path: Path) -> None:
    one = intent("a", "workload: {match: [{comm: x}]}\ndemote: background")
    two = intent(
        "b", "workload: {match: [{comm: x}]}  # tierc: ignore[TRC310] no\nkeep: interactive"
    )
    judged = lint(tmp_path, f"{one}---\n{two}", '{severity: {TRC310: "off"}}')
    found = [(f.code, f.severity) for f in judged.findings]
    assert ("TRC310", Severity.ERROR) in found
    assert [code for code, _ in found].count("TRC922") == 2
    assert judged.suppressed == 0


# -- suppressions --------------------------------------------------------------------------------

IGNORE = "# tierc: ignore[TRC201] known"


@pytest.mark.parametrize(
    "text",
    [
        long_name(IGNORE),
        long_name(above=IGNORE),
        long_name(above=f"{IGNORE}\n            # and why, in more words\n"),
    ],
    ids=["same line", "line above", "with a comment between"],
)
def test_a_finding_is_suppressed_with_a_reason(tmp_path: Path, text: str) -> None:
    judged = lint(tmp_path, text)
    assert codes_at(judged) == []
    assert judged.suppressed == 1
    assert not judged.fails(Severity.INFO)


def test_a_suppression_takes_its_line_only(tmp_path: Path) -> None:
    text = intent(
        "a",
        f"""
        workload:
          match:
            - {{comm: a-name-of-16-byte}}  {IGNORE}
            - {{comm: b-name-of-16-byte}}
        demote: background
        """,
    )
    judged = lint(tmp_path, text)
    assert codes_at(judged) == [("TRC201", 8)]
    assert judged.suppressed == 1


def test_a_suppression_takes_its_codes_only(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC204] wrong one"))
    assert codes_at(judged) == [("TRC201", 8), ("TRC921", 8)]
    unused = judged.findings[1]
    assert unused.message == "nothing on line 8 has the code TRC204"
    assert unused.severity is Severity.WARNING


def test_a_suppression_without_reason_does_nothing_and_is_a_finding(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC201]"))
    assert "TRC201" in [f.code for f in judged.findings]
    assert [f for f in judged.findings if "gives no reason" in f.message]


def test_one_of_two_codes_is_unused(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC201, TRC210] both"))
    assert codes_at(judged) == [("TRC921", 8)]
    assert "TRC210" in judged.findings[0].message
    assert judged.suppressed == 1


def test_an_unused_suppression_can_be_expected(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC201, TRC210, TRC921] both"))
    assert codes_at(judged) == []
    assert judged.suppressed == 2


def test_expecting_nothing_is_unused_itself(tmp_path: Path) -> None:
    clean = intent("a", "workload: {match: [{comm: x}]}  # tierc: ignore[TRC921] y\nkeep: system")
    assert codes_at(lint(tmp_path, clean)) == [("TRC921", 5)]


@pytest.mark.parametrize(("level", "count"), [("error", 1), ("info", 1), ('"off"', 0)])
def test_the_severity_of_unused_suppressions_is_the_projects(
    tmp_path: Path, level: str, count: int
) -> None:
    judged = lint(
        tmp_path,
        long_name("# tierc: ignore[TRC201, TRC210] both"),
        f"{{severity: {{TRC921: {level}}}}}",
    )
    assert [f.severity.label for f in judged.findings] == [level] * count


def test_a_suppression_of_a_rule_that_is_off_is_not_called_unused(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name(IGNORE), '{severity: {TRC201: "off"}}')
    assert codes_at(judged) == []
    assert judged.suppressed == 0


def test_a_suppressed_finding_does_not_fail_at_any_severity(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name(IGNORE), "{severity: {TRC201: error}}")
    assert not judged.fails(Severity.INFO)


def test_an_unknown_code_in_a_suppression(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC299] what"))
    assert codes_at(judged) == [("TRC201", 8), ("TRC923", 8)]


def test_a_code_that_is_no_rule_in_a_suppression(tmp_path: Path) -> None:
    judged = lint(tmp_path, long_name("# tierc: ignore[TRC102] what"))
    assert codes_at(judged) == [("TRC201", 8), ("TRC922", 8)]


def test_suppressions_work_in_the_facts_of_a_node(tmp_path: Path) -> None:
    """A degradation is adjustable too, and is found where the preference is written."""
    text = intent(
        "a",
        """
        workload: {match: [{cgroup: "x.slice/**"}]}
        protect: all
        prefer: [nic-local]  # tierc: ignore[TRC402] no network card on purpose
        lane: {cores: 1}
        """,
    )
    judged = lint(tmp_path, text)
    assert [f.code for f in judged.findings if f.code == "TRC402"] == []
    assert judged.suppressed == 1


# -- reports over several nodes ------------------------------------------------------------------


def test_the_same_finding_on_several_classes_is_one_with_all_nodes(tmp_path: Path) -> None:
    small = BOX.replace("name: box", "name: tiny").replace("cgroup: v2", "cgroup: hybrid")
    text = intent("a", 'workload: {match: [{comm: "s*"}]}\ndemote: background')
    files = {"intents/all.yaml": text, "nodes/tiny.yaml": small}
    compilation, judged = run(write(tmp_path, files))
    assert len(compilation.classes) == 2
    (found,) = (f for f in judged.findings if f.code == "TRC210")
    assert found.nodes == ("box", "tiny")


# -- the catalogue -------------------------------------------------------------------------------


def test_every_code_has_one_owner_a_family_and_documentation() -> None:
    known = all_codes()
    assert list(known) == sorted(known)
    assert {rule.code.id for rule in RULES} == {id for id in known if id.startswith("TRC2")}
    names = [code.name for code in known.values()]
    assert len(set(names)) == len(names)
    for code in known.values():
        assert len(code.doc.split()) >= 10, code.id
        assert len(code.doc.strip().splitlines()[0]) > 20, code.id


# -- ordinary policies ---------------------------------------------------------------------------


def test_the_example_is_clean() -> None:
    session = open_session([ROOT / "examples" / "dgx-spark"])
    assert [f for f in session.judged.findings if f.severity > Severity.INFO] == []


DESIGN = f"""\
{HEAD}kind: Intent
metadata: {{name: chat, labels: {{team: inference}}}}
spec:
  nodes:
    matchLabels: {{pool: small}}
    matchExpressions: [{{key: pool, operator: In, values: [small, large]}}]
    names: [box]
  workload:
    engine: vllm
    version: "0.24.0"
    tensorParallel: 1
    instances: 1
    traffic: steady
    gpus: allocated
    pods: {{namespace: serving, matchLabels: {{app: vllm}}}}
    cgroup: "kubepods.slice/**"
  protect: [decode, {{path: ttft, tier: interactive}}]
  prefer: [gpu-local, performance]
  require: []
  lane: {{name: serving, cores: {{min: 2, max: 6}}, share: guarded}}
  above: [embeddings]
  irqs: lane
  knobs: auto
  precedence: 0
---
{HEAD}kind: Intent
metadata: {{name: embeddings}}
spec:
  workload: {{engine: sglang, version: "0.5.20", pods: {{namespace: embeddings}}}}
  protect: [decode, ttft]
---
{HEAD}kind: Intent
metadata: {{name: batch}}
spec:
  workload:
    match:
      - {{comm: "stress-ng*"}}
      - {{cgroup: "ci.slice/**"}}
  demote: background
  prefer: [leftovers]
---
{HEAD}kind: Intent
metadata: {{name: batch-group}}
spec: {{workload: {{group: batch}}, demote: background}}
---
{HEAD}kind: Intent
metadata: {{name: node-infra}}
spec: {{workload: {{group: node-infra}}, keep: system}}
---
{HEAD}kind: Intent
metadata: {{name: metrics}}
spec: {{workload: {{group: observability}}, demote: background}}
---
{HEAD}kind: Intent
metadata: {{name: staging}}
spec: {{workload: {{group: model-staging}}, demote: background}}
---
{HEAD}kind: Intent
metadata: {{name: driver}}
spec: {{workload: {{group: gpu-driver}}, keep: interactive}}
"""
"""The intents of the language's description, with all groups beside them."""


def test_the_rules_leave_an_ordinary_policy_alone(tmp_path: Path) -> None:
    project = PROJECT + "  targets: {taskset: {}, irq: {}}\n"  # one intent says irqs
    judged = run(write(tmp_path, {"intents/all.yaml": DESIGN, "tierc.yaml": project}))[1]
    assert [f for f in judged.findings if f.code.startswith(("TRC2", "TRC92"))] == []


# -- robustness ----------------------------------------------------------------------------------

PATTERNS = (
    'comm: "*"', 'comm: "s*"', "comm: sshd", "comm: a-name-of-16-byte", 'comm: "VLLM::Worker_TP0"',
    'kthread: "irq/*"', 'kthread: "k*"', "kthread: nvidia", 'cgroup: "**"', 'cgroup: "@pods/**"',
    'cgroup: "system.slice/**"', 'cmdline: "a^b"', 'cmdline: ".*"', 'cmdline: "^/usr/bin/(a|b)+"',
    'comm: "x*", leaderComm: "*y"', 'comm: vllm, cgroup: "x.slice/*"', 'leaderComm: "?é*"',
)  # fmt: skip
WORDS = ("protect: all", "demote: background", "demote: idle", "keep: system", "", "keep: normal")
LANES = ("", "", "lane: {cores: 2}", "lane: {cores: 99}", "lane: {cores: rest, share: exclusive}",
         "lane: {name: l, cores: {min: 1, max: 40}, share: exclusive}", "require: [isolated]",
         "lane: {name: l}", "prefer: [leftovers]")  # fmt: skip
ENGINES = ('engine: vllm, version: "0.24.0"', "engine: vllm", 'engine: sglang, version: "0.4.0"',
           "engine: vllm, tensorParallel: 8", "engine: nothing", "group: node-infra",
           "group: gpu-driver", "group: batch")  # fmt: skip
NARROW = ("", "", ', cgroup: "x.slice/**"', ", pods: {namespace: a}", ', cgroup: "**"')
NODES = ("", "", "nodes: {names: [box]}", "nodes: {matchLabels: {pool: large}}",
         "nodes: {matchExpressions: [{key: pool, operator: Lt, values: ['3']}]}")  # fmt: skip
PATHS = ("protect: decode", "protect: [{stage: worker}]", "protect: [decode, ttft]", "keep: system",
         "protect: [{path: all, tier: critical}]", "demote: background")  # fmt: skip


def random_policy(rng: Random) -> dict[str, str]:
    parts = []
    for number in range(rng.randint(1, 5)):
        if rng.random() < 0.4:
            work, word = rng.choice(ENGINES), rng.choice(PATHS)
        else:
            items = ", ".join(f"{{{rng.choice(PATTERNS)}}}" for _ in range(rng.randint(1, 3)))
            work, word = f"match: [{items}]", rng.choice(WORDS)
        lines = [
            f"workload: {{{work}{rng.choice(NARROW)}}}", word, rng.choice(LANES), rng.choice(NODES),
            f"precedence: {rng.choice([0, 0, 0, 3, -2])}",
        ]  # fmt: skip
        parts.append(intent(f"i{number}", "\n".join(line for line in lines if line)))
    files = {"intents/all.yaml": "---\n".join(parts)}
    isolated = rng.choice(['""', "8-15", '"4-7,12-15"', "15"])
    files["nodes/box.yaml"] = BOX.replace('isolated: ""', f"isolated: {isolated}")
    if rng.random() < 0.3:
        files["tierc.yaml"] = PROJECT + "  onUnplaceable: quarantine\n"
    return files


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_no_rule_crashes_and_every_finding_is_about_what_users_wrote(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    root = write(tmp_path_factory.mktemp("policy"), random_policy(Random(seed)))
    compilation, judged = run(root)
    for found in judged.findings:
        assert found.code != "TRC920", found.message
        if found.code.startswith("TRC2"):
            assert found.span.path == "intents/all.yaml"
            assert found.span.line > 3
            assert found.help
            assert found.nodes in ((), ("box",))
    assert compilation.policy.intents or judged.findings
