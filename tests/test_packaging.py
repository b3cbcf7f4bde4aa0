"""The wheel, the sdist and the commands around them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler import __version__

ROOT = Path(__file__).resolve().parent.parent


def build(kind: str, where: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(where)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = where.iterdir()
    return result


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as pip would."""
    packed = build("wheel", tmp_path_factory.mktemp("wheel"))
    assert packed.name == f"tierc-{__version__}-py3-none-any.whl"
    where = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(where)
    return where


def files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(python_path: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compiler", *args],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(python_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )


def test_the_wheel_has_the_two_packages_and_nothing_else(wheel: Path) -> None:
    assert sorted(p.name for p in wheel.iterdir()) == [
        "compiler",
        "targets",
        f"tierc-{__version__}.dist-info",
    ]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    # A file that Git ignores is left out of a wheel without a word.
    for package in ("compiler", "targets"):
        kept = {path for path in files(wheel / package) if not path.startswith("_schemas/")}
        assert kept == files(ROOT / package)


def test_the_wheel_has_the_schemas(wheel: Path) -> None:
    schemas = files(ROOT / "schemas")
    assert schemas
    assert files(wheel / "compiler/_schemas") == schemas


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = wheel / f"tierc-{__version__}.dist-info"
    lines = (info / "METADATA").read_text().splitlines()
    assert "License-Expression: Apache-2.0 AND GPL-2.0-only" in lines
    assert "Requires-Python: >=3.11" in lines
    assert files(info / "licenses") == {"LICENSE", "bpf/LICENSE"}
    assert "tierc = compiler.__main__:main" in (info / "entry_points.txt").read_text().splitlines()


def test_the_wheel_compiles_the_example_like_the_checkout(wheel: Path, tmp_path: Path) -> None:
    example = str(ROOT / "examples/dgx-spark")
    for name, origin in (("wheel", wheel), ("checkout", ROOT)):
        done = run(origin, tmp_path, "build", example, "-o", name)
        assert done.returncode == 0, done.stderr
    wrote, expected = files(tmp_path / "wheel"), files(tmp_path / "checkout")
    assert wrote == expected
    for path in sorted(wrote):
        assert (tmp_path / "wheel" / path).read_bytes() == (
            tmp_path / "checkout" / path
        ).read_bytes()


def test_the_sdist_can_test_itself(tmp_path: Path) -> None:
    packed = build("sdist", tmp_path)
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Makefile", ".ci/run", ".ci/tools", "pyproject.toml", "README.md", "LICENSE"}
    needed |= {"bpf/LICENSE", "tests/conftest.py", "examples/dgx-spark/tierc.yaml"}
    assert needed <= names
    assert not [name for name in names if name.startswith((".venv", "out/", ".git/"))]


@pytest.mark.parametrize(
    ("path", "title", "length"),
    [
        ("LICENSE", "Apache License", 11_000),
        ("bpf/LICENSE", "GNU GENERAL PUBLIC LICENSE\n                       Version 2", 17_000),
    ],
)
def test_the_licences_are_the_full_texts(path: str, title: str, length: int) -> None:
    text = (ROOT / path).read_text()
    assert title in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text) > length


@pytest.mark.parametrize("suffix", [".c", ".h"])
def test_bpf_sources_name_their_licence(suffix: str) -> None:
    for source in sorted((ROOT / "bpf").rglob(f"*{suffix}")):
        first = source.read_text().splitlines()[0]
        assert "SPDX-License-Identifier: GPL-2.0-only" in first, source.name


def make(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    # A make that runs this test must not lend its job server or its flags.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *args],
        check=False,
        cwd=ROOT,
        env={**clean, **env},
        capture_output=True,
        text=True,
    )


def test_goldens_are_not_regenerated_in_ci(tool: Callable[[str], str]) -> None:
    tool("make")
    done = make("golden", CI="true")
    assert done.returncode != 0
    assert "refused when CI is set" in done.stderr
    command = [sys.executable, "-m", "pytest", "--update-golden", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, "tests/test_packaging.py"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "not regenerated in CI" in done.stderr


def test_make_help_names_every_command(tool: Callable[[str], str]) -> None:
    tool("make")
    named = {line.split()[1] for line in make("help").stdout.splitlines()}
    assert named == {"demo", "test", "lint", "schemas", "bench", "lab", "golden", "clean"}


def test_scripts_of_the_checkout_are_sound(tool: Callable[[str], str]) -> None:
    scripts = sorted(str(path) for path in (ROOT / ".ci").iterdir())
    assert all(os.access(script, os.X_OK) for script in scripts)
    done = subprocess.run(
        [tool("shellcheck"), *scripts], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


# --- what conftest.py promises ---------------------------------------------------------------

_SAMPLE = """
def test_with(shared): assert shared.is_dir()
def test_with_and_failing_later(shared): assert shared.is_dir()
def test_without(): pass
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_sample.py").write_text(_SAMPLE)
    (tmp_path / "tests").mkdir()
    return tmp_path


def sample_run(sample: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TIERC", "CI", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args, "."],
        check=False,
        cwd=sample,
        env={**clean, **env},
        capture_output=True,
        text=True,
    )


def test_shared_data_is_used_skipped_or_required(sample: Path) -> None:
    (sample / "data").mkdir()
    done = sample_run(sample, TIERC_SHARED=str(sample / "data"), TIERC_REQUIRE_SHARED="1")
    assert done.returncode == 0, done.stdout
    assert "shared: 2 run, 0 skipped\n" in done.stdout
    done = sample_run(sample, "-n", "2", TIERC_SHARED=str(sample / "none"))
    assert done.returncode == 0
    assert "shared: 0 run, 2 skipped\n" in done.stdout
    assert "1 passed, 2 skipped" in done.stdout
    done = sample_run(sample, TIERC_SHARED=str(sample / "none"), TIERC_REQUIRE_SHARED="1")
    assert done.returncode == 1
    assert "shared data not found at" in done.stdout


def test_a_missing_tool_is_skipped_here_and_fails_in_ci(sample: Path) -> None:
    (sample / "test_sample.py").write_text("def test(tool): tool('no-such-program-here')\n")
    done = sample_run(sample)
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    done = sample_run(sample, CI="true")
    assert done.returncode == 1
    assert "no-such-program-here is not installed" in done.stdout


def test_golden_files_are_compared_both_ways_and_rewritten(sample: Path) -> None:
    # In the sample, `tests/golden` is beside its conftest's parent directory.
    tests = sample / "tests"
    for name in ("conftest.py", "test_sample.py"):
        (sample / name).rename(tests / name)
    body = (
        "def test_tree(golden):\n    golden.tree('t', {tree})\n"
        "def test_file(golden):\n    golden.file('f.txt', {file})\n"
    )

    def state(tree: dict[str, bytes], file: bytes, *args: str) -> tuple[int, str]:
        (tests / "test_sample.py").write_text(body.format(tree=tree, file=file))
        done = sample_run(sample, *args, PYTHONDONTWRITEBYTECODE="1")
        return done.returncode, done.stdout

    first = {"a/b": b"1\n", "c": b"2\n"}
    code, said = state(first, b"x\n")
    assert code == 1
    assert "not kept: a/b" in said
    assert "make golden" in said
    assert state(first, b"x\n", "-m", "uses_golden", "--update-golden")[0] == 0
    assert state(first, b"x\n")[0] == 0
    code, said = state({"c": b"3\n"}, b"y\n")
    assert code == 1
    for line in ("not produced any more: a/b", "-2", "+3", "-x", "+y"):
        assert line in said.splitlines()
    assert state({"c": b"3\n"}, b"y\n", "--update-golden")[0] == 0
    assert files(tests / "golden") == {"t/c", "f.txt"}
