"""Policy tests: reading them, checking what they name, and running them.

A test is data (``kind: PolicyTest``).  Nothing here changes what a policy compiles to, and
``tierc build`` never comes here.  ``tierc lint`` reads and checks them; what runs them is in
``run``, ``worlds`` and ``snapshot``, which need everything that explains a plan.
"""

from __future__ import annotations

from compiler.policytest.load import Suite, load_tests
from compiler.policytest.names import check_names
from compiler.policytest.results import Broken, Case, Failure, Report, Result

__all__ = [
    "Broken",
    "Case",
    "Failure",
    "Report",
    "Result",
    "Suite",
    "check_names",
    "load_tests",
]
