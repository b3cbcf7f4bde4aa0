"""Nodes that change their class or step, or how they are selected, while Argo CD syncs by waves.

A pretended cluster: a wave is applied, Node Feature Discovery sets the labels that NodeFeatures ask
for, and the controller of DaemonSets gives each node the pods that select it.  What must hold in
every moment between two waves: each node has a pod, and those of later steps have their old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from compiler.fleet import ClusterOptions, Fleet
from tests.kube_fleets import Object, fleet, group, objects, of_kind, options, selected

NODES = [f"n{i}" for i in range(12)]
STEPS = [{"names": ["n0"]}, {"names": ["n1", "n2", "n3"]}, "all"]
NFD = "nfd.node.kubernetes.io/node-name"
NOTES = "argocd.argoproj.io/"


def wave_of(one: Object) -> int:
    return int(one["metadata"]["annotations"][f"{NOTES}sync-wave"])


def key_of(one: Object) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


@dataclass
class Cluster:
    """What the API server holds, and what Argo CD, NFD and the controllers make of it."""

    live: dict[tuple[str, str], Object] = field(default_factory=dict)

    def sync(self, wanted: list[Object]) -> Iterator[int]:
        """Apply one wave after the other, prune, and stop after each."""
        keys = {key_of(one) for one in wanted}
        gone = [one for key, one in self.live.items() if key not in keys]
        last = [
            one
            for one in gone
            if "PruneLast=true" in one["metadata"]["annotations"][f"{NOTES}sync-options"].split(",")
        ]
        for one in gone:  # the others are pruned as early as their wave lets them
            if one not in last:
                del self.live[key_of(one)]
        for wave in sorted({wave_of(one) for one in wanted}):
            self.live |= {key_of(one): one for one in wanted if wave_of(one) == wave}
            yield wave
        for one in last:
            del self.live[key_of(one)]
        yield -1

    @property
    def labels(self) -> dict[str, dict[str, str]]:
        """Return the labels of nodes, all of which NFD sets and takes away."""
        found: dict[str, dict[str, str]] = {node: {} for node in NODES}
        for one in of_kind("NodeFeature", self.live.values()):
            found[one["metadata"]["labels"][NFD]] |= one["spec"]["labels"]
        return found

    @property
    def pods(self) -> dict[str, set[str]]:
        """Return the DaemonSets and plans that have a pod on each node."""
        found: dict[str, set[str]] = {node: set() for node in NODES}
        for one in of_kind("DaemonSet", self.live.values()):
            plan = one["spec"]["template"]["metadata"]["annotations"]["tierc.dev/plan"]
            for node in selected(one, self.labels):
                found[node].add(f"{one['metadata']['name']} {plan}")
        return found


def moved(select: str, steps: object = STEPS, name: str = "ab") -> tuple[Fleet, ClusterOptions]:
    """Return a fleet of one class."""
    return fleet(group(name, NODES)), options(steps, select=select)


MOVES = {
    "the class has a new name": (moved("labels"), moved("labels", name="cd")),
    "by names, the class has a new name": (moved("names"), moved("names", name="cd")),
    "half of the class is another one": (
        moved("labels"),
        (fleet(group("ab", NODES[::2]), group("cd", NODES[1::2])), options(STEPS, select="labels")),
    ),
    "two classes are one": (
        (fleet(group("ab", NODES[::2]), group("cd", NODES[1::2])), options(STEPS, select="labels")),
        moved("labels"),
    ),
    "other steps": (moved("labels"), moved("labels", [{"percent": 40}, {"names": ["n2"]}, "all"])),
    "from names to labels": (moved("names"), moved("labels")),
    "from labels to names": (moved("labels"), moved("names")),
    "no rollout any more": (moved("labels"), moved("labels", ())),
}


@pytest.mark.parametrize("move", MOVES)
def test_no_node_is_ever_without_a_pod(move: str) -> None:
    (before, old), (after, new) = MOVES[move]
    cluster = Cluster()
    for _ in cluster.sync(objects(before, old)):
        pass
    assert all(len(has) == 1 for has in cluster.pods.values())
    for wave in cluster.sync(objects(after, new)):
        label_only = new.options.select == "labels" and wave > 0 and wave % 2  # type: ignore[attr-defined]
        if not label_only:  # the DaemonSet is in the next wave, two seconds later
            assert all(cluster.pods.values()), wave
    assert all(len(has) == 1 for has in cluster.pods.values())
    wanted = {one["metadata"]["name"] for one in of_kind("DaemonSet", objects(after, new))}
    assert {entry.split()[0] for has in cluster.pods.values() for entry in has} == wanted


@pytest.mark.parametrize("select", ["names", "labels"])
def test_a_new_name_keeps_the_pace_of_the_rollout(select: str) -> None:
    """Nodes of later steps keep their old pods, and each wave of pods waits for its labels."""
    cluster = Cluster()
    for _ in cluster.sync(objects(*moved(select))):
        pass
    first = cluster.pods
    steps = {"n0": 1, **dict.fromkeys(["n1", "n2", "n3"], 2)}
    done = 0
    for wave in cluster.sync(objects(*moved(select, name="cd"))):
        if wave == -1:
            break
        daemons = [
            one for one in of_kind("DaemonSet", cluster.live.values()) if "-cd-" in str(key_of(one))
        ]
        done = len(daemons)
        labelling = done + 1 if select == "labels" and wave % 2 else None
        for node in NODES:
            step = steps.get(node, 3)
            if step <= done:
                assert any("-cd-" in entry for entry in cluster.pods[node]), (wave, node)
            elif step != labelling:
                assert cluster.pods[node] == first[node], (wave, node)
    assert done == 3


def test_labels_come_a_wave_before_the_pods_that_go_by_them() -> None:
    found = objects(*moved("labels"))
    labelled = {
        one["metadata"]["labels"][NFD]: wave_of(one) for one in of_kind("NodeFeature", found)
    }
    nodes = {node: {} for node in NODES} | {
        one["metadata"]["labels"][NFD]: one["spec"]["labels"]
        for one in of_kind("NodeFeature", found)
    }
    for daemon in of_kind("DaemonSet", found):
        chosen = selected(daemon, nodes)
        assert chosen
        assert {labelled[node] for node in chosen} == {wave_of(daemon) - 1}
    assert sorted(wave_of(one) for one in of_kind("DaemonSet", found)) == [2, 4, 6]
    assert {wave_of(one) for one in found if one["kind"] not in ("DaemonSet", "NodeFeature")} == {0}
