"""Built-in profiles, groups and ladder: the names of real processes reach the right stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest

from compiler import profiles
from compiler.model.base import NODE_STAGES, Stage
from compiler.model.profile import EngineProfile, Evidence, ProfileMatch
from compiler.patterns import COMM_BYTES, CmdlineRegex, Glob, contains, intersects, truncate_comm
from compiler.versions import intersects as versions_intersect
from compiler.versions import overlaps


@dataclass(frozen=True)
class Thread:
    comm: str
    leader: str | None = None  # None: the same
    cmdline: str = ""
    cgroup: str = "system.slice/docker-1.scope"
    kernel: bool = False


def reader(field: str, text: str) -> Glob | CmdlineRegex:
    if field == "cmdline":
        return CmdlineRegex.parse(text)
    return Glob.cgroup(text) if field == "cgroup" else Glob.comm(text)


def holds(match: ProfileMatch, thread: Thread) -> bool:
    comm = truncate_comm(thread.comm)
    has = {
        "comm": comm,
        "leaderComm": comm if thread.leader is None else truncate_comm(thread.leader),
        "kthread": comm,
        "cgroup": thread.cgroup,
        "cmdline": thread.cmdline,
    }
    if thread.kernel != ("kthread" in match.conditions):
        return False
    return all(reader(f, text).matches(has[f]) for f, text in match.conditions.items())


def stage_of(
    engine: str, version: str | None, parallel: int, thread: Thread, *, narrowed: bool = False
) -> Stage | None:
    """The stage whose rule is first in the overlap order: most fields, then comm before others."""
    profile = profiles.builtin_profiles()[engine].model
    rank = ("comm", "leaderComm", "cmdline", "cgroup")
    found = [
        (-len(one.match.conditions), min(map(rank.index, one.match.conditions)), stage)
        for stage, matches in profiles.stage_matches(
            profile, version, parallel, narrowed=narrowed
        ).items()
        for one in matches
        if holds(one.match, thread)
    ]
    assert len({stage for *order, stage in found if order == list(min(found)[:2])}) <= 1
    return min(found)[2] if found else None


SERVER = "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m"
SGLANG = "python3 -m sglang.launch_server --model-path m --tp 2"

# Process titles as the engines set them; the kernel's cut is made by the test.
NAMES: list[tuple[str, str | None, int, Thread, Stage | None]] = [
    # vLLM
    ("vllm", "0.24.0", 1, Thread("vllm", cmdline="/usr/bin/python3 /usr/bin/vllm serve m"), "api"),
    ("vllm", "0.9.0", 1, Thread("vllm"), "api"),
    ("vllm", "0.24.0", 1, Thread("python3", cmdline=SERVER), "api"),
    ("vllm", "0.6.6", 1, Thread("python3", cmdline=SERVER), "api"),
    ("vllm", "0.24.0", 1, Thread("python3", cmdline=SERVER.replace("-m ", "-u -m ", 1)), "api"),
    ("vllm", "0.24.0", 1, Thread("VLLM::APIServer_0"), "api"),
    ("vllm", "0.10.0", 1, Thread("VLLM::APIServer_0"), None),
    ("vllm", "0.22.0", 1, Thread("vllm-rs"), "api"),
    ("vllm", "0.21.0", 1, Thread("vllm-rs"), None),
    ("vllm", "0.24.0", 1, Thread("asyncio_0", leader="vllm"), "api"),
    ("vllm", "0.24.0", 1, Thread("VLLM::EngineCore"), "engine-step"),
    ("vllm", "0.24.0", 2, Thread("VLLM::EngineCore"), "engine-step"),
    ("vllm", "0.24.0", 2, Thread("VLLM::EngineCore_DP1"), "engine-step"),
    ("vllm", "0.10.1", 1, Thread("VLLM::DPEngineCore_0"), "engine-step"),
    ("vllm", "0.10.2", 1, Thread("VLLM::DPEngineCore_0"), None),
    ("vllm", "0.10.0", 1, Thread("VLLM::EngineCore"), None),
    ("vllm", None, 1, Thread("VLLM::EngineCore"), "engine-step"),
    ("vllm", "0.24.0", 1, Thread("EngineCoreOutputThread", "VLLM::EngineCore"), "engine-step"),
    ("vllm", "0.24.0", 1, Thread("EngineCoreOutputThread", "python3"), None),
    ("vllm", "0.24.0", 1, Thread("Thread-3 (process_input)", "VLLM::EngineCore"), "engine-step"),
    ("vllm", "0.11.0", 2, Thread("VLLM::Worker_TP0"), "worker"),
    ("vllm", "0.33.0", 8, Thread("VLLM::Worker_DP0_TP7_EP7"), "worker"),
    ("vllm", "0.33.0", 2, Thread("VLLM::Worker_PP1"), "worker"),
    ("vllm", "0.33.0", 1, Thread("VLLM::Worker_TP0"), None),
    ("vllm", "0.10.1", 2, Thread("VLLM::Worker_TP0"), None),
    (
        "vllm",
        "0.10.1",
        2,
        Thread("VLLM::EngineCore", cmdline="VLLM::EngineCore_TP1"),
        "worker",
    ),
    ("vllm", "0.33.0", 2, Thread("WorkerAsyncOutput", "VLLM::Worker_TP0"), "worker"),
    ("vllm", "0.33.0", 2, Thread("ray::RayWorkerWrapper"), "worker"),
    ("vllm", "0.24.0", 1, Thread("VLLM::DPCoordinator"), "dp-coordinator"),
    ("vllm", "0.33.0", 1, Thread("vllm-request-3", "vllm-rs"), None),
    ("vllm", "0.33.0", 1, Thread("vllm-request", "vllm-rs"), "tokenizer"),
    ("vllm", "0.33.0", 1, Thread("vllm-zmq-3", "vllm-rs"), "ipc"),
    ("vllm", "0.24.0", 1, Thread("ZMQbg/IO/0", "VLLM::EngineCore"), "ipc"),
    ("vllm", "0.24.0", 1, Thread("ZMQbg/Reaper", "vllm"), "ipc"),
    ("vllm", "0.24.0", 1, Thread("ZMQbg/IO/0", "python3", cmdline=SERVER), "ipc"),
    ("vllm", "0.24.0", 1, Thread("ZMQbg/IO/0", "jupyter-lab"), None),
    ("vllm", "0.24.0", 2, Thread("NCCL Progress 0", "VLLM::Worker_TP0"), "collective"),
    ("vllm", "0.24.0", 2, Thread("NCCL Progress 0", "python3"), None),
    # helpers with names of their own are left in the default tier
    ("vllm", "0.24.0", 2, Thread("pt_nccl_watchdg", "VLLM::Worker_TP0"), None),
    ("vllm", "0.24.0", 2, Thread("pt_nccl_heartbt", "VLLM::EngineCore"), None),
    ("vllm", "0.24.0", 1, Thread("cuda-EvtHandlr", "VLLM::EngineCore"), None),
    # strangers
    ("vllm", "0.24.0", 1, Thread("python3", cmdline="python3 -m http.server"), None),
    ("vllm", "0.24.0", 1, Thread("sh", cmdline=f"sh -c {SERVER}"), None),
    (
        "vllm",
        "0.24.0",
        1,
        Thread("python3", cmdline="python3 -m vllm.entrypoints.openai.api_server_old"),
        None,
    ),
    ("vllm", "0.24.0", 1, Thread("vllm", kernel=True), None),
    # SGLang
    ("sglang", "0.5.23", 1, Thread("sglang::scheduler"), "engine-step"),
    ("sglang", "0.5.23", 2, Thread("sglang::scheduler_TP1"), "engine-step"),
    ("sglang", "0.4.0", 1, Thread("sglang::scheduler"), None),
    ("sglang", "0.4.1", 1, Thread("sglang::detokenizer"), "detokenizer"),
    ("sglang", "0.5.2", 1, Thread("sglang::tokenizer_worker"), "tokenizer"),
    ("sglang", "0.5.1", 1, Thread("sglang::tokenizer_worker"), None),
    ("sglang", "0.4.2", 1, Thread("sglang::data_parallel_controller"), "dp-coordinator"),
    ("sglang", "0.5.2", 1, Thread("sglang::http_server"), "api"),
    ("sglang", "0.5.3", 1, Thread("sglang::http_server"), None),
    ("sglang", "0.5.5", 1, Thread("sglang"), "api"),
    ("sglang", "0.5.4", 1, Thread("sglang"), None),
    ("sglang", "0.3.6", 2, Thread("python3", cmdline=SGLANG), "api"),
    ("sglang", "0.5.23", 2, Thread("ZMQbg/IO/0", "sglang::scheduler_TP0"), "ipc"),
    ("sglang", "0.5.23", 2, Thread("NCCL Service 1", "sglang::scheduler_TP0"), "collective"),
    ("sglang", "0.5.23", 2, Thread("pt_nccl_watchdg", "sglang::scheduler_TP0"), None),
]


@pytest.mark.parametrize(("engine", "version", "parallel", "thread", "stage"), NAMES)
def test_names_reach_their_stage(
    engine: str, version: str | None, parallel: int, thread: Thread, stage: Stage | None
) -> None:
    assert stage_of(engine, version, parallel, thread) == stage


@pytest.mark.parametrize(("engine", "old"), [("vllm", "0.10.0"), ("sglang", "0.4.0")])
def test_before_titles_only_a_narrowed_intent_sees_the_children(engine: str, old: str) -> None:
    child = "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main(...)"
    thread = Thread("python3", cmdline=child)
    assert stage_of(engine, old, 2, thread) is None
    assert stage_of(engine, old, 2, thread, narrowed=True) == "engine-step"
    newest = profiles.builtin_profiles()[engine].model.spec.known[1]
    assert stage_of(engine, newest, 2, thread, narrowed=True) is None


@pytest.mark.parametrize(
    ("engine", "version", "parallel", "stage", "expected"),
    [
        ("vllm", "0.24.0", 1, "worker", ("engine-step",)),
        ("vllm", "0.24.0", 2, "worker", ("worker",)),
        ("vllm", "0.24.0", 1, "detokenizer", ("api",)),
        ("vllm", "0.24.0", 1, "tokenizer", ("api",)),
        ("vllm", "0.24.0", 1, "collective", ("engine-step",)),
        # NCCL's threads have names only with the variable set, so the worker may do it as well
        ("vllm", "0.24.0", 2, "collective", ("collective", "worker")),
        ("vllm", "0.33.0", 1, "tokenizer", ("tokenizer", "api")),
        ("vllm", "0.10.0", 1, "engine-step", ("api",)),
        ("vllm", "0.10.0", 2, "worker", ("worker", "api")),
        ("sglang", "0.5.23", 2, "worker", ("engine-step",)),
        ("sglang", "0.5.23", 1, "tokenizer", ("tokenizer", "api")),
        ("sglang", "0.4.0", 1, "detokenizer", ("api",)),
        ("sglang", "0.4.0", 1, "dp-coordinator", ("api",)),
    ],
)
def test_who_does_the_work_of_a_stage(
    engine: str, version: str, parallel: int, stage: Stage, expected: tuple[Stage, ...]
) -> None:
    profile = profiles.builtin_profiles()[engine].model
    matches = profiles.stage_matches(profile, version, parallel)
    assert profiles.carriers(profile, matches)[stage] == expected


def test_a_circle_of_stages_without_matchers_ends() -> None:
    profile = EngineProfile.model_validate(
        {
            "apiVersion": "tierc.dev/v1alpha1",
            "kind": "EngineProfile",
            "metadata": {"name": "x"},
            "spec": {
                "known": ("1", "2"),
                "paths": {"decode": ("api",)},
                "stages": {"api": {"inside": ("worker",)}, "worker": {"inside": ("api",)}},
            },
        }
    )
    matches = profiles.stage_matches(profile, None, 1)
    assert profiles.carriers(profile, matches) == {"api": (), "worker": ()}


def test_routes_lead_to_the_row_in_the_file() -> None:
    loaded = profiles.builtin_profiles()["vllm"]
    for matches in profiles.stage_matches(loaded.model, None, 2, narrowed=True).values():
        for one in matches:
            span = loaded.span(*one.route)
            assert span.path == "tierc:profiles/vllm.yaml"
            lines = profiles.builtin_lines(span.path)
            assert lines is not None
            text = "\n".join(lines[span.line - 1 : span.end_line])
            assert all(value in text for value in one.match.conditions.values())


# --- the documents -----------------------------------------------------------------------------


def test_names_of_documents() -> None:
    assert sorted(profiles.builtin_profiles()) == ["sglang", "vllm"]
    groups = profiles.builtin_groups()
    assert sorted(groups) == ["batch", "gpu-driver", "model-staging", "node-infra", "observability"]
    for name, loaded in {**profiles.builtin_profiles(), **groups}.items():
        assert loaded.name == name
    assert profiles.builtin_ladder().name == "default"


def test_documents_are_read_once_and_cannot_be_changed() -> None:
    assert profiles.builtin_profiles() is profiles.builtin_profiles()
    assert profiles.builtin_ladder() is profiles.builtin_ladder()
    with pytest.raises(TypeError):
        profiles.builtin_groups()["x"] = profiles.builtin_groups()["batch"]  # type: ignore[index]


def test_lines_only_of_built_in_files() -> None:
    lines = profiles.builtin_lines("tierc:profiles/groups/batch.yaml")
    assert lines is not None
    assert "kind: WorkloadGroup" in lines
    for path in ("profiles/vllm.yaml", "tierc:profiles/../codes/language.py", "tierc:", "a.yaml"):
        assert profiles.builtin_lines(path) is None


def test_paths_of_the_design() -> None:
    for loaded in profiles.builtin_profiles().values():
        spec = loaded.model.spec
        assert set(spec.paths) == {"decode", "stream", "ttft", "prefill", "collective"}
        decode = {"engine-step", "worker", "gpu-driver", "gpu-irq", "collective"}
        assert set(spec.paths["decode"]) == decode
        assert spec.paths["ttft"][0] == spec.paths["ttft"][-1] == "api"
        ttft = ["api", "tokenizer", "engine-step", "worker", "gpu-driver", "gpu-irq", "detokenizer"]
        seen = [stage for stage in spec.paths["ttft"] if stage in ttft]
        assert seen == [*ttft, "api"]
        assert not {"api", "tokenizer", "detokenizer"} & set(spec.paths["decode"])
        assert [s for s in spec.paths["stream"] if s != "ipc"] == ["detokenizer", "api"]


def test_sizes_of_lanes() -> None:
    vllm = profiles.builtin_profiles()["vllm"].model.spec.stages
    assert vllm["worker"].per_rank
    assert vllm["worker"].spins
    assert vllm["worker"].cores is not None
    assert (vllm["worker"].cores.min, vllm["worker"].cores.max) == (1, 1)
    scheduler = profiles.builtin_profiles()["sglang"].model.spec.stages["engine-step"]
    assert scheduler.per_rank
    assert scheduler.spins


def test_rows_lie_within_the_known_versions() -> None:
    for loaded in profiles.builtin_profiles().values():
        spec = loaded.model.spec
        rows = [match for stage in spec.stages.values() for match in stage.match]
        for row in (*rows, *spec.polling, *spec.knobs):
            assert overlaps(row.versions, spec.known), row


def test_knobs_that_work_against_a_lane_are_not_set() -> None:
    advice = {
        (name, knob.name): knob.advice
        for name, loaded in profiles.builtin_profiles().items()
        for knob in loaded.model.spec.knobs
    }
    assert advice["vllm", "NCCL_IGNORE_CPU_AFFINITY"] == "avoid"
    assert advice["vllm", "VLLM_USE_SPINLOOP_EXT"] == "avoid"
    assert advice["vllm", "VLLM_SLEEP_WHEN_IDLE"] == "set"
    assert advice["sglang", "--sleep-on-idle"] == "set"


def test_every_engine_version_has_one_statement_on_how_it_waits() -> None:
    waiting = {"vllm": ["0.9.0", "0.9.1", "0.18.0", "0.33.0"], "sglang": ["0.4.7", "0.4.8"]}
    for name, versions in waiting.items():
        polling = profiles.builtin_profiles()[name].model.spec.polling
        rings = [row for row in polling if "GPU" not in row.behaviour]
        for version in versions:
            assert sum(overlaps(row.versions, [version]) for row in rings) == 1, (name, version)


def test_ladder() -> None:
    tiers = {tier.name: tier for tier in profiles.builtin_ladder().model.spec.tiers}
    assert list(tiers) == [
        "critical", "latency", "interactive", "system", "normal", "background", "idle",
    ]  # fmt: skip
    latency = tiers["latency"]
    assert latency.model_dump(exclude={"name"}) == {
        "slice": 3_000_000,
        "weight": 1000,
        "share": 0,
        "preempt": True,
    }
    assert tiers["background"].share >= 50
    assert sum(tier.share for tier in tiers.values()) <= 900
    weights = [tier.weight for tier in tiers.values()]
    assert weights == sorted(weights, reverse=True)
    slices = [tier.slice for tier in tiers.values()]
    assert slices == sorted(slices)
    assert tiers["normal"].weight == 100
    assert not any(tiers[name].preempt for name in ("normal", "background", "idle"))


# --- groups ------------------------------------------------------------------------------------


def groups_of(thread: Thread) -> list[str]:
    return [
        name
        for name, loaded in profiles.builtin_groups().items()
        if any(holds(match, thread) for match in loaded.model.spec.match)
    ]


@pytest.mark.parametrize(
    ("thread", "group"),
    [
        (Thread("kubelet"), "node-infra"),
        (Thread("containerd-shim-runc-v2"), "node-infra"),
        (Thread("nvidia-device-plugin"), "node-infra"),
        (Thread("systemd-journald"), "node-infra"),
        (Thread("nvidia-persistenced"), "node-infra"),
        (Thread("nv-fabricmanager"), "node-infra"),
        (Thread("sshd-session"), "node-infra"),
        (Thread("k3s-server"), "node-infra"),
        (Thread("k0s"), "node-infra"),
        (Thread("cri-dockerd"), "node-infra"),
        (Thread("sshd-auth"), "node-infra"),
        (Thread("dcgm-exporter"), "observability"),
        (Thread("flb-pipeline"), "observability"),
        (Thread("otelcol-contrib"), "observability"),
        (Thread("vector-worker", "vector", cgroup="system.slice/vector.service"), "observability"),
        (Thread("huggingface-cli"), "model-staging"),
        (Thread("hf", cmdline="/usr/bin/python3 /usr/bin/hf download m"), "model-staging"),
        (Thread("rclone", cmdline="rclone copy a: b"), "model-staging"),
        (Thread("stress-ng-cpu"), "batch"),
        (Thread("make", cgroup="ci.slice/job-1.scope"), "batch"),
        (Thread("cc1", cgroup="system.slice/actions.runner.o-r.n.service"), "batch"),
        (Thread("Runner.Listener"), "batch"),
        (Thread("nvidia", kernel=True), "gpu-driver"),
        (Thread("UVM GPU1 BH", kernel=True), "gpu-driver"),
        (Thread("UVM global queue", kernel=True), "gpu-driver"),
        (Thread("irq/151-nvidia", kernel=True), "gpu-driver"),
        (Thread("irq/12345-nvidia", kernel=True), "gpu-driver"),
    ],
)
def test_node_software_is_in_its_group(thread: Thread, group: str) -> None:
    assert groups_of(thread) == [group]


@pytest.mark.parametrize(
    "thread",
    [
        *(Thread(name) for name in (
            "java", "python3", "node", "bash", "sh", "make", "ffmpeg", "nginx", "postgres",
            "vector", "alloy", "async", "hf", "rclone", "nvidia", "tritonserver", "server",
        )),
        Thread("rclone", cmdline="rclone mount a: /models"),
        Thread("hf", cmdline="./hf serve"),
        Thread("systemd", kernel=True),
        Thread("nvidia-modeset/", kernel=True),
        Thread("irq/151-eth0", kernel=True),
        Thread("kworker/0:1", kernel=True),
    ],
    ids=str,
)  # fmt: skip
def test_names_that_may_be_anybodys_are_in_no_group(thread: Thread) -> None:
    assert groups_of(thread) == []
    for engine in profiles.builtin_profiles():
        assert stage_of(engine, None, 2, thread) is None


def test_what_starts_other_processes_is_marked() -> None:
    spawns = {
        match.comm
        for match in profiles.builtin_groups()["node-infra"].model.spec.match
        if match.spawns
    }
    must = {
        "systemd", "sshd", "sshd-session", "kubelet", "containerd", "containerd-shim", "dockerd",
        "crio", "conmon", "runc", "cron", "crond", "k3s-server", "kubelite", "login",
    }  # fmt: skip
    assert must <= spawns


def test_only_the_driver_group_names_stages() -> None:
    for name, loaded in profiles.builtin_groups().items():
        for match in loaded.model.spec.match:
            if name == "gpu-driver":
                assert match.stage in NODE_STAGES
                irq = str(match.kthread).startswith("irq/")
                assert match.stage == ("gpu-irq" if irq else "gpu-driver")
            else:
                assert match.stage is None


# --- all matchers ------------------------------------------------------------------------------


def rows() -> Iterator[tuple[str, str, ProfileMatch]]:
    for name, profile in profiles.builtin_profiles().items():
        for stage, part in profile.model.spec.stages.items():
            for match in part.match:
                yield name, stage, match
    for name, group in profiles.builtin_groups().items():
        for match in group.model.spec.match:
            yield name, str(match.stage), match


ROWS = list(rows())


def test_every_pattern_can_match_and_none_matches_all() -> None:
    for owner, _, match in ROWS:
        for field, text in match.conditions.items():
            pattern = reader(field, text)
            assert not pattern.is_empty, (owner, text)
            assert not pattern.matches_all, (owner, text)
            if field in ("comm", "leaderComm", "kthread"):
                assert len(text.encode()) <= COMM_BYTES, text


def meets(one: ProfileMatch, other: ProfileMatch) -> bool:
    """Whether a thread may satisfy both, as far as the fields that both constrain can tell."""
    if ("kthread" in one.conditions) != ("kthread" in other.conditions):
        return False
    common = one.conditions.keys() & other.conditions.keys()
    return bool(common) and all(
        intersects(reader(f, one.conditions[f]), reader(f, other.conditions[f])) for f in common
    )


def refines(one: ProfileMatch, other: ProfileMatch) -> bool:
    """Whether ``one`` comes first wherever both hold: more fields, or the same and narrower."""
    mine, theirs = one.conditions, other.conditions
    if not theirs.keys() <= mine.keys():
        return False
    inside = all(contains(reader(f, theirs[f]), reader(f, mine[f])) for f in theirs)
    return inside and mine != theirs


def test_matchers_of_different_owners_never_meet() -> None:
    for (owner, _, one), (other_owner, _, other) in combinations(ROWS, 2):
        if owner == other_owner or one.generic or other.generic:
            continue
        assert not meets(one, other), (owner, one.conditions, other_owner, other.conditions)


def test_matchers_of_different_stages_meet_only_in_order() -> None:
    for (owner, stage, one), (other_owner, other_stage, other) in combinations(ROWS, 2):
        if owner != other_owner or stage == other_stage or not meets(one, other):
            continue
        if not versions_intersect(one.versions, other.versions):
            continue
        if None not in (one.parallel, other.parallel) and one.parallel != other.parallel:
            continue
        more = one.conditions.keys() > other.conditions.keys()
        fewer = one.conditions.keys() < other.conditions.keys()
        assert more or fewer or refines(one, other) or refines(other, one), (one, other)


def test_no_row_is_written_twice() -> None:
    seen = [
        (owner, stage, tuple(match.conditions.items()), match.versions, match.parallel)
        for owner, stage, match in ROWS
    ]
    assert len(set(seen)) == len(seen)


def test_documentation_names_every_key_of_a_row() -> None:
    text = (Path(__file__).parent.parent / "docs" / "profiles.md").read_text()
    for name, field in ProfileMatch.model_fields.items():
        assert f"| `{field.alias or name}` |" in text
    for word in get_args(Evidence):
        assert f"`{word}` (" in text
