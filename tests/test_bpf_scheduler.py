"""The scheduler's object, as far as a kernel without sched_ext can tell; the rest is the lab's."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from targets.bpf.layout import TABLES

ROOT = Path(__file__).resolve().parent.parent
BPF = ROOT / "bpf"
FLAGS = ["-Wall", "-Wextra", "-Werror", "-O2"]
TARGET = ["-target", "bpf", "-mcpu=v3", "-g"]


@pytest.fixture(scope="module")
def types(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Type information of the object, compiled without a warning."""
    target = tmp_path_factory.mktemp("object") / "tierc.bpf.o"
    source = BPF / "tierc.bpf.c"
    subprocess.run([tool("clang"), *TARGET, *FLAGS, "-c", source, "-o", target], check=True)
    dump = [tool("bpftool"), "-j", "btf", "dump", "file", target]
    done = subprocess.run(dump, capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stdout)["types"]
    return found


def variables(types: list[Any], section: str) -> set[str]:
    names = {one["id"]: one["name"] for one in types}
    (found,) = (one for one in types if one["kind"] == "DATASEC" and one["name"] == section)
    return {names[var["type_id"]] for var in found["vars"]}


def test_the_maps_that_others_open_by_name(types: list[Any]) -> None:
    maps = variables(types, ".maps")
    assert {table.outer for table in TABLES} < maps
    state = (BPF / "tierc_state.h").read_text()
    told = set(re.findall(r'#define TIERC_MAP_\w+ "(\w+)"', state))
    assert told == {
        "tierc_counters",
        "tierc_exit",
        "tierc_knobs",
        "tierc_stats",
        "tierc_threads",
    }
    assert told | {"tierc_active", "tierc_abi"} < maps


def test_it_is_one_scheduler_that_a_link_holds(types: list[Any]) -> None:
    assert variables(types, ".struct_ops.link") == {"tierc"}


def test_every_function_of_the_kernel_may_be_missing(types: list[Any]) -> None:
    """A strong one would keep the object from loading where it has another name."""
    text = (BPF / "tierc_bpf.h").read_text()
    assert "__attribute__((weak" in re.search(r"#define KFUNC .*", text)[0]  # type: ignore[index]
    names = {
        one["name"] for one in types if one["kind"] == "FUNC" and one.get("linkage") == "extern"
    }
    assert {"scx_bpf_dispatch", "scx_bpf_dsq_insert", "scx_bpf_consume"} <= names
    declared = set(re.findall(r"^KFUNC [\w\s]*?\*?(\w+)\(", text, re.M))
    assert names <= declared


def test_what_it_tells_compiles_for_user_space(tool: Callable[[str], str], tmp_path: Path) -> None:
    source = tmp_path / "state.c"
    source.write_text('#include "tierc_state.h"\nint main(void) { return TIERC_STATS != 65; }\n')
    program = tmp_path / "state"
    command = [tool("clang"), "-std=c11", *FLAGS, "-I", BPF, source, "-o", program]
    subprocess.run(command, check=True)
    subprocess.run([program], check=True)


def test_every_file_says_its_licence() -> None:
    files = [path for path in BPF.iterdir() if path.suffix in (".c", ".h")]
    assert len(files) >= 7
    for path in files:
        assert path.read_text().startswith("/* SPDX-License-Identifier: GPL-2.0-only */\n"), path
