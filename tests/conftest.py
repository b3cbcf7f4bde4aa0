"""What every test shares: the shared data, external tools, golden files, hypothesis profiles."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no")


# A CI run must be reproducible: same examples every time.  There is no deadline anywhere, because
# machines that run tests are shared and slow at times; what must be bounded is counted, not timed.
hypothesis.settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if _is_set("CI") else "dev")


# --- shared data -----------------------------------------------------------------------------


def shared_dir() -> Path:
    """Return the directory of data that is not part of the repository.

    It is TIERC_SHARED, or ``shared`` beside the repository.  Without it the test is skipped, or
    fails under TIERC_REQUIRE_SHARED=1.
    """
    where = Path(os.environ.get("TIERC_SHARED") or ROOT.parent / "shared")
    if where.is_dir():
        return where
    reason = f"shared data not found at {where}; set TIERC_SHARED"
    if _is_set("TIERC_REQUIRE_SHARED"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def shared() -> Path:
    """The shared data directory; see :func:`shared_dir`."""
    return shared_dir()


# --- external tools --------------------------------------------------------------------------


def find_tool(name: str) -> str | None:
    """Return the path of an external program, in PATH or where only root's PATH looks."""
    places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """A function from a program's name to its path.

    A missing program skips the test on a developer's machine and fails it in CI, where a check
    that silently never runs would be worse than none.
    """

    def get(name: str) -> str:
        if (path := find_tool(name)) is not None:
            return path
        reason = f"{name} is not installed"
        if _is_set("CI"):
            pytest.fail(f"{reason}, and CI must not skip what needs it", pytrace=False)
        pytest.skip(reason)

    return get


# --- golden files ----------------------------------------------------------------------------


class Golden:
    """Compares produced files with those kept under ``tests/golden``, both ways."""

    def __init__(self, update: bool) -> None:
        self._update = update

    def tree(self, name: str, produced: Mapping[str, bytes]) -> None:
        """Compare a whole tree: relative path -> bytes.  Missing and orphaned files fail."""
        root = GOLDEN / name
        if self._update:
            shutil.rmtree(root, ignore_errors=True)
            for path, data in sorted(produced.items()):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
            return
        kept = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if not p.is_dir()}
        problems = [f"not produced any more: {path}" for path in sorted(kept.keys() - produced)]
        problems += [f"not kept: {path}" for path in sorted(produced.keys() - kept)]
        for path in sorted(produced.keys() & kept):
            if produced[path] != kept[path]:
                problems.append(_difference(f"{name}/{path}", kept[path], produced[path]))
        self._judge(name, problems)

    def file(self, name: str, produced: bytes, *, base: Path = GOLDEN) -> None:
        """Compare one file below ``base``."""
        path = base / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(produced)
            return
        if not path.is_file():
            self._judge(name, ["not kept"])
        elif (kept := path.read_bytes()) != produced:
            self._judge(name, [_difference(name, kept, produced)])

    @staticmethod
    def _judge(name: str, problems: list[str]) -> None:
        if problems:
            detail = "\n".join(problems)
            pytest.fail(
                f"golden {name} differs; if the new output is right, run `make golden` and "
                f"review the diff\n{detail}",
                pytrace=False,
            )


def _difference(name: str, kept: bytes, produced: bytes) -> str:
    before, after = (
        data.decode("utf-8", "backslashreplace").splitlines() for data in (kept, produced)
    )
    names = (f"kept {name}", f"produced {name}")
    diff = list(difflib.unified_diff(before, after, *names, lineterm="", n=2))
    more = [f"... {len(diff) - 60} more lines"] if len(diff) > 60 else []
    return "\n".join([*diff[:60], *more]) or f"{name}: bytes differ in line ends only"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Golden files under ``tests/golden``; ``make golden`` rewrites them."""
    return Golden(update=request.config.getoption("--update-golden"))


# --- hooks -----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --update-golden."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what is produced"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that are set below, and keep goldens safe from CI."""
    config.addinivalue_line("markers", "uses_shared: set on tests that use the shared data")
    config.addinivalue_line("markers", "uses_golden: set on tests that compare golden files")
    if config.getoption("--update-golden") and _is_set("CI"):
        raise pytest.UsageError("golden files are not regenerated in CI: it would hide the change")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use; reports carry markers, also from xdist workers."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture in ("shared", "golden"):
            if fixture in fixtures:
                item.add_marker(f"uses_{fixture}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests really saw the shared data."""
    outcome: dict[bool, set[str]] = {True: set(), False: set()}
    for category, reports in terminalreporter.stats.items():
        for report in reports:
            if category and "uses_shared" in getattr(report, "keywords", ()):
                outcome[category != "skipped"].add(report.nodeid)
    run, skipped = outcome[True], outcome[False] - outcome[True]
    if run or skipped:
        terminalreporter.write_line(f"shared: {len(run)} run, {len(skipped)} skipped")
