"""Safe plans where a rule has its tier from one intent and its CPUs from another."""

from __future__ import annotations

from pathlib import Path

from compiler.facts.write import facts_yaml
from tests.machines import gpu, plain, two_nodes
from tests.policies import HEAD, compiled, write


def intents(*specs: str) -> str:
    return "---\n".join(
        f"{HEAD}kind: Intent\nmetadata: {{name: i{n}}}\nspec: {spec}\n"
        for n, spec in enumerate(specs)
    )


def test_a_demoted_thread_stays_out_of_a_lane_that_its_intent_may_enter(tmp_path: Path) -> None:
    # CPU 0 is housekeeping, 1 and 2 are lanes: nothing is left over.  ``other`` is at normal and
    # may enter the lane of that tier; ``job`` is demoted by i3 and may only enter the lower one.
    text = intents(
        "{workload: {match: [{comm: web}]}, keep: normal, lane: {cores: 1}}",
        "{workload: {match: [{comm: low}]}, demote: background, lane: {cores: 1}}",
        "{workload: {match: [{comm: job}, {comm: other}]}, prefer: [leftovers]}",
        '{workload: {match: [{comm: "jo*"}]}, demote: background}',
    )
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": facts_yaml(plain(3))})
    compilation, findings = compiled(root)
    assert [one.code for one in findings] == ["TRC402"]
    plan = compilation.classes[0].plan
    assert plan is not None
    bands = {rule.match.comm: plan.bands[rule.band] for rule in plan.rules}
    names = {comm: plan.tiers[band.tier].name for comm, band in bands.items()}
    assert (names["job"], str(bands["job"].cpus)) == ("background", "2")
    assert (names["other"], str(bands["other"].cpus)) == ("normal", "1-2")


def test_a_spanning_lane_tells_that_it_is_in_several_caches(tmp_path: Path) -> None:
    machine = two_nodes(devices=(gpu("gpu0", "0-15", numa=0), gpu("gpu1", "16-31", numa=1)))
    text = intents(
        "{workload: {engine: vllm, version: 0.24.0, tensorParallel: 2, cgroup: a.slice/**}, "
        "protect: [decode], prefer: [gpu-local, same-llc], lane: {cores: 4}}"
    )
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": facts_yaml(machine)})
    compilation, _ = compiled(root)
    plan = compilation.classes[0].plan
    assert plan is not None
    (lane,) = plan.lanes
    assert len(lane.cpus) == 4
    (note,) = [row for row in plan.degradations if row.kind == "same-llc"]
    assert note.about == lane.name == "i0"
    assert note.message.startswith("4 cores in 2 last-level caches: ")
