"""bpf/load.sh puts seeds in force in real maps, and sees what comes out wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bpf_classify import NO_POLICY, expected
from tests.bpf_live import active, check_slot
from tests.bpf_node import OTHER, SHELLS, THREADS, Node, emit, make_node
from tests.bpf_plans import RICH_RULES, plan


@pytest.fixture
def node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    with make_node(tool, tmp_path) as one:
        yield one


@pytest.mark.parametrize("shell", SHELLS)
def test_load_again_and_another(node: Node, tmp_path: Path, shell: str) -> None:
    rich = plan(RICH_RULES)
    old, new = emit(rich, tmp_path / "old"), emit(OTHER, tmp_path / "new")
    assert node.answers() == [NO_POLICY] * 3
    said = node.run(old / "load.sh", shell=shell)
    assert "the scheduler is attached" in said
    assert "is in force, in slot 0" in said
    assert node.answers() == expected(rich, THREADS)
    check_slot(node.bpftool, json.loads((old / "seed.json").read_text()), 0)
    assert not (node.bpftool.bpffs / "tierc_stage").exists()

    before = active(node.bpftool)
    said = node.run(old / "load.sh", shell=shell)
    assert "nothing was changed" in said
    assert active(node.bpftool) == before

    said = node.run(new / "load.sh", shell=shell)
    assert "is in force, in slot 1" in said
    assert node.answers() == expected(OTHER, THREADS)
    assert (tmp_path / "calls").read_text() == "register\n"

    after = active(node.bpftool)
    for there, policy in ((before, rich), (after, OTHER), (before, rich)):
        # It needs nothing of the seed that is put in force.
        node.run(new / "load.sh", "--rollback", shell=shell)
        assert active(node.bpftool) == there
        assert node.answers() == expected(policy, THREADS)
    assert not list((tmp_path / "state").glob("lock*"))


def test_dry_run_changes_nothing(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    said = node.run(script, "--dry-run")
    assert "would be attached" in said
    assert "would be put in force" in said
    assert active(node.bpftool) == bytes(8)
    assert not (tmp_path / "calls").exists()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_bpftool_is_not_started_often(node: Node, tmp_path: Path, shell: str) -> None:
    """On small machines starting it is what takes the time."""
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script, shell=shell)
    assert node.calls() == 4  # what is there; stage; publish; flip
    node.run(script, shell=shell)
    assert node.calls() == 2  # what is there; its entries


DAMAGE = {
    "a bit": (r"s/value hex 01 /value hex 03 /", "has another entry than was written"),
    "a lost entry": (r"0,/stage.comm key/{{//d}}", "comm lacks an entry"),
    "one too many": (
        r"/^map freeze .*.rules/i map update pinned {stage}/rules key hex ff 0 0 0"
        " value hex 9 0 0 0",
        "rules has an entry that was not written",
    ),
    "a name too many": (
        r"/^map freeze .*.comm/i map update pinned {stage}/comm key hex 8 0 0 0 7a"
        + " 0" * 15
        + " value hex"
        + " 0" * 32,
        "comm has an entry that was not written",
    ),
    "one too many for the node": (
        r"/^map show .*.group$/i map update pinned {stage}/group key hex 8 0 0 0 0 0 0 0"
        " value hex 1 0 0 0",
        "group has an entry that was not written",
    ),
    "an open map": (r"/^map freeze .*.bands/d", "bands is not frozen"),
    "no map": (
        r"s/^\(map create .*.level .*\) entries .* name/\1 entries 0 name/",
        "cannot be read",
    ),
    "a map in the wrong place": (
        r"s#\(tierc_comm key.* value pinned .*\)/comm$#\1/leader#",
        "slot {slot} did not take the new maps",
    ),
    "a map that is refused": (
        r"s#\(tierc_bands key.* value pinned .*\)/bands$#\1/level#",
        "update failed: Invalid argument",
    ),
    "no flip": (r"/tierc_active key/d", "did not come into force"),
    "another generation": (
        r"s/\(tierc_active key .* value hex 0{slot} 00 00 00\) ../\1 00/",
        "did not come into force",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_damage_on_the_way_is_seen(node: Node, tmp_path: Path, shell: str) -> None:
    """Something comes out wrong: the load fails, and what was in force before stays so."""
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    damage = tmp_path / "damage"
    for name, (how, said) in DAMAGE.items():
        node.run(old / "load.sh")
        before = active(node.bpftool)
        into = 1 - before[0]
        stage = node.bpftool.bpffs / "tierc_stage"
        damage.write_text(how.format(stage=stage, slot=into) + "\n")
        assert said.format(slot=into) in node.run(new / "load.sh", code=12, shell=shell), name
        damage.unlink()
        assert not stage.exists()
        if name != "another generation":
            assert active(node.bpftool) == before, name
            assert node.answers() == expected(OTHER, THREADS), name
        if "slot" in said or "refused" in name:
            # Half a seed was published, and that is nothing to roll back to.
            damage.write_text("")
            assert "holds no seed" in node.run(new / "load.sh", "--rollback", code=13), name
            damage.unlink()
    node.run(new / "load.sh", shell=shell)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_seed_that_was_tampered_with_is_not_in_force(
    node: Node, tmp_path: Path, shell: str
) -> None:
    """The same number in tierc_active, but another map in the slot: it is loaded anew."""
    one = emit(plan(RICH_RULES), tmp_path / "one")
    node.run(one / "load.sh", shell=shell)
    before = active(node.bpftool)
    create = (
        f"map create {node.bpftool.bpffs}/own type lpm_trie key 20 value 32 entries 256 name own"
    )
    node.bpftool.json(*create.split(), "flags", "1")
    node.bpftool.json(*f"map freeze pinned {node.bpftool.bpffs}/own".split())
    update = f"map update pinned {node.bpftool.bpffs}/tierc_comm key hex 0 0 0 0 value pinned"
    node.bpftool.json(*update.split(), f"{node.bpftool.bpffs}/own")
    assert node.answers() != expected(plan(RICH_RULES), THREADS)
    said = node.run(one / "load.sh", "--dry-run", shell=shell)
    assert "would be put in force" in said
    node.run(one / "load.sh", shell=shell)
    assert active(node.bpftool) != before
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_nothing_to_roll_back_to(node: Node, tmp_path: Path, shell: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script, shell=shell)
    before = active(node.bpftool)
    assert "slot 1 holds no seed" in node.run(script, "--rollback", code=13, shell=shell)
    assert active(node.bpftool) == before


@pytest.mark.parametrize("name", ["load.sh", "unload.sh"])
def test_the_scripts_are_clean(tool: Callable[[str], str], tmp_path: Path, name: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path) / name
    for command in (["sh", "-n"], [tool("dash"), "-n"], [tool("busybox"), "sh", "-n"]):
        subprocess.run([*command, script], check=True)
    done = subprocess.run(
        [tool("shellcheck"), "-s", "sh", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
