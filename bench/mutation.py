"""Do the tests notice when the code is changed?

Run from the root of the repository, with cosmic-ray installed beside what ``dev`` installs:
``python -m bench.mutation [SITES [SEED [PACKAGE...]]]``.  See bench/README.md.
"""

from __future__ import annotations

import ast
import difflib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

AIM = 0.85
"""Part of the mutants that the tests must kill."""
MEMORY = 4 << 30
"""Bytes of address space of a trial; a mutant that allocates without end is killed by it."""
SLACK = 3
"""A trial may take so many times the CPU time of the tests on the unchanged code."""
WALL = 10
"""Seconds of the clock for each second of CPU time: the machine may be shared."""

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("compiler", "targets", "bpf", "schemas", "tests", "examples", "bench", "docs")
# What tests import besides the code under test.  A trial is a fork that has them already.
PRELOADED = ("hypothesis", "jinja2", "jsonschema", "networkx", "pydantic", "pytest", "ruamel.yaml")
PRELOADED += ("typer.testing", "_pytest.assertion.rewrite", "hypothesis.strategies")


@dataclass(frozen=True)
class Package:
    """What is mutated together, and the tests that are to notice."""

    paths: tuple[str, ...]
    quick: tuple[str, ...]
    """Test files that cover it, the quickest first; the first failure ends a trial."""
    broad: tuple[str, ...]
    """Test files for mutants that the quick ones let live."""


PACKAGES: Mapping[str, Package] = {
    "place": Package(
        ("compiler/place",),
        (
            "test_place",
            "test_place_bound",
            "test_place_fit",
            "test_place_narrow",
            "test_families_place",
            "test_place_oracle",
            "test_place_search",
            "test_place_properties",
        ),
        ("test_cases_placement", "test_families", "test_safety_families", "test_end_to_end"),
    ),
    "resolve": Package(
        ("compiler/resolve",),
        (
            "test_resolve",
            "test_resolve_words",
            "test_resolve_policy",
            "test_resolve_overlap",
            "test_resolve_ties",
            "test_families",
        ),
        (
            "test_rules",
            "test_select",
            "test_policytest",
            "test_policytest_findings",
            "test_policytest_snapshots",
            "test_explain",
            "test_cases",
            "test_safety",
            "test_safety_pairs",
            "test_examples_answers",
            "test_end_to_end",
        ),
    ),
    "graph": Package(
        ("compiler/graph.py",),
        ("test_graph",),
        ("test_graph_command", "test_resolve", "test_select"),
    ),
    "patterns": Package(
        ("compiler/patterns",),
        ("test_patterns_cmdline", "test_patterns_glob", "test_patterns_tools"),
        ("test_resolve", "test_resolve_overlap", "test_taskset_emit"),
    ),
}

# These change nothing where equality is identity, as it is of None, enums and truth values, and
# nothing that may be relied on elsewhere.
INDISTINCT = ("Is_Eq", "IsNot_NotEq", "Eq_Is", "NotEq_IsNot")


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    """Below the root of the repository."""
    line: int
    operator: str
    """cosmic-ray's name of the change."""
    code: str
    """The whole file, changed."""


Site = tuple[str, int, int, str]
"""File, line, column and kind of change: where cosmic-ray knows one or more mutants."""


def passive(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where what begins and ends that no test can tell from its mutants.

    Annotations are not run; memory of answers, ``slots`` and the ``strict`` of zip change speed
    and what is said of a mistake in the code, and no answer.
    """
    found: list[tuple[ast.expr, int]] = []
    for node in ast.walk(ast.parse(code)):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if isinstance(part, ast.expr):
                found.append((part, 0))
        if isinstance(node, ast.keyword) and node.arg in ("slots", "strict"):
            found.append((node.value, 0))
        for part in getattr(node, "decorator_list", ()):
            if ast.unparse(part).partition("(")[0] in ("cache", "lru_cache"):
                found.append((part, 1))  # the @ too
    return [
        ((part.lineno, part.col_offset - before), (part.end_lineno or 0, part.end_col_offset or 0))
        for part, before in found
    ]


def kind_of(operator: str) -> str:
    """Return the kind of a change: ``core/ReplaceBinaryOperator_Add_Sub`` has ten siblings."""
    return operator.rpartition("/")[2].partition("_")[0]


@cache
def sites_of(path: str, code: str) -> dict[Site, list[tuple[str, int]]]:
    """Return the sites of a file: operators of cosmic-ray, and which of their places it is."""
    plugins, tree = import_module("cosmic_ray.plugins"), import_module("cosmic_ray.ast")
    module, idle = tree.get_ast(code), passive(code)
    found: dict[Site, list[tuple[str, int]]] = defaultdict(list)
    for name in sorted(plugins.operator_names()):
        operator = plugins.get_operator(name)
        if operator.arguments() or name.endswith(INDISTINCT):
            continue
        places = (
            place
            for node in tree.ast_nodes(module)
            for place in operator().mutation_positions(node)
        )
        for occurrence, (start, _) in enumerate(places):
            if not any(begin <= start < end for begin, end in idle):
                found[path, *start, kind_of(name)].append((name, occurrence))
    return found


def mutants_of(paths: Sequence[str], number: int, rng: Random) -> Iterator[Mutant]:
    """Draw mutants, at most one of a site, from each file in proportion to its sites.

    Of sites and not of mutants, since cosmic-ray knows eleven of each arithmetic operator, which
    mostly raise TypeError at once, and one of each condition.
    """
    plugins, mutating = import_module("cosmic_ray.plugins"), import_module("cosmic_ray.mutating")
    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    sites = {path: sites_of(path, code) for path, code in files.items()}
    total = sum(map(len, sites.values()))
    for path, here in sites.items():
        share = max(1, round(number * len(here) / total))
        for site in rng.sample(sorted(here), min(share, len(here))):
            name, occurrence = rng.choice(here[site])
            operator = plugins.get_operator(name)()
            code = mutating.mutate_code(files[path], operator, occurrence)
            if code is not None and code != files[path]:
                yield Mutant(path, site[1], name, code)


def run_tests(tree: Path, names: Sequence[str], *, write: bool = False) -> None:
    """Run test files of a copy of the repository in this process, and end it."""
    os.chdir(tree)
    sys.dont_write_bytecode = not write
    os.environ |= {"CI": "true", "PYTHONDONTWRITEBYTECODE": "" if write else "1"}
    hypothesis, pytest = import_module("hypothesis"), import_module("pytest")
    # The same examples each time; a failure is enough, the smallest one does not matter.
    hypothesis.settings.register_profile(
        "mutation",
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["--hypothesis-profile=mutation", "-W", "ignore:Module already imported"]
    code = int(pytest.main([*options, *(f"tests/{name}.py" for name in names)]))
    origin = getattr(sys.modules.get("compiler"), "__file__", None)
    if code == 0 and not (origin and Path(origin).is_relative_to(tree)):
        code = 70  # other code was tested than what was changed
    sys.stdout.flush()
    os._exit(code)


def trial(
    work: Callable[[], None], log: Path, seconds: int, *, wall: int | None = None
) -> tuple[str, float]:
    """Run work in a process of its own; return how it ended and the CPU seconds that it took.

    ``passed``, ``failed``, ``timeout``, or ``broken N`` when no test could be run.  Seconds are of
    CPU time, ``wall`` of the clock.
    """
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(71)
    end = time.monotonic() + (wall or WALL * seconds)
    late = False
    try:
        while not (done := os.wait4(pid, os.WNOHANG))[0]:
            if not late and time.monotonic() > end:
                late = True
                os.killpg(pid, signal.SIGKILL)
            time.sleep(0.02)
    except KeyboardInterrupt:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    _, status, usage = done
    if os.WIFSIGNALED(status):
        how = "timeout" if late or os.WTERMSIG(status) == signal.SIGXCPU else "failed"
    else:
        code = os.WEXITSTATUS(status)
        # 1: a test failed; 2 and 3: not even importable; 4: nor is what conftest imports
        how = {0: "passed", 1: "failed", 2: "failed", 3: "failed", 4: "failed"}.get(
            code, f"broken {code}"
        )
    return how, usage.ru_utime + usage.ru_stime


class Workshop:
    """A copy of the repository in which files are changed, one at a time."""

    def __init__(self, place: Path) -> None:
        self._tree = place / "tierc"
        self._log = place / "log"
        for name in COPIED:
            shutil.copytree(
                ROOT / name, self._tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, self._tree)
        self._limits: dict[tuple[str, ...], int] = {}

    def unchanged(self, names: tuple[str, ...]) -> float:
        """Run tests on the unchanged code: they must pass, and their time sets the limit."""
        how, used = trial(lambda: run_tests(self._tree, names, write=True), self._log, 3600)
        if how != "passed":
            text = self._log.read_text(encoding="utf-8", errors="replace")
            raise SystemExit(f"the tests do not pass on the unchanged code ({how})\n{text[-3000:]}")
        self._limits[names] = round(SLACK * used) + 10
        return used

    def kills(self, mutant: Mutant, names: tuple[str, ...]) -> bool:
        """Return whether tests notice a mutant."""
        if names not in self._limits:
            self.unchanged(names)
        file = self._tree / mutant.path
        before, when = file.read_bytes(), file.stat().st_mtime
        try:
            file.write_text(mutant.code, encoding="utf-8")
            # Compiled code is kept by time and size, and a mutant may have the size of the file.
            os.utime(file, (when + 10, when + 10))
            how, _ = trial(lambda: run_tests(self._tree, names), self._log, self._limits[names])
        finally:
            file.write_bytes(before)
            os.utime(file, (when, when))
        if how.startswith("broken"):
            raise SystemExit(f"{how}: {mutant.path}:{mutant.line} {mutant.operator}")
        return how != "passed"


def describe(mutant: Mutant) -> str:
    """Return where a mutant is, and the lines that differ."""
    before = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()
    lines = list(difflib.unified_diff(before, mutant.code.splitlines(), n=0, lineterm=""))[2:]
    return "\n".join([f"{mutant.path} {mutant.operator}", *lines])


def paths_of(package: Package) -> list[str]:
    """Return the files of a package, below the root of the repository."""
    files = [
        file
        for path in package.paths
        for file in (sorted((ROOT / path).glob("*.py")) if path[-3:] != ".py" else [ROOT / path])
    ]
    return [str(file.relative_to(ROOT)) for file in files]


def verdict(killed: Mapping[str, int], tried: Mapping[str, int]) -> str:
    """Return the table of what was killed, by package and in all."""
    rows = [(name, killed.get(name, 0), tried[name]) for name in sorted(tried)]
    rows.append(("all", sum(killed.values()), sum(tried.values())))
    return "\n".join(
        f"{name:<10}{dead:>5} of {total:>4} killed{dead / total:>8.1%}"
        for name, dead, total in rows
        if total
    )


def main(arguments: Sequence[str]) -> int:
    """Try mutants until all are done or it is interrupted; return 1 when the aim is missed."""
    number = int(arguments[0]) if arguments else 300
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    wanted = {name: PACKAGES[name] for name in arguments[2:] or PACKAGES}
    # Also where it was started in the background, or is ended by another program.
    for one_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one_signal, signal.default_int_handler)
    for name in PRELOADED:
        import_module(name)
    count = {
        name: sum(len(sites_of(p, (ROOT / p).read_text("utf-8"))) for p in paths_of(package))
        for name, package in wanted.items()
    }
    # By the root of the size, so that a small package is seen too.
    weight = {name: size**0.5 for name, size in count.items()}
    drawn = [
        (name, mutant)
        for name, package in wanted.items()
        for mutant in mutants_of(
            paths_of(package),
            round(number * weight[name] / sum(weight.values())),
            Random(f"{seed} {name}"),
        )
    ]
    Random(seed).shuffle(drawn)
    print(f"{sum(count.values())} sites, {len(drawn)} drawn", flush=True)
    tried: Counter[str] = Counter()
    alive: list[tuple[str, Mutant]] = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as place:
        workshop = Workshop(Path(place))
        for name, package in wanted.items():
            print(f"{name}: quick tests take {workshop.unchanged(package.quick):.1f} s", flush=True)
        try:
            for name, mutant in drawn:
                if not workshop.kills(mutant, wanted[name].quick):
                    alive.append((name, mutant))
                    print(f"\nnot noticed by the quick tests: {describe(mutant)}", flush=True)
                tried[name] += 1
            for one in sorted(alive, key=lambda one: (one[0], one[1].path, one[1].line)):
                if workshop.kills(one[1], wanted[one[0]].broad):
                    alive.remove(one)
                else:
                    print(f"\nsurvived: {describe(one[1])}", flush=True)
        except KeyboardInterrupt:
            print("\ninterrupted")
    killed = tried - Counter(name for name, _ in alive)
    print(f"\n{verdict(killed, tried)}")
    return int(sum(killed.values()) < AIM * sum(tried.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
