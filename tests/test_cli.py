"""The command line: exit codes, streams, and what a newcomer gets wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.conftest import ROOT
from tests.examples import read_tree, run
from tests.policies import BOX, intent, write

GOOD = intent("batch", 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background')
BAD = intent("batch", 'workload: {match: [{comm: "stress-ng*"}]}\ndemotte: background')
HEAVY = ("networkx", "jinja2", "jsonschema", "ruamel")


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["build", "--help"], []])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    program = (
        "import sys; from compiler.__main__ import main; code = main(sys.argv[1:]);"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "command",
    [
        ["init"],
        ["lint"],
        ["build"],
        ["explain"],
        ["facts", "collect"],
        ["facts", "validate"],
        ["rule"],
        ["test"],
    ],
)
def test_every_command_has_help_with_an_example(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    code, out, _ = call(capsys, *command, "--help")
    assert code == 0
    assert "Example: tierc " + " ".join(command) in " ".join(out.split())


def test_lint_of_a_clean_policy_is_silent_but_for_the_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path, {"intents/a.yaml": GOOD})
    code, out, err = call(capsys, "lint", root)
    assert (code, err) == (0, "")
    assert out.startswith("3 files, 1 intent")


def test_lint_points_at_the_place_and_at_the_word_that_was_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "policy", {"intents/a.yaml": BAD})
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "lint", "policy")
    assert code == 1
    assert "policy/intents/a.yaml:6:3" in out
    assert "demotte" in out
    assert "`demote`" in out or '"demote"' in out


def test_lint_as_json_carries_the_same_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path, {"intents/a.yaml": BAD})
    code, out, _ = call(capsys, "lint", root, "--format", "json")
    assert code == 1
    (finding,) = json.loads(out)["diagnostics"]
    assert finding["span"]["path"].endswith("intents/a.yaml")
    assert (finding["span"]["line"], finding["span"]["column"]) == (6, 3)


def test_lint_takes_single_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = write(tmp_path, {"intents/a.yaml": BAD, "intents/b.yaml": GOOD})
    code, out, _ = call(capsys, "lint", root / "intents/b.yaml")
    assert code == 0
    assert "1 intent" in out


def test_lint_writes_several_formats_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "p", {"intents/a.yaml": GOOD})
    target = tmp_path / "lint.json"
    code, out, _ = call(capsys, "lint", root, "--format", "text", "--format", f"json={target}")
    assert code == 0
    assert "checked" in out
    assert json.loads(target.read_text())["version"] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lint", "nowhere"], "nowhere does not exist"),
        (["lint", "policy", "--format", "xml"], "unknown format 'xml'"),
        (["lint", "policy", "--format", "text", "--format", "json"], "only one --format"),
        (
            ["lint", "empty"],
            "empty is no policy repository: it has neither tierc.yaml nor intents/",
        ),
        (["build", "policy/tierc.yaml", "-o", "out"], "is a file"),
        (["build", "policy", "-o", "out", "--node", "bax"], "did you mean box?"),
        (["build", "policy", "-o", "out", "--target", "bpf"], "does not enable it"),
        (["explain", "bax", "-p", "policy"], "did you mean box?"),
        (["explain", "box", "-p", "policy", "--cpu", "99"], "no CPU 99 online"),
        (["explain", "box", "-p", "policy", "--kthread"], "--kthread needs --comm"),
        (["explain", "box", "-p", "policy", "--cpu", "1", "--comm", "a"], "one at a time"),
        (["explain", "box", "-p", "policy", "--format", "dot"], "unknown format"),
        (["rule", "TRC999"], "no finding has the code"),
        (["facts", "validate", "nowhere.yaml"], "is not a file"),
        (["facts", "validate", "policy/intents/a.yaml"], "no NodeFacts"),
        (["facts", "collect", "--label", "novalue"], "is not KEY=VALUE"),
        (["facts", "collect", "--sysroot", "nowhere"], "is not a directory"),
        (["facts", "collect", "--name", "Not A Name"], "not a node name"),
    ],
)
def test_wrong_usage_exits_2_with_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    message: str,
) -> None:
    write(tmp_path / "policy", {"intents/a.yaml": GOOD})
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    before = read_tree(tmp_path)
    code, out, err = call(capsys, *args)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert read_tree(tmp_path) == before


def test_build_with_an_error_writes_nothing_and_says_so_last(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "policy", {"intents/a.yaml": BAD})
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "build", "policy", "-o", "out")
    assert (code, out) == (1, "")
    assert not (tmp_path / "out").exists()
    last = err.splitlines()[-1]
    assert last.startswith("tierc: nothing written: 1 error, first policy/intents/a.yaml:6:3: ")
    assert "\x1b" not in err


def test_build_check_tells_what_differs_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD})
    out = tmp_path / "out"
    assert call(capsys, "build", root, "-o", out)[0] == 0
    assert call(capsys, "build", root, "-o", out, "--check")[0] == 0
    write(tmp_path / "policy", {"intents/a.yaml": GOOD.replace("background", "idle")})
    before = read_tree(out)
    code, _, err = call(capsys, "build", root, "-o", out, "--check")
    assert code == 1
    assert "nodes/box/plan.json" in err
    assert read_tree(out) == before


def test_build_prunes_a_node_that_is_gone_and_keeps_what_is_not_ours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    second = BOX.replace("name: box", "name: second")
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD, "nodes/second.yaml": second})
    out = tmp_path / "out"
    assert call(capsys, "build", root, "-o", out)[0] == 0
    (out / "README").write_text("mine")
    (root / "nodes/second.yaml").unlink()
    code, stdout, err = call(capsys, "build", root, "-o", out)
    assert code == 0
    assert not (out / "nodes/second").exists()
    assert (out / "nodes/box/plan.json").exists()
    assert (out / "README").read_text() == "mine"
    assert "README" in err
    assert "removed" in stdout


def test_build_of_one_node_leaves_the_others_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    second = BOX.replace("name: box", "name: second")
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD, "nodes/second.yaml": second})
    out = tmp_path / "out"
    assert call(capsys, "build", root, "-o", out)[0] == 0
    old = (out / "nodes/second/plan.json").read_bytes()
    write(tmp_path / "policy", {
        "intents/a.yaml": GOOD.replace("background", "idle"), "nodes/second.yaml": second,
    })  # fmt: skip
    assert call(capsys, "build", root, "-o", out, "--node", "box")[0] == 0
    assert (out / "nodes/second/plan.json").read_bytes() == old
    assert (out / "nodes/box/plan.json").read_bytes() != old
    manifest = json.loads((out / "manifest.json").read_text())
    assert any(path.startswith("nodes/second/") for path in manifest["files"])


def test_build_does_not_touch_a_directory_that_is_not_a_tree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD})
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("data")
    code, _, err = call(capsys, "build", root, "-o", out)
    assert code == 2
    assert "not a tierc tree" in err
    assert read_tree(out) == {"precious": b"data"}


def test_build_refuses_the_root_of_the_file_system(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "build", str(ROOT / "examples/dgx-spark"), "-o", "/")
    assert code == 2
    assert "-o / is the root of the file system" in err


def test_explain_says_once_what_a_target_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "explain", "spark-a", "-p", str(ROOT / "examples/dgx-spark"))
    assert code == 0
    left_out = out.split("left out\n", 1)[1].splitlines()
    assert len(left_out) == len(set(left_out)) >= 3


def test_intents_without_nodes_lint_and_do_not_build(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD, "nodes/box.yaml": "# none yet\n"})
    code, out, _ = call(capsys, "lint", root)
    assert code == 0
    assert "TRC322" in out
    code, _, err = call(capsys, "build", root, "-o", tmp_path / "out")
    assert code == 2
    assert "nothing to build" in err


def test_every_listed_code_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "rule")
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines()]
    assert listed == sorted(set(listed))
    for one in listed:
        code, page, _ = call(capsys, "rule", one)
        assert code == 0
        assert page.startswith(f"# {one} ")
        assert len(page.split()) > 20, one


def test_collect_writes_facts_that_validate_and_build(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "policy/nodes/here.yaml"
    target.parent.mkdir(parents=True)
    code, _, _ = call(capsys, "facts", "collect", "--name", "here", "--label", "a=b", "-o", target)
    assert code == 0
    code, out, _ = call(capsys, "facts", "validate", target)
    assert code == 0
    assert "facts of 1 node checked: " in out
    assert "a: b" in target.read_text()


def test_collect_replaces_only_when_told_and_keeps_what_people_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "here.yaml"
    assert (
        call(capsys, "facts", "collect", "--name", "here", "--label", "a=b", "-o", target)[0] == 0
    )
    text = target.read_text() + "  overrides:\n    podsRoot: kubepods.slice\n"
    target.write_text(text)
    code, _, err = call(capsys, "facts", "collect", "--name", "here", "-o", target)
    assert code == 2
    assert "--force" in err
    assert target.read_text() == text
    assert call(capsys, "facts", "collect", "--name", "here", "-o", target, "--force")[0] == 0
    assert "podsRoot: kubepods.slice" in target.read_text()
    assert "a: b" in target.read_text()


def test_a_broken_facts_file_is_not_replaced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "here.yaml"
    target.write_text("precious: notes\n")
    code, _, err = call(capsys, "facts", "collect", "--name", "here", "-o", target, "--force")
    assert code == 2
    assert "not a NodeFacts document" in err
    assert target.read_text() == "precious: notes\n"


def test_no_color_reaches_a_pipe(tmp_path: Path) -> None:
    root = write(tmp_path, {"intents/a.yaml": BAD})
    assert "\x1b" not in run("lint", str(root)).stdout
    assert "\x1b[" in run("lint", str(root), "--color", "always").stdout


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m compiler rule | true; exit ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_a_repository_without_a_project_reads_the_usual_directories_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "p", {"intents/a.yaml": GOOD, "other/junk.yaml": "nonsense: true\n"})
    (root / "tierc.yaml").unlink()
    monkeypatch.chdir(root)
    assert call(capsys, "build", ".", "-o", "rendered")[0] == 0
    code, out, _ = call(capsys, "lint")
    assert code == 0
    assert out.startswith("warning[TRC335]: there is no tierc.yaml: options have their defaults")
    assert out.endswith("2 files, 1 intent, 1 node checked: 1 warning\n")
    # One file is judged by itself: what else is there is not looked at.
    assert "TRC335" not in call(capsys, "lint", "intents/a.yaml")[1]
    assert call(capsys, "build", ".", "-o", "rendered", "--check")[0] == 0


def test_a_directory_of_a_repository_stands_for_the_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "p", {"intents/a.yaml": BAD})
    monkeypatch.chdir(root / "intents")
    code, out, _ = call(capsys, "lint")
    assert code == 1
    assert "../intents/a.yaml:6:3" in out


@pytest.mark.parametrize("out", ["intents/out", "nodes/rendered", "tests/x", "intents"])
def test_build_refuses_an_output_that_would_be_read_as_a_source(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.chdir(write(tmp_path / "p", {"intents/a.yaml": GOOD}))
    code, _, err = call(capsys, "build", ".", "-o", out)
    assert code == 2
    assert "whose files are read as sources" in err
    assert not (tmp_path / "p" / out / "manifest.json").exists()


def test_a_file_is_judged_within_its_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # `above` names an intent of another file, which is broken in a way of its own
    above = intent("first", "workload: {match: [{comm: a}]}\nkeep: normal\nabove: [other]")
    other = intent("other", "workload: {match: [{comm: b}]}\nkeep: normal")
    root = write(
        tmp_path, {"intents/a.yaml": above, "intents/b.yaml": other, "intents/c.yaml": BAD}
    )
    code, out, _ = call(capsys, "lint", root / "intents/a.yaml")
    assert code == 0, out
    assert "c.yaml" not in out
    assert call(capsys, "lint", root / "intents/c.yaml")[0] == 1


@pytest.mark.parametrize("text", ["", "---\n", "\n\n"])
def test_an_empty_source_is_a_warning_and_a_commented_one_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    root = write(tmp_path, {"intents/a.yaml": GOOD, "intents/chat.yaml": text})
    code, out, _ = call(capsys, "lint", root)
    assert code == 0
    assert "warning[TRC328]: intents/chat.yaml holds no document" in out.replace(f"{root}/", "")
    write(tmp_path, {"intents/a.yaml": GOOD, "intents/chat.yaml": "# kind: Intent\n"})
    assert "TRC328" not in call(capsys, "lint", root)[1]


def test_a_project_file_without_a_project_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path, {"tierc.yaml": GOOD})
    code, out, _ = call(capsys, "lint", root)
    assert code == 1
    assert "TRC327" in out


def test_upper_case_endings_are_read_as_well(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path, {"intents/a.YAML": BAD})
    assert call(capsys, "lint", root)[0] == 1


def test_a_partial_build_keeps_plan_and_provenance_current(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD})
    out = tmp_path / "out"
    assert call(capsys, "build", root, "-o", out)[0] == 0
    write(root, {"intents/a.yaml": "# moved down\n" + GOOD.replace("background", "idle")})
    assert call(capsys, "build", root, "-o", out, "--target", "taskset")[0] == 0
    whole = tmp_path / "whole"
    assert call(capsys, "build", root, "-o", whole)[0] == 0
    assert read_tree(out) == read_tree(whole)


def test_collect_does_not_replace_another_nodes_facts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "other.yaml"
    assert call(capsys, "facts", "collect", "--name", "other", "-o", target)[0] == 0
    before = target.read_text()
    code, _, err = call(capsys, "facts", "collect", "-o", target, "--force")
    assert code == 2
    assert "holds the facts of other" in err
    assert target.read_text() == before


def test_a_label_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "facts", "collect", "--label", "a=b", "--label", "a=c")
    assert code == 2
    assert "--label a is given twice" in err


def test_explain_a_lane_and_a_name_nobody_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lane = intent(
        "job", "workload: {match: [{comm: sshd-job}]}\nprotect: all\n"
        "prefer: [performance, gpu-local]\nlane: {name: fast, cores: 2}",
    )  # fmt: skip
    root = write(tmp_path, {"intents/a.yaml": lane})
    code, out, _ = call(capsys, "explain", "box", "-p", root, "--lane", "fast")
    assert code == 0
    assert "member   job (latency)" in out
    assert "prefer   gpu-local: met" in out
    assert "device   gpu0: near 0-15" in out
    code, out, _ = call(capsys, "explain", "box", "-p", root, "--comm", "sshdjob")
    assert code == 0
    assert "matches no rule" in out
    assert "similar: sshd-job" in out
    code, _, err = call(capsys, "explain", "box", "-p", root, "--lane", "fst")
    assert code == 2
    assert "did you mean fast?" in err


def test_explain_takes_a_cgroup_as_an_intent_writes_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pods = intent("job", 'workload: {match: [{cgroup: "@pods/**"}]}\ndemote: background')
    where = ("--comm", "make", "--cgroup", "@pods/burstable/pod1")
    root = write(
        tmp_path / "known",
        {
            "intents/a.yaml": pods,
            "nodes/box.yaml": BOX + "  overrides: {podsRoot: kubepods.slice}\n",
        },
    )
    code, out, _ = call(capsys, "explain", "box", "-p", root, *where)
    assert code == 0
    assert 'cgroup "kubepods.slice/burstable/pod1"' in out
    assert "is taken by job of intent job" in out
    bare = intent("job", "workload: {match: [{comm: make}]}\ndemote: background")
    root = write(tmp_path / "unknown", {"intents/a.yaml": bare})
    code, out, err = call(capsys, "explain", "box", "-p", root, *where)
    assert (code, out) == (2, "")
    assert "@pods/burstable/pod1 is not known on box: its facts name no pods root" in err
    assert "overrides: {podsRoot: kubepods.slice}" in err


def test_explain_knows_that_what_is_outside_the_pods_root_is_in_no_pod(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    match = "workload: {match: [{comm: make}], pods: {namespace: etl}}\ndemote: background"
    kubelet = BOX + "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
    root = write(tmp_path, {"intents/a.yaml": intent("etl", match), "nodes/box.yaml": kubelet})
    asked = ("explain", "box", "-p", root, "--comm", "make")
    for cgroup in ((), ("--cgroup", "kubepods.slice/pod1")):
        assert "is taken by etl of intent etl, if pods" in call(capsys, *asked, *cgroup)[1]
    out = call(capsys, *asked, "--cgroup", "system.slice/ci.service")[1]
    assert "etl" not in out
    assert "matches no rule" in out


@pytest.mark.parametrize("name", ["housekeeping", "leftovers", "shared", "all"])
def test_words_for_cpus_in_no_lane_name_no_lane(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    body = f"workload: {{match: [{{comm: a}}]}}\nprotect: all\nlane: {{name: {name}, cores: 1}}"
    code, out, _ = call(capsys, "lint", write(tmp_path, {"intents/a.yaml": intent("a", body)}))
    assert code == 1
    assert f'error[TRC331]: a lane cannot be called "{name}"' in out
    assert "intents/a.yaml:7:16" in out


def test_schemas_are_written_where_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(capsys, "schemas", tmp_path / "a/b")[0] == 0
    assert read_tree(tmp_path / "a/b") == read_tree(ROOT / "schemas")
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "schemas", tmp_path / "file")
    assert code == 2
    assert "cannot write" in err


def test_check_names_files_that_are_not_tiercs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path / "policy", {"intents/a.yaml": GOOD})
    out = tmp_path / "out"
    assert call(capsys, "build", root, "-o", out)[0] == 0
    (out / "nodes/old").mkdir()
    (out / "nodes/old/plan.json").write_text("{}")
    code, stdout, err = call(capsys, "build", root, "-o", out, "--check")
    assert code == 0
    assert "up to date" in stdout
    assert "not written by tierc, and left alone: nodes/old" in err


def test_the_example_takes_one_more_ordinary_intent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # a profile's command line, which the bpf target cannot match, must not refuse the policy
    policy = tmp_path / "policy"
    shutil.copytree(ROOT / "examples/dgx-spark", policy)
    watch = intent("watch", "workload: {group: observability}\ndemote: background")
    (policy / "intents/watch.yaml").write_text(watch)
    assert call(capsys, "build", policy, "-o", tmp_path / "out")[0] == 0


def test_the_sources_are_those_of_the_repository_wherever_build_is_pointed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path / "p", {"intents/a.yaml": GOOD}))
    code, _, err = call(capsys, "build", "intents", "-o", "intents/out")
    assert code == 2
    assert "whose files are read as sources" in err
