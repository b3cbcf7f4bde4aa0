"""Placement situations that broke neighbouring tools, each through the command line.

The ids are those of the collection they were taken from.  What the cases on several localities
(C04, C21, X11) mean core by core is in test_families.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from tests.gpu_nodes import SOCKETS, device, node, small, two_sockets
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


def everywhere() -> str:
    """Return two NUMA nodes of 8 cores, and two GPUs near all of them."""
    near = [device(f"gpu{i}", "0-15", bus=16 + i, numa=0) for i in (0, 1)]
    head, _, tail = small(8).partition("  devices: ")
    return f"{head}  devices: {json.dumps(near)}\n{tail.partition(chr(10))[2]}"


@pytest.mark.parametrize("word", ["prefer", "require"])
def test_c01_a_gpu_local_to_two_nodes_takes_neither_for_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    """Twelve cores are more than one node has: none is "not local", and both nodes are used."""
    plan = build(tmp_path, everywhere(), decode(f"{word}: [gpu-local]", cores=12))
    (lane,) = plan["lanes"]
    cpus = CpuSet.parse(lane["cpus"])
    assert len(cpus) == 12
    assert cpus & CpuSet.parse("0-7")
    assert cpus & CpuSet.parse("8-15")
    said = [row["message"] for row in plan["degradations"]]
    assert any("gives no locality information" in text for text in said)
    assert not any("not local to" in text for text in said)


def superchips() -> str:
    """Return two chips of 72 cores, whose GPUs' memory is NUMA nodes without CPUs."""
    sides = ("0-71", "72-143")
    gpus = [
        device(f"gpu{i}", cpus, bus=16 + i, numa=memory)
        for i, (cpus, memory) in enumerate(zip(sides, (2, 18), strict=True))
    ]
    return node(
        [{"cpus": cpus, "llc": i, "numa": i, "package": i} for i, cpus in enumerate(sides)],
        gpus,
        online="0-143",
        llcs=dict(enumerate(sides)),
        numa={0: sides[0], 1: sides[1], 2: "", 10: "", 18: "", 26: ""},
        arch="aarch64",
    )


def test_c04_a_gpu_whose_numa_node_has_only_memory(tmp_path: Path) -> None:
    # build() looks for empty CPU lists and --cpunodebind
    plan = build(tmp_path, superchips(), decode("require: [gpu-local]", cores=8))
    near = {lane["name"]: (lane["devices"], CpuSet.parse(lane["cpus"])) for lane in plan["lanes"]}
    assert {name: devices for name, (devices, _) in near.items()} == {
        "decode@numa0": ["0000:10:00.0"],
        "decode@numa1": ["0000:11:00.0"],
    }
    assert all(len(cpus) == 8 for _, cpus in near.values())
    assert near["decode@numa0"][1] <= CpuSet.parse("0-71")
    assert near["decode@numa1"][1] <= CpuSet.parse("72-143")
    assert plan["degradations"] == []


def test_c04_numa_nodes_keep_their_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = write(tmp_path, {"nodes/box.yaml": superchips(), "intents/a.yaml": decode(cores=2)})
    assert main(["facts", "show", str(root / "nodes/box.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "NUMA nodes without CPUs:\n  NUMA 2,10,18,26: " in shown


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


def named(name: str, text: str) -> str:
    """Return a node document under another name."""
    return text.replace("{name: box,", f"{{name: {name},")


def test_c11_one_node_without_the_cpu_stops_the_build_of_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lacking = small(4, overrides={"allowed": "15"})
    files = {
        "nodes/box.yaml": named("big-1", small(16, overrides={"allowed": "15-20"})),
        "nodes/small.yaml": named("small-1", lacking),
        "intents/a.yaml": decode(),
    }
    root = write(tmp_path / "p", files)
    code, findings = lint(capsys, root)
    assert code == 1
    wrong = [f for f in findings if f["severity"] == "error"]
    (line,) = [i for i, row in enumerate(lacking.splitlines(), 1) if "overrides" in row]
    assert ("small.yaml", line) in {place(f) for f in wrong}
    assert "big-1" not in json.dumps(wrong)
    assert any("15" in str(f["message"]) and "0-7" in str(f["message"]) for f in wrong)
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()
    # the same on the big node only
    write(root, {"nodes/small.yaml": named("small-1", small(4))})
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/nodes/small-1/plan.json").exists()


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


def near_node_0(word: str) -> str:
    return intent(
        "decode",
        f"""
        workload: {{match: [{{comm: decode}}], gpus: ["0000:10:00.0"]}}
        protect: all
        {word}: [gpu-local]
        lane: {{cores: 4}}
        """,
    )


def sided(**spec: Any) -> str:
    """Return two NUMA nodes of 16 cores; the facts name the NUMA node of the GPU of node 0."""
    head, _, tail = small(16, **spec).partition("  devices: ")
    near = [device("gpu0", "0-15", bus=16, numa=0)]
    return f"{head}  devices: {json.dumps(near)}\n{tail.partition(chr(10))[2]}"


def test_c14_preferring_what_is_forbidden_gives_what_is_allowed(tmp_path: Path) -> None:
    plan = build(tmp_path, sided(overrides={"allowed": "16-31"}), near_node_0("prefer"))
    (lane,) = plan["lanes"]
    assert lane["cores"] == 4
    assert CpuSet.parse(lane["cpus"]) <= CpuSet.parse("16-31")


def test_c14_requiring_what_is_forbidden_names_the_gpu_and_its_node(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = sided(overrides={"allowed": "16-31"})
    root = write(tmp_path, {"nodes/box.yaml": text, "intents/a.yaml": near_node_0("require")})
    code, findings = lint(capsys, root)
    assert code == 1
    message = str(only(findings, "TRC400")["message"])
    assert "gpu0 (NUMA node 0, CPUs 0-15)" in message
    assert "allowed: 16-31" in message


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


def wide(gpus: int, word: str) -> str:
    """Return an engine with a core for each GPU and two more."""
    parallel = f"tensorParallel: {gpus}"
    return intent(
        "chat",
        f"""
        workload: {{engine: vllm, version: "0.24.0", cgroup: "chat.slice/**", {parallel}}}
        protect: all
        {word}: [gpu-local]
        lane: {{cores: {gpus + 2}}}
        """,
    )


def test_c21_more_gpus_than_one_node_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def checked(gpus: int, word: str) -> tuple[int, list[dict[str, object]]]:
        files = {"nodes/box.yaml": two_sockets(), "intents/a.yaml": wide(gpus, word)}
        return lint(capsys, write(tmp_path / f"{gpus}{word}", files))

    code, findings = checked(5, "require")
    assert code == 1
    found = only(findings, "TRC400")
    assert place(found) == ("a.yaml", 7)
    assert "the largest locality, numa0" in str(found["message"])
    assert "has 4" in str(found["message"])
    code, findings = checked(4, "require")
    assert code == 0
    found = only(findings, "TRC332")
    assert found["severity"] == "warning"
    assert "only where all GPUs of numa0 or numa1 are free" in str(found["message"])
    code, findings = checked(3, "require")
    assert (code, [f for f in findings if f["code"] == "TRC332"]) == (0, [])


def test_c21_preferring_one_node_gives_cpus_of_both(tmp_path: Path) -> None:
    plan = build(tmp_path, two_sockets(), wide(5, "prefer"))
    (lane,) = plan["lanes"]
    cpus = CpuSet.parse(lane["cpus"])
    assert sorted(len(cpus & CpuSet.parse(side)) // 2 for side in SOCKETS) == [3, 4]


@pytest.mark.parametrize(
    ("fact", "value"), [("possible", "0-511"), ("allowed", "0-31"), ("present", "0-255")]
)
def test_x02_lists_made_for_a_larger_machine_are_cut_to_what_is_online(
    tmp_path: Path, fact: str, value: str
) -> None:
    text = small(8).replace('"isolated": ""', f'"isolated": "", "{fact}": "{value}"')
    assert value in text
    plan = build(tmp_path, text, decode(cores=4), intent("rest", REST))
    ids = [plan["machine"][key] for key in ("online", "effective")]
    ids += [part["cpus"] for key in ("lanes", "units", "bands") for part in plan[key]]
    ids += [plan["shared"], plan["housekeeping"]]
    assert all(CpuSet.parse(cpus) <= CpuSet.parse("0-15") for cpus in ids)
    assert plan["machine"]["effective"] == "0-15"


REST = """
workload: {match: [{comm: rest}]}
keep: interactive
lane: {cores: rest}
"""


def test_x04_without_cache_ids_cores_are_chosen_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = node([{"cpus": "0-7", "numa": 0}], [], online="0-7", llcs={}, numa={0: "0-7"})
    plan = build(tmp_path, text, decode("prefer: [same-llc]"))
    (lane,) = plan["lanes"]
    assert (lane["cores"], plan["machine"]["llcs"]) == (2, [])
    said = [(row["about"], row["kind"]) for row in plan["degradations"]]
    assert said == [("decode", "same-llc")]
    root = write(
        tmp_path / "hard",
        {"nodes/box.yaml": text, "intents/a.yaml": decode("require: [same-llc]")},
    )
    capsys.readouterr()
    code, findings = lint(capsys, root)
    assert code == 1
    message = str(only(findings, "TRC400")["message"])
    assert "which cores share a last-level cache is not known" in message


@pytest.mark.parametrize("cores", [3, 4, 6])
def test_x11_three_gpus_of_which_two_are_on_the_other_node(tmp_path: Path, cores: int) -> None:
    work = intent(
        "decode",
        f"""
        workload: {{match: [{{comm: decode}}], gpus: all}}
        protect: all
        prefer: [gpu-local]
        lane: {{cores: {cores}}}
        """,
    )
    plan = build(tmp_path, two_sockets(1, 2), work)
    (lane,) = plan["lanes"]
    cpus = CpuSet.parse(lane["cpus"])
    left, right = (len(cpus & CpuSet.parse(side)) // 2 for side in SOCKETS)
    assert left + right == cores
    assert right >= 2 * left - 1  # divided 1:2, or as near to it as cores can be
    assert right > left or cores == 2
