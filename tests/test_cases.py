"""Situations that broke neighbouring tools, each through the command line.

The ids are those of the collection they were taken from.  Cases that need a feature tierc does not
have are not here.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.conftest import ROOT
from tests.policies import BOX, HEAD, intent, write

OK = intent("batch", "workload: {match: [{comm: job}]}\ndemote: background")


def lint(capsys: pytest.CaptureFixture[str], root: Path) -> tuple[int, list[dict[str, object]]]:
    code = main(["lint", str(root), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)["diagnostics"]


def place(finding: dict[str, object]) -> tuple[str, int]:
    span = finding["span"]
    assert isinstance(span, dict)
    return Path(span["path"]).name, span["line"]


# --- CPU lists ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1-4294967294", "0-999999999999999999999"])
def test_c08_a_range_that_would_eat_all_memory(tmp_path: Path, text: str) -> None:
    box = BOX.replace('isolated: ""', f'isolated: "{text}"')
    root = write(tmp_path, {"intents/a.yaml": OK, "nodes/box.yaml": box})

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

    done = subprocess.run(
        [sys.executable, "-m", "compiler", "lint", str(root)],
        cwd=ROOT,
        preexec_fn=bounded,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "nodes/box.yaml:6:" in done.stdout
    assert "8191" in done.stdout
    assert text.split("-")[1][:9] in done.stdout


GOOD_LISTS = {
    "8": "8",
    "0,1": "0-1",
    "[0, 1]": "0-1",
    "0-3,8-11": "0-3,8-11",
    '"0-3,8-11"': "0-3,8-11",
}
BAD_LISTS = (
    "010", "08", "1_0", "0_1", "1:30", "1.5", "1e1", "0x1F", "2001-01-01", "", "~", '"010"',
    "3-1", "0-", "a", "0,,1", "-1", "true", "[0, x]",
)  # fmt: skip


def with_override(value: str) -> str:
    # block style: in flow style a comma would end the value
    return BOX + f"  overrides:\n    allowed: {value}\n"


@pytest.mark.parametrize(("value", "cpus"), GOOD_LISTS.items())
def test_c10_cpu_lists_that_are_read_as_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str, cpus: str
) -> None:
    root = write(tmp_path, {"intents/a.yaml": OK, "nodes/box.yaml": with_override(value)})
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    plan = json.loads((tmp_path / "out/nodes/box/plan.json").read_text())
    assert plan["machine"]["effective"] == cpus


@pytest.mark.parametrize("value", BAD_LISTS)
def test_c10_cpu_lists_that_yaml_would_turn_into_something_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str
) -> None:
    text = with_override(value)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "allowed:" in row)
    root = write(tmp_path, {"intents/a.yaml": OK, "nodes/box.yaml": text})
    code, findings = lint(capsys, root)
    assert code == 1
    assert ("box.yaml", line) in [place(f) for f in findings if f["severity"] == "error"]
    written = value.strip("\"'")
    if written not in ("", "~"):
        assert any(
            written[:4] in str(f["message"]) + str(f["help"]) or f["code"] in ("TRC104", "TRC109")
            for f in findings
        )


def test_c11_a_reservation_larger_than_one_pool_stops_the_whole_build(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = (
        f"{HEAD}kind: NodeFacts\nmetadata: {{name: small-1}}\n"
        "spec: {cpus: {online: 0-3}, cores: [{cpus: 0-3}]}\n"
    )
    lane = intent("decode", "workload: {match: [{comm: a}]}\nprotect: all\nlane: {cores: 5}")
    root = write(tmp_path / "p", {"intents/a.yaml": lane, "nodes/small.yaml": small})
    code, findings = lint(capsys, root)
    assert code == 1
    (found,) = [f for f in findings if f["code"] == "TRC400"]
    assert place(found)[0] == "a.yaml"
    assert "small-1" in str(found["nodes"])
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()
    chosen = lane.replace("spec:\n", "spec:\n  nodes: {names: [box]}\n")
    write(tmp_path / "p", {"intents/a.yaml": chosen, "nodes/small.yaml": small})
    capsys.readouterr()
    assert lint(capsys, root)[0] == 0


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cut"),
    [("vllm-engine-core", "vllm-engine-cor"), ("décodeur-vllm-1", "décodeur-vllm-")],
)
def test_c27_a_name_longer_than_the_kernel_keeps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, cut: str
) -> None:
    body = f"workload: {{match: [{{comm: {name}}}]}}\ndemote: background"
    root = write(tmp_path, {"intents/a.yaml": intent("a", body)})
    code, findings = lint(capsys, root)
    assert code == 1
    (found,) = [f for f in findings if f["code"] == "TRC201"]
    assert place(found) == ("a.yaml", 5)
    assert f'"{cut}"' in str(found["help"])
    assert "cmdline" in str(found["help"])


# --- conflicts and order -----------------------------------------------------------------------


@pytest.mark.parametrize("names", [("a.yaml", "b.yaml"), ("z.yaml", "b.yaml")])
def test_c30_two_intents_of_one_standing_for_one_thread(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, names: tuple[str, str]
) -> None:
    work = "workload: {match: [{comm: app}]}\nprecedence: 50\n"
    root = write(
        tmp_path,
        {
            f"intents/{names[0]}": intent("one", work + "protect: all"),
            f"intents/{names[1]}": intent("two", work + "demote: background"),
        },
    )
    code, findings = lint(capsys, root)
    assert code == 1
    (found,) = [f for f in findings if f["code"] == "TRC310"]
    assert "one" in str(found["message"])
    assert "two" in str(found["message"])
    assert names[0] in json.dumps(found)
    assert names[1] in json.dumps(found)


def test_c32_a_cycle_a_self_reference_and_a_diamond(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def tiered(name: str, *above: str) -> str:
        return intent(
            name,
            f"workload: {{match: [{{comm: {name}}}]}}\nkeep: interactive\n"
            f"above: [{', '.join(above)}]",
        )

    cycle = [tiered("decode", "batch"), tiered("prefill", "decode"), tiered("batch", "prefill")]
    code, findings = lint(capsys, write(tmp_path / "c", {"intents/a.yaml": "---\n".join(cycle)}))
    assert code == 1
    (found,) = [f for f in findings if f["code"] == "TRC313"]
    assert "batch -> prefill -> decode -> batch" in str(found["message"])
    root = write(tmp_path / "s", {"intents/a.yaml": tiered("x", "x")})
    code, findings = lint(capsys, root)
    assert code == 1
    assert [f["code"] for f in findings if f["severity"] == "error"] == ["TRC313"]
    diamond = [
        tiered("a", "b", "c"),
        tiered("b", "d"),
        tiered("c", "d"),
        tiered("d", "e"),
        tiered("e"),
    ]
    text = "---\n".join(diamond).replace("  above: []\n", "")
    code, findings = lint(capsys, write(tmp_path / "d", {"intents/a.yaml": text}))
    assert code == 0, findings


def test_c38_a_duplicate_key_is_reported_where_reviewers_look(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = OK + "  keep: normal\n  demote: idle\n"
    root = write(tmp_path, {"intents/a.yaml": text})
    code, findings = lint(capsys, root)
    assert code == 1
    (found,) = [f for f in findings if f["code"] == "TRC031"]
    assert "demote" in str(found["message"])
    assert place(found) == ("a.yaml", 8)
    related = found["related"]
    assert isinstance(related, list)
    assert related[0]["span"]["line"] == 6
    assert main(["lint", str(root)]) == 1
    assert "intents/a.yaml:8:3" in capsys.readouterr().out


# --- machines ----------------------------------------------------------------------------------


def test_x02_cpus_that_are_possible_and_absent_are_in_no_list(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    box = BOX.replace("cpus: {online: 0-15,", "cpus: {possible: 0-511, online: 0-15,")
    lane = intent("a", "workload: {match: [{comm: a}]}\nprotect: all\nlane: {cores: rest}")
    root = write(tmp_path / "p", {"intents/a.yaml": lane, "nodes/box.yaml": box})
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    plan = json.loads((tmp_path / "out/nodes/box/plan.json").read_text())
    assert plan["machine"]["online"] == "0-15"
    assert "511" not in json.dumps(plan["lanes"])


def test_x04_an_unknown_cache_gives_no_cache_preference_and_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    box = (
        f"{HEAD}kind: NodeFacts\nmetadata: {{name: box}}\n"
        "spec: {cpus: {online: 0-7}, cores: [{cpus: 0-7}]}\n"
    )
    lane = intent(
        "a", "workload: {match: [{comm: a}]}\nprotect: all\nprefer: [same-llc]\nlane: {cores: 2}"
    )
    root = write(tmp_path, {"intents/a.yaml": lane, "nodes/box.yaml": box})
    code, findings = lint(capsys, root)
    assert code == 0
    (found,) = [f for f in findings if f["code"] == "TRC402"]
    assert found["severity"] == "warning"
    assert "cache" in str(found["message"])
