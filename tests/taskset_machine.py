"""This machine, as the tests of the taskset scripts see it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.plan import NodePlan
from tests.taskset_live import allowed
from tests.taskset_plans import two_cpus

if len(os.sched_getaffinity(0)) < 2:
    pytest.skip("needs two CPUs to move threads between", allow_module_level=True)

ONE, TWO = map(str, two_cpus())
UNTOUCHED = allowed(os.getpid())

Scripts = Callable[[NodePlan], Path]


def total(output: str) -> str:
    """Return the last line of a script's output."""
    return output.strip().splitlines()[-1]
