"""Policy tests: reading them, checking what they name, and running them.

A test is data (``kind: PolicyTest``).  Nothing here changes what a policy compiles to, and
``tierc build`` never comes here.
"""

from __future__ import annotations

from compiler.policytest.load import Suite, load_tests
from compiler.policytest.names import check_names
from compiler.policytest.results import Broken, Case, Failure, Report, Result
from compiler.policytest.run import run_tests
from compiler.policytest.snapshot import write_snapshot
from compiler.policytest.worlds import Worlds

__all__ = [
    "Broken",
    "Case",
    "Failure",
    "Report",
    "Result",
    "Suite",
    "Worlds",
    "check_names",
    "load_tests",
    "run_tests",
    "write_snapshot",
]
