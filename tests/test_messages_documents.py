"""The exact words and places of findings about sources, lost documents and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.decode.forms import TIERS
from compiler.diagnostics import Sink
from compiler.profiles import builtin_ladder
from compiler.project import Place, load
from tests.policies import BOX, PROJECT, compiled, write
from tests.test_messages import build
from tests.test_resolve import match, only

RELATIVE = "paths are relative to the root of the policy repository"


# -- sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "code", "col", "help"),
    [
        (
            "{intents: [intents, intnts/]}",
            "TRC001",
            32,
            f'did you mean "intents/"? {RELATIVE}',
        ),
        (
            "{nodes: [nodes/bxo.yaml, nodes]}",
            "TRC001",
            21,
            f'did you mean "nodes/box.yaml"? {RELATIVE}',
        ),
        (
            "{intents: [intents, elsewhere]}",
            "TRC001",
            32,
            RELATIVE,
        ),
        (
            '{intents: [intents, "intents/*.yaml"]}',
            "TRC001",
            32,
            "patterns are not supported: name files or directories",
        ),
        (
            "{intents: [intents, ../other]}",
            "TRC003",
            32,
            "use paths below the root of the policy repository",
        ),
        (
            "{intents: [intents, notes.txt]}",
            "TRC004",
            32,
            "name files that end in .yaml, .yml or .json",
        ),
    ],
)
def test_a_bad_entry_is_shown_in_the_project_file(
    tmp_path: Path, sources: str, code: str, col: int, help: str
) -> None:
    files = {
        "intents/a.yaml": match("x", "comm: a", "demote: idle"),
        "tierc.yaml": PROJECT + f"  sources: {sources}\n",
        "notes.txt": "",
    }
    (found,) = compiled(write(tmp_path, files))[1]
    assert (found.code, str(found.span), found.help) == (code, f"tierc.yaml:5:{col}", help)


def test_a_default_entry_that_is_missing_is_shown_at_the_project(tmp_path: Path) -> None:
    text = match("x", "comm: a", "demote: idle")
    root = write(tmp_path, {"policy/a.yaml": text, "tierc.yaml": PROJECT})
    (found,) = compiled(root)[1]
    assert (found.message, str(found.span)) == ("intents does not exist", "tierc.yaml:2:1")
    assert found.help.startswith("it is read where sources do not say otherwise: create it")


def test_a_file_below_an_entry_keeps_its_place(tmp_path: Path) -> None:
    root = write(tmp_path, {"intents/a.yaml": match("x", "comm: a", "demote: idle")})
    (tmp_path / "intents/link.yaml").symlink_to("/etc/hostname")
    (found,) = compiled(root)[1]
    assert (found.code, str(found.span)) == ("TRC003", "intents/link.yaml:1:1")


# -- documents that are lost ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("box", "lost"),
    [
        (BOX.replace("arch: x86_64", "arch: [x]"), {"NodeFacts"}),
        (BOX.replace("kind: NodeFacts", "kind: NodeFact"), {""}),
        (BOX.replace("spec:", 'spec: "'), {""}),
        ("", set()),
    ],
)
def test_lost_facts_are_not_missing_facts(tmp_path: Path, box: str, lost: set[str]) -> None:
    files = {"intents/a.yaml": match("x", "comm: a", "demote: idle"), "nodes/box.yaml": box}
    root = write(tmp_path, files)
    policy = load(Place(root), Sink())
    assert policy.lost == lost
    assert policy.complete == (not lost)
    codes = [f.code for f in compiled(root)[1]]
    assert ("TRC322" in codes) == (not lost)


def test_a_lost_intent_does_not_hide_that_there_are_no_facts(tmp_path: Path) -> None:
    broken = match("y", "comm: a", "demote: 3")
    text = "---\n".join([match("x", "comm: a", "demote: idle"), broken])
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": ""})
    assert load(Place(root), Sink()).lost == {"Intent"}
    assert "TRC322" in [f.code for f in compiled(root)[1]]


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ("precedence: 99999999999999999999", "TRC026"),
        ("precedence: 1:30", "TRC025"),
        ("lane: {cores: 010}", "TRC025"),
    ],
)
def test_an_ambiguous_value_is_reported_once(tmp_path: Path, rest: str, code: str) -> None:
    assert [f.code for f in build(tmp_path, match("x", "comm: a", rest))] == [code]


def test_a_misread_value_does_not_hide_other_faults(tmp_path: Path) -> None:
    found = build(tmp_path, match("x", "comm: a", "precedence: 010\nlane: {cores: many}"))
    assert [(f.code, f.span.line) for f in found] == [("TRC025", 6), ("TRC105", 7)]


@pytest.mark.parametrize(
    ("written", "help"),
    [
        ('"7"', "write 7, without quotes"),
        ('"1001"', "write a smaller number, without quotes, from -1000 to 1000"),
        ('"99999999999999999999"', "write a smaller number, without quotes, from -1000 to 1000"),
        (f'"{"9" * 5000}"', "write a smaller number, without quotes, from -1000 to 1000"),
    ],
)
def test_a_number_in_quotes(tmp_path: Path, written: str, help: str) -> None:
    found = only(build(tmp_path, match("x", "comm: a", f"precedence: {written}")), "TRC104")
    assert found.help == help


TIER_HELP = f"tiers are {', '.join(TIERS)}, or those of your TierLadder"


@pytest.mark.parametrize(
    ("rest", "message", "usual"),
    [
        ("demote: true", "`demote` takes the name of a tier, not `true`", "background or idle"),
        ("keep: 3", "`keep` takes the name of a tier, not `3`", "system or interactive"),
        ("keep: {a: 1}", "`keep` takes the name of a tier, not a mapping", "system or interactive"),
        (
            "protect: [{path: all, tier: false}]",
            "`tier` takes the name of a tier, not `false`",
            "latency or interactive",
        ),
    ],
)
def test_a_tier_is_named(tmp_path: Path, rest: str, message: str, usual: str) -> None:
    found = only(build(tmp_path, match("x", "comm: a", rest)), "TRC104")
    assert (found.message, found.help) == (message, f"write {usual}; {TIER_HELP}")


def test_the_tiers_named_in_help_are_those_of_the_ladder() -> None:
    assert tuple(tier.name for tier in builtin_ladder().model.spec.tiers) == TIERS


def test_a_parenthesis_left_open(tmp_path: Path) -> None:
    found = only(build(tmp_path, match("x", 'cmdline: "python("', "demote: idle")), "TRC111")
    assert found.message == "`cmdline`: the parenthesis ( is not closed; add ), or write \\( for it"
    assert str(found.span) == "intents/all.yaml:5:39"
