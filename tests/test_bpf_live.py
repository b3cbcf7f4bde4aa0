"""The batches at work on the kernel of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.plan import NodePlan
from targets.bpf import TARGET
from tests.bpf_classify import NO_POLICY, classify, expected, load
from tests.bpf_eval import Thread, check, lpm_lookup
from tests.bpf_live import (
    Bpftool,
    active,
    check_slot,
    check_staged,
    outer_commands,
    private_bpffs,
    publish_and_flip,
    stage,
    stage_publish_flip_and_compare,
    unstage,
)
from tests.bpf_plans import RICH_RULES, THREADS, plan, rule

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "bpf-seeds.md"


@pytest.fixture
def bpftool(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Bpftool]:
    """bpftool on a bpf file system of this test's own, gone afterwards with all its maps."""
    with private_bpffs(tool, tmp_path / "bpffs") as mount:
        yield Bpftool(mount, tool("bpftool"))


def write(a_plan: NodePlan, directory: Path) -> Path:
    for artifact in TARGET.emit(a_plan):
        path = directory / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
    return directory / "bpf"


def document_of(bpf_dir: Path) -> Any:
    return json.loads((bpf_dir / "seed.json").read_text())


FULL = plan(
    [
        rule(n, n % 4, comm=f"c{n}*", cgroup="/".join(f"{n}-{d}" for d in range(3)))
        for n in range(256)
    ]
)


@pytest.mark.parametrize("a_plan", [plan(), plan(RICH_RULES), FULL], ids=["empty", "rich", "full"])
def test_stage_publish_flip(bpftool: Bpftool, tmp_path: Path, a_plan: NodePlan) -> None:
    stage_publish_flip_and_compare(write(a_plan, tmp_path / "node"), bpftool.bpffs)


def test_the_kernel_s_dump_classifies_like_the_plan(bpftool: Bpftool, tmp_path: Path) -> None:
    a_plan = plan(RICH_RULES)
    stage(bpftool, write(a_plan, tmp_path))
    staged = sorted((bpftool.bpffs / "tierc_stage").iterdir())
    dump = {path.name: bpftool.dump("pinned", str(path)) for path in staged}
    check(dump, a_plan, THREADS)


def test_the_kernel_s_trie_answers_as_the_evaluator(bpftool: Bpftool, tmp_path: Path) -> None:
    stage(bpftool, write(plan(RICH_RULES), tmp_path))
    path = bpftool.bpffs / "tierc_stage" / "comm"
    entries = bpftool.dump("pinned", str(path))
    answers = set()
    for name in (b"VLLM::EngineCor", b"VLLM::EngineCo", b"VLLM", b"W", b"stress-ng", b"irq/1", b""):
        for rubbish in (b"", b"xxxxxxxxxxxxxxx"):  # behind the NUL, as the kernel may leave it
            data = (name + b"\0" + rubbish)[:16].ljust(16, b"\0")
            answer = bpftool.lookup(path, b"\x80\0\0\0" + data)
            assert answer == lpm_lookup(entries, 128, data)
            answers.add(answer)
    assert len(answers) >= 5


def test_frozen_maps_refuse_changes(bpftool: Bpftool, tmp_path: Path) -> None:
    bpf_dir = write(plan(RICH_RULES), tmp_path)
    stage(bpftool, bpf_dir)
    document = document_of(bpf_dir)
    for table in document["tables"]:
        path = str(bpftool.bpffs / "tierc_stage" / table["name"])
        key = bytes([8 if table["type"] == "lpm_trie" else 0]) + bytes(table["keySize"] - 1)
        bytes_of_key = key.hex(" ").split()
        value = (b"\x01" * table["valueSize"]).hex(" ").split()
        update = ["map", "update", "pinned", path, "key", "hex", *bytes_of_key]
        done = bpftool.run(*update, "value", "hex", *value)
        assert (done.returncode != 0) == table["frozen"], table["name"]
        if table["frozen"]:
            assert "Operation not permitted" in done.stdout
    for table in document["tables"]:
        if table["frozen"] and table["type"] != "array":
            key = next(
                iter(bpftool.dump("pinned", str(bpftool.bpffs / "tierc_stage" / table["name"])))
            )
            done = bpftool.run(
                *f"map delete pinned {bpftool.bpffs}/tierc_stage/{table['name']} key hex".split(),
                *key.hex(" ").split(),
            )
            assert "Operation not permitted" in done.stdout


def test_another_seed_and_back(bpftool: Bpftool, tmp_path: Path) -> None:
    """Re-seed while one is in force, then roll back; the slot in force is never touched."""
    old = write(plan(RICH_RULES), tmp_path / "old")
    new = write(plan([rule(0, 3, comm="other*"), rule(1, 2, cgroup="z/**")]), tmp_path / "new")
    stage(bpftool, old)
    bpftool.batch(outer_commands(document_of(old)))
    publish_and_flip(bpftool, old, 1)
    unstage(bpftool)
    generation_of_old = active(bpftool)

    stage(bpftool, new)
    check_staged(bpftool, document_of(new))
    check_slot(bpftool, document_of(old), 1)
    publish_and_flip(bpftool, new, 0)
    check_slot(bpftool, document_of(old), 1)
    unstage(bpftool)
    assert active(bpftool) != generation_of_old

    bpftool.batch((old / "slot1" / "flip.batch").read_text())
    assert active(bpftool) == generation_of_old
    check_slot(bpftool, document_of(old), 1)

    stage(bpftool, new)
    with pytest.raises(AssertionError, match="that slot is in force"):
        publish_and_flip(bpftool, new, 1)
    publish_and_flip(bpftool, new, 0)


def test_a_batch_cut_short_leaves_the_active_slot_alone(bpftool: Bpftool, tmp_path: Path) -> None:
    old = write(plan(RICH_RULES), tmp_path / "old")
    new = write(FULL, tmp_path / "new")
    stage_publish_flip_and_compare(old, bpftool.bpffs)
    before = active(bpftool)
    (bpftool.bpffs / "tierc_stage").mkdir()
    lines = (new / "stage.batch").read_text().splitlines(keepends=True)
    bpftool.batch("".join(lines[:300]))
    with pytest.raises(AssertionError):
        check_staged(bpftool, document_of(new))
    # Publishing that goes through what is there and stops at the first map that is not.
    bpftool.batch((new / f"slot{1 - before[0]}" / "publish.batch").read_text())
    assert active(bpftool) == before
    check_slot(bpftool, document_of(old), before[0])
    unstage(bpftool)
    stage_publish_flip_and_compare(new, bpftool.bpffs)


def test_a_map_of_other_geometry_cannot_be_published(bpftool: Bpftool, tmp_path: Path) -> None:
    bpf_dir = write(plan(RICH_RULES), tmp_path)
    stage_publish_flip_and_compare(bpf_dir, bpftool.bpffs)
    text = (bpf_dir / "stage.batch").read_text()
    wrong = text.replace("type array key 4 value 152 ", "type array key 4 value 160 ")
    (bpftool.bpffs / "tierc_stage").mkdir()
    # The band's updates fail by their size and stop the batch, so make that map alone.
    bpftool.batch(re.search(r"^map create \S+/bands .*", wrong, re.M)[0])  # type: ignore[index]
    bands = f"{bpftool.bpffs}/tierc_stage/bands"
    done = bpftool.run(
        *f"map update pinned {bpftool.bpffs}/tierc_bands key hex 00 00 00 00 value pinned".split(),
        bands,
    )
    assert done.returncode != 0
    assert "Invalid argument" in done.stdout


def test_comparison_sees_one_wrong_byte(bpftool: Bpftool, tmp_path: Path) -> None:
    bpf_dir = write(plan(RICH_RULES), tmp_path)
    path = bpf_dir / "stage.batch"
    text = path.read_text()
    changed = text.replace("value hex 01 ", "value hex 03 ", 1)
    assert changed != text
    path.write_text(changed)
    with pytest.raises(AssertionError):
        stage_publish_flip_and_compare(bpf_dir, bpftool.bpffs)


def test_the_documented_sequence(bpftool: Bpftool, tmp_path: Path) -> None:
    """The shell of docs/bpf-seeds.md, run as it stands but for the directory."""
    text = DOCUMENT.read_text()
    blocks = dict(re.findall(r"^```sh\n# (\w+)[^\n]*\n(.*?)^```$", text, re.M | re.S))
    bpf_dir = write(plan(RICH_RULES), tmp_path)
    other = write(plan([rule(0, comm="other")]), tmp_path / "other")
    document = document_of(bpf_dir)

    def run(block: str, directory: Path) -> str:
        code = blocks[block].replace("/sys/fs/bpf", str(bpftool.bpffs))
        scripts = tmp_path / "moved" / block
        for path in sorted(directory.rglob("*.*")):
            target = scripts / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text().replace("/sys/fs/bpf/", f"{bpftool.bpffs}/"))
        search = f"{Path(bpftool.program).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", code],
            cwd=scripts,
            env=os.environ | {"PATH": search},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Error" not in done.stderr, done.stderr
        return done.stdout

    run("stage", bpf_dir)
    check_staged(bpftool, document)
    assert run("readback", bpf_dir).count('"frozen":1') == 9
    run("outer", bpf_dir)
    abi = bpftool.dump("pinned", str(bpftool.bpffs / "tierc_abi"))[bytes(4)]
    assert abi.hex() == document["abi"]["raw"]
    assert "54 49 52 43" in run("compare", bpf_dir)
    run("publish", bpf_dir)
    check_slot(bpftool, document, 1)
    assert active(bpftool) == bytes(8)
    run("flip", bpf_dir)
    assert active(bpftool).hex() == document["active"]["slots"][1]["raw"]
    run("unstage", bpf_dir)
    assert not (bpftool.bpffs / "tierc_stage").exists()

    stage_publish_flip_and_compare(other, bpftool.bpffs)
    stage(bpftool, bpf_dir)
    assert active(bpftool)[0] == 1
    publish_and_flip(bpftool, bpf_dir, 0)
    check_slot(bpftool, document_of(other), 1)
    run("rollback", other)
    assert active(bpftool).hex() == document_of(other)["active"]["slots"][1]["raw"]
    run("off", bpf_dir)
    assert active(bpftool) == bytes(8)


# --- a program in the kernel that classifies ---------------------------------------------------


def test_the_kernel_classifies_like_the_plan(
    bpftool: Bpftool, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Header, seed and batches together: maps made by an object, seeded by bpftool, looked up
    by a program in the kernel."""
    rich = plan(RICH_RULES)
    other = plan(
        [
            rule(7, 2, comm="V*"),
            rule(200, 3, cgroup="**/c/**"),
            rule(255, 0, cgroup=f"*/{'c' * 63}"),
        ],
        default_band=1,
    )
    threads = [
        # names of the right length to go wrong, and what lies behind a NUL
        Thread(b"VLLM", rubbish=b"EngineCor"),
        Thread(b"VLLM::EngineCor", b"python3"),
        Thread(b"x", b"py", (b"serving.scope",)),
        Thread(b"V", b"x", tuple(b"%d" % n for n in range(12))),
        Thread(b"V", b"x", (*(b"%d" % n for n in range(11)), b"c")),
        Thread(b"bash", b"x", (b"1", b"c" * 63)),
        Thread(b"bash", b"x", (b"1", b"c" * 64)),
        *[thread for thread in THREADS[::7] if len(thread.cgroup) <= 12],
    ]
    load(bpftool, tool("clang"), tmp_path)
    assert classify(bpftool, threads[:3], tmp_path / "run") == [NO_POLICY] * 3

    stage_publish_flip_and_compare_with_abi(bpftool, write(rich, tmp_path / "rich"))
    assert classify(bpftool, threads, tmp_path / "run") == expected(rich, threads)
    assert len(set(expected(rich, threads))) > 8

    stage_publish_flip_and_compare_with_abi(bpftool, write(other, tmp_path / "other"))
    assert classify(bpftool, threads, tmp_path / "run") == expected(other, threads)
    assert len(set(expected(other, threads))) == 4


def stage_publish_flip_and_compare_with_abi(bpftool: Bpftool, bpf_dir: Path) -> None:
    """As in bpf_live, for outer maps whose ABI record nobody has written yet."""
    abi = bytes.fromhex(document_of(bpf_dir)["abi"]["raw"])
    update = f"map update pinned {bpftool.bpffs}/tierc_abi key hex 00 00 00 00 value hex"
    bpftool.json(*update.split(), *abi.hex(" ").split())
    stage_publish_flip_and_compare(bpf_dir, bpftool.bpffs)


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("bands", "value 152", "value 160"),
        ("comm", "type lpm_trie key 20", "type lpm_trie key 24"),
        ("level", "entries 10", "entries 9"),
        ("cgroup", "flags 1", "flags 0"),
    ],
)
def test_maps_of_an_object_refuse_other_geometry(
    bpftool: Bpftool, tool: Callable[[str], str], tmp_path: Path, table: str, old: str, new: str
) -> None:
    """What the header says and what a seed makes must be one, or the kernel refuses."""
    load(bpftool, tool("clang"), tmp_path)
    stage = (write(plan(RICH_RULES), tmp_path) / "stage.batch").read_text()
    create = re.search(rf"^map create \S+/{table} .*", stage, re.M)
    assert create is not None
    assert old in create[0]
    (bpftool.bpffs / "tierc_stage").mkdir()
    pin = f"{bpftool.bpffs}/tierc_stage/{table}"
    publish = f"map update pinned {bpftool.bpffs}/tierc_{table} key hex 00 00 00 00 value pinned"
    for line, refused in ((create[0].replace(old, new), True), (create[0], False)):
        bpftool.batch(line + "\n")
        done = bpftool.run(*publish.split(), pin)
        assert (done.returncode != 0) == refused
        Path(pin).unlink()
