"""The machine, the kill switch and the records of a pretended node beside its plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Severity
from compiler.verify import FactsError, Verification, load_node_dir, verify
from tests.taskset_plans import rule
from tests.verify_host import EVERY, LANE, Node, codes, found, irqs, only

NIC, GPU = "0000:01:00.0", "0000:41:00.0"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def device(node: Node, bdf: str, kind: str) -> None:
    """Write a PCI device, an NVIDIA GPU or a network card."""
    base = f"sys/bus/pci/devices/{bdf}"
    node.write(f"{base}/class", "0x030200\n" if kind == "gpu" else "0x020000\n")
    node.write(f"{base}/vendor", "0x10de\n" if kind == "gpu" else "0x15b3\n")
    node.write(f"{base}/device", "0x2330\n")


def again(node: Node) -> Verification:
    return verify(load_node_dir(node.tmp / "node"), node.root)


# --- CPUs ---------------------------------------------------------------------------------------


def test_another_machine_stops_everything_else(node: Node) -> None:
    node.thread(10, "engine", allowed="1")
    node.build(node.plan(rule(0, LANE, comm="engine")))
    for cpu in (2, 3):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", "2-3\n")
    result = again(node)
    assert codes(result) == {"TRC720"}
    told = only(result, "TRC720")
    assert told.rows == ("planned: core 2", "planned: core 3", "live: core 2-3")
    assert (result.machine.cpus, result.enforcer) == ("other", "nothing")
    assert (result.rows, result.threads.threads) == ((), 0)


def test_more_cpus_than_planned_are_another_machine(node: Node) -> None:
    small = node.machine()
    one = node.plan(on=small)
    directory = node.build(one)
    node.write("sys/devices/system/cpu/online", "0-4\n")
    node.write("sys/devices/system/cpu/cpu4/topology/core_cpus_list", "4\n")
    assert verify(load_node_dir(directory), node.root).machine.cpus == "other"


def test_fewer_cpus_in_other_cores_are_another_machine(node: Node) -> None:
    node.build(node.plan())
    node.write("sys/devices/system/cpu/online", "0-2\n")
    for cpu in range(3):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list", "0-2\n")
    assert codes(again(node)) == {"TRC721"}
    for cpu in (1, 2):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", "1-2\n")
    assert codes(again(node)) == {"TRC720"}


def test_what_the_facts_did_not_know_is_not_compared(node: Node) -> None:
    node.build(node.plan(on=node.machine().model_copy(update={"arch": None, "llcs": ()})))
    assert codes(again(node)) == set()
    for cpu in range(4):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list", f"{cpu}\n")
    assert codes(again(node)) == set()
    node.build(node.plan(on=node.machine()))
    for cpu in range(4):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list", "0-3\n")
    assert codes(again(node)) == {"TRC720"}


def test_no_cpus_at_all(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.build(node.plan())
    (tmp_path / "empty").mkdir()
    with pytest.raises(FactsError):
        verify(load_node_dir(tmp_path / "node"), tmp_path / "empty")


# --- devices ------------------------------------------------------------------------------------


def test_other_devices_are_a_warning(node: Node) -> None:
    machine = node.machine().model_copy(update={"gpus": (GPU,), "nics": (NIC,)})
    device(node, NIC, "nic")
    node.build(node.plan(on=machine))
    result = again(node)
    assert only(result, "TRC722").rows == (f"gone: gpu {GPU}",)
    assert result.worst() is Severity.WARNING
    device(node, GPU, "gpu")
    assert codes(again(node)) == set()
    assert again(node).machine.devices == "planned"
    device(node, "0000:42:00.0", "gpu")
    assert only(again(node), "TRC722").rows == ("new: gpu 0000:42:00.0",)


def test_a_type_of_device_the_plan_does_not_know_is_not_compared(node: Node) -> None:
    device(node, GPU, "gpu")
    device(node, NIC, "nic")
    node.build(node.plan(on=node.machine().model_copy(update={"gpus": None, "nics": (NIC,)})))
    assert again(node).machine.devices == "planned"
    node.build(node.plan(on=node.machine().model_copy(update={"gpus": None, "nics": None})))
    assert again(node).machine.devices == "unknown"


# --- kill switch and records ----------------------------------------------------------------------


def test_the_kill_switch_is_a_warning_and_records_left_behind_an_error(node: Node) -> None:
    node.disable()
    assert codes(node.verify()) == {"TRC723"}
    node.state("taskset", "10 100 10 0-3 0 -", "11 100 10 0-3 0 -")
    result = node.verify()
    told = only(result, "TRC724")
    assert told.severity is Severity.ERROR
    assert told.message == (
        "taskset has 2 recorded changes that it has not put back, though /etc/tierc/disabled exists"
    )
    assert result.recorded == {"taskset": 2}


def test_the_second_kill_switch_is_one_only_where_pods_run(node: Node) -> None:
    node.write("var/lib/tierc/disabled", "")
    assert codes(node.verify()) == set()  # no script of the host looks there
    node.write("var/lib/tierc/kubernetes/owner", "tierc-spark-a1b2-step1-x7k2p\n")
    result = node.verify()
    assert codes(result) == {"TRC723"}
    assert only(result, "TRC723").message == (
        "/var/lib/tierc/disabled exists: nothing of the plan is applied"
    )
    assert result.disabled


def test_records_of_a_plan_that_acts_are_normal(node: Node) -> None:
    node.state("taskset", "10 100 10 0-3 0 -")
    result = node.verify()
    assert codes(result) == set()
    assert result.recorded == {"taskset": 1}


def test_records_in_mode_observe_are_an_earlier_plan_s(node: Node) -> None:
    node.state("taskset", "10 100 10 0-3 0 -")
    assert only(node.verify(mode="observe"), "TRC724").severity is Severity.WARNING
    node.disable()
    assert only(node.verify(mode="observe"), "TRC724").severity is Severity.ERROR


def test_records_of_an_earlier_boot_and_of_targets_not_here_do_not_count(node: Node) -> None:
    node.disable()
    node.state("taskset", "10 100 10 0-3 0 -", boot="another")
    node.state("irq", "33 x 0-3 0 -")
    result = node.verify()
    assert result.recorded == {"taskset": 0}
    assert codes(result) == {"TRC723"}


def test_a_record_that_cannot_be_read_is_said(node: Node) -> None:
    (node.root / "var/lib/tierc/taskset/state").mkdir(parents=True)
    result = node.verify()
    assert result.recorded == {"taskset": None}
    assert only(result, "TRC736").severity is Severity.INFO


# --- interrupts -----------------------------------------------------------------------------------


def test_interrupts_of_planned_devices(node: Node) -> None:
    device(node, NIC, "nic")
    machine = node.machine()
    rows = (irqs(NIC, "2-3"), irqs(GPU, None, "gpu"))
    node.irq(30, NIC, "2", action="mlx5_comp0")
    node.irq(31, NIC, "2-3")
    node.irq(32, NIC, "0-3", action="evil\x1b[31m")
    node.irq(33, NIC, "1", mode=0o444)  # the kernel manages it: nobody can set it
    node.irq(40, GPU, "0")
    result = node.verify(on=machine, change={"irqs": rows}, targets=("taskset", "irq"))
    assert {one.irq: (one.right, one.managed) for one in result.interrupts} == {
        30: (True, False),
        31: (True, False),
        32: (False, False),
        33: (True, True),
    }
    told = only(result, "TRC732")
    assert told.severity is Severity.ERROR
    assert told.message == f"1 interrupt of {NIC} may go to other CPUs than 2-3"
    assert told.rows == ("irq 32 PCI-MSI 32-edge evil\\x1b[31m: allowed 0-3, planned 2-3",)


@pytest.mark.parametrize(
    ("targets", "mode"), [(("taskset",), "fallback"), (("taskset", "irq"), "observe")]
)
def test_interrupts_that_nothing_sets_are_a_note(
    node: Node, targets: tuple[str, ...], mode: str
) -> None:
    node.irq(30, NIC, "0")
    machine = node.machine()
    device(node, NIC, "nic")
    result = node.verify(
        on=machine, change={"irqs": (irqs(NIC, "2-3"),)}, targets=targets, mode=mode
    )
    assert only(result, "TRC732").severity is Severity.INFO


def test_an_interrupt_line_and_one_that_cannot_be_read(node: Node) -> None:
    device(node, NIC, "nic")
    machine = node.machine()
    node.write(f"sys/bus/pci/devices/{NIC}/irq", "17\n")
    node.affinity(17, "0", action="ahci, eth0")
    node.affinity(18, "0")
    change = {"irqs": (irqs(NIC, "2-3"),)}
    result = node.verify(on=machine, change=change, targets=("irq",))
    assert [one.irq for one in result.interrupts] == [17]
    assert only(result, "TRC732").rows == (
        "irq 17 PCI-MSI 17-edge ahci, eth0: allowed 0, planned 2-3",
    )
    node.write("proc/irq/17/smp_affinity_list", "nonsense\n")
    result = node.verify(on=machine, change=change, targets=("irq",))
    assert [one.message for one in found(result, "TRC736")] == ["1 interrupt could not be read"]
    node.write(f"sys/bus/pci/devices/{NIC}/irq", "0\n")
    assert node.verify(on=machine, change=change, targets=("irq",)).interrupts == ()


def test_an_offline_cpu_in_an_affinity_does_not_matter(node: Node) -> None:
    device(node, NIC, "nic")
    one = node.plan(rule(0, EVERY, comm="x"), change={"irqs": (irqs(NIC, "2-3"),)})
    directory = node.build(one, ("irq",))
    node.irq(30, NIC, "2-3")
    node.write("sys/devices/system/cpu/online", "0-2\n")
    for cpu in range(3):
        node.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list", "0-2\n")
    result = verify(load_node_dir(directory), node.root)
    assert [one.right for one in result.interrupts] == [True]


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("nvme 0000:01:00.0", True),
        ("x-0000:01:00.0,", True),
        ("0000:01:00.0a", False),
        ("a0000:01:00.0", False),
        ("virtio3-input.0", True),
        ("virtio3", True),
        ("virtio33-input.0", False),
        ("eth7-TxRx-1", True),
        ("eth7:rx", True),
        ("eth77-TxRx-1", False),
        ("ib0,", True),
        ("other", False),
    ],
)
def test_interrupts_called_after_a_device(node: Node, text: str, theirs: bool) -> None:
    device(node, NIC, "nic")
    machine = node.machine()
    node.write(f"sys/bus/pci/devices/{NIC}/virtio3/net/eth7/mtu", "")
    node.write(f"sys/bus/pci/devices/{NIC}/net/ib0/mtu", "")
    node.write(f"sys/bus/pci/devices/{NIC}/irq", "99\n")
    node.affinity(40, "0", action=text)
    result = node.verify(on=machine, change={"irqs": (irqs(NIC, "2-3"),)}, targets=("irq",))
    assert [one.irq for one in result.interrupts] == ([40] if theirs else [])


def test_an_interrupt_that_was_set_and_moved_since(node: Node) -> None:
    device(node, NIC, "nic")
    machine = node.machine()
    for number in (30, 31):
        node.irq(number, NIC, "0")
    node.irq(32, NIC, "2")
    rows = (f"{irq} {bdf} eth0 0-3 2-3 - 2-3" for irq, bdf in ((30, NIC), (31, GPU), (32, NIC)))
    node.state("irq", *rows, "junk", f"33 {NIC} eth0 0-3")
    result = node.verify(on=machine, change={"irqs": (irqs(NIC, "2-3"),)}, targets=("irq",))
    assert [one.moved for one in result.interrupts] == [True, False, False]
    assert only(result, "TRC732").rows[0].endswith("planned 2-3; irq/apply.sh had set it")
    assert result.recorded == {"irq": 5}
