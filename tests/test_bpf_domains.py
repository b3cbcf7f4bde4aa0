"""Open lanes that a seed cannot leave open, and where a person is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.cpuset import CpuSet
from compiler.plan import Band, Lane, NodePlan
from targets.bpf import TARGET
from tests.bpf_plans import band, plan
from tests.policies import PROJECT, intent, write

Share = Literal["open", "guarded", "exclusive"]


def lane(name: str, cpus: str, share: Share, tier: int, family: str | None = None) -> Lane:
    return Lane(
        name=name,
        cpus=CpuSet.parse(cpus),
        cores=2,
        min_cores=2,
        max_cores=2,
        share=share,
        tier=tier,
        intents=(name,),
        prefer=(),
        require=(),
        family=family,
    )


def said(lanes: Sequence[Lane], bands: Sequence[Band]) -> list[tuple[str | None, str]]:
    made: NodePlan = plan(bands=bands).model_copy(update={"lanes": tuple(lanes)})
    rows = TARGET.lacks(made)
    assert all(row.feature == "lane.open" and not row.rules and not row.unit for row in rows)
    return [(row.lane, row.message) for row in rows]


TOOLS = lane("tools", "2-5", "open", 4)
OF_TOOLS = band(1, tier=4, cpus="2-5")
EVERYWHERE = band(0, tier=4)


@pytest.mark.parametrize(
    ("share", "tier", "closed"),
    [
        ("exclusive", 5, "exclusive lane db"),
        ("guarded", 1, "guarded lane db"),
        ("guarded", 4, None),  # of their own tier
        ("guarded", 5, None),
        ("open", 0, None),
    ],
)
def test_an_open_lane_beside_a_closed_one_is_named(
    share: Share, tier: int, closed: str | None
) -> None:
    rows = said([lane("db", "8-9", share, tier), TOOLS], [EVERYWHERE, OF_TOOLS])
    if closed is None:
        assert rows == []
        return
    assert rows == [
        (
            "tools",
            "bpf keeps the threads in open lane tools, CPUs 2-5: outside it they could come into "
            + closed,
        )
    ]


def test_lanes_that_are_closed_anyway_are_not_named() -> None:
    lanes = [lane("db", "8-9", "exclusive", 1), lane("web", "2-5", "guarded", 4)]
    assert said(lanes, [EVERYWHERE, band(1, tier=4, cpus="2-5", hard=True)]) == []


def test_only_the_tiers_that_are_kept_are_named() -> None:
    lanes = [lane("db", "8-9", "guarded", 4), lane("ci", "10-11", "guarded", 4), TOOLS]
    bands = [EVERYWHERE, OF_TOOLS, band(2, tier=5, cpus="2-5")]
    ((_, text),) = said(lanes, bands)
    assert "keeps threads of tier background in open lane tools" in text
    assert text.endswith("could come into guarded lane ci, guarded lane db")


def test_a_family_is_named_once_with_the_cpus_of_all_members() -> None:
    lanes = [
        lane("db", "8-9", "exclusive", 1),
        lane("chat@numa0", "2-3", "open", 4, "chat"),
        lane("chat@numa1", "12-13", "open", 4, "chat"),
    ]
    bands = [EVERYWHERE, *(band(n, tier=4, cpus=c) for n, c in enumerate(("2-3,12-13", "2-3"), 1))]
    ((name, text),) = said(lanes, bands)
    assert name == "chat"
    assert "open lane chat, CPUs 2-3,12-13:" in text


def test_each_open_lane_is_named() -> None:
    lanes = [TOOLS, lane("db", "8-9", "exclusive", 1), lane("ci", "10-11", "open", 4)]
    rows = said(lanes, [EVERYWHERE, OF_TOOLS, band(2, tier=4, cpus="10-11")])
    assert [name for name, _ in rows] == ["tools", "ci"]


REPOSITORY = {
    "tierc.yaml": PROJECT.replace("mode: fallback", "mode: sched_ext") + "  targets: {bpf: {}}\n",
    "intents/db.yaml": intent(
        "db",
        """
        workload: {match: [{cgroup: "system.slice/db.service/**"}]}
        protect: all
        lane: {name: db, cores: 2, share: SHARE}
        """,
    ),
    "intents/tools.yaml": intent(
        "tools",
        """
        workload: {match: [{cgroup: "tools.slice/**"}]}
        keep: normal
        lane: {name: tools, cores: 2, share: open}
        """,
    ),
}


@pytest.mark.parametrize(("share", "times"), [("exclusive", 1), ("guarded", 1), ("open", 0)])
def test_build_seed_and_explain_say_it_once(tmp_path: Path, share: str, times: int) -> None:
    files = {name: text.replace("SHARE", share) for name, text in REPOSITORY.items()}
    root, out = write(tmp_path / "policy", files), tmp_path / "out"
    said_of_lane = f"outside it they could come into {share} lane db"

    def run(*args: str) -> str:
        done = CliRunner().invoke(app, list(args), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    built = run("build", str(root), "-o", str(out))
    assert built.count("left out: bpf keeps the threads in open lane tools") == times
    assert built.count(said_of_lane) == times
    node = out / "nodes" / "box"
    left_out = json.loads((node / "bpf/seed.json").read_text())["leftOut"]
    assert [said_of_lane in text for text in left_out] == [True] * times
    rows = json.loads((node / "plan.json").read_text())["leftOut"].get("bpf", [])
    assert [(row["lane"], row["message"]) for row in rows] == [("tools", text) for text in left_out]
    explain = ("explain", "box", "--project", str(root))
    assert run(*explain).count(said_of_lane) == times
    assert run(*explain, "--lane", "tools").count(said_of_lane) == times
    assert run(*explain, "--cgroup", "tools.slice/x").count(said_of_lane) == times
    assert said_of_lane not in run(*explain, "--lane", "db")
    assert said_of_lane not in run(*explain, "--cgroup", "system.slice/db.service")
