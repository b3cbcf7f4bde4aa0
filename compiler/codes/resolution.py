"""Codes of resolution: what intents mean together (TRC300-TRC349)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNKNOWN_ENGINE: Final = Code(
    "TRC300",
    "unknown-engine",
    Severity.ERROR,
    """\
`workload.engine` names an engine that has no profile, so tierc cannot know its threads.

Use a built-in profile (`vllm`, `sglang`), add an `EngineProfile` document of that name, or
describe the threads with `workload.match`.
""",
)
UNKNOWN_PATH: Final = Code(
    "TRC301",
    "unknown-path",
    Severity.ERROR,
    """\
`protect` names a path or stage that the engine's profile does not have.

Paths are `decode`, `stream`, `ttft`, `prefill`, `collective` in the built-in profiles, and `all`
for every stage. A single stage is written `{stage: engine-step}`. A workload of kind `match` or
`group` has no paths: it takes `protect: all`.
""",
)
UNKNOWN_TIER: Final = Code(
    "TRC302",
    "unknown-tier",
    Severity.ERROR,
    """\
A tier is named that the tier ladder does not have.

The built-in ladder is critical > latency > interactive > system > normal > background > idle.
""",
)
UNKNOWN_INTENT: Final = Code(
    "TRC303",
    "unknown-intent",
    Severity.ERROR,
    """\
`above`, or `intent` of a Demand, names an intent that does not exist.
""",
)
WRONG_DIRECTION: Final = Code(
    "TRC304",
    "wrong-direction",
    Severity.ERROR,
    """\
`demote` names a tier that is not below `normal`, or `protect` one that is not above it.

A demotion that raises, or a protection that lowers, is a mistake in one of the two words. To
hold software where it is, use `keep`.
""",
)
STAGE_NOT_RECOGNISED: Final = Code(
    "TRC305",
    "stage-not-recognised",
    Severity.ERROR,
    """\
A protected stage has no name of its own in this engine version, so no rule could find it.

For example vLLM up to 0.10.0 sets no process titles. Name the cgroup of the service instead:
`workload: {match: [{cgroup: "system.slice/vllm.service/**"}]}` with `protect: all`.
""",
)
ALL_VARIANTS: Final = Code(
    "TRC306",
    "all-variants",
    Severity.INFO,
    """\
`workload.version` is left out, so rules for every variant the profile knows are compiled.

That is safe, and uses more of the 256 rules than needed. Add the version to be exact.
""",
    adjustable=True,
)
VERSION_UNKNOWN: Final = Code(
    "TRC307",
    "version-unknown",
    Severity.WARNING,
    """\
The engine version lies outside the range the profile was checked against; thread names may have
changed. Check `ps -eLo comm` on a node, then update the profile or the version.
""",
    adjustable=True,
)
TIER_CONFLICT: Final = Code(
    "TRC310",
    "tier-conflict",
    Severity.ERROR,
    """\
Two intents of equal standing claim the same threads and give them different tiers or lanes, or
different places in the order (`above`) of one tier; threads without a tier are normal.  Or one of
them gives a tier and the other only CPUs, and no pattern says which threads both claim: where one
does, such intents complete each other.

Which one wins would depend on nothing the policy says, so tierc refuses. Give one of them a
higher `precedence`, narrow one with `workload.cgroup` or `workload.pods`, or make one pattern
narrower than the other: a narrower pattern goes before a wider one.
""",
)
VALUE_CONFLICT: Final = Code(
    "TRC311",
    "value-conflict",
    Severity.ERROR,
    """\
Several intents join one lane and define one of its values differently with equal precedence.

Keep the value in one of them, or give one intent a higher `precedence`.
""",
)
DEMOTED_NEED: Final = Code(
    "TRC312",
    "demoted-need",
    Severity.ERROR,
    """\
A protected path needs threads that another intent demotes.

The protected stages would wait for threads that run last (priority inversion). The report shows
the chain from the protection to the demotion. Drop the demotion, or narrow it so that it spares
the needed threads.
""",
)
ABOVE_CYCLE: Final = Code(
    "TRC313",
    "above-cycle",
    Severity.ERROR,
    """\
`above` relations form a cycle, so no order inside the tier exists. Remove one of the relations.
""",
)
ABOVE_CONTRADICTS: Final = Code(
    "TRC314",
    "above-contradicts-tiers",
    Severity.WARNING,
    """\
An intent is `above` another one whose tier is higher. Order counts only inside a tier; across
tiers the ladder decides. Change a tier, or drop the relation.
""",
)
CGROUP_UNSATISFIABLE: Final = Code(
    "TRC315",
    "cgroup-unsatisfiable",
    Severity.ERROR,
    """\
`workload.cgroup` narrows a matcher that already has a cgroup, and the two cannot be combined:
they never meet, or neither contains the other. Write the combined pattern in `match`.
""",
)
NO_PODS_ROOT: Final = Code(
    "TRC316",
    "no-pods-root",
    Severity.ERROR,
    """\
A pattern uses `@pods`, and the node's facts do not say where pods live (`kubelet.podsRoot`).

A guessed path would be a rule that silently matches nothing. Collect the facts on the node, or
set `overrides: {podsRoot: kubepods.slice}`.
""",
)
LANE_SIZE: Final = Code(
    "TRC317",
    "lane-size",
    Severity.ERROR,
    """\
A lane's size is not known: a workload of kind `match` or `group` has no profile to size it, or
`cores: measured` finds no usable Demand document.

A reading that looks like a spin loop is refused: a polling engine keeps a core busy without
needing it. Turn spinning off, measure again, or state the cores.

A Demand document stands beside the intents and says how many cores an intent's threads keep busy:

    kind: Demand
    metadata: {name: chat-march}
    spec: {intent: chat, cores: {p50: 1.2, p99: 3.4}, window: 60s, spinSuspect: false}
""",
)
GPU_NOT_FOUND: Final = Code(
    "TRC318",
    "gpu-not-found",
    Severity.ERROR,
    """\
`workload.gpus` names a device that a selected node does not have.
""",
)
TOO_MANY_RULES: Final = Code(
    "TRC319",
    "too-many-rules",
    Severity.ERROR,
    """\
A node's policy needs more than 256 rules or 64 bands, the limits of the scheduler maps. A band is
a tier, a place in its order (`above`) and a set of CPUs.

State engine versions (fewer variants), join intents that treat threads alike, or shorten chains of
`above`.
""",
)
MODE_REFUSED: Final = Code(
    "TRC320",
    "mode-refused",
    Severity.ERROR,
    """\
`enforce` asks for sched_ext on a node whose facts do not allow it: no kernel support, a
PREEMPT_RT kernel (every load fails there), another scheduler already loaded, `isolcpus`, or a
kubelet without `acceptUnenforcedCpuLimits: true`.

Use `mode: auto`, which falls back to CPU affinity with the reason, or change the node.
""",
)
MODE_FALLBACK: Final = Code(
    "TRC321",
    "mode-fallback",
    Severity.WARNING,
    """\
`enforce: auto` fell back to CPU affinity on a node; the message says why.
""",
    adjustable=True,
)
NO_NODES: Final = Code(
    "TRC322",
    "no-nodes",
    Severity.WARNING,
    """\
The policy has intents and no node facts, so nothing can be placed or built. Run
`tierc facts collect -o nodes/NAME.yaml` on a node.
""",
    adjustable=True,
)
SECOND_PROJECT: Final = Code(
    "TRC323",
    "second-project",
    Severity.ERROR,
    """\
A policy repository has one Project document, `tierc.yaml` at its root; or it has two tier
ladders, where one is in force. Remove the other.
""",
)
NODE_UNIT_PLACED: Final = Code(
    "TRC325",
    "node-unit-placed",
    Severity.ERROR,
    """\
`lane`, `prefer` or `require` is given for the group `gpu-driver`, whose threads belong to the
node and are shared by every engine on it. Drop the word; say only `protect` or `keep`.
""",
)
LEFTOVERS_WITH_LANE: Final = Code(
    "TRC326",
    "leftovers-with-lane",
    Severity.WARNING,
    """\
`leftovers` means CPUs in no lane, and the same intent asks for CPUs of its own: it has a `lane`,
or a word such as `gpu-local` or `performance` in `prefer` or `require`, which is asking for one.
The lane wins and `leftovers` has no effect; under `require` this is an error.

Drop one of the two.
""",
    adjustable=True,
)
NO_PROJECT: Final = Code(
    "TRC327",
    "no-project",
    Severity.ERROR,
    """\
`tierc.yaml` is the place of the Project document, and it holds none: its options, among them how
nodes are enforced, would silently be the defaults.  So they would where the file is called
`tierc.yml` or `tierc.json`, which is not read.
""",
)
WITHOUT_PROJECT: Final = Code(
    "TRC335",
    "without-project",
    Severity.WARNING,
    """\
A policy repository without `tierc.yaml`: every option has its default. Nodes are only observed, and
the default targets are emitted, none of them for a cluster. Where the file was lost, the next build
would take enforcement and the cluster's objects out of the tree.

Write it, if only to say so; `tierc init` shows all options in one of its own:

    apiVersion: tierc.dev/v1alpha1
    kind: Project
    metadata: {name: my-nodes}
    spec:
      enforce: [{mode: observe}]
""",
    adjustable=True,
)
WITHOUT_INTENTS: Final = Code(
    "TRC336",
    "without-intents",
    Severity.WARNING,
    """\
A policy repository with nodes and no intent: nothing is protected anywhere. Node software alone has
CPUs of its own. Where the intents were lost, or the files do not end in `.yaml`, `.yml` or
`.json`, the next build would take the protection out of the tree.
""",
    adjustable=True,
)
EMPTY_SOURCE: Final = Code(
    "TRC328",
    "empty-source",
    Severity.WARNING,
    """\
A file among the sources is empty. Whatever protection it once
described is not in force. Remove the file, or restore its content.
""",
    adjustable=True,
)
SAYS_NOTHING: Final = Code(
    "TRC329",
    "says-nothing",
    Severity.WARNING,
    """\
An intent names a workload and asks for nothing: it has none of `protect`, `demote`, `keep`, `lane`,
`prefer`, `require` and `irqs`. Its threads are treated as if it were not there.

Say what is wanted of them, or remove the intent:

    workload: {engine: vllm, version: "0.24.0"}
    protect: [decode, {path: ttft, tier: interactive}]
""",
    adjustable=True,
)
SPARED: Final = Code(
    "TRC330",
    "demotion-spares",
    Severity.INFO,
    """\
A demotion takes kernel threads by a wide pattern, and a protected path needs some of them. The need
wins: those threads keep the tier of the path, and the demotion has the others.

Nothing has to be done. Narrow the pattern to say the same in your own words. A demotion of nothing
but needed threads is an error (TRC312).
""",
    adjustable=True,
)
LANE_NAME: Final = Code(
    "TRC331",
    "lane-name",
    Severity.ERROR,
    """\
A lane is called housekeeping, leftovers, shared or all, the words by which plans, reports and
policy tests speak of CPUs in no lane. Nobody could tell the two apart. Choose another name.
""",
)
IRQS_WITHOUT_LANE: Final = Code(
    "TRC333",
    "irqs-without-lane",
    Severity.WARNING,
    """\
`irqs: lane` sends the interrupts of an intent's devices to the CPUs of its lane, and the intent
has no lane: neither `lane` nor a word such as `gpu-local` in `prefer` or `require`. The interrupts
are left as they are.

Give it a lane, or say where else they should go:

    workload: {engine: vllm, version: "0.24.0"}
    protect: decode
    lane: {cores: {min: 2, max: 4}}
    irqs: lane
""",
    adjustable=True,
)
IRQS_CONFLICT: Final = Code(
    "TRC334",
    "irqs-conflict",
    Severity.ERROR,
    """\
Several intents use one device, have equal standing, and say different things of its interrupts. A
device's interrupts go to one place: that of the intent with the highest tier, then of the one that
is `above` the others, then of the one with the highest `precedence`.

Say the same in all of them, drop `irqs` from all but one, or give one of them a higher standing.
""",
)
WHOLE_LOCALITY: Final = Code(
    "TRC332",
    "needs-whole-locality",
    Severity.WARNING,
    """\
`gpu-local` is required, and one engine uses as many GPUs as there are in any locality (a NUMA
node, mostly). It can start only where all GPUs of a locality are free: small users of GPUs on every
locality keep it waiting, although enough GPUs are free in all.

Keep the other users to one locality, lower `tensorParallel`, or write `gpu-local` under `prefer`:
the engine then has CPUs near all of its GPUs, wherever they are.
""",
    adjustable=True,
)
