"""Services of two stages in the lab: how they are started, and the figures they print.

A service is payload/pipeline.c: an API process that handles a request every so often, and an engine
that does steps all the time.  The names are those that vLLM's processes have, so an intent for vLLM
speaks of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

API: Final = "vllm"
ENGINE: Final = "VLLM::EngineCor"
PERIOD_MS: Final = 40
"""Between two requests."""

_SERVICE: Final = re.compile(
    r"^LAB (?P<scenario>\w+) (?P<name>\S+) steps_per_s=(?P<steps>[\d.]+) late_p50_us=\d+"
    r" late_p99_us=(?P<p99>\d+) ttft_p50_us=(?P<ttft>-?\d+) ttft_p90_us=(?P<ttft_p90>-?\d+)"
    r" arrived=(?P<arrived>\d+) answered=(?P<answered>\d+) api_ms=(?P<api>\d+)"
    r" engine_ms=(?P<engine>\d+)$",
    re.M,
)
_HOGS: Final = re.compile(r"^LAB (\w+) (\S+) hogs_cpu_ms=(\d+) least_ms=(\d+)$", re.M)


@dataclass(frozen=True)
class Service:
    """What a service reached.

    Attributes:
        steps: of its engine, per second.
        p99_us: how late the engine woke, 99th percentile.
        ttft_us: from a request's arrival to its first token, median; none if more than half of them
            had no first token in the time, which is worse than any.
        ttft_p90_us: 90th percentile of that.
        arrived: requests.
        answered: requests that had their first token.
        cpu_ms: CPU time of both processes.
    """

    steps: float
    p99_us: int
    ttft_us: int | None
    ttft_p90_us: int | None
    arrived: int
    answered: int
    cpu_ms: int


@dataclass(frozen=True)
class Hogs:
    """What processes that never sleep got, in milliseconds of CPU time.

    Attributes:
        cpu_ms: together.
        least_ms: the least of them.
    """

    cpu_ms: int
    least_ms: int


def service(seconds: float, api_ms: float) -> str:
    """Return the command of a service whose API spends so much CPU time on a request."""
    return f"pipeline {API} {ENGINE} {seconds} {PERIOD_MS} {api_ms}"


def services(console: str, scenario: str) -> Mapping[str, Service]:
    """Read the figures of a scenario's services, by the name in their line."""
    return {
        m["name"]: Service(
            steps=float(m["steps"]),
            p99_us=int(m["p99"]),
            ttft_us=_known(m["ttft"]),
            ttft_p90_us=_known(m["ttft_p90"]),
            arrived=int(m["arrived"]),
            answered=int(m["answered"]),
            cpu_ms=int(m["api"]) + int(m["engine"]),
        )
        for m in _SERVICE.finditer(console)
        if m["scenario"] == scenario
    }


def hogs(console: str, scenario: str) -> Mapping[str, Hogs]:
    """Read the figures of a scenario's hogs, by the name in their line."""
    return {m[2]: Hogs(int(m[3]), int(m[4])) for m in _HOGS.finditer(console) if m[1] == scenario}


def shown(us: int | None) -> str | int:
    """Return a time for a table; a dash if it was never reached."""
    return "-" if us is None else us


def _known(word: str) -> int | None:
    number = int(word)
    return None if number < 0 else number
