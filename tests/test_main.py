"""``python -m compiler``: what it imports from where, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HOSTILE = ["json.py", "typer.py", "errno.py", "__future__.py", "pathlib.py", "sitecustomize.py"]
HOSTILE += ["targets/__init__.py", "ruamel/__init__.py", "pydantic/__init__.py", "schemas.py"]

CLI = """
import os, sys, typer
app = typer.Typer()

@app.command()
def run(what: str) -> None:
    import json, pathlib, targets, errno
    match what:
        case "where":
            print(targets.__file__)
        case "crash":
            raise KeyError("a\\x1b[31m\\nb")
        case "ctrl-c":
            raise KeyboardInterrupt
        case "findings":
            raise typer.Exit(1)
        case "words":
            sys.exit("no such thing")
        case "unicode":
            print("grün \\udcff")
            print("grün", file=sys.stderr)
        case "much":
            for _ in range(100_000):
                print("x" * 80)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The real start-up code with a command line of the test's own."""
    home = tmp_path / "home"
    (home / "compiler").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(ROOT / "compiler" / name, home / "compiler" / name)
    (home / "compiler/cli.py").write_text(CLI)
    (home / "targets").mkdir()
    (home / "targets/__init__.py").write_text("")
    return home


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A policy repository that would leave a file ``ran-NAME`` if any of its code ran."""
    where = tmp_path / "policy"
    for name in HOSTILE:
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        marker = where / f"ran-{name.replace('/', '-')}"
        (where / name).write_text(f"open({str(marker)!r}, 'w').close()\nraise SystemExit(99)\n")
    return where


def run(
    home: Path, cwd: Path, *args: str, flags: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-m", "compiler", *args]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TIERC", "LC_", "LANG", "COV"))
    }
    environment |= {"PYTHONPATH": str(home), **env}
    return subprocess.run(
        command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


def nothing_ran(hostile: Path) -> None:
    assert sorted(p.name for p in hostile.glob("ran-*")) == []


def test_the_hostile_files_would_run_otherwise(hostile: Path) -> None:
    subprocess.run([sys.executable, "-c", "import targets"], check=False, cwd=hostile)
    assert (hostile / "ran-targets-__init__.py").exists()


@pytest.mark.parametrize("path", ["{home}", "{home}:", ":{home}", ".:{home}", "{cwd}:{home}"])
def test_code_of_the_working_directory_does_not_run(
    package: Path, hostile: Path, path: str
) -> None:
    if path != "{home}":
        # With the directory in PYTHONPATH the interpreter itself runs this one, before us.
        (hostile / "sitecustomize.py").unlink()
    done = run(package, hostile, "where", PYTHONPATH=path.format(home=package, cwd=hostile))
    assert done.stdout == f"{package}/targets/__init__.py\n", done.stderr
    assert done.returncode == 0
    nothing_ran(hostile)


def test_safe_path_is_respected(package: Path, hostile: Path) -> None:
    done = run(package, hostile, "where", PYTHONSAFEPATH="1")
    assert (done.returncode, done.stdout) == (0, f"{package}/targets/__init__.py\n")
    nothing_ran(hostile)


def test_the_real_command_line_runs_nothing_of_the_working_directory(hostile: Path) -> None:
    done = run(ROOT, hostile, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    nothing_ran(hostile)


def test_a_checkout_finds_itself(package: Path) -> None:
    done = run(Path("/nonexistent"), package, "where")
    assert (done.returncode, done.stdout) == (0, f"{package}/targets/__init__.py\n")


def test_a_removed_working_directory_is_no_crash(package: Path, tmp_path: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; exec "$0" -m compiler where'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{package}/targets/__init__.py\n"), done.stderr


def test_an_internal_error_is_one_line_and_70(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "crash")
    line = (
        (package / "compiler/cli.py")
        .read_text()
        .splitlines()
        .index('            raise KeyError("a\\x1b[31m\\nb")')
    )
    assert done.returncode == 70
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"tierc: internal error: KeyError: 'a\\x1b[31m\\nb' at compiler/cli.py:{line + 1}; this is "
        "a bug in tierc, please report it (TIERC_DEBUG=1 shows the traceback)"
    ]


def test_a_missing_dependency_is_named(package: Path, tmp_path: Path) -> None:
    (package / "compiler/cli.py").write_text("import no_such_package_here")
    done = run(package, tmp_path, "where")
    assert done.returncode == 2
    assert done.stderr == (
        "tierc: the Python package 'no_such_package_here' is missing; install tierc with pip\n"
    )


def test_debug_adds_the_traceback(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "crash", TIERC_DEBUG="1")
    assert done.returncode == 70
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tierc: internal error: KeyError")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["findings"], 1, ""),
        (["ctrl-c"], 130, ""),
        (["words"], 2, "tierc: no such thing"),
        ([], 2, "tierc"),
        (["--nonsense"], 2, "--nonsense"),
        (["--help"], 0, ""),
    ],
)
def test_exit_codes(package: Path, tmp_path: Path, args: list[str], code: int, says: str) -> None:
    done = run(package, tmp_path, *args)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_no_character_is_an_error_in_any_locale(
    package: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    env = {"PYTHONCOERCECLOCALE": "0", **env}
    done = run(package, tmp_path, "unicode", **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "grün \\udcff\n"
    assert done.stderr in ("grün\n", "gr\\xfcn\n")


def test_a_reader_that_leaves_is_no_finding_and_no_noise(package: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler", "much"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (128 + signal.SIGPIPE, b"")


def test_a_full_device_is_said(package: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "compiler", "where"],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(package)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "tierc: cannot write to standard output: no space left on device\n"


def test_closed_standard_output_is_no_crash(package: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -m compiler where >&-', sys.executable],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_the_start_is_light(argument: str, tmp_path: Path) -> None:
    script = (
        "import sys; from compiler.__main__ import main; code = main(sys.argv[1:])\n"
        "heavy = {'networkx', 'jinja2', 'jsonschema', 'ruamel'} & sys.modules.keys()\n"
        "print('heavy', sorted(heavy)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, argument],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "heavy []"), done.stderr
