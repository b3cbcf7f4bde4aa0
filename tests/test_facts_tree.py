"""Reading below a system root: never outside it, bounded, never a traceback."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts import tree as tree_module
from compiler.facts.files import disk as disk_module
from compiler.facts.files.below import FilesBelow
from compiler.facts.files.memory import Link, MemoryFiles, Placeholder
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
    assert Tree.of_disk(root).text("/sys/link") == "inside"


def test_a_link_to_a_file_outside_by_its_real_path_leads_nowhere(root: Path) -> None:
    (root / "sys" / "link").symlink_to(root.parent / "secret")
    (root / "sys" / "dir").symlink_to(root.parent / "secrets")
    tree = Tree.of_disk(root)
    assert tree.text("/sys/link") is None
    assert tree.text("/sys/dir/s") is None
    assert tree.names("/sys/dir") == ()
    assert not tree.is_dir("/sys/dir")


def test_directories_that_are_links_work_as_in_sysfs(root: Path) -> None:
    (root / "sys" / "class").symlink_to("a")
    (root / "sys" / "abs").symlink_to("/sys/a")
    tree = Tree.of_disk(root)
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
    tree = Tree.of_disk(root)
    for path in ("/x", "/x/f", "/deep", "/self", "/self/f"):
        assert tree.text(path) is None
    assert any("too many links" in warning for warning in tree.warnings)


def test_a_chain_of_as_many_links_as_the_kernel_follows(root: Path) -> None:
    last = "sys/a/f"
    for number in range(MAX_LINKS + 1):
        (root / f"l{number}").symlink_to(last)
        last = f"l{number}"
    tree = Tree.of_disk(root)
    assert tree.line(f"/l{MAX_LINKS - 1}") == "inside"
    assert tree.line(f"/l{MAX_LINKS}") is None


def test_missing_is_not_odd(root: Path) -> None:
    tree = Tree.of_disk(root)
    assert tree.text("/sys/none") is None
    assert tree.text("/sys/a/f/g") is None
    assert tree.names("/none") == ()
    assert tree.cpus("/none", "/none2") is None
    assert tree.number("/none") is None
    assert tree.warnings == ()


def test_files_that_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    tree = Tree.of_disk(root)
    assert tree.text("/pipe") is None  # and does not hang
    assert tree.text("/sys/a") is None
    assert len(tree.warnings) == 2
    assert "/pipe: not a regular file" in tree.warnings


def test_a_long_file_is_not_half_read(root: Path) -> None:
    (root / "long").write_text("1," * MAX_TEXT)
    (root / "fits").write_text(" " * MAX_TEXT)
    tree = Tree.of_disk(root)
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
    tree = Tree.of_disk(root)
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
    assert Tree.of_disk(root).cpus("/none", "/mask") == CpuSet((0, 31, 64))


def test_what_may_not_be_read_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk_module.os, "open", refuse)
    tree = Tree.of_disk(root)
    assert tree.text("/sys/a/f") is None
    assert tree.warnings == ("/sys/a/f: cannot read: permission denied",)


def test_an_attribute_without_a_value_is_unknown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*args: object) -> bytes:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(disk_module.os, "read", silent)
    tree = Tree.of_disk(root)
    assert tree.text("/sys/a/f") is None
    assert tree.warnings == ()


def test_warnings_are_bounded_and_each_is_said_once(root: Path) -> None:
    tree = Tree.of_disk(root)
    for number in range(2 * MAX_WARNINGS):
        tree.warn(f"odd {number}")
        tree.warn(f"odd {number}") if number < MAX_WARNINGS else None
    assert len(tree.warnings) == MAX_WARNINGS + 1
    assert tree.warnings[-1] == f"{MAX_WARNINGS} more warnings are left out"


def test_numbered_names() -> None:
    names = ("cpu10", "cpu2", "cpufreq", "cpu", "cpu-1", "cpu٣", "node3", "cpu999999999")
    assert numbered(names, "cpu") == [2, 10]


def test_a_directory_with_too_many_names_is_cut_and_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        (root / "sys" / f"n{number}").write_text("")
    monkeypatch.setattr(disk_module, "MAX_NAMES", 4)
    monkeypatch.setattr(tree_module, "MAX_NAMES", 4)
    tree = Tree.of_disk(root)
    assert len(tree.names("/sys")) == 4
    assert tree.warnings == ("/sys: only 4 of its entries are looked at",)


def test_sockets_and_devices_are_no_files(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        tree = Tree.of_disk(root)
        assert tree.text("/s") is None
        assert not tree.is_file("/s")
        assert not tree.is_dir("/s")
    assert tree.warnings == ("/s: not a regular file",)


@pytest.mark.parametrize("path", ["/sys/a/f/..", "/sys/a/f/../f", "/.", "/", "//sys//a", "/sys/a/"])
def test_paths_with_odd_ends(root: Path, path: str) -> None:
    tree = Tree.of_disk(root)
    assert tree.is_dir(path) == (path != "/sys/a/f/../f")
    assert tree.link(path) is None


def memory() -> MemoryFiles:
    files = MemoryFiles()
    files.add("/sys/a/f", b"inside\n")
    files.add("/sys/link", Link("a"))
    files.add("/sys/up", Link("../../../../sys/a/f"))
    files.add("/sys/gone", Link("/nowhere"))
    files.add("/sys/pipe", Placeholder("other"))
    files.add("/sys/unread", Placeholder("file"))
    files.add_directory("/sys/empty", ["x"])
    files.add_error("read", "/sys/a/secret", 13)
    files.add_error("names", "/sys/closed", 13)
    files.add_directory("/sys/closed")
    return files


def test_a_tree_in_memory_answers_like_one_on_disk() -> None:
    tree = Tree(memory())
    assert tree.line("/sys/link/f") == "inside"
    assert tree.line("/sys/up") == "inside"
    assert tree.text("/sys/gone") is None
    assert tree.link("/sys/gone") == "/nowhere"
    assert tree.is_file("/sys/unread")
    assert tree.text("/sys/unread") is None
    assert tree.names("/sys/empty") == ("x",)
    assert tree.is_dir("/sys/link")
    assert tree.warnings == ()
    assert tree.text("/sys/pipe") is None
    assert tree.text("/sys/a") is None
    assert tree.text("/sys/a/secret") is None
    assert tree.names("/sys/closed") == ()
    assert tree.warnings == (
        "/sys/pipe: not a regular file",
        "/sys/a: not a regular file",
        "/sys/a/secret: cannot read: permission denied",
        "/sys/closed: cannot list: permission denied",
    )


def test_a_part_of_a_tree_is_a_tree_of_its_own() -> None:
    whole = MemoryFiles()
    whole.add("/host7/sys/f", b"1\n")
    whole.add("/host7/up", Link("../../secret"))
    whole.add("/host7/absolute", Link("/sys/f"))
    whole.add("/secret", b"2\n")
    tree = Tree(FilesBelow(whole, "/host7"))
    assert tree.line("/sys/f") == "1"
    assert tree.line("/absolute") == "1"
    assert tree.line("/up") is None
    assert tree.names("/") == ("absolute", "sys", "up")
    assert Tree(FilesBelow(whole, "/")).line("/secret") == "2"
