"""Teeth: seeds with a mistake in them must make a check fail.

What is changed is the staged seed, after the compiler and before the loader: mistakes that a
compiler or a layout of maps could have, and that every reading back of maps would accept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check
from tests.lab.console import cpus_seen
from tests.lab.machine import Machine
from tests.lab.scenario import Phase, Report, Result, Scenario, Step, Table
from tests.lab.scenario_a import GUARDED, POLICY, Figures, figures, loop, protected

_HOGS: Final = 4
# A band's record: slice (8 bytes), weight, floor (4 each), tier, order (2 each), flags (4), CPUs.
_BYTES: Final = r"value hex \([0-9a-f][0-9a-f] \)\{%d\}"
_BAND: Final = "/tierc_stage\\/bands key/s/\\(" + _BYTES + "\\)%s/\\1%s/"
_SED: Final = "sed -i '{}' \"$1/bpf/stage.batch\""

ALONE: Final[Mapping[str, str]] = {
    "right": "",
    "prefix": _SED.format("/tierc_stage\\/comm key/s/ 56 4c 4c 4d / 4c 4c 4d 3a /"),
    "flag": _SED.format(_BAND % (20, "01 00 00 00", "00 00 00 00")),
    "fields": _SED.format(_BAND % (16, "\\(.. .. .. ..\\) \\(.. .. .. ..\\)", "\\4 \\3")),
}
"""Changes seen by the steps of a loop: a name that begins elsewhere, no preemption, tier and order
where the flags are."""
LANE: Final[Mapping[str, str]] = {
    "lane": "",
    "domain": _SED.format(
        ";".join(
            f"{_BAND % (24, f'{1 << cpu:02x} ', f'{2 << cpu:02x} ')};t" for cpu in range(6, -1, -1)
        )
    ),
    "hard": _SED.format(_BAND % (20, "0[0-9a-f] ", "01 ")),
}
"""Changes seen by where threads run: a lane's CPU is the next one, no domain is hard."""

_WHERE: Final = """\
hold
spin hog {hogs} 2 >/dev/null &
hogs=$!
decode VLLM::EngineCor 2 >/dev/null &
decode=$!
usleep 100000
go
usleep 300000
echo "LAB teeth {name} decode=$(seen 10 $decode) hogs=$(seen 10 $(pids hog))"
wait $decode $hogs
"""
_SEEN: Final = re.compile(r"^LAB teeth (\w+) decode=(\S*) hogs=(\S*)$", re.M)


def steps(machine: Machine) -> Sequence[Step]:
    """Return the right seed and the wrong ones."""
    if machine.cpus > 2:
        where = _WHERE.replace("{hogs}", str(2 * machine.cpus))
        return [
            Step(Phase.SEEDED, where.replace("{name}", name), "lane", change)
            for name, change in LANE.items()
        ]
    return [
        Step(Phase.EEVDF, loop("teeth alone", 0)),
        *(
            Step(Phase.SEEDED, loop(f"teeth {name}", _HOGS * machine.cpus), "decode", change)
            for name, change in ALONE.items()
        ),
    ]


def judge(result: Result) -> Report:
    """Judge: the right seed passes, each wrong one fails a check."""
    if result.machine.cpus > 2:
        found = {m[1]: (cpus_seen(m[2]), cpus_seen(m[3])) for m in _SEEN.finditer(result.console)}
        (lane,) = result.plans["lane"]["lanes"]
        own = CpuSet.parse(lane["cpus"])
        passed = {
            name: [
                Check(bool(decode) and decode <= own, f"decode on {decode}, in its lane {own}"),
                Check(bool(hogs) and not hogs & own, f"hogs on {hogs}, outside {own}"),
            ]
            for name, (decode, hogs) in found.items()
        }
        return Report([_verdict(name, passed.get(name)) for name in LANE])
    results = {name: one for (name, _), one in figures(result.console, "teeth", 1).items()}
    alone = results.get("alone")
    checks = {
        name: protected(name, results[name], alone, result.machine)
        for name in ALONE
        if alone and name in results
    }
    return Report(
        [_verdict(name, checks.get(name)) for name in ALONE],
        Table(("seed", "steps/s", "p99 us"), [_row(name, one) for name, one in results.items()]),
    )


def _row(name: str, one: Figures) -> tuple[str, float, int]:
    return name, one.steps, one.p99_us


def _verdict(name: str, checks: Sequence[Check] | None) -> Check:
    """Return whether a seed is told apart: the right ones pass everything, wrong ones do not."""
    if checks is None:
        return Check(False, f"{name}: no figures")
    failed = [check.text for check in checks if not check.passed]
    if name in ("right", "lane"):
        return Check(not failed, f"the {name} seed passes{'; '.join(['', *failed])}")
    return Check(
        bool(failed), f"a seed with a wrong {name} fails: {'; '.join(failed) or 'nothing'}"
    )


SCENARIO: Final = Scenario(
    "teeth", "seeds with a mistake", {"decode": POLICY, "lane": GUARDED}, steps, judge
)
