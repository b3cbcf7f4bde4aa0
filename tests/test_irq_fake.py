"""The irq scripts on pretended machines: what this one does not have.

A pretended /proc/irq is plain files, so that a write is read back as it was written.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.verify.records import set_interrupts
from tests.irq_host import GPU, NIC, IrqHost, irq_plan, place
from tests.taskset_live import shim, until

OTHER = "0000:03:00.0"


@pytest.fixture(params=["dash", "busybox"])
def host(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> IrqHost:
    return IrqHost(request.param, tool, tmp_path)


@pytest.fixture
def one_host(tool: Callable[[str], str], tmp_path: Path) -> IrqHost:
    """One shell, where the two cannot differ."""
    return IrqHost("dash", tool, tmp_path)


def nvidia(host: IrqHost, *numbers: int, cpus: str = "0-3", bdf: str = GPU) -> None:
    for place_, number in enumerate(numbers):
        host.irq(number, f" PCI-MSIX-{bdf}   {place_}-edge      nvidia", cpus, on="1")
    host.device(bdf, *numbers, irq=11)


def test_verify_reads_from_the_record_what_was_set(host: IrqHost) -> None:
    nvidia(host, 40, 41)
    host.irq(41, f" PCI-MSIX-{GPU}   1-edge      nvidia", "1")  # right already
    host.apply(place(GPU, "1"))
    assert set_interrupts(host.record()) == {(40, GPU)}


def test_msi_interrupts_of_a_device_are_set_and_no_others(host: IrqHost) -> None:
    nvidia(host, 40, 41)
    host.irq(11, "IO-APIC  11-fasteoi   nvidia")  # its line, unused with messages
    host.irq(50, "PCI-MSI-0000:09:00.0 0-edge nvme0q0")
    out = host.apply(place(GPU, "2-3"))
    assert host.all() == {11: "0-3", 40: "2-3", 41: "2-3", 50: "0-3"}
    assert "set 40 PCI-MSIX-0000:01:00.0 0-edge nvidia of 0000:01:00.0 (lane:serving): 0-3" in out
    assert "0-3 -> 2-3 (on 1)" in out
    assert (
        "0000:01:00.0 (gpu, lane:serving, CPUs 2-3): 2 interrupts, 2 to change, 0 already right"
        in out
    )
    assert "2 interrupts, 2 changed, 0 already right" in out
    name = "PCI-MSIX-0000:01:00.0_{}-edge_nvidia"
    assert host.record() == [f"{40 + n} {GPU} {name.format(n)} 0-3 2-3 - 2-3" for n in (0, 1)]


def test_a_second_run_changes_nothing_and_revert_restores(host: IrqHost) -> None:
    nvidia(host, 40, cpus="0-3")
    nvidia(host, 60, cpus="1,3", bdf=OTHER)
    rows = [place(GPU, "2-3"), place(OTHER, "0", where="housekeeping")]
    host.apply(*rows)
    before = host.record()
    out = host.apply(*rows)
    assert "2 interrupts, 0 changed, 2 already right" in out
    assert "set 40" not in out
    assert host.record() == before
    out = host.revert("--dry-run")
    assert "would restore 60" in out
    assert "2 would be restored" in out
    assert host.all() == {40: "2-3", 60: "0"}
    assert "2 restored, 0 left" in host.revert()
    assert host.all() == {40: "0-3", 60: "1,3"}
    assert host.record() == []
    assert "0 restored" in host.revert()


def test_a_dry_run_says_what_serves_them_now_and_touches_nothing(host: IrqHost) -> None:
    nvidia(host, 40)
    out = host.apply(place(GPU, "2-3"), options=["--dry-run"])
    assert "would set 40 PCI-MSIX-0000:01:00.0 0-edge nvidia" in out
    assert "0-3 -> 2-3 (on 1)" in out
    assert "dry run, nothing was touched: 1 interrupts, 1 would change" in out
    assert host.all() == {40: "0-3"}
    assert not host.shell.state.exists()


def test_a_line_is_used_where_there_are_no_messages(host: IrqHost) -> None:
    host.device(GPU, irq=16)
    host.irq(16, "IO-APIC  16-fasteoi   ehci_hcd:usb1, nvidia")
    host.device(NIC, irq=17)  # its driver has not asked for the line
    host.irq(17, None)
    host.device(OTHER, irq=0)
    out = host.apply(place(GPU, "2"), place(NIC, "3", kind="nic"), place(OTHER, "1"))
    assert host.all() == {16: "2", 17: "0-3"}
    for bdf in (NIC, OTHER):
        assert f"skipped, {bdf}: it has no interrupts now, its driver may not be loaded" in out


def test_a_shared_line_goes_where_the_first_device_says(host: IrqHost) -> None:
    host.irq(16, "IO-APIC  16-fasteoi   eth0, nvidia")
    host.device(GPU, irq=16)
    host.device(NIC, irq=16)
    out = host.apply(place(GPU, "2"), place(NIC, "3", kind="nic"))
    assert host.all() == {16: "2"}
    assert "interrupt 16 is shared by 0000:01:00.0 and 0000:02:00.0" in out
    host.apply(place(GPU, "2"), place(NIC, "3", kind="nic"))
    host.revert()
    assert host.all() == {16: "0-3"}


def test_interrupts_without_a_directory_are_found_by_name(host: IrqHost) -> None:
    texts = {
        60: "GICv3-0 8192 Edge mlx5_comp0@pci:0000:02:00.0",
        61: "ITS-PCI-MSIX-0000:02:00.0 0 Edge mlx5_async0",
        62: "ITS-PCI-MSIX-0000:02:00.1 0 Edge mlx5_async0",  # another function
        63: "Edge mlx5_comp0@pci:10000:02:00.0",  # another domain
        64: "Edge eth7-TxRx-0",
        65: "Edge eth7",
        66: "Edge eth70-TxRx-0",
        67: "Edge virtio3-rx.0, other",
        68: "Edge virtio31-rx.0",
        69: "Edge veth7",
        70: "Edge mlx5_comp0@pci:0000:02:00.01",
        71: "fasteoi eth7, other",
    }
    for number, text in texts.items():
        host.irq(number, text)
    host.device(NIC, net="eth7", virtio="virtio3")
    host.apply(place(NIC, "1", kind="nic"))
    out = host.apply(place(NIC, "1", kind="nic"))
    assert {n for n, cpus in host.all().items() if cpus == "1"} == {60, 61, 64, 65, 67, 71}
    assert "skipped" not in out.replace("0 skipped", "")


def test_a_device_that_is_not_there_is_said(one_host: IrqHost) -> None:
    out = one_host.apply(place(GPU, "1"))
    assert "skipped, 0000:01:00.0: no such device here" in out
    assert "0 interrupts, 0 changed" in out


def test_cpus_that_are_offline_are_left_out(host: IrqHost) -> None:
    nvidia(host, 40)
    nvidia(host, 60, bdf=OTHER)
    host.fake.cpus("0-2")
    out = host.apply(place(GPU, "2-3"), place(OTHER, "3"))
    assert host.all() == {40: "2", 60: "0-3"}
    assert "skipped, 0000:03:00.0: none of its CPUs 3 is online, but 0-2" in out
    assert "1 skipped" in out


def test_a_lane_that_grows_takes_its_interrupts_along(host: IrqHost) -> None:
    """What they had is a part of what they get: that alone is no reason to leave them there."""
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    host.apply(place(GPU, "1-3"))
    assert host.all() == {40: "1-3"}
    host.revert()
    assert host.all() == {40: "0-3"}


def test_what_the_kernel_makes_of_a_request_is_not_asked_for_again(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.apply(place(GPU, "2-3"))
    (one_host.proc / "irq/40/smp_affinity_list").write_text("2\n")  # a kernel that gives fewer
    record = one_host.shell.record
    record.write_text(record.read_text().replace(" 0-3 2-3 - 2-3", " 0-3 2 - 2-3"))
    assert "1 interrupts, 0 changed, 1 already right" in one_host.apply(place(GPU, "2-3"))
    assert one_host.all() == {40: "2"}
    one_host.revert()
    assert one_host.all() == {40: "0-3"}


def test_cpus_that_come_back_online_get_their_interrupts_again(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.fake.cpus("0-2")
    one_host.apply(place(GPU, "2-3"))
    assert one_host.all() == {40: "2"}
    one_host.fake.cpus("0-3")
    one_host.apply(place(GPU, "2-3"))
    assert one_host.all() == {40: "2-3"}


def test_when_our_cpus_went_away_the_original_comes_back(host: IrqHost) -> None:
    nvidia(host, 40, cpus="0-1")
    host.apply(place(GPU, "3"))
    host.fake.cpus("0-2")
    host.irq(40, " PCI-MSIX-0000:01:00.0   0-edge      nvidia", "0-2")  # as the kernel does
    host.apply(place(GPU, "3"))
    assert host.all() == {40: "0-1"}
    assert host.record() == []


def real(name: str) -> str:
    done = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_what_the_kernel_places_itself_is_a_report(host: IrqHost) -> None:
    """The texts are those of both errors that kernels have had; the write changes nothing."""
    nvidia(host, 40, 41)
    texts = {40: "Input/output error", 41: "Operation not permitted"}
    cases = "".join(
        f'*/irq/{n}/*) echo 0-3; echo "cat: write error: {text}" >&2; exit 1 ;;\n'
        for n, text in texts.items()
    )
    shim(
        host.shims,
        "cat",
        f'case $(readlink "/proc/$$/fd/1") in\n{cases}esac\nexec "{real("cat")}" "$@"',
    )
    out = host.apply(place(GPU, "2"))
    for number in texts:
        assert f"left to the kernel, which places it itself: interrupt {number} PCI-MSIX" in out
    assert "2 interrupts, 0 changed, 0 already right, 2 left to the kernel, 0 skipped" in out
    assert host.record() == []
    assert host.all() == {40: "0-3", 41: "0-3"}


def test_a_file_that_root_may_not_write_is_known_before(host: IrqHost) -> None:
    nvidia(host, 40, 41)
    (host.proc / "irq/40/smp_affinity_list").chmod(0o444)
    out = host.apply(place(GPU, "2"), options=["--dry-run"])
    assert "left to the kernel, which places it itself: interrupt 40" in out
    assert "would set 41" in out
    assert "would set 40" not in out


def test_an_interrupt_that_cannot_be_read_is_said(host: IrqHost) -> None:
    nvidia(host, 40, 41)
    (host.proc / "irq/40/smp_affinity_list").write_text("")
    out = host.apply(place(GPU, "2"))
    assert "skipped, interrupt 40 PCI-MSIX" in out
    assert "2 interrupts, 1 changed, 0 already right, 0 left to the kernel, 1 skipped" in out


def test_any_other_refusal_is_a_failure(host: IrqHost) -> None:
    """/dev/full fails as a CPU without a free vector does: No space left on device."""
    nvidia(host, 40, 41)
    full = host.proc / "irq/40/smp_affinity_list"
    full.unlink()
    full.symlink_to("/dev/full")
    # What is read of it has no end: answer for it.
    shim(
        host.shims,
        "xargs",
        "in=$(cat)\n"
        'case $in in *40/smp_affinity_list*) echo "40/smp_affinity_list:0-3" ;; esac\n'
        f"printf '%s\\n' \"$in\" | grep -v '^40/smp' | {real('xargs')} \"$@\"",
    )
    out = host.apply(place(GPU, "2"), code=1)
    assert "could not set 40" in out
    assert "the CPUs have no vector left" in out
    assert "1 changed" in out
    assert "1 failed" in out
    assert host.cpus(41) == "2"
    assert [line.split()[0] for line in host.record()] == ["41"]


@pytest.mark.parametrize("verb", ["apply", "revert"])
def test_without_names_nothing_is_changed(one_host: IrqHost, verb: str) -> None:
    """As in a container, where /proc/interrupts is there and empty: the record is kept."""
    nvidia(one_host, 40)
    one_host.apply(place(GPU, "2"))
    record = one_host.record()
    (one_host.proc / "interrupts").write_text("")
    out = one_host.apply(place(GPU, "3"), code=7) if verb == "apply" else one_host.revert(code=7)
    assert "interrupts cannot be read, or is empty; nothing was changed" in out
    assert one_host.all() == {40: "2"}
    assert one_host.record() == record


def test_the_hosts_interrupts_may_be_elsewhere(host: IrqHost) -> None:
    """In a pod those of its own /proc are hidden and read-only."""
    nvidia(host, 40)
    elsewhere = host.tmp / "mounted"
    elsewhere.mkdir()
    (host.proc / "irq").rename(elsewhere / "irq")
    (host.proc / "interrupts").rename(elsewhere / "interrupts")
    (host.proc / "interrupts").write_text("")
    host.shell.env["TIERC_IRQS"] = str(elsewhere)
    host.apply(place(GPU, "2"))
    assert (elsewhere / "irq/40/smp_affinity_list").read_text() == "2\n"
    host.revert()
    assert (elsewhere / "irq/40/smp_affinity_list").read_text() == "0-3\n"


def test_a_full_disk_costs_no_record(host: IrqHost) -> None:
    """sort of busybox writes what there is room for, and ends with 0."""
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    before = host.shell.record.read_bytes()
    shim(
        host.shims,
        "sort",
        'case $(readlink "/proc/$$/fd/1") in */state.new) exit 0 ;; esac\n'
        f'exec "{real("sort")}" "$@"',
    )
    nvidia(host, 40, 41, cpus="0-3")
    host.irq(40, " PCI-MSIX-0000:01:00.0   0-edge      nvidia", "2")
    assert "cannot write" in host.apply(place(GPU, "2"), code=7)
    assert host.shell.record.read_bytes() == before
    assert host.all() == {40: "2", 41: "0-3"}
    (host.shims / "sort").unlink()
    host.revert()
    assert host.all() == {40: "0-3", 41: "0-3"}


def test_someone_elses_value_is_left_by_revert(host: IrqHost) -> None:
    nvidia(host, 40, 41)
    host.apply(place(GPU, "2"))
    (host.proc / "irq/41/smp_affinity_list").write_text("1\n")
    out = host.revert()
    assert host.all() == {40: "0-3", 41: "1"}
    assert "left, changed by someone else since: interrupt 41" in out
    assert "1 restored, 1 left to who changed them since, 0 failed" in out
    assert host.record() == []


def test_someone_elses_value_is_taken_for_the_original_by_apply(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.apply(place(GPU, "2"))
    (one_host.proc / "irq/40/smp_affinity_list").write_text("1\n")
    one_host.apply(place(GPU, "2"))
    assert one_host.all() == {40: "2"}
    one_host.revert()
    assert one_host.all() == {40: "1"}


def test_a_driver_loaded_again_gets_its_cpus_under_new_numbers(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    host.gone(40)
    nvidia(host, 44, cpus="0-2")
    host.apply(place(GPU, "2"))
    assert host.all() == {44: "2"}
    assert [line.split()[0] for line in host.record()] == ["44"]
    host.revert()
    assert host.all() == {44: "0-2"}


def test_a_number_that_is_another_device_now_is_not_restored(host: IrqHost) -> None:
    """Its value equals ours by chance."""
    nvidia(host, 40, cpus="0-3")
    host.apply(place(GPU, "2"))
    host.gone(40)
    host.device(GPU, 44)
    nvidia(host, 44)
    host.device(OTHER, 40)
    host.irq(40, "PCI-MSI-0000:03:00.0 0-edge nvme0q1", "2")
    out = host.revert()
    assert host.all() == {40: "2", 44: "0-3"}
    assert "left, another interrupt now: 40 PCI-MSI-0000:03:00.0 0-edge nvme0q1" in out


def test_the_same_name_of_another_device_is_not_restored(host: IrqHost) -> None:
    host.device(GPU, 40)
    host.irq(40, "Edge nvidia")
    host.apply(place(GPU, "2"))
    host.device(GPU, 44)
    host.irq(44, "Edge nvidia")
    host.device(OTHER, 40)
    out = host.apply(place(GPU, "2"), place(OTHER, None))
    assert "left, another interrupt now: 40" in out
    host.revert()
    assert host.all() == {40: "2", 44: "0-3"}


def test_a_change_that_never_happened_is_not_undone(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    state = host.shell.record
    state.write_text(state.read_text().replace(" 0-3 2 -", " 0-3 2 0-3"))
    (host.proc / "irq/40/smp_affinity_list").write_text("0-3\n")
    assert "0 restored, 0 left" in host.revert()
    assert host.record() == []


def test_the_same_device_under_another_name_is_not_restored(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.apply(place(GPU, "2"))
    one_host.irq(40, " PCI-MSIX-0000:01:00.0   0-edge      vfio-msix", "2")
    assert "left, another interrupt now: 40" in one_host.revert()
    assert one_host.all() == {40: "2"}


def test_a_device_that_the_next_plan_leaves_gets_its_own_back(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    nvidia(one_host, 60, bdf=OTHER)
    one_host.apply(place(GPU, "2"), place(OTHER, "3"))
    one_host.apply(place(GPU, "1"), place(OTHER, None))
    assert one_host.all() == {40: "1", 60: "0-3"}
    one_host.revert()
    assert one_host.all() == {40: "0-3", 60: "0-3"}


def test_the_kill_switch_puts_back_and_applies_nothing(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    host.shell.etc.mkdir()
    (host.shell.etc / "disabled").touch()
    out = host.apply(place(GPU, "2"))
    assert "nothing is applied" in out
    assert "1 restored" in out
    assert host.all() == {40: "0-3"}
    (host.shell.etc / "disabled").unlink()
    host.apply(place(GPU, "2"))
    assert host.all() == {40: "2"}


def test_another_machine_is_refused_and_put_back(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    host.fake.cpus("0-4")
    out = host.apply(place(GPU, "2"), code=3)
    assert "the CPUs of this machine are not those of the plan" in out
    assert host.all() == {40: "0-3"}


def test_observe_only_reports_and_the_switch_puts_an_earlier_plan_back(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    script = host.script(irq_plan(place(GPU, "1"), mode="observe")) / "apply.sh"
    done = host.run(script)
    assert done.returncode == 0
    assert "only reports" in done.stdout
    assert "still have what an earlier plan gave them" in done.stderr
    assert host.all() == {40: "2"}
    host.shell.etc.mkdir()
    (host.shell.etc / "disabled").touch()
    assert host.run(script).returncode == 0
    assert host.all() == {40: "0-3"}


def test_a_run_killed_between_record_and_write_is_no_harm(host: IrqHost) -> None:
    nvidia(host, 40, 41, cpus="0-3")
    host.apply(place(GPU, "2"))
    state = host.shell.record
    head, first, second = state.read_text().splitlines()
    # The next plan's record was on disk, one interrupt written, the other not.
    state.write_text(f"{head}\n{first.rsplit(' ', 2)[0]} 1 2\n{second.rsplit(' ', 2)[0]} 1 2\n")
    (host.proc / "irq/40/smp_affinity_list").write_text("1\n")
    host.revert()
    assert host.all() == {40: "0-3", 41: "0-3"}


def test_damaged_lines_are_said_and_the_others_used(host: IrqHost) -> None:
    nvidia(host, 40)
    host.apply(place(GPU, "2"))
    with host.shell.record.open("a") as state:
        state.write("41 $(touch x) nvidia 0-3 2 - 2\nrubbish\n")
    out = host.revert(code=1)
    assert "2 damaged lines" in out
    assert host.all() == {40: "0-3"}
    assert (host.shell.state / "state.damaged").exists()


def test_a_state_of_another_kind_is_not_touched(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.shell.state.mkdir()
    one_host.shell.record.write_text("tierc-taskset-state-1 x\n")
    one_host.apply(place(GPU, "2"), code=6)
    one_host.revert(code=6)
    assert one_host.all() == {40: "0-3"}
    assert one_host.shell.record.read_text() == "tierc-taskset-state-1 x\n"


def test_a_state_of_an_earlier_boot_is_dropped(one_host: IrqHost) -> None:
    nvidia(one_host, 40, cpus="2")
    one_host.shell.state.mkdir()
    one_host.shell.record.write_text(
        f"tierc-irq-state-1 other-boot\n40 {GPU} PCI-MSIX-{GPU}_0-edge_nvidia 0-3 2 - 2\n"
    )
    assert "earlier boot" in one_host.revert()
    assert one_host.all() == {40: "2"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--nonsense"], 2),
        (["--state", "relative"], 2),
        (["--watch", "0"], 2),
        (["--watch", "x"], 2),
        (["--watch"], 2),
        (["--help"], 0),
    ],
)
def test_options(one_host: IrqHost, options: list[str], code: int) -> None:
    nvidia(one_host, 40)
    one_host.apply(place(GPU, "2"), code=code, options=options)
    assert one_host.all() == {40: "0-3"}


def test_not_root(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    shim(one_host.shims, "id", "echo 1000")
    assert "not root" in one_host.apply(place(GPU, "2"), code=5)
    one_host.apply(place(GPU, "2"), options=["--dry-run"])


def test_a_lock_that_is_held(one_host: IrqHost) -> None:
    nvidia(one_host, 40)
    one_host.shell.state.mkdir()
    stat = Path(f"/proc/{os.getpid()}/stat").read_text()
    start = stat.rpartition(") ")[2].split()[19]
    (one_host.shell.state / "lock").write_text(f"{os.getpid()} {start} -\n")
    one_host.apply(place(GPU, "2"), code=4)
    one_host.revert(code=4)
    assert one_host.all() == {40: "0-3"}


def test_watch_sees_a_driver_loaded_again(host: IrqHost) -> None:
    nvidia(host, 40)
    script = host.script(irq_plan(place(GPU, "2"))) / "apply.sh"
    host.shell.path = f"{host.shims}:{host.shell.path}"
    with host.shell.watch(script) as process:
        assert until(lambda: host.cpus(40) == "2")
        host.gone(40)
        nvidia(host, 47)
        assert until(lambda: host.cpus(47) == "2")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert host.all() == {47: "2"}  # nothing is put back by the end of it


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "quiet irqaffinity=0-1 ro",
            "the kernel runs with irqaffinity=0-1: a new interrupt starts",
        ),
        ("isolcpus=managed_irq,domain,2-3", "it keeps managed interrupts off these CPUs"),
        ("isolcpus=2-3 * quiet", None),
    ],
)
def test_the_kernels_command_line_is_reported(
    one_host: IrqHost, line: str, said: str | None
) -> None:
    nvidia(one_host, 40)
    (one_host.proc / "cmdline").write_text(line + "\n")
    out = one_host.apply(place(GPU, "2"))
    assert ("the kernel runs with" in out) == (said is not None)
    assert said is None or said in out


class TestIrqbalance:
    def test_one_that_was_not_told_is_a_warning(self, one_host: IrqHost) -> None:
        nvidia(one_host, 40)
        one_host.process(812, "irqbalance", "/usr/sbin/irqbalance", "--foreground")
        out = one_host.apply(place(GPU, "2"))
        assert "irqbalance (process 812) moves interrupts and has not been told" in out
        assert "install irqbalance-policy.sh" in out

    @pytest.mark.parametrize(
        "way", ["--policyscript=PATH", "--policyscript PATH", "-l PATH", "-lPATH"]
    )
    @pytest.mark.parametrize("kind", ["file", "directory", "in its root"])
    def test_one_with_our_policy_is_none(self, host: IrqHost, way: str, kind: str) -> None:
        nvidia(host, 40)
        where = host.script(irq_plan(place(GPU, "2")))
        path = where if kind == "directory" else where / "irqbalance-policy.sh"
        argv = way.replace("PATH", "/seen/there" if kind == "in its root" else str(path)).split(" ")
        process = host.process(812, "irqbalance", "/usr/sbin/irqbalance", *argv)
        if kind == "in its root":
            (process / "root/seen").mkdir(parents=True)
            (process / "root/seen/there").write_bytes(path.read_bytes())
        assert "irqbalance (process" not in host.apply(place(GPU, "2"))

    def test_a_policy_for_other_devices_is_a_warning(self, one_host: IrqHost) -> None:
        nvidia(one_host, 40)
        old = one_host.tmp / "old"
        text = (one_host.script(irq_plan(place(OTHER, "2"))) / "irqbalance-policy.sh").read_text()
        old.write_text(text)
        one_host.process(812, "irqbalance", "irqbalance", f"--policyscript={old}")
        assert "irqbalance (process 812)" in one_host.apply(place(GPU, "2"))

    def test_a_policy_that_a_pod_cannot_see_is_said_to_be_so(self, host: IrqHost) -> None:
        """/proc/PID/root is closed to a pod: nobody knows whether irqbalance was told."""
        nvidia(host, 40)
        policy = host.tmp / "only" / "there"
        process = host.process(812, "irqbalance", "irqbalance", f"--policyscript={policy}")
        out = host.apply(place(GPU, "2"))
        assert "has not been told" not in out
        assert f"asks {policy}, which cannot be seen from here" in out
        assert "see on the host whether it is irqbalance-policy.sh of this plan" in out
        (process / "root").mkdir()  # on the host one can look, and it is not there
        out = host.apply(place(GPU, "2"))
        assert "has not been told" in out
        assert "cannot be seen" not in out

    def test_interrupts_banned_one_by_one(self, one_host: IrqHost) -> None:
        nvidia(one_host, 40, 41)
        process = one_host.process(
            812, "irqbalance", "irqbalance", "--banirq=40", "-i", "41", "-i7"
        )
        assert "irqbalance (process" not in one_host.apply(place(GPU, "2"))
        (process / "cmdline").write_bytes(b"irqbalance\0--banirq=40\0")
        assert "irqbalance (process 812)" in one_host.apply(place(GPU, "2"))

    def test_nothing_is_said_without_interrupts_of_ours(self, one_host: IrqHost) -> None:
        one_host.process(812, "irqbalance", "irqbalance")
        assert "irqbalance (process" not in one_host.apply(place(GPU, "2"))
        assert "irqbalance (process" not in one_host.apply()


def test_names_from_the_kernel_are_only_text(host: IrqHost) -> None:
    host.device(GPU, 40)
    host.irq(40, "PCI-MSI 0-edge $(touch x)`id`\x1b[31m\\ 'n\"vidia")
    out = host.apply(place(GPU, "2"))
    assert host.all() == {40: "2"}
    assert "\x1b" not in out
    assert "set 40" in host.apply(place(GPU, "1"))
    host.revert()
    assert host.all() == {40: "0-3"}
    assert not list(host.tmp.rglob("x"))


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=4),
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=4, max_size=4),
    st.integers(0, 3),
)
def test_interrupts_stay_online_and_come_back(
    tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
    wanted: list[set[int]],
    had: list[set[int]],
    highest: int,
) -> None:
    host = IrqHost("dash", tool, tmp_path_factory.mktemp("host"))
    online = CpuSet(range(highest + 1))
    host.fake.cpus(str(online))
    rows = []
    for n, cpus in enumerate(wanted):
        bdf = f"0000:0{n}:00.0"
        nvidia(host, 40 + n, cpus=str(CpuSet(had[n])), bdf=bdf)
        rows.append(place(bdf, str(CpuSet(cpus))))
    before = host.all()
    host.apply(*rows)
    for n, cpus in enumerate(wanted):
        now, want = CpuSet.parse(host.cpus(40 + n)), CpuSet(cpus) & online
        assert now == (want or CpuSet(had[n]))
    after = host.all()
    host.apply(*rows)
    assert host.all() == after
    host.revert()
    for n, original in before.items():
        back = CpuSet.parse(host.cpus(n))
        gone = not CpuSet.parse(original) & online and after[n] != original
        assert back == (online if gone else CpuSet.parse(original))
