"""The mutation check: what it changes, how it runs tests, and what it says."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.mutation import PACKAGES, ROOT, kind_of, passive, paths_of, trial, verdict


def test_what_no_test_can_tell_apart_is_left_out() -> None:
    code = (
        "x: int | None = 1 | 2\n"
        "def f(a: 'A', *b: B | C) -> D | E:\n"
        "    return zip(a, b, strict=True), False\n"
        "@lru_cache(maxsize=9)\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class C: pass\n"
    )
    lines = code.splitlines()
    assert [lines[begin[0] - 1][begin[1] : end[1]] for begin, end in sorted(passive(code))] == [
        "int | None",
        "'A'",
        "B | C",
        "D | E",
        "True",
        "@lru_cache(maxsize=9)",
        "True",
    ]


def test_kinds_are_what_operators_share() -> None:
    assert kind_of("core/ReplaceBinaryOperator_Add_Sub") == "ReplaceBinaryOperator"
    assert kind_of("core/AddNot") == "AddNot"


def test_every_file_and_every_test_named_is_there() -> None:
    for name, package in PACKAGES.items():
        assert set(package.paths) <= {f"compiler/{name}", f"compiler/{name}.py"}
        assert paths_of(package)
        for test in package.quick + package.broad:
            assert (ROOT / "tests" / f"{test}.py").is_file(), test
    whole = {str(p.relative_to(ROOT)) for p in (ROOT / "compiler" / "place").rglob("*.py")}
    assert set(paths_of(PACKAGES["place"])) == whole


def fine() -> None:
    sys.exit(3)  # never seen: a trial ends by itself or is broken


def busy() -> None:
    while True:
        pass


def asleep() -> None:
    time.sleep(3600)


@pytest.mark.parametrize(
    ("work", "how"), [(fine, "broken 71"), (busy, "timeout"), (asleep, "timeout")]
)
def test_a_trial_ends(work: Callable[[], None], how: str, tmp_path: Path) -> None:
    assert trial(work, tmp_path / "log", 1, wall=3)[0] == how


def test_the_table() -> None:
    assert verdict({"place": 3, "graph": 1}, {"place": 4, "graph": 1, "resolve": 0}).split(
        "\n"
    ) == [
        "graph         1 of    1 killed  100.0%",
        "place         3 of    4 killed   75.0%",
        "all           4 of    5 killed   80.0%",
    ]


TRY = """
import sys
from pathlib import Path
from bench.mutation import Mutant, PRELOADED, ROOT, Workshop, import_module
for name in PRELOADED:
    import_module(name)
path, old, new = sys.argv[2:]
code = (ROOT / path).read_text("utf-8")
assert code.count(old) == 1, old
mutant = Mutant(path, 1, "by hand", code.replace(old, new))
print(Workshop(Path(sys.argv[1])).kills(mutant, ("test_graph",)))
"""


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("import networkx as nx\n", "import networkx as nx\nimport no_such_module\n", "True"),
        ("import networkx as nx\n", "import networkx as nx\nUNUSED = 1\n", "False"),
    ],
)
def test_a_change_is_noticed_where_it_matters(
    old: str, new: str, seen: str, tmp_path: Path
) -> None:
    before = (ROOT / "compiler" / "graph.py").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(tmp_path), "compiler/graph.py", old, new],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == (seen, 0), done.stderr
    assert (ROOT / "compiler" / "graph.py").read_bytes() == before
