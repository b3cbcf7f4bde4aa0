"""What the taskset target emits: text, quoting, and patterns as shells read them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.patterns import CmdlineRegex, Glob, PatternError
from compiler.plan import LeftOut
from targets.shell import environment, one_line, quote, shown
from targets.taskset import SUPPORTS, TARGET
from tests.taskset_live import FakeProc, make_shell
from tests.taskset_plans import ALL, FIRST, SECOND, machine, plan, rule, write_scripts

SCRIPTS = ["taskset/apply.sh", "taskset/revert.sh"]
ON = machine(range(4), [{0}, {1}, {2}, {3}], [{0, 1, 2, 3}], arch="x86_64")
BANDS = [("0", 1), ("2-3", 2), ("0-3", 1)]
RULES = [
    rule(0, FIRST, "chat/engine-step", comm="VLLM::EngineCor"),
    rule(1, SECOND, "chat/api", leader_comm="vllm", cgroup="system.slice/docker-*.scope"),
    rule(2, ALL, "node-infra", spawns=True, comm="kubelet"),
    rule(3, ALL, "observability", comm="node_exporter"),
    rule(4, SECOND, "node/gpu-driver", kthread="irq/*-nvidia"),
    rule(5, SECOND, "batch", cgroup="ci.slice/**", cmdline=r"python3? .*train\.py$"),
    rule(6, SECOND, "batch", comm="it's *", leader_comm="?", cgroup="**/a'b/*"),
]
HOSTILE = ["$(touch x)", "a\ntouch x #", "'; touch x; '", "`touch x`", "*", '"', "é\\", "-", "| |"]


def files(*rules: object, **more: object) -> dict[str, str]:
    options: dict[str, object] = {"on": ON, "bands": BANDS, **more}
    one = plan(list(rules), **options)  # type: ignore[arg-type]
    return {a.path: a.data.decode() for a in TARGET.emit(one)}


def test_target() -> None:
    assert TARGET.name == "taskset"
    assert TARGET.modes == {"observe", "fallback", "sched_ext"}
    assert {"match.pods", "lane.exclusive", "lane.isolated", "tier"}.isdisjoint(SUPPORTS)
    artifacts = TARGET.emit(plan(RULES, on=ON, bands=BANDS))
    assert [(a.path, a.mode) for a in artifacts] == [(path, 0o755) for path in SCRIPTS]
    assert artifacts == TARGET.emit(plan(list(RULES), on=ON, bands=BANDS))


def test_rules_are_a_table_to_review() -> None:
    text = files(*RULES)["taskset/apply.sh"]
    table = text[text.index("# rule  how") : text.index("# The control groups")].splitlines()
    rows = [line.split() for line in table if line and line[0].isdigit()]
    assert rows == [
        ["0", "move", "0", "1", "latency", "serving", "chat", "chat/engine-step"],
        ["1", "move", "2-3", "2", "background", "-", "chat", "chat/api"],
        ["2", "spawns", "0-3", "1", "latency", "-", "node-infra", "node-infra"],
        ["3", "keep", "0-3", "1", "latency", "-", "observability", "observability"],
        ["4", "move", "2-3", "2", "background", "-", "node", "node/gpu-driver"],
        ["5", "move", "2-3", "2", "background", "-", "batch", "batch"],
        ["6", "move", "2-3", "2", "background", "-", "batch", "batch"],
    ]
    assert "# Lane serving: CPUs 0 (guarded) for serving" in text
    assert "# Mode: fallback\n" in text


def test_revert_needs_no_plan() -> None:
    assert files(*RULES)["taskset/revert.sh"] == files(on=None)["taskset/revert.sh"]


def test_what_is_left_out_is_said() -> None:
    left = LeftOut(feature="match.pods", unit="chat/api", rules=(3,), message="pods are late\nx")
    text = files(left_out=[left])["taskset/apply.sh"]
    assert "# Left out: chat/api: pods are late\\x0ax\n" in text
    assert "LEFT_OUT=1\n" in text


@pytest.mark.parametrize("rules", [RULES, [], RULES[:1], RULES[4:5], RULES[5:6]])
@pytest.mark.parametrize(
    "checker", [["dash", "-n"], ["busybox", "sh", "-n"], ["shellcheck", "-s", "sh"]]
)
def test_shells_and_shellcheck_accept_the_scripts(
    tool: Callable[[str], str], tmp_path: Path, rules: list[object], checker: list[str]
) -> None:
    for path, text in files(*rules).items():
        script = tmp_path / os.path.basename(path)
        script.write_text(text)
        done = subprocess.run(
            [tool(checker[0]), *checker[1:], str(script)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_in_a_plan_are_only_text(
    tool: Callable[[str], str], tmp_path: Path, hostile: str
) -> None:
    """The pipeline refuses such names; the scripts do not rely on that."""
    left = LeftOut(feature="x", unit=hostile, rules=(), message=hostile)
    one = plan(
        [rule(0, FIRST, hostile, comm="w*")], on=ON, bands=BANDS, lane=hostile, left_out=[left]
    )
    where = write_scripts(one, tmp_path / "node")
    subprocess.run([tool("shellcheck"), "-s", "sh", str(where / "apply.sh")], check=True)
    shell = make_shell("dash", tool, tmp_path)
    host = FakeProc(tmp_path / "host")
    host.cpus("0-3")
    for cpu in range(4):
        host.cpu(cpu, cache__index0__level="3", cache__index0__type="Unified")
        host.cpu(cpu, cache__index0__shared_cpu_list="0-3")
    host.thread(10, "worker")
    shell.env.update(host.env)
    done = subprocess.run(
        [*shell.argv, str(where / "apply.sh"), "--dry-run"],
        env=shell.environ(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert f"would move 10/10 worker ({shown(hostile)}): 0-3 -> 0\n" in done.stdout
    assert not (tmp_path / "x").exists()


def test_what_the_compiler_must_not_hand_over() -> None:
    with pytest.raises(ValueError, match="pods"):
        files(rule(0, FIRST, pods="x"))
    with pytest.raises(ValueError, match="fingerprint"):
        TARGET.emit(plan([], on=ON, bands=BANDS).model_copy(update={"fingerprint": "0" * 64}))
    with pytest.raises(ValueError, match="band 9"):
        files(rule(0, 9, comm="x"))


def test_quoting(tool: Callable[[str], str]) -> None:
    for text in [*HOSTILE, "", " ", "\\", "\\\n", "!", "~", "#", "$'x'"]:
        script = f"printf %s {quote(text)}"
        done = subprocess.run([tool("dash"), "-c", script], capture_output=True, check=True)
        assert done.stdout == text.encode()
        word = shown(text)
        assert word.isprintable()
        assert word.isascii()
        assert len(word.split()) == 1
        assert "\n" not in one_line(text)
    assert one_line("a b  c") == "a b  c"
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


def test_templates_refuse_what_is_undefined(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("{{ nothing }}")
    with pytest.raises(Exception, match="nothing"):
        environment(tmp_path).get_template("t").render()


# --- patterns as the scripts read them ------------------------------------------------------------

LETTERS = st.text(st.sampled_from("ab*?/-.é'\"$\\ ]![^~{}#(|"), min_size=1, max_size=8)


def _glob(text: str) -> Glob | None:
    try:
        return Glob.comm(text)
    except PatternError:
        return None


def _expression(text: str) -> CmdlineRegex | None:
    try:
        return CmdlineRegex.parse(text)
    except PatternError:
        return None


@settings(
    max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
@pytest.mark.parametrize("kind", ["dash", "busybox"])
def test_random_patterns_match_in_the_shell_as_in_the_compiler(
    tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    kind: str,
) -> None:
    """Many rules and threads in one run; the first that matches has the thread."""
    tmp = tmp_path_factory.mktemp("patterns")
    globs = [g for g in map(_glob, data.draw(st.lists(LETTERS, min_size=5, max_size=12))) if g]
    lines = [e for e in map(_expression, data.draw(st.lists(LETTERS, max_size=6))) if e]
    texts = st.lists(LETTERS, min_size=10, max_size=25)
    names = [n for n in data.draw(texts) if len(n.encode()) <= 15]
    names += [g.text for g in globs if len(g.text.encode()) <= 15]
    argv = data.draw(st.lists(LETTERS, min_size=len(names), max_size=len(names)))
    rules = [rule(n, 0, f"g{n}", comm=g.text) for n, g in enumerate(globs)]
    rules += [rule(len(globs) + n, 0, f"e{n}", cmdline=e.text) for n, e in enumerate(lines)]
    host = FakeProc(tmp / "host")
    host.cpus("0-3")
    for number, (name, line) in enumerate(zip(names, argv, strict=True)):
        host.thread(100 + number, name, cmdline=line.encode() + b"\0")
    on = machine(range(4), [{0}, {1}, {2}, {3}], [], arch="x86_64")
    where = write_scripts(plan(rules, on=on, bands=BANDS), tmp / "node")
    shell = make_shell(kind, tool, tmp)
    shell.env.update(host.env)
    done = shell.run(where / "apply.sh", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    got = {}
    for text in done.stdout.splitlines():
        if text.startswith("tierc: would move "):
            head, _, _ = text.rpartition("): ")
            got[int(head.split("/")[0].split()[-1])] = head.rpartition(" (")[2]
    want = {}
    for number, (name, line) in enumerate(zip(names, argv, strict=True)):
        units = [f"g{n}" for n, g in enumerate(globs) if g.matches(name)]
        units += [f"e{n}" for n, e in enumerate(lines) if e.matches(line)]
        if units:
            want[100 + number] = units[0]
    assert got == want
