"""Reading below a system root: never outside it, bounded, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts import tree as tree_module
from compiler.facts.tree import MAX_LINKS, MAX_TEXT, MAX_WARNINGS, Tree, numbered


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system root with a secret beside it."""
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "s").write_text("outside")
    root = tmp_path / "root"
    (root / "sys" / "a").mkdir(parents=True)
    (root / "sys" / "a" / "f").write_text("inside\n")
    (root / "secret").write_text("inside")
    return root


@pytest.mark.parametrize(
    "target",
    ["../../secret", "../../../../../../secret", "/secret", "/../secret", "a/../../secret"],
)
def test_links_are_followed_inside_the_root_only(root: Path, target: str) -> None:
    (root / "sys" / "link").symlink_to(target)
    assert Tree(root).text("/sys/link") == "inside"


def test_a_link_to_a_file_outside_by_its_real_path_leads_nowhere(root: Path) -> None:
    (root / "sys" / "link").symlink_to(root.parent / "secret")
    (root / "sys" / "dir").symlink_to(root.parent / "secrets")
    tree = Tree(root)
    assert tree.text("/sys/link") is None
    assert tree.text("/sys/dir/s") is None
    assert tree.names("/sys/dir") == ()
    assert not tree.is_dir("/sys/dir")


def test_directories_that_are_links_work_as_in_sysfs(root: Path) -> None:
    (root / "sys" / "class").symlink_to("a")
    (root / "sys" / "abs").symlink_to("/sys/a")
    tree = Tree(root)
    for path in ("/sys/class/f", "/sys/abs/f", "/sys/class/../a/f", "/sys/./a/f", "/../sys/a/f"):
        assert tree.line(path) == "inside"
    assert tree.resolve("/sys/class") == "/sys/a"
    assert tree.names("/sys/class") == ("f",)
    assert tree.link("/sys/class") == "a"
    assert tree.link("/sys/a") is None
    assert tree.warnings == ()


def test_loops_and_endless_targets_end(root: Path) -> None:
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    (root / "deep").symlink_to("a/" * 2000)
    (root / "self").symlink_to("self/self")
    tree = Tree(root)
    for path in ("/x", "/x/f", "/deep", "/self", "/self/f"):
        assert tree.text(path) is None
    assert any("too many links" in warning for warning in tree.warnings)


def test_a_chain_of_as_many_links_as_the_kernel_follows(root: Path) -> None:
    last = "sys/a/f"
    for number in range(MAX_LINKS + 1):
        (root / f"l{number}").symlink_to(last)
        last = f"l{number}"
    tree = Tree(root)
    assert tree.line(f"/l{MAX_LINKS - 1}") == "inside"
    assert tree.line(f"/l{MAX_LINKS}") is None


def test_missing_is_not_odd(root: Path) -> None:
    tree = Tree(root)
    assert tree.text("/sys/none") is None
    assert tree.text("/sys/a/f/g") is None
    assert tree.names("/none") == ()
    assert tree.cpus("/none", "/none2") is None
    assert tree.number("/none") is None
    assert tree.warnings == ()


def test_files_that_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    tree = Tree(root)
    assert tree.text("/pipe") is None  # and does not hang
    assert tree.text("/sys/a") is None
    assert len(tree.warnings) == 2
    assert "/pipe: not a regular file" in tree.warnings


def test_a_long_file_is_not_half_read(root: Path) -> None:
    (root / "long").write_text("1," * MAX_TEXT)
    (root / "fits").write_text(" " * MAX_TEXT)
    tree = Tree(root)
    assert tree.cpus("/long") is None
    assert tree.cpus("/fits") == CpuSet()
    assert len(tree.warnings) == 1
    assert tree.warnings[0].startswith("/long: larger than")


def test_junk_is_a_warning_with_path_and_text(root: Path) -> None:
    (root / "list").write_text("0-3,x\x1b[31m9\n")
    (root / "number").write_text("twelve\n")
    (root / "hex").write_text("0xzz\n")
    (root / "bytes").write_bytes(b"\xff\xfe\n")
    (root / "huge").write_text("0-4294967294\n")
    tree = Tree(root)
    assert tree.cpus("/list") is None
    assert tree.number("/number") is None
    assert tree.hexadecimal("/hex") is None
    assert tree.cpus("/bytes") is None
    assert tree.cpus("/huge") is None
    assert len(tree.warnings) == 5
    for warning, part in zip(
        tree.warnings, ("x\\x1b[31m9", "twelve", "0xzz", "", "4294967294"), strict=True
    ):
        assert part in warning
        assert warning.isascii()
        assert warning.isprintable()
    assert tree.warnings[0].startswith("/list: ")


def test_a_mask_stands_in_for_a_missing_list(root: Path) -> None:
    (root / "mask").write_text("00000001,00000000,80000001\n")
    assert Tree(root).cpus("/none", "/mask") == CpuSet((0, 31, 64))


def test_what_may_not_be_read_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tree_module.os, "open", refuse)
    tree = Tree(root)
    assert tree.text("/sys/a/f") is None
    assert tree.warnings == ("/sys/a/f: cannot read: permission denied",)


def test_an_attribute_without_a_value_is_unknown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*args: object) -> bytes:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(tree_module.os, "read", silent)
    tree = Tree(root)
    assert tree.text("/sys/a/f") is None
    assert tree.warnings == ()


def test_warnings_are_bounded_and_each_is_said_once(root: Path) -> None:
    tree = Tree(root)
    for number in range(2 * MAX_WARNINGS):
        tree.warn(f"odd {number}")
        tree.warn(f"odd {number}") if number < MAX_WARNINGS else None
    assert len(tree.warnings) == MAX_WARNINGS + 1
    assert tree.warnings[-1] == f"{MAX_WARNINGS} more warnings are left out"


def test_numbered_names() -> None:
    names = ("cpu10", "cpu2", "cpufreq", "cpu", "cpu-1", "cpu٣", "node3", "cpu999999999")
    assert numbered(names, "cpu") == [2, 10]
