"""Scenario c: two services of different tiers, and batch work.

A voice service above a bulk service, and hogs that are demoted.  Both services are vLLM: only their
control groups tell them apart.  The two together need a third of two CPUs; then either of them is
made to want more than all, by more threads of its API that never sleep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check, at_least, at_most
from tests.lab.guest import TURN_US
from tests.lab.machine import Machine
from tests.lab.policy import intent, project
from tests.lab.scenario import Phase, Report, Result, Scenario, Step, Table
from tests.lab.services import API, Hogs, Service, hogs, service, services, shown

HOGS: Final = 8
SPINNERS: Final = 4
VOICE_MS: Final = 6
BULK_MS: Final = 10
SECONDS: Final = 0.8


def _vllm(group: str) -> str:
    return f'{{engine: vllm, version: "0.24.0", cgroup: "{group}/**"}}'


POLICY: Final = (
    project()
    # The step before its own API, and both before the other service.
    + intent("voice", _vllm("voice.slice"), "protect: [{path: decode, tier: critical}, ttft]")
    + intent("bulk", _vllm("bulk.slice"), "protect: [{path: ttft, tier: interactive}]")
    + intent("batch", '{match: [{comm: "hog*"}]}', "demote: background")
)

_RUNS: Final = (
    # who schedules, the service that wants too much (alone: only voice is there)
    ("eevdf", Phase.EEVDF, "alone"),
    ("eevdf", Phase.EEVDF, "nobody"),
    ("eevdf", Phase.EEVDF, "bulk"),
    ("static", Phase.STATIC, "nobody"),
    ("static", Phase.STATIC, "bulk"),
    ("seeded", Phase.SEEDED, "alone"),
    ("seeded", Phase.SEEDED, "nobody"),
    ("seeded", Phase.SEEDED, "bulk"),
    ("seeded", Phase.SEEDED, "voice"),
)

_HEAD: Final = """\
in_group() { # GROUP COMMAND...
  mkdir -p "/sys/fs/cgroup/$1"
  sh -c 'echo $$ >"/sys/fs/cgroup/$0/cgroup.procs" && exec "$@"' "$@"
}
"""
_ALONE: Final = """\
hold
in_group voice.slice {voice} >/tmp/voice &
spin any 2 {seconds} idle >/tmp/idle &
usleep 100000
go
wait
echo "LAB c {name}/voice $(cat /tmp/voice)"
"""
_TOGETHER: Final = """\
hold
in_group voice.slice {voice} >/tmp/voice &
in_group bulk.slice {bulk} >/tmp/bulk &
[ {greedy} = nobody ] || in_group {greedy}.slice {spinners} >/tmp/spinners &
spin hog {hogs} {seconds} >/tmp/batch &
usleep 100000
{before}
go
wait
echo "LAB c {name}/voice $(cat /tmp/voice)"
echo "LAB c {name}/bulk $(cat /tmp/bulk)"
[ {greedy} = nobody ] || echo "LAB c {name}/spinners $(cat /tmp/spinners)"
echo "LAB c {name}/batch $(cat /tmp/batch)"
"""

LEAST_STEPS: Final = 0.95
"""Of the voice service alone, as for two CPUs in scenario a: nobody is above it.  "Alone" is beside
two spinners that have no claim to a CPU, for emulated CPUs that both work are half as fast.  Also
of it alone with the kernel's scheduler, for what tierc's own costs."""
MOST_LATE: Final = 1.5
"""Of the voice service alone, as in scenario a; also for its first tokens.  Alone with tierc's
scheduler: the kernel's lets the API keep the engine waiting, so that is no measure.  How late the
engine wakes is not known better than to a turn of the emulated CPUs, which is added."""
LEAST_BATCH_SHARE: Final = 0.95
"""Of what the services leave on the CPUs of batch, as in scenario a, if all they use were there."""
LEAST_FLOOR: Final = 0.9
"""Of the floor of a tier.  It saves up while a thread of it waits, which of a service with one busy
thread is not always so."""


def _script(text: str, greedy: str, name: str, before: str) -> str:
    for word, value in (
        ("before", before),
        ("bulk", service(SECONDS, BULK_MS)),
        ("greedy", greedy),
        ("hogs", str(HOGS)),
        ("name", name),
        ("spinners", f"spin {API} {SPINNERS} {SECONDS}"),
        ("voice", service(SECONDS, VOICE_MS)),
        ("seconds", str(SECONDS)),
    ):
        text = text.replace(f"{{{word}}}", value)
    return _HEAD + text


def steps(machine: Machine) -> Sequence[Step]:
    """Return the runs."""
    found = []
    for scheduler, phase, greedy in _RUNS:
        before = "static $POLICY" if phase is Phase.STATIC else ""
        text = _ALONE if greedy == "alone" else _TOGETHER
        script = _script(text, greedy, f"{scheduler}/{greedy}", before)
        found.append(Step(phase, script, "tiers"))
    return found


def judge(result: Result) -> Report:
    """Judge: who is above does not notice who is below, and who is below keeps a floor."""
    served, spun = services(result.console, "c"), hogs(result.console, "c")
    missing, rows = [], []
    for scheduler, _, greedy in _RUNS:
        name = f"{scheduler}/{greedy}"
        missing += [one for one in _services_of(name, greedy) if one not in served]
        missing += [one for one in _spinners_of(name, greedy) if one not in spun]
        both = [served.get(f"{name}/{one}") for one in ("voice", "bulk")]
        others = [spun.get(f"{name}/{one}") for one in ("spinners", "batch")]
        rows.append(
            (scheduler, greedy, *_cells(both), *("" if o is None else o.cpu_ms for o in others))
        )
    if missing:
        return Report([Check(False, f"no figures: {', '.join(missing)}")])
    of_each = [
        f"{name} {what}" for name in ("voice", "bulk") for what in ("steps/s", "p99 us", "ttft us")
    ]
    columns = ("scheduler", "too much", *of_each, "spinners ms", "batch ms")
    table = Table(columns, rows)
    return Report(check_c(served, spun, result.plans["tiers"], result.machine.cpus), table)


def _services_of(name: str, greedy: str) -> list[str]:
    return [f"{name}/voice"] if greedy == "alone" else [f"{name}/voice", f"{name}/bulk"]


def _spinners_of(name: str, greedy: str) -> list[str]:
    if greedy == "alone":
        return []
    return [f"{name}/batch"] if greedy == "nobody" else [f"{name}/batch", f"{name}/spinners"]


def _cells(both: Sequence[Service | None]) -> list[str | int | float]:
    cells: list[str | int | float] = []
    for one in both:
        cells += ["", "", ""] if one is None else [one.steps, one.p99_us, shown(one.ttft_us)]
    return cells


def check_c(
    served: Mapping[str, Service], spun: Mapping[str, Hogs], plan: Mapping[str, Any], cpus: int
) -> list[Check]:
    """Judge the figures.

    Args:
        served: of services, by "scheduler/who wants too much/service".
        spun: of those that never sleep, likewise.
        plan: what was compiled: floors, and where batch may run.
        cpus: of the machine.
    """
    floors = {tier["name"]: tier["floor"] / 1000 for tier in plan["tiers"]}
    (batch,) = (unit for unit in plan["units"] if unit.get("intent") == "batch")
    batch_cpus = len(CpuSet.parse(batch["cpus"]))
    alone, plain, whole = served["seeded/alone/voice"], served["eevdf/alone/voice"], SECONDS * 1000
    checks = [at_least("voice's steps, alone", alone.steps, LEAST_STEPS * plain.steps)]
    for greedy in ("nobody", "bulk"):
        voice, text = served[f"seeded/{greedy}/voice"], f"{greedy} wants too much: voice"
        checks += [
            at_least(f"{text}'s steps", voice.steps, LEAST_STEPS * alone.steps),
            at_most(f"{text}'s p99 us", voice.p99_us, MOST_LATE * alone.p99_us + TURN_US),
            _soon(f"{text}'s first token", voice.ttft_us, alone.ttft_us, MOST_LATE),
        ]
    bulk, before = served["seeded/nobody/bulk"], served["eevdf/nobody/bulk"]
    left = whole * batch_cpus - served["seeded/nobody/voice"].cpu_ms - bulk.cpu_ms
    got = spun["seeded/nobody/batch"].cpu_ms
    checks += [
        at_least("nobody wants too much: bulk's steps", bulk.steps, before.steps),
        at_most("nobody wants too much: bulk's p99 us", bulk.p99_us, before.p99_us),
        _soon("nobody wants too much: bulk's first token", bulk.ttft_us, before.ttft_us, 1),
        at_least("nobody wants too much: batch's ms", got, LEAST_BATCH_SHARE * left),
    ]
    for greedy in ("bulk", "voice"):
        got, wanted = spun[f"seeded/{greedy}/batch"].cpu_ms, floors["background"] * batch_cpus
        text = f"{greedy} wants too much: batch's ms"
        checks.append(at_least(text, got, wanted * whole))
    bulk, voice = served["seeded/voice/bulk"], served["seeded/voice/voice"]
    kept = LEAST_FLOOR * floors["interactive"] * cpus * whole
    checks.append(at_least("voice wants too much: bulk's ms", bulk.cpu_ms, kept))
    above = voice.cpu_ms + spun["seeded/voice/spinners"].cpu_ms
    checks.append(
        at_least("voice wants too much: its ms", above, (1 - sum(floors.values())) * cpus * whole)
    )
    return checks


def _soon(text: str, us: int | None, than: int | None, times: float) -> Check:
    """Return the check that a first token comes within so many times another's time."""
    if us is None:
        return Check(False, f"{text}: half of the requests had none in the time")
    if than is None:
        return Check(True, f"{text}: {us} us, where half of the requests had none in the time")
    return at_most(f"{text}, us", us, times * than)


SCENARIO: Final = Scenario(
    "c", "two services of different tiers, and batch work", {"tiers": POLICY}, steps, judge
)
