"""Codes of ``tierc verify``: where a node is not as its plan says (TRC720-TRC749)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

OTHER_MACHINE: Final = Code(
    "TRC720",
    "plan-for-another-machine",
    Severity.ERROR,
    """\
The CPUs of this machine (architecture, online CPUs, cores, last-level caches) are not those that
the plan was compiled for. CPU numbers of the plan mean other CPUs here, so nothing is applied and
nothing else is compared.

Collect the facts of this node again (`tierc facts collect`), build anew, and copy the files of
this node. Firmware settings that switch hardware threads on or off change the layout as well.
""",
)
FEWER_CPUS: Final = Code(
    "TRC721",
    "planned-cpus-offline",
    Severity.WARNING,
    """\
Some CPUs of the plan are offline; all others, with their cores and caches, are as planned. The
plan is applied to what is left, as far as each rule's minimum is. It is an error if a lane has
none: its threads stay where they are.

Bring them online again, or collect the facts and build anew.
""",
)
OTHER_DEVICES: Final = Code(
    "TRC722",
    "other-devices-than-planned",
    Severity.WARNING,
    """\
The GPUs or network devices of this machine are not those of the plan. It is applied all the same:
a lane may now be far from the device it was placed for.

Collect the facts again and build anew.
""",
)
DISABLED: Final = Code(
    "TRC723",
    "kill-switch-set",
    Severity.WARNING,
    """\
`/etc/tierc/disabled` exists on this node, or, where pods of tierc run, `/var/lib/tierc/disabled`,
which may be their `killSwitch`: everything is put back and nothing is applied. What differs from
the plan is then no error.

Remove the file to let the plan act again.
""",
)
NOT_PUT_BACK: Final = Code(
    "TRC724",
    "changes-not-put-back",
    Severity.ERROR,
    """\
Nothing of a plan may be in effect (the kill switch is set, the plan is for another machine, or its
mode is `observe`), and yet a target's record in `/var/lib/tierc` says that it changed something in
this boot and has not put it back. In mode `observe` it is a warning: the change is an earlier
plan's.

Run the target's `revert.sh`, or its `apply.sh` once, as root.
""",
)
OUTSIDE: Final = Code(
    "TRC725",
    "thread-outside-its-cpus",
    Severity.ERROR,
    """\
Threads may run on CPUs that their rule does not give them. For a protected thread that is CPUs
where others are, for a demoted one it may be somebody's lane.

It is a note where nothing is enforced (mode `observe`, the kill switch). Otherwise run the node's
`taskset/apply.sh`; with `--watch` it keeps up with new threads. A program that sets its own
affinity undoes it again: look whether the same threads are back.
""",
)
NARROWER: Final = Code(
    "TRC726",
    "thread-with-fewer-cpus",
    Severity.WARNING,
    """\
Threads may run only on some of the CPUs that their rule gives them, though their control group
allows more. It is an error where these are fewer than the rule's minimum, or where a scheduler
would have to ignore its domain because the affinity has none of it.

Something else pinned them (numactl, an engine's own setting, another tool). Remove that, then run
`apply.sh`.
""",
)
CPUSET: Final = Code(
    "TRC727",
    "cpuset-below-minimum",
    Severity.WARNING,
    """\
The control group of threads, or what is online, leaves them fewer of their rule's CPUs than the
rule's minimum. Affinity cannot widen a cpuset, so the scripts skip such threads, and they stay
where they are.

Widen the cpuset (AllowedCPUs, `--cpuset-cpus`, the kubelet's static policy), or make the lane
where the group's CPUs are.
""",
)
FOREIGN: Final = Code(
    "TRC728",
    "foreign-threads-in-lane",
    Severity.INFO,
    """\
Threads of a lower tier, or that no rule matches, may run on CPUs of a guarded or exclusive lane
that the plan does not give them. It is a warning where some of them run there at this moment, and
an error for an exclusive lane that a cpuset should keep them out of.

Affinity moves the threads that rules name and keeps no others out; only a scheduler or a cpuset
does. Demote what uses the CPU there with an intent, or enforce the lane by one of these.
""",
)
UNMATCHED: Final = Code(
    "TRC729",
    "threads-without-rule",
    Severity.INFO,
    """\
User threads that no rule matches, with those that used most CPU time since they started. They have
the default tier, and the affinity they were born with.

Nothing is wrong. A name that should have been recognised tells that a pattern misses it: ask
`tierc explain NODE --comm NAME`.
""",
)
NO_THREAD: Final = Code(
    "TRC730",
    "protected-unit-without-thread",
    Severity.WARNING,
    """\
No thread of this node matches any rule of a unit that is protected, or that a protected path
needs. What the plan says of it has no effect. It is a note where the plan knows a reason: a name
that exists only with a setting, or a selector that is resolved later.

Either the workload does not run now, or its threads have other names than the profile's version
says. Compare `ps -eLo comm` with the rules named here, and `version` in the intent.
""",
)
RULE_UNUSED: Final = Code(
    "TRC731",
    "rules-without-thread",
    Severity.INFO,
    """\
Rules that have no thread now, with the reason where one can be known.

A profile lists every way an engine was ever started, so some rules of a unit are always without.
Look at this list when a unit has no thread at all, or fewer than you expect.
""",
)
IRQ: Final = Code(
    "TRC732",
    "interrupt-elsewhere",
    Severity.ERROR,
    """\
Interrupts of a device may be delivered to CPUs other than those the plan gives them. Their
handlers then take time from whatever runs there.

It is a note where nothing is enforced. Otherwise run the node's `irq/apply.sh`. The kernel and
`irqbalance` move interrupts: stop it, or ban these interrupts there. Interrupts that the kernel
manages by itself cannot be moved; the plan's scripts report them.
""",
)
NOT_LOADED: Final = Code(
    "TRC733",
    "scheduler-not-as-planned",
    Severity.ERROR,
    """\
The sched_ext scheduler of this node is not the one the plan needs: in mode `sched_ext` none is
loaded, or another program's is; or ours is loaded although the plan's mode does not ask for it, the
kill switch is set, or the plan is for another machine.

Another program's scheduler in mode `fallback` is a warning: affinity holds under it, its own
placement is not in the plan.

Load the scheduler with the node's seed, or unload the other one; `dmesg` says why the kernel
ejected one.
""",
)
ABI: Final = Code(
    "TRC734",
    "scheduler-of-another-abi",
    Severity.ERROR,
    """\
The loaded scheduler was built for another layout of maps than the seed. Its maps are not compared.

Use the scheduler that came with this version of tierc, or build with the tierc that it came with.
""",
)
SEED: Final = Code(
    "TRC735",
    "seed-not-in-force",
    Severity.ERROR,
    """\
What the scheduler's maps hold is not the node's seed: no slot is in force, the one in force has
another generation, or a table has other entries.

A seed of another build is the usual reason: load the one in this directory. Other entries under
the right generation mean that something wrote to the maps; stage, publish and flip again.
""",
)
UNCHECKED: Final = Code(
    "TRC736",
    "not-checked",
    Severity.WARNING,
    """\
Something could not be looked at, such as a directory that only root may read, a tool that is not
installed, or a tree of control groups that is not mounted. What it would have shown is unknown;
the exit code says nothing about it.

Do what the finding says and run `tierc verify` again.
""",
)
BAND_IDLE: Final = Code(
    "TRC737",
    "band-without-run-time",
    Severity.INFO,
    """\
The scheduler's statistics of a band show no run time since this seed came into force, although
threads have it by the plan. They may be asleep.

Where such a thread is busy (`top -H`), the scheduler does not have it: look whether it is
SCHED_FIFO or SCHED_RR, which sched_ext never sees.
""",
)
JUDGED: Final = Code(
    "TRC738",
    "scheduler-judged-otherwise",
    Severity.WARNING,
    """\
The scheduler's record of threads (it is kept only where asked for) gives some another rule than
the plan does.

A thread that changed its name or its control group is judged anew when it is next queued, so a few
sleeping threads may be late. Many, or the same ones again, are a fault of the scheduler or of the
seed; compare the tables first.
""",
)
