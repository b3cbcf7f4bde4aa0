"""What the taskset target emits: text, quoting, and patterns as shells read them."""

from __future__ import annotations

import difflib
import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.explain import Thread, match
from compiler.patterns import CmdlineRegex, Glob, PatternError
from compiler.plan import LeftOut
from targets.shell import environment, filled, one_line, quote, readable, shown
from targets.taskset import SUPPORTS, TARGET
from targets.taskset.groups import Treatment, grouped
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


def section(text: str, name: str) -> list[str]:
    """Return the lines of a table of apply.sh."""
    return text.split(f"\n{name}() {{\n  cat <<'END'\n")[1].partition("\nEND\n")[0].splitlines()


def test_rules_are_a_table_to_review() -> None:
    text = files(*RULES)["taskset/apply.sh"]
    head, *lines = [" ".join(line.split()) for line in section(text, "rules")]
    assert head == "# id how CPUs tier unit rules"
    assert lines == [
        "0 move lane:serving latency chat/engine-step 0",
        'comm "VLLM::EngineCor"',
        "1 move D1 background chat/api 1",
        'leaderComm "vllm" and cgroup "system.slice/docker-*.scope"',
        "2 spawns all latency node-infra 2",
        'comm "kubelet"',
        "3 keep all latency observability 3",
        'comm "node_exporter"',
        "4 move D1 background node/gpu-driver 4",
        'kthread "irq/*-nvidia"',
        "5 move D1 background batch 5",
        r'cgroup "ci.slice/**" and cmdline "python3? .*train\.py$"',
        "6 move D1 background batch 6",
        """comm "it's *" and leaderComm "?" and cgroup "**/a'b/*\"""",
    ]
    assert [line.split() for line in section(text, "cpu_lists")] == [
        ["#", "name", "min", "CPUs"],
        ["lane:serving", "1", "0"],
        ["D1", "2", "2-3"],
        ["all", "1", "0-3"],
    ]
    assert "\n# Lane serving: guarded, for serving\n" in text


@pytest.mark.parametrize(
    ("mode", "head"),
    [
        ("observe", "# Mode observe: it only reports what it would change.\n"),
        ("fallback", "# Mode fallback: this script is what enforces the plan.\n"),
        ("sched_ext", "# Mode sched_ext: the seeds in ../bpf are for a scheduler"),
    ],
)
def test_the_head_says_when_to_run_it(mode: str, head: str) -> None:
    text = files(mode=mode)["taskset/apply.sh"]
    assert head in text
    assert text.count("# Mode ") == 1


def test_cpu_lists_have_the_names_of_what_they_are() -> None:
    rules = [rule(n, n, comm=f"w{n}") for n in range(6)]
    bands = [("0", 1), ("1", 1), ("2", 1), ("1-3", 1), ("0-3", 1), ("1-3", 2)]
    one = plan(rules, on=ON, bands=bands).model_copy(
        update={
            "housekeeping": CpuSet.parse("1"),
            "leftovers": CpuSet.parse("2"),
            "shared": CpuSet.parse("1-3"),
        }
    )
    text = TARGET.emit(one)[0].data.decode()
    rows = [line.split() for line in section(text, "rules") if line[0].isdigit()]
    names = [row[2] for row in rows]
    assert names == ["lane:serving", "housekeeping", "leftovers", "shared", "all", "D1"]
    lists = {row[0]: row[1:] for row in (line.split() for line in section(text, "cpu_lists"))}
    assert lists["shared"] == ["1", "1-3"]
    assert lists["D1"] == ["2", "1-3"]  # the same CPUs with another minimum


def test_a_lane_without_rules_is_listed() -> None:
    text = files()["taskset/apply.sh"]
    assert section(text, "cpu_lists")[1].split() == ["lane:serving", "-", "0"]


def test_a_lane_that_grows_is_a_small_difference() -> None:
    """Forty rules of a lane and forty of what is kept out of it: only the lists change."""
    on = machine(range(8), [{n} for n in range(8)], [], arch="x86_64")
    rules = [rule(n, 0, "chat", comm=f"c{n}*", leader_comm=f"l{n}") for n in range(40)]
    rules += [rule(40 + n, 1, "batch", comm=f"b{n}*", leader_comm="l") for n in range(40)]
    texts = [
        files(*rules, on=on, bands=bands)["taskset/apply.sh"].splitlines()
        for bands in ([("0-3", 2), ("4-7", 1), ("0-7", 1)], [("0-4", 2), ("5-7", 1), ("0-7", 1)])
    ]
    changed = [line for line in difflib.ndiff(*texts) if line[0] in "+-"]
    assert sorted(" ".join(line.split()) for line in changed) == [
        "+ D1 1 5-7",
        "+ lane:serving 2 0-4",
        "- D1 1 4-7",
        "- lane:serving 2 0-3",
    ]


def test_rules_that_are_treated_alike_share_an_entry() -> None:
    rules = [
        rule(0, SECOND, "infra", comm="sshd"),
        rule(1, SECOND, "infra", spawns=True, comm="kubelet"),
        rule(2, SECOND, "infra", comm="etcd"),  # no thread of rule 1 is one of this
        rule(3, SECOND, "infra", spawns=True, comm="sshd*"),  # before 2 or behind: the same
        rule(4, SECOND, "infra", comm="sshd-session"),  # 3 has its threads: not with 0
        rule(5, SECOND, "infra", comm="sshd", leader_comm="sshd"),
        rule(6, SECOND, "infra", kthread="sshd"),
        rule(7, SECOND, "infra", comm="*"),
        rule(8, SECOND, "infra", comm="cron"),
        rule(9, SECOND, "infra", kthread="cron"),  # a kernel thread is none of 7 and 8
    ]
    text = files(*rules)["taskset/apply.sh"]
    rows = [line.split() for line in section(text, "rules") if line[0].isdigit()]
    assert [(row[0], row[1], row[5]) for row in rows] == [
        ("0", "move", "0,2"),
        ("1", "spawns", "1,3"),
        ("4", "move", "4"),
        ("5", "move", "5"),
        ("6", "move", "6,9"),
        ("7", "move", "7"),
        ("8", "move", "8"),
    ]
    assert '        comm "sshd" | "etcd"' in section(text, "rules")


GLOBS = st.text(st.sampled_from("ab*?"), min_size=1, max_size=3)
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"comm": GLOBS}),
    st.fixed_dictionaries({"kthread": GLOBS}),
    st.fixed_dictionaries({"leader_comm": GLOBS}, optional={"comm": GLOBS}),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(CONDITIONS, st.sampled_from("uv"), st.booleans()), max_size=10))
def test_grouping_changes_nothing_for_any_thread(
    rows: list[tuple[dict[str, str], str, bool]],
) -> None:
    """The first entry that has a thread treats it as the first rule does."""
    rules = [
        (rule(n, 0, unit, spawns=spawns, **match), Treatment("move", "D1", str(spawns), unit))
        for n, (match, unit, spawns) in enumerate(rows)
    ]
    groups = grouped(rules)
    assert sorted(r.id for g in groups for r in g.rules) == list(range(len(rules)))
    assert [g.id for g in groups] == sorted(g.id for g in groups)
    words = ["", *map("".join, (w for n in (1, 2, 3) for w in itertools.product("abc", repeat=n)))]
    for comm in words:
        for thread in (
            Thread(comm=comm, kthread=True),
            *(Thread(comm=comm, leader_comm=leader) for leader in ("a", "ab", "c")),
        ):
            plain = [t for r, t in rules if match(r.match, thread)[0] == "matches"]
            entries = [
                g.treatment
                for g in groups
                if any(match(r.match, thread)[0] == "matches" for r in g.rules)
            ]
            assert plain[:1] == entries[:1]


def test_revert_needs_no_plan() -> None:
    assert files(*RULES)["taskset/revert.sh"] == files(on=None)["taskset/revert.sh"]


def test_what_is_left_out_is_said() -> None:
    left = LeftOut(feature="match.pods", unit="chat/api", rules=(3,), message="pods are late\nx")
    text = files(left_out=[left])["taskset/apply.sh"]
    assert "\n# 1 part of the policy is not in this script:\n#   pods are late\\x0ax\n" in text
    assert 'say "1 part of the policy is not in this script, see its head"\n' in text
    two = files(left_out=[left, left])["taskset/apply.sh"]
    assert "\n# 2 parts of the policy are not in this script:\n" in two
    assert "not in this script" not in files()["taskset/apply.sh"]


ODD = [
    rule(0, FIRST, "odd", comm="$(x) `x` ${x}"),
    rule(1, FIRST, "odd", comm="END"),
    rule(2, SECOND, "odd", cgroup='$(x)/END/`x` "x"', cmdline=r"\$\(touch x\)|`|'|\\$"),
]


@pytest.mark.parametrize("rules", [RULES, [], RULES[:1], RULES[4:5], RULES[5:6], ODD])
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


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a b*?", "a b*?"),
        (r"^\$\(touch x\)`'$", r"^\$\(touch x\)`'$"),
        ('say "x"', r"say \x22x\x22"),
        ('\\"', r"\x22"),
        ('\\\\"', r"\\\x22"),
        ("two\nlines\r\x1b", r"two\x0alines\x0d\x1b"),
        ("é\udcff", r"\xc3\xa9\xff"),
        ("\\", "\\"),
    ],
)
def test_patterns_are_shown_as_written_on_one_line(text: str, want: str) -> None:
    assert readable(text) == want


def test_filling_lines() -> None:
    words = ["x" * 40, "y y", "z" * 60, "w" * 200, "v"]
    assert filled(words, "  ", "    ") == [
        "  " + "x" * 40 + " y y",
        "    " + "z" * 60,
        "    " + "w" * 200,
        "    v",
    ]
    assert filled([], "", "") == []


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
