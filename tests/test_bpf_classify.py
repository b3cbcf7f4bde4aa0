"""The scheduler's own classification, in the kernel, against the compiler's first match."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from compiler import profiles
from compiler.model.profile import ProfileMatch
from compiler.patterns import Glob
from compiler.plan import Condition, NodePlan, Rule
from targets.bpf import TARGET
from targets.bpf.matchers import rule_form
from tests.bpf_classify import classify, expected, load, packet
from tests.bpf_eval import Thread
from tests.bpf_live import (
    Bpftool,
    private_bpffs,
    publish_and_flip,
    stage,
    unstage,
)
from tests.bpf_plans import plan, rule


@pytest.fixture
def bpftool(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Bpftool]:
    """bpftool on a bpf file system of this test's own, with the programs loaded."""
    with private_bpffs(tool, tmp_path / "bpffs") as mount:
        one = Bpftool(mount, tool("bpftool"))
        load(one, tool("clang"), tmp_path)
        yield one


def write(a_plan: NodePlan, directory: Path) -> Path:
    for artifact in TARGET.emit(a_plan):
        path = directory / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
    return directory / "bpf"


def put_in_force(bpftool: Bpftool, bpf_dir: Path, slot: int, *, in_place: bool = False) -> None:
    stage(bpftool, bpf_dir)
    document = json.loads((bpf_dir / "seed.json").read_text())
    abi = bytes.fromhex(document["abi"]["raw"]).hex(" ")
    bpftool.json(
        *f"map update pinned {bpftool.bpffs}/tierc_abi key hex 00 00 00 00 value hex".split(),
        *abi.split(),
    )
    if in_place:
        bpftool.batch((bpf_dir / f"slot{slot}" / "publish.batch").read_text())
        bpftool.batch((bpf_dir / f"slot{slot}" / "flip.batch").read_text())
    else:
        publish_and_flip(bpftool, bpf_dir, slot)
    unstage(bpftool)


# --- the names of the profiles -----------------------------------------------------------------


def profile_matches() -> Iterator[ProfileMatch]:
    for engine in profiles.builtin_profiles().values():
        yield from chain.from_iterable(one.match for one in engine.model.spec.stages.values())
    for group in profiles.builtin_groups().values():
        yield from group.model.spec.match


def profile_rules() -> Iterator[Rule]:
    """Every way of the profiles to recognise a thread that a seed can express, as one rule list."""
    number = 0
    for match in profile_matches():
        condition = Condition(
            comm=match.comm,
            leader_comm=match.leader_comm,
            kthread=match.kthread,
            cgroup=match.cgroup,
            cmdline=match.cmdline,
        )
        one = Rule(id=number, unit=f"unit-{number}", band=number % 4, match=condition)
        try:
            rule_form(one)
        except ValueError:
            continue
        yield one
        number += 1


def words(text: str | None, comm: bool = True) -> list[bytes]:
    """Names that a glob is about: as written, one that ``*`` stands for, and near misses."""
    if text is None:
        return []
    plain = text.replace("**", "x/y").replace("*", "7").replace("?", "z").encode()
    names = [plain, text.replace("*", "").encode(), plain[:-1], plain + b"q"]
    return [name[:15] for name in names] if comm else names


def profile_threads(rules: list[Rule]) -> list[Thread]:
    threads = []
    for one in rules:
        leaders = words(one.match.leader_comm) or [b"python3"]
        paths = words(one.match.cgroup, comm=False) or [b"kubepods.slice/a.scope"]
        for name in words(one.match.comm) or words(one.match.kthread) or [b"bash"]:
            threads.append(Thread(name, kernel=True))
            for leader in leaders:
                for path in paths:
                    parts = tuple(filter(None, path.split(b"/")))
                    threads.append(Thread(name, leader, parts))
    return threads


def test_every_name_of_every_profile(bpftool: Bpftool, tmp_path: Path) -> None:
    rules = list(profile_rules())
    assert len(rules) > 60
    a_plan = plan(rules)
    threads = list(dict.fromkeys(profile_threads(rules)))
    assert all(len(thread.cgroup) <= 12 for thread in threads)
    stage(bpftool, write(a_plan, tmp_path / "node"))
    unstage(bpftool)
    put_in_force(bpftool, tmp_path / "node" / "bpf", 0)
    wanted = expected(a_plan, threads)
    assert classify(bpftool, threads, tmp_path / "run") == wanted
    # Rules that a wider one before them overtakes aside, each has threads here.
    assert len({answer & 0xFFFF for answer in wanted}) > 0.7 * len(rules)
    names = [word for one in rules for word in words(one.match.comm)]
    assert any(not Glob.comm("VLLM*").matches(name) for name in names)


def test_every_number_that_a_rule_can_have(bpftool: Bpftool, tmp_path: Path) -> None:
    """The first of several that fit is found in every word of the set, at every bit."""
    rules = [rule(n, n % 4, comm=f"c{n}") for n in range(255)] + [rule(255, 2, comm="c*")]
    put_in_force(bpftool, write(plan(rules), tmp_path / "node"), 0)
    threads = [Thread(f"c{n}".encode()) for n in range(256)]
    wanted = [n % 4 << 16 | n + 1 for n in range(255)] + [2 << 16 | 256]
    assert classify(bpftool, threads, tmp_path / "run") == wanted


# --- what only the node knows -------------------------------------------------------------------


def test_a_group_that_the_node_fills(bpftool: Bpftool, tmp_path: Path) -> None:
    """Rule 0 asks for a group: no thread has it until the node says which cgroup is in it."""
    a_plan = plan([rule(0, 3, comm="engine"), rule(1, 2, comm="e*")])
    bpf_dir = write(a_plan, tmp_path / "node")
    text = (bpf_dir / "stage.batch").read_text()
    # Rule 0 no longer does without a group: its bit leaves the don't-care set of that dimension.
    line = "dontcare key hex 04 00 00 00 value hex 03 "
    assert line in text
    (bpf_dir / "stage.batch").write_text(text.replace(line, line.replace("hex 03 ", "hex 02 ")))
    stage(bpftool, bpf_dir)
    mount = bpftool.bpffs
    document = json.loads((bpf_dir / "seed.json").read_text())
    assert document["tables"]
    publish_and_flip_unchecked(bpftool, bpf_dir)
    thread = [Thread(b"engine")]
    assert classify(bpftool, thread, tmp_path / "run", 0x1234) == [2 << 16 | 2]
    group = "34 12 00 00 00 00 00 00"
    first = " ".join(["01"] + ["00"] * 31)
    for table, key, value in (
        ("groupvec", "05 00 00 00", first),
        ("group", group, "05 00 00 00"),
    ):
        bpftool.json(
            *f"map update pinned {mount}/tierc_stage/{table} key hex {key} value hex".split(),
            *value.split(),
        )
    assert classify(bpftool, thread, tmp_path / "run", 0x1234) == [3 << 16 | 1]
    assert classify(bpftool, thread, tmp_path / "run", 0x1235) == [2 << 16 | 2]


def publish_and_flip_unchecked(bpftool: Bpftool, bpf_dir: Path) -> None:
    """Put a seed in force that was changed behind the compiler's back."""
    bpftool.batch((bpf_dir / "slot0" / "publish.batch").read_text())
    bpftool.batch((bpf_dir / "slot0" / "flip.batch").read_text())


# --- exchange under load ------------------------------------------------------------------------


ALLOWED = {2 << 16 | 101, 0 << 16 | 201}
"""What the two seeds of `answers_meanwhile` say of its thread: the band, and the rule."""


def answers_meanwhile(bpftool: Bpftool, directory: Path, slots: tuple[int, int]) -> set[int]:
    """Exchange two seeds that agree in nothing while classification runs all the time.

    In the first, rules 0-99 are about other names and rule 100 has the thread; in the second, rule
    200 has it by another dimension.  Tables of both together give yet another answer.

    Returns:
        every answer that was given, a million of them and more.
    """
    one = plan([rule(n, 1, comm=f"c{n}") for n in range(100)] + [rule(100, 2, comm="decode")])
    two = plan(
        [rule(n, 3, cgroup=f"x{n}/**") for n in range(200)] + [rule(200, 0, leader_comm="lead*")]
    )
    thread = Thread(b"decode", b"leader", (b"a", b"b"))
    seeds = [write(one, directory / "one"), write(two, directory / "two")]
    put_in_force(bpftool, seeds[0], slots[0])
    data = directory / "packet"
    data.write_bytes(packet(thread))
    stop = threading.Event()
    failed: list[str] = []

    def classify_on_and_on() -> None:
        command = f"prog run pinned {bpftool.bpffs}/programs/tally data_in {data} repeat 200000"
        while not stop.is_set():
            done = bpftool.run(*command.split())
            if done.returncode:
                failed.append(done.stdout + done.stderr)
                return

    reader = threading.Thread(target=classify_on_and_on)
    reader.start()
    try:
        for turn in range(1, 13):
            put_in_force(bpftool, seeds[turn % 2], slots[turn % 2], in_place=slots[0] == slots[1])
    finally:
        stop.set()
        reader.join()
    assert not failed
    counts = bpftool.dump("pinned", str(bpftool.bpffs / "answers"))
    assert sum(int.from_bytes(value, "little") for value in counts.values()) > 1_000_000
    return {int.from_bytes(key, "little") for key in counts}


def test_no_thread_is_judged_by_half_of_two_seeds(bpftool: Bpftool, tmp_path: Path) -> None:
    assert answers_meanwhile(bpftool, tmp_path, (0, 1)) == ALLOWED


def test_in_one_slot_some_would_be(bpftool: Bpftool, tmp_path: Path) -> None:
    """The test above can fail: tables exchanged where they are in force give other answers."""
    assert answers_meanwhile(bpftool, tmp_path, (0, 0)) > ALLOWED
