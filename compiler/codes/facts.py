"""Codes of node facts: what a machine cannot be, and what makes placement guess (TRC6xx)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

LLC_OVERLAP: Final = Code(
    "TRC600",
    "llc-overlap",
    Severity.ERROR,
    """\
Two last-level caches share a CPU.

A CPU has one last-level cache. With two, keeping a lane inside one cache has no meaning.

Collect the facts again, or correct the `cpus` of one of the `llcs`.

    llcs:
      - {id: 0, level: 3, cpus: 0-7}
      - {id: 1, level: 3, cpus: 7-15}     # CPU 7 is in both
""",
)
NUMA_OVERLAP: Final = Code(
    "TRC601",
    "numa-overlap",
    Severity.WARNING,
    """\
Two NUMA nodes share a CPU.

Some firmware describes memory this way. tierc counts a CPU for the node that its group of
`cores` names; what is near a device on the other node is then uncertain.

Check the `cpus` of the `numa` entries; leave it if the machine really reports this.
""",
)
GROUP_OUTSIDE_LLC: Final = Code(
    "TRC602",
    "cores-and-llc-disagree",
    Severity.ERROR,
    """\
A group of `cores` names a last-level cache that does not hold all its CPUs, or a cache holds a
CPU whose group names another cache.

The two say where a CPU is; one of them is wrong, and lanes would be placed by the wrong one.

    cores: [{cpus: 0-7, llc: 0}]
    llcs: [{id: 0, level: 3, cpus: 0-3}]     # CPUs 4-7 are not in it
""",
)
GROUP_OUTSIDE_NUMA: Final = Code(
    "TRC603",
    "cores-and-numa-disagree",
    Severity.ERROR,
    """\
A group of `cores` names a NUMA node that does not hold all its CPUs, or a node holds a CPU whose
group names another node or none.

The two say where a CPU is; one of them is wrong, and device locality would be computed from the
wrong one.

Make `cores[].numa` and `numa[].cpus` agree, or collect the facts again.
""",
)
LOCAL_CPUS_OFFLINE: Final = Code(
    "TRC604",
    "local-cpus-not-online",
    Severity.WARNING,
    """\
A device's local CPUs include some that are not online.

They are ignored. If none is left, the device is treated as having no known locality.

Correct `locality.cpus`, or bring the CPUs online and collect the facts again.
""",
)
LOCALITY_UNKNOWN: Final = Code(
    "TRC605",
    "device-locality-unknown",
    Severity.WARNING,
    """\
Which CPUs are near a device is not known: the kernel gives `numa_node` -1 on a machine with
several NUMA nodes. Unknown is never taken for node 0.

An intent that requires `gpu-local` (or `nic-local`) is refused on this node; one that prefers it
is placed without it, and the plan says so.

If you know the place, say it, and it wins over everything collected:

    overrides:
      devices:
        - {id: gpu0, numa: 1}
""",
)
NODE_ROLE: Final = Code(
    "TRC606",
    "numa-role-contradicts-cpus",
    Severity.ERROR,
    """\
A NUMA node without CPUs has the role `cpu`, or one with CPUs has the role `memory` or
`gpu-memory`.

Nodes without CPUs are memory only (CXL, the GPU memory of Grace machines) and never a place for
work.

Correct `role`, or leave it out.
""",
)
MASK_OUTSIDE: Final = Code(
    "TRC607",
    "cpus-the-machine-lacks",
    Severity.WARNING,
    """\
A list names CPUs that the machine cannot have: they are outside `possible` (or, where that is
not known, outside `online`).

They are ignored. It is usually a list copied from another machine.

    cpus: {possible: 0-15, online: 0-15, isolated: 12-19}     # 16-19 do not exist
""",
)
NOTHING_LEFT: Final = Code(
    "TRC608",
    "no-usable-cpu",
    Severity.ERROR,
    """\
No CPU is both online and allowed, or all of those are isolated, so nothing can be placed on the
node. `overrides` are applied first.

Widen `allowed`, or leave it out: a collector that ran in a restricted cgroup records its own
limit there.
""",
)
STATIC_WITHOUT_RESERVED: Final = Code(
    "TRC609",
    "static-kubelet-without-reserved",
    Severity.WARNING,
    """\
The kubelet's CPU manager runs the static policy, but the facts do not say which CPUs are
reserved for the system.

Under that policy tierc may own the reserved CPUs only: the kubelet gives the others to containers
of pods that ask for whole CPUs, at any moment. Without `reserved` it cannot tell them apart: it
plans on every CPU that no container had when the facts were collected, says so in the plan
(`reservation-unknown`), and refuses lanes with `share: exclusive`.

Copy `reservedSystemCPUs` from the kubelet's configuration. Where only an amount is set there
(`kubeReserved`, `systemReserved`), the kubelet chooses the CPUs itself and names them in its log
when it starts: "Reserved CPUs not available for exclusive assignment".

    kubelet: {present: true, policy: static, reserved: 0-1}

Or say which CPUs are tierc's, whatever is collected; lanes may then be exclusive, and that no
container gets these CPUs is yours to see to:

    overrides: {allowed: 0-1}
""",
)
UNKNOWN_OVERRIDE: Final = Code(
    "TRC610",
    "override-of-unknown-device",
    Severity.ERROR,
    """\
An override names a device that the node does not have, names one twice, or says nothing about
it.

An override that hits nothing is a correction that silently does not happen.

Use an `id` from `devices`, once, with `numa` or `cpus`.
""",
)
DUPLICATE_DEVICE: Final = Code(
    "TRC611",
    "duplicate-device",
    Severity.ERROR,
    """\
Two devices have one PCI address or one UUID, so they are the same device twice.

A process would be bound by whichever comes first. Remove one of the two.
""",
)
UNKNOWN_NODE: Final = Code(
    "TRC612",
    "unknown-numa-node",
    Severity.ERROR,
    """\
A device, or an override of one, names a NUMA node that `numa` does not list.

Which CPUs are near the device can then not be told. Correct the number, or leave it out if it is
not known.
""",
)
LOCALITY_CONTRADICTS: Final = Code(
    "TRC613",
    "device-locality-contradicts-numa",
    Severity.WARNING,
    """\
A device's local CPUs are not those of the NUMA node it is said to be on.

The local CPUs count. One of the two is usually left over from another machine, or read by a
tool that prints shortened lists (`nvidia-smi topo -m` does with interleaved numbering).

Correct the wrong one; a set finer than the node, such as one L3 of it, is fine.
""",
)
LLC_UNKNOWN: Final = Code(
    "TRC614",
    "llc-unknown",
    Severity.WARNING,
    """\
The last-level cache of some CPUs is not known; some Arm machines and virtual machines do not
tell.

`same-llc` has no effect for these CPUs, and lanes are compact by NUMA node only.

Nothing need be done. Where you know the caches, add `llcs` and name them in `cores`.
""",
)
COLLECTOR_WARNINGS: Final = Code(
    "TRC615",
    "collector-warnings",
    Severity.INFO,
    """\
The collector could not read or did not believe something; `warnings` says what.

Look at each: what it names is unknown in these facts. Remove the line once it is settled, for
example by an override.
""",
)
TOO_MANY_NODES: Final = Code(
    "TRC640",
    "more-numa-nodes-than-the-kubelet-takes",
    Severity.WARNING,
    """\
The node has a kubelet and more than 8 NUMA nodes. Nodes without CPUs count: a GH200 or GB200 has
one for each GPU instance its memory can be split into.

The kubelet's Topology Manager, with any policy but `none`, stops the kubelet on such a machine:
"unsupported on machines with more than 8 NUMA Nodes". The option `max-allowable-numa-nodes`
raises the limit (beta since Kubernetes 1.31, stable since 1.35; it takes 8 or more):

    topologyManagerPolicyOptions:
      max-allowable-numa-nodes: "16"

Nothing is reported where the facts say `topologyPolicy: none`.
""",
)
ARCH_UNKNOWN: Final = Code(
    "TRC641",
    "arch-unknown",
    Severity.WARNING,
    """\
The facts do not say the machine's architecture. Only `tierc facts validate --strict` reports it.

It is part of the fingerprint by which a node refuses a plan that was made for another machine.

Set `arch` to what `uname -m` prints there.
""",
)
NUMA_UNKNOWN: Final = Code(
    "TRC642",
    "numa-unknown",
    Severity.WARNING,
    """\
The facts list no NUMA node, or none for some online CPUs. Only `tierc facts validate --strict`
reports it.

Every machine has at least one node. Where they are not known, lanes are not kept inside one, and a
device's NUMA node does not say which CPUs are near it.

Import what `lscpu -p=cpu,online,core,socket,node,cache` prints there as well, or add `numa`.
""",
)
LOCALITY_UNCERTAIN: Final = Code(
    "TRC643",
    "device-locality-uncertain",
    Severity.WARNING,
    """\
Which CPUs are near a device was concluded rather than read (`inferred`), comes from a source that
is known to be wrong at times (`suspect`), or it is not said how it is known. Only `tierc facts
validate --strict` reports it; it is no more than a note where the device is near all CPUs.

Placement uses it all the same. Collect the facts on the node (`tierc facts collect`), or confirm
what you know, and it wins over everything collected:

    overrides:
      devices:
        - {id: gpu0, numa: 1}
""",
)
KERNEL_UNKNOWN: Final = Code(
    "TRC644",
    "kernel-unknown",
    Severity.WARNING,
    """\
The facts do not say what the node's kernel is or can do: its release, whether it is PREEMPT_RT,
whether it has sched_ext, and which cgroup version it runs. Only `tierc facts validate --strict`
reports it.

Where it is not known whether the kernel has sched_ext, mode `auto` falls back to CPU affinity and
mode `sched_ext` is refused.

Collect the facts on the node, or add what is missing under `kernel`.
""",
)
ALLOWED_UNKNOWN: Final = Code(
    "TRC645",
    "allowed-not-said",
    Severity.INFO,
    """\
The facts do not say which CPUs tierc may use, so all online CPUs are taken as allowed. Only
`tierc facts validate --strict` reports it.

`tierc facts collect` records `allowed` only where its cgroup has fewer than all. Where something
outside of Kubernetes owns CPUs of the node, say what is left:

    overrides:
      allowed: 0-27
""",
)
