"""Fixtures of the tests that run the taskset scripts, here and on a pretended machine.

Named in ``pytest_plugins`` rather than imported, which is how fixtures are shared by a few modules.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.plan import NodePlan
from tests.taskset_host import Host
from tests.taskset_live import Shell, make_shell
from tests.taskset_plans import write_scripts


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


@pytest.fixture
def sh(tool: Callable[[str], str], tmp_path: Path) -> Shell:
    """One shell, where the two cannot differ."""
    return make_shell("dash", tool, tmp_path)


@pytest.fixture
def tag() -> str:
    """A start of names that no other process has."""
    return "t" + uuid.uuid4().hex[:6]


@pytest.fixture
def scripts(tmp_path: Path) -> Callable[[NodePlan], Path]:
    return lambda one: write_scripts(one, tmp_path / "node")


@pytest.fixture(params=["dash", "busybox"])
def host(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Host:
    return Host(request.param, tool, tmp_path)


@pytest.fixture
def one_host(tool: Callable[[str], str], tmp_path: Path) -> Host:
    """One shell, where the two cannot differ."""
    return Host("dash", tool, tmp_path)
