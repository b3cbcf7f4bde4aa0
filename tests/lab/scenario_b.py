"""Scenario b: an API server that hands requests to an engine, among hogs nobody has demoted.

The API needs 6 ms of CPU time for a request, and there is one every 40 ms: 15 % of the CPU, where a
fair share among eight hogs and the engine is 10 %.  So its backlog grows, however fair the
scheduler, and requests wait in it for their first token.  To protect the engine's step helps
decode and not these; that takes the path from the request to the first token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.lab.check import Check, at_least, at_most
from tests.lab.machine import Machine
from tests.lab.policy import intent, project
from tests.lab.scenario import Phase, Report, Result, Scenario, Step, Table
from tests.lab.services import Hogs, Service, hogs, service, services, shown

HOGS: Final = 8
API_MS: Final = 6
SECONDS: Final = 1.5
_WORKLOAD: Final = '{engine: vllm, version: "0.24.0"}'

POLICIES: Final = {
    # With this, the API is at the tier of whatever no intent names, where the hogs are.
    "decode": project() + intent("chat", _WORKLOAD, "protect: [decode]"),
    "ttft": project() + intent("chat", _WORKLOAD, "protect: [ttft]"),
}

_RUNS: Final = (
    # name, who schedules, policy, hogs
    ("idle", Phase.EEVDF, "", 0),
    ("eevdf", Phase.EEVDF, "", HOGS),
    ("static", Phase.STATIC, "ttft", HOGS),
    ("empty", Phase.EMPTY, "", HOGS),
    ("decode", Phase.SEEDED, "decode", HOGS),
    ("ttft", Phase.SEEDED, "ttft", HOGS),
)

_SCRIPT: Final = """\
rm -f /tmp/start
hold
[ {hogs} = 0 ] || spin spin {hogs} {seconds} >/tmp/spin &
{service} >/tmp/service &
usleep 100000
{before}
go
wait
echo "LAB b {name} $(cat /tmp/service)"
[ {hogs} = 0 ] || echo "LAB b {name} $(cat /tmp/spin)"
"""

LEAST_STEPS: Final = 0.97
"""Of the idle machine's, as in scenario a: the loop is the same and the only one of its tier."""
NO_BETTER: Final = 0.8
"""Of the first tokens' median without a policy.  What the engine takes more when it is protected
comes from the API and the hogs alike, so the API can only lose; but a turn of nine threads is some
100 ms with the slices of that tier, a quarter of the median, so it may fall so or so."""
TTFT: Final = 0.1
"""Of the median without a policy."""
LAST: Final = 2
"""Requests that may be under way at the end: more are a backlog that grows."""
LEAST_HOGS_SHARE: Final = 0.95
"""Of the CPU time that the service leaves, as in scenario a."""


def steps(machine: Machine) -> Sequence[Step]:
    """Return the runs."""
    found = []
    for name, phase, policy, count in _RUNS:
        script = _SCRIPT
        for word, value in (
            ("name", name),
            ("hogs", str(count)),
            ("seconds", str(SECONDS)),
            ("service", service(SECONDS, API_MS)),
            ("before", "static $POLICY" if phase is Phase.STATIC else ""),
        ):
            script = script.replace(f"{{{word}}}", value)
        found.append(Step(phase, script, policy))
    return found


def judge(result: Result) -> Report:
    """Judge: protecting decode helps decode, protecting the way to the first token helps both."""
    served, spun = services(result.console, "b"), hogs(result.console, "b")
    missing = [
        name for name, _, _, count in _RUNS if name not in served or (count and name not in spun)
    ]
    if missing:
        return Report([Check(False, f"no figures: {', '.join(missing)}")])
    rows = [
        (
            name, served[name].steps, served[name].p99_us, shown(served[name].ttft_us),
            shown(served[name].ttft_p90_us), f"{served[name].answered}/{served[name].arrived}",
            spun[name].cpu_ms if count else "",
        )
        for name, _, _, count in _RUNS
    ]  # fmt: skip
    columns = ("policy", "steps/s", "p99 us", "ttft p50 us", "p90 us", "answered", "hogs ms")
    lost = 100 * (1 - served["ttft"].steps / served["decode"].steps)
    note = f"protecting the way to the first token costs {lost:.1f} % of the steps of decode only"
    return Report(check_b(served, spun), Table(columns, rows), [note])


def check_b(served: Mapping[str, Service], spun: Mapping[str, Hogs]) -> list[Check]:
    """Judge the figures, by policy."""
    eevdf, decode, ttft = served["eevdf"], served["decode"], served["ttft"]
    checks = [
        at_least("steps, decode only", decode.steps, LEAST_STEPS * served["idle"].steps),
        Check(
            decode.steps > eevdf.steps,
            f"steps, decode only: {decode.steps:.0f}, more than {eevdf.steps:.0f}",
        ),
        at_least("steps, ttft", ttft.steps, eevdf.steps),
    ]
    if eevdf.ttft_us is None or ttft.ttft_us is None:
        who = "eevdf" if eevdf.ttft_us is None else "ttft"
        checks.append(Check(False, f"{who}: half of the requests had no first token in the time"))
    else:
        if decode.ttft_us is not None:
            wanted = NO_BETTER * eevdf.ttft_us
            checks.append(at_least("first token us, decode only", decode.ttft_us, wanted))
        checks.append(at_most("first token us, ttft", ttft.ttft_us, TTFT * eevdf.ttft_us))
    checks.append(at_least("first tokens, ttft", ttft.answered, ttft.arrived - LAST))
    for name in ("decode", "ttft"):
        left = SECONDS * 1000 - served[name].cpu_ms
        text = f"hogs' ms, {name}"
        checks.append(at_least(text, spun[name].cpu_ms, LEAST_HOGS_SHARE * left))
    return checks


SCENARIO: Final = Scenario(
    "b", "an API server that hands requests to an engine, among hogs", POLICIES, steps, judge
)
