"""Placement situations that broke neighbouring tools, each through the command line.

The ids are those of the collection they were taken from.  C21, X11 and the other cases on several
localities are in test_families.py; C11 and X02, X04 are in test_cases.py as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from tests.gpu_nodes import device, node, small
from tests.policies import intent, write
from tests.test_cases import lint, place

DECODE = """
workload: {{match: [{{comm: decode}}]}}
protect: all
{words}
lane: {{cores: {cores}{share}}}
"""


def decode(words: str = "", cores: int = 2, share: str = "") -> str:
    return intent("decode", DECODE.format(words=words, cores=cores, share=share))


def build(tmp_path: Path, text: str, *intents: str) -> dict[str, Any]:
    """Build a policy for one node and return its plan."""
    files = {f"intents/i{n}.yaml": one for n, one in enumerate(intents)}
    root = write(tmp_path / "p", {"nodes/box.yaml": text, **files})
    out = tmp_path / "out"
    assert main(["build", str(root), "-o", str(out)]) == 0
    for path in out.rglob("*"):
        if path.is_file():
            assert "cpunodebind" not in path.read_text()
    plan: dict[str, Any] = json.loads((out / "nodes/box/plan.json").read_text())
    for part in (*plan["lanes"], *plan["units"], *plan["bands"]):
        assert part["cpus"]
    return plan


def only(findings: list[dict[str, object]], code: str) -> dict[str, object]:
    (found,) = [f for f in findings if f["code"] == code]
    return found


def test_c01_a_gpu_local_to_two_nodes_says_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    everywhere = [device(f"gpu{i}", "0-15", bus=16 + i) for i in (0, 1)]
    text = small(8)
    head, _, tail = text.partition("  devices: ")
    text = f"{head}  devices: {json.dumps(everywhere)}\n{tail.partition(chr(10))[2]}"
    root = write(
        tmp_path, {"nodes/box.yaml": text, "intents/a.yaml": decode("prefer: [gpu-local]")}
    )
    code, findings = lint(capsys, root)
    assert code == 0
    (found,) = [f for f in findings if "gives no locality information" in str(f["message"])]
    assert found["severity"] == "warning"
    assert "NUMA nodes 0, 1" in str(found["message"])


@pytest.mark.parametrize(("siblings", "lane"), [("pairs", "2-5"), ("halves", "1-2,5-6")])
def test_c06_whole_cores_however_siblings_are_numbered(
    tmp_path: Path, siblings: str, lane: str
) -> None:
    smt = ["0-6:1/2", "1-7:1/2"] if siblings == "pairs" else ["0-3", "4-7"]
    text = node(
        [{"cpus": "0-7", "smt": smt, "llc": 0, "numa": 0}],
        [],
        online="0-7",
        llcs={0: "0-7"},
        numa={0: "0-7"},
    )
    batch = intent("batch", "workload: {match: [{comm: batch}]}\ndemote: background")
    # four cores: the first is housekeeping's, the lane has the next two
    plan = build(tmp_path, text, decode(), batch)
    (found,) = plan["lanes"]
    cores = [CpuSet.parse(c) for c in plan["machine"]["cores"]]
    cpus = CpuSet.parse(found["cpus"])
    assert all(core <= cpus or core.isdisjoint(cpus) for core in cores)
    assert str(cpus) == lane
    unit = next(u for u in plan["units"] if u["name"] == "batch")
    assert CpuSet.parse(unit["cpus"]).isdisjoint(cpus)


@pytest.mark.parametrize(
    "fact",
    [
        {"overrides": {"allowed": "15"}},
        {"kubelet": {"present": True, "policy": "static", "reserved": "15"}},
    ],
)
def test_c11_cpus_the_node_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, fact: dict[str, object]
) -> None:
    root = write(tmp_path / "p", {"nodes/box.yaml": small(4, **fact), "intents/a.yaml": decode()})
    code, findings = lint(capsys, root)
    assert code == 1
    assert any("15" in str(f["message"]) and "0-7" in str(f["message"]) for f in findings)
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("word", ["prefer", "require"])
def test_c14_local_cpus_within_what_is_allowed(tmp_path: Path, word: str) -> None:
    """Node 0 is 0-15, its GPU is meant; 8-23 are allowed, so 8-15 are near and allowed."""
    text = small(16, overrides={"allowed": "8-23"})
    plan = build(
        tmp_path,
        text,
        intent(
            "decode",
            f"""
            workload: {{match: [{{comm: decode}}], gpus: ["0000:10:00.0"]}}
            protect: all
            {word}: [gpu-local]
            lane: {{cores: 4}}
            """,
        ),
    )
    (lane,) = plan["lanes"]
    assert CpuSet.parse(lane["cpus"]) <= CpuSet.parse("8-15")
    assert lane["devices"] == ["0000:10:00.0"]


def test_c14_nothing_allowed_is_near(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = small(16, overrides={"allowed": "16-31"})
    for word, code in (("prefer", 0), ("require", 1)):
        body = f"""
        workload: {{match: [{{comm: decode}}], gpus: ["0000:10:00.0"]}}
        protect: all
        {word}: [gpu-local]
        lane: {{cores: 4}}
        """
        root = write(
            tmp_path / word, {"nodes/box.yaml": text, "intents/a.yaml": intent("decode", body)}
        )
        done, findings = lint(capsys, root)
        assert done == code
        found = only(findings, "TRC402" if word == "prefer" else "TRC400")
        assert "no allowed CPU" in str(found["message"])
        assert "gpu0" in str(found["message"])
        assert "allowed: 16-31" in str(found["message"])
        assert place(found) == ("a.yaml", 7)
        if word == "require":
            assert "0-15" in str(found["message"])


def kubelet(strict: bool | None, exclusive: str) -> str:
    """Return 8 cores of two threads, 0 and 8 reserved for the system."""
    facts: dict[str, object] = {
        "present": True,
        "policy": "static",
        "reserved": "0,8",
        "exclusive": exclusive,
    }
    if strict is not None:
        facts["strictReservation"] = strict
    return node(
        [{"cpus": "0-15", "smt": ["0-7", "8-15"], "llc": 0, "numa": 0}],
        [],
        online="0-15",
        llcs={0: "0-15"},
        numa={0: "0-15"},
        kubelet=facts,
    )


def test_c19_a_strict_reservation_and_a_lane_for_all_the_rest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(
        tmp_path,
        {
            "nodes/box.yaml": kubelet(True, ""),
            "intents/a.yaml": decode(cores=7, share=", share: exclusive"),
        },
    )
    code, findings = lint(capsys, root)
    assert code == 1
    found = only(findings, "TRC400")
    assert place(found)[0] == "a.yaml"
    assert "lane decode needs 7 cores" in str(found["message"])
    assert "the kubelet's strict reservation: 0,8" in str(found["help"])


@pytest.mark.parametrize("strict", [False, True, None])
def test_c19_without_strictness_pods_may_run_on_what_is_reserved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, strict: bool | None
) -> None:
    batch = intent("batch", "workload: {match: [{comm: batch}]}\ndemote: background")
    root = write(tmp_path, {"nodes/box.yaml": kubelet(strict, "1-4,9-12"), "intents/a.yaml": batch})
    code, findings = lint(capsys, root)
    assert code == 0
    said = [f for f in findings if "ordinary pods may run on the reserved" in str(f["message"])]
    # where it is not known and nobody is promised a CPU, nothing is said
    assert len(said) == (1 if strict is False else 0)
    if said:
        assert "CPUs 0,8" in str(said[0]["message"])
        assert "strict-cpu-reservation" in str(said[0]["help"])


def test_c19_unknown_strictness_matters_to_a_guarded_lane(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = kubelet(None, "").replace('"reserved": "0,8"', '"reserved": "0-3,8-11"')
    root = write(tmp_path, {"nodes/box.yaml": text, "intents/a.yaml": decode(cores=1)})
    code, findings = lint(capsys, root)
    assert code == 0
    assert any("is not known to be on" in str(f["message"]) for f in findings)
