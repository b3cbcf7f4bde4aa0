"""bpf/load.sh killed or stopped on the way, and what the next one makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bpf_classify import expected
from tests.bpf_live import active
from tests.bpf_node import OTHER, SHELLS, THREADS, Node, emit, found, make_node
from tests.bpf_plans import RICH_RULES, plan, rule


@pytest.fixture
def node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    with make_node(tool, tmp_path) as one:
        yield one


def test_a_load_that_was_killed_is_no_obstacle(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    stage = node.bpftool.bpffs / "tierc_stage"
    create = f"map create {stage}/comm type array key 4 value 4 entries 1 name left"
    for said in ("is in force, in slot 0", "nothing was changed"):
        stage.mkdir()
        node.bpftool.json(*create.split())
        assert said in node.run(script)
        assert not stage.exists()
        assert node.answers() == expected(plan(RICH_RULES), THREADS)


def test_nobody_rolls_back_to_half_a_seed(node: Node, tmp_path: Path) -> None:
    """A loader and its bpftool are killed while a slot that held a seed is filled anew."""
    first, second = emit(OTHER, tmp_path / "first"), emit(plan(RICH_RULES), tmp_path / "second")
    third = emit(plan([rule(0, 2, comm="bash")]), tmp_path / "third")
    node.run(first / "load.sh")
    node.run(second / "load.sh")
    before = active(node.bpftool)
    (tmp_path / "die").touch()
    node.run(third / "load.sh", code=-9)
    (tmp_path / "die").unlink()
    assert active(node.bpftool) == before
    assert node.answers() == expected(plan(RICH_RULES), THREADS)
    assert "slot 0 holds no seed" in node.run(second / "load.sh", "--rollback", code=13)
    node.run(third / "load.sh")
    assert node.answers() == expected(plan([rule(0, 2, comm="bash")]), THREADS)
    node.run(third / "load.sh", "--rollback")
    assert active(node.bpftool) == before


# The calls of bpftool when the scheduler has to be attached and a seed loaded.
REGISTER, SLOTS, STAGE, PUBLISH, FLIP = range(1, 6)


def test_killed_before_and_after_every_call(node: Node, tmp_path: Path) -> None:
    """The loader and its bpftool: a whole seed is in force, and the next loader gets on."""
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    scx = node.sys / "kernel/sched_ext"
    work = f"""
      if [ "$1" = struct_ops ]; then
        echo tierc >'{scx}/root/ops'
        echo enabled >'{scx}/state'
      else
        '{node.program}' "$@"
      fi"""
    known = {False: expected(OTHER, THREADS), True: expected(plan(RICH_RULES), THREADS)}
    for call in range(REGISTER, FLIP + 1):
        for after in (False, True):
            node.run(old / "load.sh", "--quiet")
            before = active(node.bpftool)
            node.set_state("disabled")
            done = work if after else ""
            node.hook(f'if [ "$n" = {call} ]; then {done}\nkill -9 $loader; exit 1; fi')
            node.run(new / "load.sh", code=-9)
            node.hook("")
            flipped = call == FLIP and after
            assert (active(node.bpftool) != before) is flipped, (call, after)
            assert node.answers() == known[flipped], (call, after)
            said = node.run(new / "load.sh")
            assert ("the scheduler is attached" in said) is (call == REGISTER and not after)
            assert ("nothing was changed" in said) is flipped, (call, after)
            assert node.answers() == known[True]
            assert not (node.bpftool.bpffs / "tierc_stage").exists()
            # What --rollback finds is whole, or it finds nothing.
            node.run(new / "load.sh", "--rollback")
            assert node.answers() == known[False], (call, after)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_is_heeded_between_two_steps(node: Node, tmp_path: Path, shell: str) -> None:
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    node.run(old / "load.sh")
    before = active(node.bpftool)
    for call, signal in ((1, "TERM"), (2, "INT"), (3, "HUP")):  # all but attaching
        # Ctrl-C is for bpftool, too: then what is read back is nothing.
        for end in ("", "exit 130"):
            node.hook(f'if [ "$n" = {call} ]; then kill -{signal} $loader; {end}\nfi')
            said = node.run(new / "load.sh", code=14, shell=shell)
            assert said == "tierc: stopped by a signal; the seed that was in force stays so\n"
            assert active(node.bpftool) == before
            assert node.answers() == expected(OTHER, THREADS)
            assert not (node.bpftool.bpffs / "tierc_stage").exists()
            assert node.note("lock") is None
    node.hook('if [ "$n" = 4 ]; then kill -TERM $loader; fi')  # it is in force, so that is finished
    assert "is in force, in slot" in node.run(new / "load.sh", shell=shell)
    assert active(node.bpftool) != before
    node.hook('if [ "$n" = 2 ]; then kill -TERM $loader; fi')
    node.run(new / "load.sh", "--rollback", code=14, shell=shell)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


def test_a_signal_while_the_scheduler_is_attached(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.hook('if [ "$n" = 1 ]; then kill -INT $loader; exit 130; fi')
    said = node.run(script, code=14)
    assert said == "tierc: stopped by a signal; the seed that was in force stays so\n"
    assert not (node.bpftool.bpffs / "tierc_link").exists()
    node.hook('if [ "$n" = 1 ]; then kill -INT $loader; fi')
    assert "the scheduler is attached" in node.run(script, code=14)
    assert active(node.bpftool) == bytes(8)
    node.run(script)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_killed_loader_started_is_awaited(node: Node, tmp_path: Path, shell: str) -> None:
    """Only the script is killed, and its bpftool goes on: the next one works after it."""
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    node.run(old / "load.sh")
    go_on, sleep = tmp_path / "go-on", found("sleep")
    node.hook(f"""
      if [ "$n" = 4 ]; then
        kill -9 $loader
        turns=0
        until [ -e '{go_on}' ] || [ $turns -gt 2000 ]; do
          '{sleep}' 0.05
          turns=$((turns + 1))
        done
        echo late >>'{tmp_path}/order'
      fi""")
    node.run(new / "load.sh", code=-9, shell=shell)
    node.hook("")
    third = emit(plan([rule(0, 2, comm="bash")]), tmp_path / "third")
    node.command("sleep", f"echo sleep >>'{tmp_path}/order'")
    said = node.run(third / "load.sh", code=4, shell="dash")
    assert "of a script that was killed, is still at work" in said
    assert node.answers() == expected(OTHER, THREADS)
    # The second time it comes to its end meanwhile.
    node.command("sleep", f"touch '{go_on}'; exec '{sleep}' 0.2")
    node.run(third / "load.sh", shell="dash")
    assert (tmp_path / "order").read_text().endswith("sleep\nlate\n")
    assert node.answers() == expected(plan([rule(0, 2, comm="bash")]), THREADS)
