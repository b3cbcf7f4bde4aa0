"""Imports point one way, and heavy or dangerous packages are imported in named places only.

Read from the syntax trees, so imports inside functions count too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Lowest first.  A unit is a module or package directly below `compiler`.  It may import its own
# parts and units of lower layers: nothing of its own layer, nothing higher.
LAYERS: list[set[str]] = [
    {""},  # compiler/__init__.py: the version
    {
        "artifact",
        "cpuset",
        "diagnostics",
        "graph",
        "suggest",
        "versions",
        "words",
        "yamlout",
    },
    {"codes", "fingerprint", "patterns", "shard"},
    {"reading", "tree"},
    {"source"},
    {"model"},
    {"decode"},
    {"plan", "profiles", "schemas", "select", "topology"},
    {"fleet"},
    {"entries", "facts", "features", "modes", "policy", "registry"},
    {"classes", "place", "project", "resolve", "safety"},
    {"irqs"},
    {"assemble", "compiled", "requests", "scaffold", "verdicts"},
    {"capability", "emission"},
    {"classplan"},
    {"pipeline"},
    {"diff", "explain", "picture", "provenance"},
    {"rules"},
    {"catalog"},
    {"lint"},
    {"policytest", "verify"},
    {"report"},
    {"cli_options", "commands"},
    {"cli_facts"},
    {"cli"},
    {"__main__"},
]
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}

# What a target may know of the compiler: the plan, and what it takes to write files from it.  The
# fingerprint is the text that scripts rebuild on the node, on top of cpusets.  Targets for the
# cluster see the fleet, their options, and write YAML.
TARGETS_MAY_IMPORT = {
    "compiler.artifact",
    "compiler.codes.targets",
    "compiler.cpuset",
    "compiler.diagnostics",
    "compiler.fingerprint",
    "compiler.fleet",
    "compiler.model.cluster",
    "compiler.patterns",
    "compiler.plan",
    "compiler.yamlout",
}

# Beyond layers: pairs that must not know each other, and why.
APART = {
    ("safety", "place"): "an invariant that shares the placer's logic shares its mistakes",
    ("safety", "topology"): "an invariant that shares the placer's logic shares its mistakes",
    ("report", "codes"): "a report renders what it is given",
}

# Third-party packages: who may import them.  Everything else must be the standard library.
THIRD_PARTY = {
    "annotated_types": ["compiler.decode", "compiler.model"],
    "jinja2": ["targets"],
    "jsonschema": [],
    "networkx": ["compiler.graph"],
    "pydantic": ["compiler"],
    "ruamel": ["compiler.reading.yamltext", "compiler.yamlout"],
    "typer": ["compiler.cli", "compiler.cli_facts", "compiler.cli_options", "compiler.commands"],
}

# `python -m compiler` runs these before the working directory is off sys.path.
BEFORE_THE_PATH_IS_SAFE = {"compiler", "compiler.__main__"}
PART_OF_THE_INTERPRETER = {"os", "sys"}


def modules() -> dict[str, Path]:
    found = {}
    for package in ("compiler", "targets"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            found[".".join(parts)] = path
    return found


MODULES = modules()


def imports(module: str) -> Iterator[tuple[str, int, bool]]:
    """Imported module, line, and whether it is imported when this module is."""
    tree = ast.parse(MODULES[module].read_bytes())
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    } | {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            assert node.module is not None
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                yield (part if part in MODULES else node.module), node.lineno, node not in inside


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def unit(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    problems = []
    for imported, line, _ in imports(module):
        root = imported.split(".")[0]
        if module.startswith("compiler"):
            if root == "targets":
                problems.append(f"line {line}: {imported}: targets are found by the registry")
            elif root == "compiler" and unit(imported) != unit(module):
                ours, theirs = RANK.get(unit(module)), RANK.get(unit(imported))
                if theirs is None or (ours is not None and theirs >= ours):
                    problems.append(f"line {line}: {imported}: not in a lower layer")
                elif (why := APART.get((unit(module), unit(imported)))) is not None:
                    problems.append(f"line {line}: {imported}: {why}")
        elif root == "compiler" and not any(is_in(imported, may) for may in TARGETS_MAY_IMPORT):
            problems.append(f"line {line}: {imported}: a target sees only the plan")
        elif root == "targets" and _is_other_target(module, imported):
            problems.append(f"line {line}: {imported}: another target")
    assert problems == []


def _is_other_target(module: str, imported: str) -> bool:
    """Targets are packages below ``targets``; plain modules there are shared by all of them.

    So is ``targets.scripts``, a package because of its templates.
    """
    theirs = f"targets.{unit(imported)}"
    if (
        "." not in imported
        or theirs == "targets.scripts"
        or MODULES.get(theirs, Path()).name != "__init__.py"
    ):
        return False
    return not is_in(module, theirs)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_other_packages_are_imported_in_their_place(module: str) -> None:
    problems = []
    for imported, line, _ in imports(module):
        root = imported.split(".")[0].removeprefix("_ruamel_yaml") or "ruamel"
        if root in ("compiler", "targets") or root in sys.stdlib_module_names:
            continue
        if not any(is_in(module, place) for place in THIRD_PARTY.get(root, [])):
            problems.append(f"line {line}: {imported}: not allowed here")
    assert problems == []


def test_every_module_has_a_layer() -> None:
    units = {unit(module) for module in MODULES if module.startswith("compiler")}
    assert sorted(units - RANK.keys()) == [], "add a row to LAYERS"
    assert sum(map(len, LAYERS)) == len(RANK), "a unit is in two layers"


def test_the_start_imports_nothing_that_a_repository_could_replace() -> None:
    for module in sorted(BEFORE_THE_PATH_IS_SAFE):
        early = {imported for imported, _, at_once in imports(module) if at_once}
        assert early <= PART_OF_THE_INTERPRETER, module


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {
        module: sorted({name for name, _, now in imports(module) if now and name in MODULES})
        for module in MODULES
    }
    done: set[str] = set()

    def visit(module: str, above: list[str]) -> None:
        assert module not in above, " -> ".join([*above[above.index(module) :], module])
        if module not in done:
            for imported in graph[module]:
                visit(imported, [*above, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
