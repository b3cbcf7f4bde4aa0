"""Finding and reading files: bounded, inside the root, in one order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic, Severity, Sink
from compiler.source import MAX_FILE_BYTES, SourceFile, discover, read_source

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "policy"
    for name in (
        "tierc.yaml",
        "intents/b.yml",
        "intents/a.yaml",
        "intents/team/c.json",
        "intents/notes.txt",
        "intents/.hidden.yaml",
        "intents/.git/x.yaml",
        "intents/B.yaml",
        "nodes/spark-a.yaml",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a: 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.yaml").write_text("secret: 1\n")
    return root


def _discover(root: Path, *patterns: str) -> tuple[tuple[str, ...], list[Diagnostic]]:
    sink = Sink()
    return discover(root, patterns, sink), list(sink)


def _read(root: Path, path: str) -> tuple[SourceFile | None, list[Diagnostic]]:
    sink = Sink()
    return read_source(root, path, sink), list(sink)


def test_directories_and_files_in_one_order(root: Path) -> None:
    expected = (
        "intents/B.yaml",
        "intents/a.yaml",
        "intents/b.yml",
        "intents/team/c.json",
    )
    for patterns in (
        ("intents",),
        ("intents/",),
        ("./intents",),
        ("intents/team", "intents/b.yml", "intents/a.yaml", "intents/B.yaml"),
        ("intents/b.yml", "intents", "intents"),
    ):
        assert _discover(root, *patterns) == (expected, [])
    assert _discover(root, ".")[0] == (*expected, "nodes/spark-a.yaml", "tierc.yaml")


def test_hidden_files_are_found_only_by_name(root: Path) -> None:
    assert _discover(root, "intents/.hidden.yaml", "intents/.git") == (
        ("intents/.git/x.yaml", "intents/.hidden.yaml"),
        [],
    )


@pytest.mark.parametrize(
    ("pattern", "code", "message", "fix"),
    [
        ("../outside", "TRC003", "`..`", "below the root"),
        ("intents/../../outside/x.yaml", "TRC003", "`..`", "below the root"),
        ("/etc", "TRC003", "absolute", "below the root"),
        ("", "TRC003", "not a path", ""),
        ("a\0b", "TRC003", "not a path", ""),
        ("nothing", "TRC001", "does not exist", "relative to the root"),
        ("intents/*.yaml", "TRC001", "does not exist", "patterns are not supported"),
        ("x" * 5000, "TRC001", "does not exist", ""),
        ("intents/notes.txt", "TRC004", "neither YAML nor JSON", ".yaml"),
    ],
)
def test_patterns_that_name_nothing(
    root: Path, pattern: str, code: str, message: str, fix: str
) -> None:
    paths, found = _discover(root, pattern)
    assert paths == ()
    assert [f.code for f in found] == [code]
    assert message in found[0].message
    assert fix in found[0].help
    assert found[0].severity is Severity.ERROR


def test_symbolic_links_out_of_the_root_are_refused(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "intents" / "link.yaml").symlink_to(outside / "x.yaml")
    (root / "intents" / "dir").symlink_to(outside)
    (root / "intents" / "absolute.yaml").symlink_to("/etc/hostname")
    # A sibling whose name starts like the root is outside as well.
    sibling = root.parent / "policy2"
    sibling.mkdir()
    (sibling / "y.yaml").write_text("a: 1\n")
    (root / "intents" / "near.yaml").symlink_to(sibling / "y.yaml")
    paths, found = _discover(root, "intents")
    assert "intents/link.yaml" not in paths
    assert {(f.code, f.span.path) for f in found} == {
        ("TRC003", "intents/link.yaml"),
        ("TRC003", "intents/dir"),
        ("TRC003", "intents/absolute.yaml"),
        ("TRC003", "intents/near.yaml"),
    }
    for path in ("intents/link.yaml", "intents/dir/x.yaml", "intents/near.yaml"):
        file, found = _read(root, path)
        assert file is None
        assert [f.code for f in found] == ["TRC003"]


def test_symbolic_links_inside_the_root_are_followed_once(root: Path) -> None:
    (root / "intents" / "0-alias.yaml").symlink_to("a.yaml")
    (root / "intents" / "again").symlink_to("team")
    (root / "intents" / "team" / "loop").symlink_to("..")
    (root / "intents" / "self.yaml").symlink_to("self.yaml")
    (root / "intents" / "gone.yaml").symlink_to("not-there.yaml")
    paths, found = _discover(root, "intents")
    assert "intents/a.yaml" in paths
    assert "intents/0-alias.yaml" not in paths
    assert sum(path.endswith("c.json") for path in paths) == 1
    assert "intents/team/c.json" in paths or "intents/again/c.json" in paths
    assert not found
    for path in ("intents/gone.yaml", "intents/self.yaml"):
        assert path in paths
        assert [f.code for f in _read(root, path)[1]] == ["TRC001"]


def test_mounted_config_maps_are_read(root: Path) -> None:
    # The kubelet's layout: names are links into a hidden directory that changes.
    mount = root / "mounted"
    (mount / "..2026").mkdir(parents=True)
    (mount / "..2026" / "x.yaml").write_text("a: 1\n")
    (mount / "..data").symlink_to("..2026")
    (mount / "x.yaml").symlink_to("..data/x.yaml")
    assert _discover(root, "mounted") == (("mounted/x.yaml",), [])
    file, found = _read(root, "mounted/x.yaml")
    assert not found
    assert file is not None


def test_the_root_may_be_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert _discover(link, "nodes") == (("nodes/spark-a.yaml",), [])
    assert _read(link, "nodes/spark-a.yaml")[1] == []


def test_odd_names(root: Path) -> None:
    odd = root / "odd"
    odd.mkdir()
    (odd / "$(id).yaml").write_text("a: 1\n")
    (odd / "line\nbreak.yaml").write_text("a: 1\n")
    os.close(os.open(os.fsencode(odd) + b"/\xff.yaml", os.O_CREAT | os.O_WRONLY))
    paths, found = _discover(root, "odd")
    assert not found
    assert paths == ("odd/$(id).yaml", "odd/line\nbreak.yaml", "odd/\udcff.yaml")
    for path in paths:
        assert _read(root, path)[0] is not None


def test_reading(root: Path) -> None:
    file, found = _read(root, "intents/a.yaml")
    assert not found
    assert file is not None
    assert file.path == "intents/a.yaml"
    assert [d.data for d in file.documents] == [{"a": 1}]


def test_reading_does_not_depend_on_the_working_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _read(root, "intents/a.yaml")
    monkeypatch.chdir("/")
    assert _read(root, "intents/a.yaml") == first


def test_what_is_no_regular_file_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe.yaml")
    (root / "null.yaml").symlink_to("/dev/zero")
    (root / "dir.yaml").mkdir()
    for path, code, message in (
        ("pipe.yaml", "TRC001", "not a regular file"),
        ("dir.yaml", "TRC001", "a directory"),
        ("null.yaml", "TRC003", "leads out of the policy repository"),
        ("missing.yaml", "TRC001", "no such file"),
    ):
        file, found = _read(root, path)
        assert file is None
        assert [f.code for f in found] == [code]
        assert message in found[0].message
        assert path in found[0].message
    assert [f.code for f in _discover(root, "pipe.yaml")[1]] == ["TRC001"]


def test_size_is_bounded(root: Path) -> None:
    big = root / "big.yaml"
    big.write_bytes(b"a: 1 #" + b"x" * (MAX_FILE_BYTES - 6))
    assert _read(root, "big.yaml")[1] == []
    with big.open("ab") as file:
        file.write(b"x")
    read, found = _read(root, "big.yaml")
    assert read is None
    assert [f.code for f in found] == ["TRC002"]
    assert "4 MiB" in found[0].message


def test_missing_permission(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, whom no mode bits stop.
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("compiler.reading.files.os.open", refuse)
    file, found = _read(root, "intents/a.yaml")
    assert file is None
    assert [(f.code, f.message) for f in found] == [
        ("TRC001", "intents/a.yaml cannot be read: permission denied")
    ]


def _python(code: str, *flags: str) -> str:
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_the_yaml_library_is_imported_by_the_first_yaml_file_only() -> None:
    code = """
import sys
from compiler.diagnostics import Sink
from compiler.source import parse_source
loaded = lambda: any("ruamel" in name for name in sys.modules)
states = [loaded()]
parse_source("a.json", b"{}", Sink()); states.append(loaded())
parse_source("a.yaml", b"a: 1", Sink()); states.append(loaded())
print(states)
"""
    assert _python(code).strip() == "[False, False, True]"


def test_without_the_c_parser_nothing_is_read() -> None:
    code = """
import sys
sys.modules["_ruamel_yaml"] = None
sys.modules["ruamel.yaml.clib"] = None
from compiler.diagnostics import Sink
from compiler.source import parse_source
sink = Sink()
file = parse_source("a.yaml", b"a: 1 # tierc: ignore", sink)
print(file.documents, [(f.code, f.help) for f in sink])
"""
    out = _python(code)
    assert out.startswith("() [('TRC049',")
    assert "ruamel.yaml.clib" in out
