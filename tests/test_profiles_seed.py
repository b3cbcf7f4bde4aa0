"""Every vLLM, SGLang and driver name of the published seed data is known to the profiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from compiler import profiles
from tests.test_profiles import Thread, groups_of, stage_of

# The seed's words for stages; a process that does several things is known by its main stage.
STAGES = {
    "api-frontend": "api",
    "api-frontend+tokenizer": "api",
    "worker-launch": "worker",
    "scheduler+worker-launch+sampler": "engine-step",
    "engine-or-worker": "engine-step",
}


def first_version(text: str, newest: str) -> str:
    match = re.search(r"[0-9]+(\.[0-9]+)+", text)
    return match[0] if match else newest


def thread_of(entry: dict[str, Any], engine: str) -> Thread:
    pattern = entry["pattern"]
    if entry["kind"] == "cmdline":
        if pattern.startswith("VLLM::"):
            return Thread("VLLM::EngineCor", cmdline=f"{pattern}0")
        return Thread("python3", cmdline=f"python3 -m {pattern} --port 1")
    if entry["kind"] == "comm_prefix":
        leader = {"vllm": "VLLM::EngineCor", "sglang": "sglang::schedul"}[engine]
        return Thread(f"{pattern}X", leader if pattern.startswith("ZMQ") else None)
    return Thread(pattern)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_engine_names_of_the_seed(shared: Path, engine: str) -> None:
    text = (shared / "reference" / "engine-profiles.yaml").read_text()
    seed = YAML(typ="safe", pure=True).load(text)
    newest = profiles.builtin_profiles()[engine].model.spec.known[1]
    checked = 0
    for entry in seed["engines"][engine]["entries"]:
        if entry["kind"] == "cgroup":
            continue
        version = first_version(entry.get("versions", "*"), newest)
        parallel = 2 if "worker" in entry["stage"] else 1
        found = stage_of(engine, version, parallel, thread_of(entry, engine))
        assert found == STAGES.get(entry["stage"], entry["stage"]), entry
        checked += 1
    assert checked >= 6


def test_driver_names_of_the_seed(shared: Path) -> None:
    text = (shared / "reference" / "engine-profiles.yaml").read_text()
    seed = YAML(typ="safe", pure=True).load(text)
    for entry in seed["gpu"]["entries"]:
        pattern = entry["pattern"].replace("*", "12")
        if entry["stage"] not in ("gpu-irq", "gpu-driver") or entry["kind"] == "hardirq":
            continue
        expected = [] if pattern == "nvidia-modeset/" else ["gpu-driver"]  # displays only
        assert groups_of(Thread(pattern, kernel=True)) == expected, entry
