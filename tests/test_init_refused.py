"""``tierc init``: what is there already, and what goes wrong."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.examples import read_tree
from tests.init_command import FILES, init, lint
from tests.sysfs_builder import SysfsBuilder, gb10


@pytest.fixture
def spark(tmp_path: Path) -> SysfsBuilder:
    """A machine with a GPU, in files."""
    return gb10(tmp_path / "machine")


# --- what is there already -------------------------------------------------------------------


def test_a_second_run_changes_nothing(
    spark: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    capsys.readouterr()
    assert init(root, "--sysroot", spark.root) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_facts_that_changed_since_are_kept(
    spark: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    before = read_tree(root)
    spark.file("proc/sys/kernel/osrelease", "6.18.0\n")
    assert init(root, "--sysroot", spark.root) == 0
    assert "kept" in capsys.readouterr().out
    assert read_tree(root) == before


def test_deleted_files_come_back_alone(spark: SysfsBuilder, tmp_path: Path) -> None:
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    before = read_tree(root)
    (root / "README.md").unlink()
    (root / "intents/batch.yaml").unlink()
    assert init(root, "--sysroot", spark.root) == 0
    assert read_tree(root) == before


def test_other_files_are_no_hindrance(spark: SysfsBuilder, tmp_path: Path) -> None:
    root = tmp_path / "p"
    (root / "intents").mkdir(parents=True)
    (root / "notes.txt").write_text("mine")
    (root / "intents/notes.md").write_text("mine")
    assert init(root, "--sysroot", spark.root) == 0
    assert (root / "notes.txt").read_text() == "mine"
    assert lint(root) == 0


def test_findings_about_what_was_there_before_are_shown(
    spark: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    (root / "intents").mkdir(parents=True)
    (root / "intents/mine.yaml").write_text("kind: Intnt\n")
    assert init(root, "--sysroot", spark.root) == 1
    assert "intents/mine.yaml:1" in capsys.readouterr().err
    assert (root / "tierc.yaml").is_file()


def test_conflicts_are_all_named_and_nothing_is_written(
    spark: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (root / "README.md").write_text("mine\n")
    (root / "tierc.yaml").mkdir()
    (root / "nodes").write_text("a file\n")
    (tmp_path / "elsewhere").mkdir()
    (root / "intents").symlink_to(tmp_path / "elsewhere")
    before = sorted(root.rglob("*"))
    assert init(root, "--sysroot", spark.root) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    for text in (
        "README.md exists and says something else",
        "tierc.yaml is a directory",
        "nodes is not a directory",
        "intents is a symbolic link",
        "nothing written",
    ):
        assert text in err
    assert sorted(root.rglob("*")) == before
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "dangling", "fifo"])
def test_the_directory_is_something_else(
    spark: SysfsBuilder, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    if kind == "file":
        root.write_text("mine")
    elif kind == "dangling":
        root.symlink_to(tmp_path / "nowhere")
    else:
        os.mkfifo(root)
    assert init(root, "--sysroot", spark.root) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_link_to_a_directory_is_a_directory(spark: SysfsBuilder, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "p").symlink_to(tmp_path / "real")
    assert init(tmp_path / "p", "--sysroot", spark.root) == 0
    assert (tmp_path / "real/tierc.yaml").is_file()
    assert (tmp_path / "p").is_symlink()


# --- what goes wrong -------------------------------------------------------------------------


def test_where_nothing_can_be_written(
    spark: SysfsBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("/proc/policy", "--sysroot", spark.root) == 2  # for root as well
    err = capsys.readouterr().err
    assert "nothing written: cannot write" in err
    assert len(err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only directories")
def test_a_read_only_directory(spark: SysfsBuilder, tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir(mode=0o555)
    assert init(root, "--sysroot", spark.root) == 2
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("at", [0, 1, 5, 12])
@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_leaves_nothing(
    spark: SysfsBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    at: int,
    exists: bool,
) -> None:
    root = tmp_path / "deep/p" if not exists else tmp_path / "p"
    if exists:
        (root / "intents").mkdir(parents=True)
        (root / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    calls = 0

    def failing(name: str) -> Callable[..., object]:
        real: Callable[..., object] = getattr(os if name == "link" else Path, name)

        def step(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls > at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")
            return real(*args, **kwargs)

        return step

    monkeypatch.setattr(os, "link", failing("link")) if exists else monkeypatch.setattr(
        Path, "write_bytes", failing("write_bytes")
    )
    assert init(root, "--sysroot", spark.root) == 2
    monkeypatch.undo()
    assert "no space left" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_appears_in_between_is_not_replaced(
    spark: SysfsBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    root.mkdir()
    real = os.link

    def racing(source: Path, target: Path, **kwargs: bool) -> None:
        if target.name == "tierc.yaml" and target.parent == root:
            target.write_text("theirs")
        real(source, target, **kwargs)

    monkeypatch.setattr(os, "link", racing)
    assert init(root, "--sysroot", spark.root) == 2
    assert read_tree(root) == {"tierc.yaml": b"theirs"}


def test_a_file_system_without_hard_links(
    spark: SysfsBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "p").mkdir()
    assert init(tmp_path / "p", "--sysroot", spark.root) == 0
    assert lint(tmp_path / "p") == 0


def test_without_facts_the_rest_is_written_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "machine").mkdir()
    root = tmp_path / "p"
    assert init(root, "--sysroot", tmp_path / "machine") == 1
    assert "no node facts" in capsys.readouterr().err
    assert {path for path in read_tree(root) if not path.startswith(".tierc/")} == FILES | {
        "nodes/README.md"
    }
    assert main(["lint", str(root)]) == 0
    assert "TRC322" in capsys.readouterr().out
