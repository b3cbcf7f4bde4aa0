"""Random sets of intents that people might write for a machine, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from compiler.model.facts import NodeFacts
from tests.pair_seen import Seen

API = "tierc.dev/v1alpha1"
TIERS = ("critical", "latency", "interactive", "system", "normal", "background", "idle")
WORDS = (
    "gpu-local",
    "gpu-local",
    "nic-local",
    "same-llc",
    "performance",
    "efficiency",
    "whole-cores",
    "isolated",
)
PATHS = ("decode", "ttft", "prefill", "stream", "collective", "all")
VERSIONS = {
    "vllm": ("0.24.0", "0.11.0", "0.10.1", "0.9.0"),
    "sglang": ("0.5.2", "0.4.9", "0.5.6"),
}


@dataclass(frozen=True)
class Written:
    """The documents of one policy, as data."""

    project: dict[str, Any]
    documents: tuple[dict[str, Any], ...]
    """Intents and demands."""


def written(rng: Random, facts: NodeFacts) -> Written:
    """Write a policy of 1 to 8 intents for a machine."""
    seen = Seen(facts)
    count = rng.choice([1, 2, 2, 3, 3, 4, 5, 6, 8])
    room = max(1, len(seen.effective_cores) - 1)
    documents: list[dict[str, Any]] = []
    for i in range(count):
        documents += _intent(rng, seen, i, max(1, room // count))
    return Written(_project(rng), tuple(documents))


def _project(rng: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "enforce": [
            {"mode": rng.choice(["observe", "fallback", "fallback", "auto", "auto", "auto"])}
        ],
        "targets": rng.choice([{"taskset": {}}, {"bpf": {}}, *[{"taskset": {}, "bpf": {}}] * 3]),
    }
    if spec["enforce"][0]["mode"] == "auto":
        spec["enforce"][0]["acceptUnenforcedCpuLimits"] = rng.random() < 0.8
    if rng.random() < 0.1:
        spec["reserve"] = {"housekeeping": rng.choice([1, 1, 2, 4])}
    if rng.random() < 0.1:
        spec["onUnplaceable"] = "quarantine"
    return {"apiVersion": API, "kind": "Project", "spec": spec}


def _intent(rng: Random, seen: Seen, i: int, share: int) -> list[dict[str, Any]]:
    """Return an intent, and the demand it is measured by where it is."""
    name = f"i{i}"
    spec: dict[str, Any] = {}
    if rng.random() < 0.15:
        spec["nodes"] = rng.choice(
            [
                {"matchLabels": {"pool": "a"}},
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
                {"names": ["m"]},
                {"names": ["other"]},
            ]
        )
    kind = rng.choice(["engine", "engine", "engine", "match", "match", "match", "group"])
    if kind == "engine":
        spec["workload"] = _engine(rng, seen, i)
        spec["protect"] = _protect(rng)
    elif kind == "group":
        group = rng.choice(["node-infra", "observability", "model-staging", "batch", "batch"])
        spec["workload"] = {"group": group}
        _verb(rng, spec, background=group in ("batch", "model-staging"))
    else:
        spec["workload"] = {"match": _matches(rng, i)}
        _verb(rng, spec, background=rng.random() < 0.4)
    demands = _places(rng, seen, spec, name, share, demoted="demote" in spec)
    if rng.random() < 0.15:
        spec["precedence"] = rng.randint(-2, 5)
    if "protect" in spec and i and rng.random() < 0.12:
        spec["above"] = [f"i{rng.randrange(i)}"]
    if kind == "engine" and rng.random() < 0.2:
        spec["irqs"] = rng.choice(["lane", "housekeeping", "leave"])
    intent = {"apiVersion": API, "kind": "Intent", "metadata": {"name": name}, "spec": spec}
    return [intent, *demands]


def _engine(rng: Random, seen: Seen, i: int) -> dict[str, Any]:
    engine = rng.choice(["vllm", "sglang"])
    out: dict[str, Any] = {"engine": engine}
    if rng.random() < 0.8:
        out["version"] = rng.choice(VERSIONS[engine])
    gpus = [device for device in seen.gpus.values() if device.parent is None]
    out["tensorParallel"] = rng.choice([1, 1, 1, 2, 2, max(1, len(gpus)), 4])
    if rng.random() < 0.25:
        out["instances"] = rng.choice([1, 2, 3, 8])
    names = [text for device in gpus for text in (device.bdf, device.uuid) if text is not None]
    match rng.choice(["default"] * 4 + ["allocated", "all", "named", "named", "model"]):
        case "allocated" | "all" as word:
            out["gpus"] = word
        case "named" if names:
            out["gpus"] = rng.sample(names, rng.randint(1, min(4, len(names))))
        case "model" if gpus and gpus[0].model:
            out["gpus"] = [{"model": gpus[0].model.split()[-1]}]
    if rng.random() < 0.9:
        within = [f"serving-{i}.slice/**", f"system.slice/engine-{i}.service"]
        if seen.pods_root is not None:
            within.append(f"@pods/*/serve-{i}/**")
        out["cgroup"] = rng.choice(within)
    if rng.random() < 0.04:
        out["pods"] = {"namespace": f"ns{i}"}
    return out


def _matches(rng: Random, i: int) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for _ in range(rng.randint(1, 3)):
        row: dict[str, str] = {}
        if rng.random() < 0.6:
            row["comm"] = rng.choice([f"job{i}", f"job{i}*", f"w{i}-*", f"a?{i}x", "stress-ng*"])
        if rng.random() < 0.2:
            row["leaderComm"] = rng.choice([f"main{i}", f"python{i}*"])
        if rng.random() < 0.4 or not row:
            row["cgroup"] = rng.choice(
                [f"ci-{i}.slice/**", f"system.slice/x{i}.service", f"**/w{i}/**"]
            )
        if rng.random() < 0.05:
            row["cmdline"] = f"--role=r{i}"
        rows.append(row if rng.random() < 0.93 else {"kthread": f"kw{i}/*"})
    return rows


def _protect(rng: Random) -> Any:
    paths: list[Any] = rng.sample(PATHS, rng.choice([1, 1, 2]))
    if rng.random() < 0.3:
        paths[0] = {"path": paths[0], "tier": rng.choice(TIERS[:4])}
    if rng.random() < 0.1:
        paths = [{"stage": "engine-step"}]
    return "all" if rng.random() < 0.1 else paths


def _verb(rng: Random, spec: dict[str, Any], *, background: bool) -> None:
    if background:
        spec["demote"] = rng.choice(["background", "background", "idle"])
        return
    match rng.choice(["protect", "protect", "keep", "place"]):
        case "protect":
            tier = rng.choice(TIERS[:3])
            spec["protect"] = rng.choice(["all", [{"path": "all", "tier": tier}]])
        case "keep":
            spec["keep"] = rng.choice(TIERS[1:6])


def _places(
    rng: Random, seen: Seen, spec: dict[str, Any], name: str, share: int, *, demoted: bool
) -> list[dict[str, Any]]:
    """Say what its CPUs should be; most of those that are not demoted get a lane."""
    engine = "engine" in spec["workload"]
    if demoted and rng.random() < 0.8:
        if rng.random() < 0.6:
            spec["prefer"] = ["leftovers"]
        return []
    words = list(dict.fromkeys(rng.sample(WORDS, rng.choice([0, 0, 1, 1, 2, 3]))))
    if engine and "gpu-local" not in words and rng.random() < 0.5:
        words.insert(0, "gpu-local")
    if "performance" in words and "efficiency" in words:
        words.remove("efficiency")
    if not words and rng.random() < 0.25:
        spec[rng.choice(["prefer", "prefer", "require"])] = ["leftovers"]
        return []
    words = [word for word in words if seen.can(word) or rng.random() < 0.1]
    hard = rng.choice([0, 0, 0, 0, 1, 1, 2])
    if words[:hard]:
        spec["require"] = words[:hard]
    if words[hard:]:
        spec["prefer"] = words[hard:]
    if not words and rng.random() < 0.3:
        return []
    lane: dict[str, Any] = {}
    demands: list[dict[str, Any]] = []
    sized = rng.choice(["number", "number", "range", "range", "rest", "measured", "none"])
    if sized == "none" and not engine:
        sized = "number"
    low = rng.randint(1, max(1, share // 2))
    match sized:
        case "number":
            lane["cores"] = low
        case "range":
            lane["cores"] = {"min": low, "max": low + rng.randint(0, share)}
        case "rest":
            lane["cores"] = "rest"
        case "measured":
            lane["cores"] = "measured"
            demands = _demand(rng, name, low)
    if rng.random() < 0.2:
        lane["name"] = rng.choice(["x", "x", "y"])
        if rng.random() < 0.5 and lane["name"] == "x":
            lane["cores"] = 1 + share // 3  # so that those who join agree
    if rng.random() < 0.5:
        lane["share"] = rng.choice(["open", "guarded", "guarded", "exclusive"])
    if lane:
        spec["lane"] = lane
    return demands


def _demand(rng: Random, intent: str, low: int) -> list[dict[str, Any]]:
    p50 = round(rng.uniform(0, low), 2)
    spec = {
        "intent": intent,
        "cores": {"p50": p50, "p99": round(p50 + rng.uniform(0, low), 2)},
        "window": "600s",
        "spinSuspect": rng.random() < 0.05,
    }
    if rng.random() < 0.05:
        return []
    return [
        {"apiVersion": API, "kind": "Demand", "metadata": {"name": f"d-{intent}"}, "spec": spec}
    ]


def shuffled(rng: Random, documents: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the documents in another order."""
    return tuple(rng.sample(documents, len(documents)))
