"""The Python that runs the lab, for a guest: just what `tierc` needs of it.

What that is, is asked of the interpreter itself: tierc is run here once, and the modules that it
imported are taken along, compiled.  So a guest needs no installation, and little memory.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.lab.initramfs import Entry, directory, file
from tests.lab.policy import ROOT

HOME: Final = "python"
"""Where it is in the guest, to be put into PYTHONHOME with a slash before it."""

_TRACE: Final = """\
import json, sys
from compiler.__main__ import main
main(sys.argv[2:])
found = {}
for module in list(sys.modules.values()):
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.has_location:
        found[spec.name] = spec.origin
with open(sys.argv[1], "w") as out:
    json.dump(found, out)
"""
_HEADER: Final = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Of a compiled module that is not compared with its source (PEP 552)."""


class InterpreterFailed(Exception):
    """What tierc imports could not be found out; the message says why."""


def interpreter(work: Path, *arguments: str) -> Mapping[str, Entry]:
    """Return the files of a guest that can run ``tierc`` with such arguments.

    Args:
        work: a directory for what is in between.
        arguments: of a run that imports what runs in the guest will.  Its exit code does not
            matter.

    Raises:
        InterpreterFailed: tierc did not run.
    """
    modules = _imported(work / "modules.json", arguments)
    library = f"{HOME}/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.executable).resolve()
    files = {
        f"{HOME}/bin/python3": file(program.read_bytes(), executable=True),
        f"{library}/lib-dynload": directory(),
    }
    shared = {program}
    for name, origin in sorted(modules.items()):
        path = Path(origin)
        parts = name.split(".")
        if path.stem == "__init__":
            parts.append("__init__")
        place = "/".join([library, *parts[:-1]])
        if path.suffix == ".py":
            # In place of the source: then no other file is looked for.
            code = compile(path.read_bytes(), f"/{place}/{path.name}", "exec", dont_inherit=True)
            files[f"{place}/{parts[-1]}.pyc"] = file(_HEADER + marshal.dumps(code))
        else:
            files[f"{place}/{path.name}"] = file(path.read_bytes(), executable=True)
            shared.add(path)
    for path in sorted(_libraries(shared)):
        files[f"lib/{path.name}"] = file(path.read_bytes(), executable=True)
    return files


def _imported(listing: Path, arguments: tuple[str, ...]) -> dict[str, str]:
    """Return the modules that a run of tierc imports from files, with these."""
    done = subprocess.run(
        [sys.executable, "-c", _TRACE, str(listing), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not listing.exists():
        raise InterpreterFailed(f"tierc {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    modules: dict[str, str] = json.loads(listing.read_text())
    # `python -m` looks for this one, and what starts the interpreter is not always from a file.
    for name in ("encodings", "encodings.aliases", "encodings.utf_8", "os", "runpy", "site"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            modules.setdefault(name, spec.origin)
    return {name: path for name, path in modules.items() if os.path.isfile(path)}


def _libraries(programs: set[Path]) -> set[Path]:
    """Return the shared libraries that programs need."""
    found: set[Path] = set()
    for program in sorted(programs):
        done = subprocess.run(
            ["ldd", str(program)], capture_output=True, text=True, check=False
        )  # of a static one it says so and fails
        found.update(Path(word) for word in done.stdout.split() if word.startswith("/"))
    return found
