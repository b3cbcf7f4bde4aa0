"""The scheduler of a node beside its seed, on real maps of this machine's kernel.

There is no sched_ext here: its state is pretended, the maps are not.  What the scheduler itself
would write (statistics, threads, how it ended) is written into maps of the geometry that
``bpf/tierc_state.h`` gives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.diagnostics import Severity
from compiler.plan import LeftOut, NodePlan
from compiler.report.verify_json import render_verify_json
from compiler.report.verify_text import render_verify_text
from compiler.verify import Verification, load_node_dir, statistics, verify
from compiler.verify.bpftool import parse_dump, parse_per_cpu
from tests.bpf_live import Bpftool, outer_commands, private_bpffs, publish_and_flip, stage, unstage
from tests.conftest import ROOT
from tests.taskset_plans import rule
from tests.verify_host import EVERY, KERNEL, LANE, OTHERS, Node, codes, found, irqs, kinds, only

RULES = (
    rule(0, LANE, comm="engine"),
    rule(1, OTHERS, comm="batch*", cgroup="a/**"),
    rule(2, EVERY, kthread="kw*"),
)
TARGETS = ("bpf", "taskset")


def loaded(node: Node, ops: str = "tierc_1", state: str = "enabled") -> None:
    node.write("sys/kernel/sched_ext/state", state + "\n")
    node.write("sys/kernel/sched_ext/root/ops", ops + "\n")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def run(node: Node, *, mode: str = "sched_ext", targets: tuple[str, ...] = TARGETS) -> Verification:
    return node.verify(*RULES, mode=mode, targets=targets)


# --- without maps ---------------------------------------------------------------------------------


def test_no_sched_ext_in_the_kernel(node: Node) -> None:
    told = only(run(node), "TRC733")
    assert told.message == "mode sched_ext, and this kernel has no sched_ext"
    assert told.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("state", "ops", "message"),
    [
        ("disabled", "", "mode sched_ext needs tierc's scheduler, and none is loaded"),
        (
            "enabled",
            "lavd_1.0",
            "mode sched_ext needs tierc's scheduler, and another scheduler is loaded: lavd_1.0",
        ),
    ],
)
def test_another_scheduler_or_none(node: Node, state: str, ops: str, message: str) -> None:
    loaded(node, ops, state)
    node.thread(10, "engine", allowed="1")
    result = run(node)
    assert only(result, "TRC733").message == message
    assert result.enforcer == "affinity"  # what is left is the taskset scripts
    assert kinds(result) == {10: "outside"}


def test_schedulers_that_the_mode_does_not_ask_for(node: Node) -> None:
    loaded(node, "lavd_1.0")
    assert only(run(node, mode="fallback"), "TRC733").severity is Severity.WARNING
    loaded(node, "tierc_1")
    told = only(run(node, mode="fallback", targets=("taskset",)), "TRC733")
    assert told.severity is Severity.ERROR
    assert told.message == "tierc's scheduler tierc_1 is loaded, though the plan's mode is fallback"
    node.disable()
    assert "though /etc/tierc/disabled exists" in only(run(node), "TRC733").message
    loaded(node, "lavd_1.0")
    assert not found(run(node), "TRC733")


def test_our_scheduler_on_another_machine(node: Node) -> None:
    loaded(node)
    directory = node.build(node.plan(*RULES, mode="sched_ext"), TARGETS)
    for cpu in (2, 3):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", "2-3\n")
    result = verify(load_node_dir(directory), node.root)
    assert codes(result) == {"TRC720", "TRC733"}
    assert only(result, "TRC733").message.endswith("though the plan is for another machine")


def test_no_seed_and_no_pins(node: Node) -> None:
    loaded(node)
    assert "there is no bpf/seed.json here" in only(run(node, targets=()), "TRC736").message
    told = only(run(node), "TRC736")
    assert told.message == ("maps of the scheduler could not be read: /sys/fs/bpf is not there")
    (node.root / "sys/fs/bpf").mkdir()
    assert "/sys/fs/bpf/tierc_active is not pinned" in only(run(node), "TRC736").message


def test_under_a_scheduler_affinity_may_only_not_contradict(node: Node) -> None:
    loaded(node)
    node.thread(10, "engine", allowed="0-3")  # the scheduler keeps it on 0
    node.thread(20, "engine", allowed="1-3")  # and cannot here
    node.thread(30, "batch", allowed="0-2")
    node.cgroup("a", 30)
    node.thread(40, "nobody", allowed="0-3", state="R", cpu=0)
    node.thread(50, "nobody", allowed="0-3", cpu=0)
    bands = [("0", 1), ("2-3", 2), ("0-3", 1), ("1-3", 1)]
    result = node.verify(*RULES, mode="sched_ext", targets=TARGETS, bands=bands)
    assert kinds(result) == {20: "pinned", 30: "pinned"}
    assert {one.severity for one in found(result, "TRC726")} == {Severity.ERROR}
    assert only(result, "TRC728").message == (
        "1 foreign thread runs now in guarded lane serving (CPUs 0)"
    )


def test_a_soft_domain_and_kernel_threads_are_not_contradicted(node: Node) -> None:
    loaded(node)
    node.thread(10, "engine", allowed="1-3")
    node.thread(20, "kworker/0", allowed="1", flags=KERNEL)
    rules = (rule(0, LANE, comm="engine"), rule(1, LANE, kthread="kworker/*"))
    assert kinds(node.verify(*rules, mode="sched_ext", targets=("bpf",))) == {10: "pinned"}
    bands = node.plan(*rules, mode="sched_ext").bands
    soft = tuple(band.model_copy(update={"hard": False}) for band in bands)
    result = node.verify(*rules, mode="sched_ext", targets=("bpf",), change={"bands": soft})
    assert kinds(result) == {}


def test_rules_the_seed_leaves_out_have_no_thread_under_the_scheduler(node: Node) -> None:
    loaded(node)
    node.thread(10, "a-b", allowed="0-3")
    left = {"bpf": (LeftOut(feature="match.comm.glob", unit="unit-0", rules=(0,), message="m"),)}
    full = node.plan(rule(0, LANE, comm="a*b"), rule(1, OTHERS, comm="a-b"), mode="sched_ext")
    view = full.model_copy(update={"rules": full.rules[1:]})
    directory = node.build(view, ("bpf",))
    data = full.model_copy(update={"left_out": left}).data()
    (directory / "plan.json").write_text(json.dumps(data))
    result = verify(load_node_dir(directory), node.root)
    assert {u.name: u.threads for u in result.units} == {"unit-0": 0, "unit-1": 1}
    assert (
        result.unused[0].reason == "bpf cannot match a thread name with a wildcard before its end"
    )


# --- real maps ------------------------------------------------------------------------------------


class Loaded:
    """A node whose seed is loaded into real maps below its root."""

    def __init__(self, node: Node, program: str, bpffs: Path) -> None:
        self.node = node
        self.tool = Bpftool(bpffs, program)
        self.directory = node.build(self.plan(), TARGETS)
        self.load(self.directory / "bpf", first=True)
        loaded(node)

    def plan(self) -> NodePlan:
        return self.node.plan(*RULES, mode="sched_ext")

    def load(self, bpf: Path, *, first: bool = False, slot: int = 1) -> None:
        stage(self.tool, bpf)
        if first:
            self.tool.batch(outer_commands(json.loads((bpf / "seed.json").read_text())))
        publish_and_flip(self.tool, bpf, slot)
        unstage(self.tool)

    def write(self, name: str, key: bytes, value: bytes) -> None:
        path = str(self.tool.bpffs / name)
        command = ["map", "update", "pinned", path, "key", "hex", *key.hex(" ").split()]
        self.tool.json(*command, "value", "hex", *value.hex(" ").split())

    def create(self, name: str, geometry: str) -> None:
        self.tool.json(*f"map create {self.tool.bpffs / name} {geometry} name {name}".split())

    def verify(self) -> Verification:
        return verify(load_node_dir(self.directory), self.node.root)


@pytest.fixture
def real(node: Node, tool: Callable[[str], str]) -> Iterator[Loaded]:
    (node.root / "sys/fs").mkdir(parents=True, exist_ok=True)
    with private_bpffs(tool, node.root / "sys/fs/bpf") as mount:
        yield Loaded(node, tool("bpftool"), mount)


def test_the_seed_in_force_matches(real: Loaded) -> None:
    result = real.verify()
    assert codes(result) <= {"TRC730", "TRC731"}
    document = json.loads((real.directory / "bpf/seed.json").read_text())
    seen = result.scheduler
    assert (seen.slot, seen.generation) == (1, document["active"]["slots"][1]["generation"])
    assert (seen.tables, seen.compared) == ((), 9)
    assert (result.enforcer, result.why) == ("scheduler", "tierc_1 is loaded")
    text = render_verify_text(result, color=False)
    assert "slot 1, generation" in text
    assert "9 of 9 tables as in the seed" in text
    shown = json.loads(render_verify_json(result))["scheduler"]
    assert (shown["slot"], shown["tables"], shown["bands"]) == (1, [], None)


def test_nothing_in_force(real: Loaded) -> None:
    real.write("tierc_active", bytes(4), bytes(8))
    assert only(real.verify(), "TRC735").message.startswith("no seed is in force")


def test_nothing_in_force_is_right_under_the_kill_switch(real: Loaded) -> None:
    real.write("tierc_active", bytes(4), bytes(8))
    real.node.disable()
    result = real.verify()
    assert not found(result, "TRC735")
    assert found(result, "TRC733")


def test_another_seed_in_force(real: Loaded) -> None:
    other = real.node.plan(rule(0, LANE, comm="other"), *RULES[1:], mode="sched_ext")
    elsewhere = Node.__new__(Node)
    elsewhere.__dict__.update(real.node.__dict__, tmp=real.node.tmp / "other")
    real.load(elsewhere.build(other, TARGETS) / "bpf", slot=0)
    told = only(real.verify(), "TRC735")
    assert "which is not this seed's: 2 tables differ" in told.message
    assert told.rows == (
        "comm: 1 missing and 1 not of the seed, first name engine",
        "head: 1 different, first " + told.rows[1].partition("first ")[2],
    )


def test_the_right_generation_with_other_content(real: Loaded) -> None:
    """Put a map with one byte changed into the slot in force, as nobody should."""
    path = real.tool.bpffs
    real.tool.json(
        *f"map create {path}/forged type array key 4 value 4 entries 256 name tierc.rules".split()
    )
    real.write("forged", (1).to_bytes(4, "little"), (2).to_bytes(4, "little"))
    real.tool.json(
        *f"map update pinned {path}/tierc_rules key hex 01 00 00 00 value pinned".split(),
        f"{path}/forged",
    )
    told = only(real.verify(), "TRC735")
    assert "has the generation of this seed and other content: 1 table differs" in told.message
    # Rule 1 has band 1 in the seed and 2 here; rule 2 has band 2 there and 0 here.
    assert told.rows[0].startswith("rules: 2 different, first ")


def test_an_empty_slot(real: Loaded) -> None:
    document = json.loads((real.directory / "bpf/seed.json").read_text())
    real.write("tierc_active", bytes(4), bytes.fromhex(document["active"]["slots"][0]["raw"]))
    told = only(real.verify(), "TRC735")
    assert len(told.rows) + told.more == 9
    assert "the slot holds no map" in told.rows[0]


def test_another_abi(real: Loaded) -> None:
    real.write("tierc_abi", bytes(4), b"TIRC" + bytes(60))
    result = real.verify()
    assert only(result, "TRC734").severity is Severity.ERROR
    assert result.scheduler.slot is None
    assert not found(result, "TRC735")


def test_another_bytes_of_active(real: Loaded) -> None:
    (real.tool.bpffs / "tierc_active").unlink()
    real.create("tierc_active", "type array key 4 value 4 entries 1")
    told = only(real.verify(), "TRC736")
    assert "tierc_active holds 4 bytes, not 8" in told.message


def stat(generation: int, *numbers: int) -> bytes:
    return statistics.STAT.pack(generation, *numbers)


def test_statistics_of_bands(real: Loaded) -> None:
    real.node.thread(10, "engine", allowed="0-3")
    real.node.thread(20, "batch", allowed="0-3")
    real.node.cgroup("a", 20)
    real.create("tierc_stats", "type percpu_array key 4 value 48 entries 65")
    generation = real.verify().scheduler.generation
    assert generation is not None
    # bpftool writes one value for every CPU; band 1 has one of an earlier generation.
    cpus = len(parse_per_cpu(json.dumps(real.tool.json(*_lookup(real, 0)))))
    real.write("tierc_stats", bytes(4), stat(generation, 2, 5_000_000, 40, 8_000_000, 900_000, 3))
    real.write("tierc_stats", (1).to_bytes(4, "little"), stat(generation - 2, 9, 9, 9, 9, 9, 9))
    result = real.verify()
    assert result.scheduler.bands is not None
    first, second, third = result.scheduler.bands
    assert (first.judged, first.run_ns, first.runs) == (2 * cpus, 5_000_000 * cpus, 40 * cpus)
    assert (first.wait_ns, first.wait_max_ns, first.preempts) == (
        8_000_000 * cpus,
        900_000,
        3 * cpus,
    )
    assert (second.judged, second.run_ns) == (0, 0)
    told = only(result, "TRC737")
    assert told.rows == ("band 1: 1 thread, judged 0 times; unit-1",)
    assert "0.900" in render_verify_text(result, color=False)
    assert third.band == 2


def _lookup(real: Loaded, band: int) -> list[str]:
    key = band.to_bytes(4, "little").hex(" ").split()
    return ["map", "lookup", "pinned", str(real.tool.bpffs / "tierc_stats"), "key", "hex", *key]


def test_the_record_of_threads(real: Loaded) -> None:
    for pid, name in ((10, "engine"), (20, "engine"), (30, "nobody"), (40, "nobody")):
        real.node.thread(pid, name)
    real.create("tierc_threads", "type lru_hash key 4 value 16 entries 16384")
    assert real.verify().scheduler.recorded == 0
    generation = real.verify().scheduler.generation
    assert generation is not None
    for tid, of, rule_, band in (
        (10, generation, 0, 0),
        (20, generation, 256, 2),
        (30, generation, 256, 2),
        (40, generation - 2, 0, 0),  # of an earlier policy
        (99, generation, 0, 0),  # gone
    ):
        value = statistics.THREAD.pack(of, rule_, band, 3)
        real.write("tierc_threads", tid.to_bytes(4, "little"), value)
    result = real.verify()
    assert result.scheduler.recorded == 4
    told = only(result, "TRC738")
    assert told.message.startswith("1 thread of 3 that the scheduler recorded have another rule")
    assert told.rows == ("20/20 engine: no rule, planned rule 0",)


def test_statistics_of_another_layout_leave_the_rest_standing(real: Loaded) -> None:
    real.create("tierc_stats", "type percpu_array key 4 value 40 entries 65")
    result = real.verify()
    assert "tierc_stats has values of 40 bytes, not 48" in only(result, "TRC736").message
    assert result.scheduler.tables == ()


def test_how_the_scheduler_ended(real: Loaded) -> None:
    loaded(real.node, "", "disabled")
    assert only(real.verify(), "TRC733").rows == ()
    real.create("tierc_exit", "type array key 4 value 208 entries 1")
    assert only(real.verify(), "TRC733").rows == ()
    end = statistics.EXIT.pack(1026, 0, 0, b"runnable task stall", b"x[12] failed\x1b[0m")
    real.write("tierc_exit", bytes(4), end)
    told = only(real.verify(), "TRC733")
    assert told.rows == ("it ended (kind 1026): runnable task stall: x[12] failed\x1b[0m",)
    assert "\x1b" not in render_verify_text(real.verify(), color=False)
    assert json.loads(render_verify_json(real.verify()))["scheduler"]["end"]["kind"] == 1026


def test_without_privilege_it_says_that_maps_are_not_read(
    real: Loaded, tool: Callable[[str], str]
) -> None:
    """A process without capabilities that may not enter the directory of pins."""
    os.chmod(real.tool.bpffs, 0)
    drop = ("--inh-caps=-all", "--bounding-set=-all")
    tierc = [sys.executable, "-m", "compiler", "verify", str(real.directory)]
    done = subprocess.run(
        [tool("setpriv"), *drop, *tierc, "--root", str(real.node.root)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert "maps of the scheduler could not be read: /sys/fs/bpf can be entered by root only" in (
        done.stdout
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- what bpftool prints --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "{}",
        '[{"key": ["0x1"], "value": ["x"]}]',
        '[{"key": 5, "value": []}]',
        '[{"key": ["0x100"], "value": ["0x0"]}]',
        "[" * 100_000,
    ],
)
def test_a_dump_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="its output"):
        parse_dump(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"values": [1]}', '{"values": [{"value": 5}]}'])
def test_a_lookup_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="its output"):
        parse_per_cpu(text)


def test_with_type_information_the_bytes_count() -> None:
    row = {"key": ["0x01"], "value": ["0xff"], "formatted": {"key": 1, "value": {"a": 1}}}
    assert parse_dump(json.dumps([row])) == {b"\1": b"\xff"}


# --- the layout -----------------------------------------------------------------------------------

LAYOUT = r"""
#include <stdio.h>
#include <stddef.h>
#include "tierc_state.h"
#define F(t, f) printf("%s.%s %zu %zu\n", #t, #f, offsetof(struct t, f), sizeof(((struct t *)0)->f))
int main(void) {
  F(tierc_stat, generation); F(tierc_stat, judged); F(tierc_stat, run_ns); F(tierc_stat, runs);
  F(tierc_stat, wait_ns); F(tierc_stat, wait_max_ns); F(tierc_stat, preempts);
  F(tierc_thread, generation); F(tierc_thread, rule); F(tierc_thread, band); F(tierc_thread, cpu);
  F(tierc_exit, kind); F(tierc_exit, reserved); F(tierc_exit, code); F(tierc_exit, reason);
  F(tierc_exit, message);
  printf("%s %s %s %d\n", TIERC_MAP_STATS, TIERC_MAP_THREADS, TIERC_MAP_EXIT, TIERC_MAX_RULES);
  return 0;
}
"""


def test_the_layout_is_that_of_the_header(tool: Callable[[str], str], tmp_path: Path) -> None:
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text(LAYOUT)
    command = [tool("cc"), "-std=c11", "-I", str(ROOT / "bpf"), "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    *fields, names = subprocess.run(
        [str(program)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert names == "tierc_stats tierc_threads tierc_exit 256"
    assert statistics.NO_RULE == 256
    sizes: dict[str, list[tuple[int, int]]] = {}
    for line in fields:
        name, offset, size = line.split()
        sizes.setdefault(name.partition(".")[0], []).append((int(offset), int(size)))
    for name, record in (
        ("tierc_stat", statistics.STAT),
        ("tierc_thread", statistics.THREAD),
        ("tierc_exit", statistics.EXIT),
    ):
        assert sum(size for _, size in sizes[name]) == record.size
        values: list[Any] = [
            bytes([n]) * size if size > 8 else (n << 8 * (size - 1)) + n
            for n, (_, size) in enumerate(sizes[name], 1)
        ]
        packed = record.pack(*values)
        for n, (offset, size) in enumerate(sizes[name], 1):
            assert packed[offset] == n
            assert packed[offset + size - 1] == n


def test_irq_and_scheduler_do_not_disturb_each_other(node: Node) -> None:
    loaded(node, "", "disabled")
    result = node.verify(*RULES, mode="sched_ext", change={"irqs": (irqs("0000:01:00.0", "2"),)})
    assert result.interrupts == ()
