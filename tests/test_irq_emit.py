"""What the irq target emits: scripts that shells accept, and what irqbalance must know."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.plan import LeftOut, NodePlan
from targets.irq.script import hex_mask
from tests.irq_host import GPU, NIC, files, irq_plan, place
from tests.taskset_host import FOUR
from tests.taskset_plans import plan

ROWS = (
    place(GPU, "0", lanes=["chat@numa0", "x"], intents=["chat", "x"]),
    place(NIC, "1,3", kind="nic", where="housekeeping", why="written"),
    place("0000:03:00.0", None, kind="nic", intents=[], why="unclaimed"),
    place("0000:04:00.0", None, kind="nic", why="not-near"),
)
PLANS = {
    "some": irq_plan(*ROWS),
    "none": irq_plan(),
    "left only": irq_plan(ROWS[2]),
    "observe": irq_plan(*ROWS, mode="observe"),
    "hostile": irq_plan(
        place(GPU, "0", lanes=["$(touch x)", "a b", "'\n`id`"], intents=['"\\', "END\nrm -r x"]),
        left_out=[LeftOut(feature="x", unit=None, rules=(), message="END\n$(touch x) `id` '")],
    ),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(
    "checker", [["dash", "-n"], ["busybox", "sh", "-n"], ["shellcheck", "-s", "sh"]]
)
def test_shells_and_shellcheck_accept_the_scripts(
    tool: Callable[[str], str], tmp_path: Path, name: str, checker: list[str]
) -> None:
    scripts = {path: text for path, text in files(PLANS[name]).items() if path.endswith(".sh")}
    assert len(scripts) == (2 if name == "observe" else 3)
    for path, text in scripts.items():
        script = tmp_path / os.path.basename(path)
        script.write_text(text)
        done = subprocess.run(
            [tool(checker[0]), *checker[1:], str(script)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reviewer_sees_what_goes_where_and_what_is_left() -> None:
    text = files(PLANS["some"])["irq/apply.sh"]
    table = text[text.index("# device") :].split("END", 1)[0].splitlines()
    assert [row.split() for row in table if row] == [
        ["#", "device", "kind", "CPUs", "where", "intents"],
        [GPU, "gpu", "0", "lane:chat@numa0,x", "chat,x"],
        [NIC, "nic", "1,3", "housekeeping", "chat"],
    ]
    assert "#   no intent speaks of it: 0000:03:00.0\n" in text
    assert "#   no CPU of the lane is near it: 0000:04:00.0\n" in text


def test_lines_stay_readable() -> None:
    many = [
        place(f"0000:{n:02x}:00.0", None, kind="nic", intents=[], why="unclaimed")
        for n in range(40)
    ]
    text = files(irq_plan(*many))["irq/apply.sh"]
    head = text[: text.index("set -u")]
    assert max(map(len, head.splitlines())) <= 100


def test_revert_is_the_same_for_every_plan() -> None:
    assert len({files(one)["irq/revert.sh"] for one in PLANS.values()}) == 1


def test_observe_has_nothing_to_install() -> None:
    assert sorted(files(PLANS["observe"])) == ["irq/apply.sh", "irq/revert.sh"]
    assert "install irqbalance-policy" not in files(PLANS["observe"])["irq/apply.sh"]


def test_hostile_names_run_as_text(tool: Callable[[str], str], tmp_path: Path) -> None:
    script = tmp_path / "irqbalance-policy.sh"
    for name, text in files(PLANS["hostile"]).items():
        (tmp_path / os.path.basename(name)).write_text(text)
    for argv in ([str(tmp_path / "apply.sh"), "--help"], [str(script), "/sys", "1"]):
        subprocess.run([tool("dash"), *argv], cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "broken",
    [
        irq_plan(place("0000:01:00.0; reboot", "0")),
        irq_plan(place("", "0")),
        irq_plan(place(GPU, "")),
        irq_plan().model_copy(update={"fingerprint": "0" * 64}),
        irq_plan().model_copy(update={"device_fingerprint": "0" * 64}),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(broken: NodePlan) -> None:
    with pytest.raises(ValueError, match=r"PCI address|no CPU|fingerprint"):
        files(broken)


# --- irqbalance -----------------------------------------------------------------------------------


def settings(one: NodePlan) -> dict[str, str]:
    """Return the variables of irqbalance.env, as systemd reads them."""
    rows = files(one)["irq/irqbalance.env"].splitlines()
    assert not any(row.endswith("\\") for row in rows)
    return dict(row.split("=", 1) for row in rows if row and not row.startswith("#"))


def on(isolated: str = "", nohz: str | None = None, share: str = "guarded") -> NodePlan:
    """Return a plan whose lane has CPU 0, on a machine of CPUs 0 to 3."""
    one = plan([], on=FOUR, bands=[("0", 1), ("0-3", 1)])
    lane = one.lanes[0].model_copy(update={"share": share})
    machine = one.machine.model_copy(
        update={
            "isolated": CpuSet.parse(isolated),
            "effective": CpuSet.parse("0-3") - CpuSet.parse(isolated),
            "nohz_full": None if nohz is None else CpuSet.parse(nohz),
        }
    )
    return one.model_copy(update={"lanes": (lane,), "machine": machine})


@pytest.mark.parametrize(
    ("one", "banned", "why"),
    [
        (on(), "0", "lane serving"),
        (on(share="exclusive"), "0", "lane serving"),
        (on(isolated="2-3"), "0,2-3", "lane serving, isolcpus"),
        (on(share="open", isolated="2-3"), "2-3", "isolcpus"),
        (on(share="open", nohz="3"), "3", "nohz_full"),
        (on(isolated="3", nohz="1,3"), "0-1,3", "lane serving, isolcpus, nohz_full"),
        # Nothing would be left: the default of irqbalance yields before the lanes do.
        (on(isolated="2-3", nohz="1"), "0,2-3", "lane serving, isolcpus"),
        (on(isolated="1-3"), "0", "lane serving"),
    ],
)
def test_closed_cpus_are_banned(one: NodePlan, banned: str, why: str) -> None:
    """Case: isolcpus=4-7 must not be lost when a list is written, and both forms agree."""
    assert settings(one)["IRQBALANCE_BANNED_CPULIST"] == banned
    text = files(one)["irq/irqbalance.env"]
    (mask,) = [row for row in text.splitlines() if row.startswith("#IRQBALANCE_BANNED_CPUS=")]
    assert CpuSet.parse_hex_mask(mask.split("=")[1]) == CpuSet.parse(banned)
    assert f"interrupts of other devices: {why}.\n" in text


def test_no_banned_cpu_is_no_empty_value() -> None:
    text = files(on(share="open"))["irq/irqbalance.env"]
    assert "BANNED_CPU" not in text
    assert settings(on(share="open")) == {}
    assert all(
        value for one in PLANS.values() if one.mode != "observe" for value in settings(one).values()
    )


def test_arguments_are_given_where_there_are_devices() -> None:
    script = '"--policyscript=/etc/tierc/irqbalance-policy"'
    assert settings(PLANS["some"])["IRQBALANCE_ARGS"] == script
    assert "IRQBALANCE_ARGS" not in settings(PLANS["left only"])


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [
        ("4-7", "f0"),
        ("0", "1"),
        ("31", "80000000"),
        ("32", "1,00000000"),
        ("0,56-63", "ff000000,00000001"),  # the example of irqbalance's manual
        ("64-67", "f,00000000,00000000"),
    ],
)
def test_masks(cpus: str, mask: str) -> None:
    assert hex_mask(CpuSet.parse(cpus)) == mask


@given(st.sets(st.integers(0, 300), min_size=1))
def test_masks_read_back(cpus: set[int]) -> None:
    assert CpuSet.parse_hex_mask(hex_mask(CpuSet(cpus))) == CpuSet(cpus)


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"]])
class TestPolicyScript:
    @pytest.fixture
    def ask(
        self, shell: list[str], tool: Callable[[str], str], tmp_path: Path
    ) -> Callable[..., tuple[int, str]]:
        (tmp_path / "interrupts").write_text(
            "        CPU0\n"
            " 24:  1  GICv3 8192 Edge mlx5_comp0@pci:0000:02:00.0\n"
            " 240: 1  GICv3 8193 Edge eth9\n"
            " 241: 1  GICv3 8194 Edge mlx5_comp0@pci:10000:02:00.0\n"  # another domain
            " 242: 1  ITS-PCI-MSIX-0000:02:00.0 0 Edge mlx5_async\n"
        )

        def run(path: str, irq: str, where: str = "policy") -> tuple[int, str]:
            script = tmp_path / where
            script.parent.mkdir(exist_ok=True)
            script.write_text(files(PLANS["some"])["irq/irqbalance-policy.sh"])
            done = subprocess.run(
                [tool(shell[0]), *shell[1:], str(script), path, irq],
                env={
                    "PATH": os.environ["PATH"],
                    "TIERC_PROC": str(tmp_path),
                    "TIERC_ETC": str(tmp_path / "etc"),
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.stderr == ""
            return done.returncode, done.stdout

        return run

    @pytest.mark.parametrize(
        ("path", "irq", "banned"),
        [
            (f"/sys/bus/pci/devices/{GPU}", "40", True),
            (f"/sys/devices/pci0000:00/0000:00:01.0/{NIC}", "41", True),
            (f"/sys/devices/pci0000:00/{NIC}/virtio0", "41", True),
            ("/sys/bus/pci/devices/0000:03:00.0", "42", False),  # left by the plan
            (f"/sys/bus/pci/devices/1{GPU}", "42", False),
            ("/sys", "24", True),
            ("/sys", "240", False),
            ("/sys", "241", False),
            ("/sys", "242", True),
            ("/sys", "4", False),
        ],
    )
    def test_answers(
        self, ask: Callable[..., tuple[int, str]], path: str, irq: str, banned: bool
    ) -> None:
        assert ask(path, irq) == (0, "ban=true\n" if banned else "")
        # In a directory of policies, 1 means: ask the next.
        assert ask(path, irq, "policy.d/tierc") == (
            0 if banned else 1,
            "ban=true\n" if banned else "",
        )

    def test_the_kill_switch_lifts_the_ban(
        self, ask: Callable[..., tuple[int, str]], tmp_path: Path
    ) -> None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/disabled").touch()
        assert ask(f"/sys/bus/pci/devices/{GPU}", "40") == (0, "")
