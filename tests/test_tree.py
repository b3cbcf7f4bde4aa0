"""The output tree: what is written, kept, pruned, refused, and what --check says of it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.artifact import Artifact, text_artifact
from compiler.diagnostics import Severity
from compiler.tree import (
    Difference,
    Scope,
    TreeError,
    WriteReport,
    check_tree,
    everything,
    filesystem,
    manifest,
    write_tree,
)
from compiler.tree import write as writing


@pytest.fixture(params=["exchange", "one-by-one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test both ways: with the exchange, and on a system that has none."""
    if request.param == "one-by-one":
        monkeypatch.setattr(writing, "_must_be_in_place", lambda root: "forced by the test")
    return str(request.param)


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "parent" / "out"


def files(**named: str) -> list[Artifact]:
    """``a__b="x"`` is the file ``a/b``."""
    return [text_artifact(path.replace("__", "/"), text) for path, text in named.items()]


def write(dest: Path, artifacts: Iterable[Artifact], scope: Scope = everything) -> WriteReport:
    return write_tree(dest, artifacts, plan_version=1, scope=scope)


def on_disk(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name != "manifest.json"
    }


def listed(root: Path) -> list[str]:
    return sorted(json.loads((root / "manifest.json").read_bytes())["files"])


def nothing_beside(dest: Path) -> None:
    assert [p.name for p in dest.parent.iterdir()] == [dest.name]
    assert not [p for p in dest.iterdir() if p.name.startswith(".tierc")]


def refusal(dest: Path, artifacts: Iterable[Artifact], scope: Scope = everything) -> str:
    with pytest.raises(TreeError) as caught:
        write(dest, artifacts, scope)
    assert caught.value.diagnostic.severity is Severity.ERROR
    assert caught.value.diagnostic.help
    return f"{caught.value.diagnostic.code} {caught.value}"


# --- writing ---------------------------------------------------------------------------------


def test_first_build_makes_everything(dest: Path, way: str) -> None:
    script = Artifact("nodes/a/apply.sh", b"#!/bin/sh\n", 0o755)
    old = os.umask(0o077)
    try:
        report = write(dest, [*files(nodes__a__plan="1"), script])
    finally:
        os.umask(old)
    assert on_disk(dest) == {"nodes/a/plan": "1\n", "nodes/a/apply.sh": "#!/bin/sh\n"}
    assert report.written == ("manifest.json", "nodes/a/apply.sh", "nodes/a/plan")
    assert report.exchanged is (way == "exchange")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in dest.rglob("*")}
    assert modes == {
        "nodes": 0o755,
        "a": 0o755,
        "apply.sh": 0o755,
        "plan": 0o644,
        "manifest.json": 0o644,
    }
    nothing_beside(dest)


def test_manifest_lists_every_file_with_its_digest(dest: Path) -> None:
    provenance = text_artifact("provenance.json", "{}")
    write(dest, [Artifact("s/x.sh", b"#!\n", 0o755), *files(a="hello"), provenance])
    assert json.loads((dest / "manifest.json").read_bytes()) == {
        "kind": "tierc-tree",
        "format": 1,
        "planVersion": 1,
        "files": {
            "a": {"sha256": hashlib.sha256(b"hello\n").hexdigest(), "size": 6, "mode": "0644"},
            "s/x.sh": {"sha256": hashlib.sha256(b"#!\n").hexdigest(), "size": 3, "mode": "0755"},
        },
    }
    assert (dest / "provenance.json").read_text() == "{}\n"


def test_manifest_function_is_what_is_written(dest: Path) -> None:
    artifacts = files(b="2", a="1")
    write(dest, artifacts)
    assert (dest / "manifest.json").read_bytes() == manifest(artifacts, 1).data


def test_second_build_replaces_keeps_and_prunes(dest: Path, way: str) -> None:
    write(dest, files(same="1", changes="1", gone__deep__x="1"))
    inode = (dest / "same").stat().st_ino
    report = write(dest, files(same="1", changes="2", new__y="1"))
    assert on_disk(dest) == {"same": "1\n", "changes": "2\n", "new/y": "1\n"}
    assert not (dest / "gone").exists()
    assert report.written == ("changes", "manifest.json", "new/y")
    assert report.unchanged == ("same",)
    assert report.pruned == ("gone/deep/x",)
    assert report.modified == report.kept_foreign == ()
    assert (dest / "same").stat().st_ino == inode
    assert (dest / "same").stat().st_nlink == 1
    nothing_beside(dest)


def test_equal_build_touches_nothing(dest: Path, way: str) -> None:
    write(dest, files(a="1"))
    # In place, the lock file comes and goes inside the tree and so touches the root.
    paths = sorted(dest.rglob("*")) + ([dest] if way == "exchange" else [])
    before = [(p.stat().st_ino, p.stat().st_mtime_ns) for p in paths]
    report = write(dest, files(a="1"))
    assert report.written == report.pruned == ()
    assert report.exchanged
    assert [(p.stat().st_ino, p.stat().st_mtime_ns) for p in paths] == before


def test_a_reader_of_an_old_file_keeps_its_bytes(dest: Path, way: str) -> None:
    write(dest, files(a="old"))
    with open(dest / "a") as reader:
        write(dest, files(a="new"))
        assert reader.read() == "old\n"
    assert (dest / "a").read_text() == "new\n"


def test_a_file_becomes_a_directory_and_back(dest: Path, way: str) -> None:
    write(dest, files(a="1", b__c__d="1"))
    write(dest, files(a__x="1", b="1"))
    assert on_disk(dest) == {"a/x": "1\n", "b": "1\n"}
    write(dest, files(a="1", b__c__d="1"))
    assert on_disk(dest) == {"a": "1\n", "b/c/d": "1\n"}


def test_wrong_permissions_are_set_right_on_a_new_file(dest: Path, way: str) -> None:
    write(dest, files(a="1", b="1"))
    (dest / "a").chmod(0o600)
    other = dest.parent.parent / "other-link"
    os.link(dest / "a", other)
    assert write(dest, files(a="1", b="1")).written == ("a",)
    assert stat.S_IMODE((dest / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_directories_keep_the_mode_the_user_gave_them(dest: Path, way: str) -> None:
    write(dest, files(nodes__a="1"))
    dest.chmod(0o700)
    (dest / "nodes").chmod(0o750)
    write(dest, files(nodes__a="2"))
    assert stat.S_IMODE(dest.stat().st_mode) == 0o700
    assert stat.S_IMODE((dest / "nodes").stat().st_mode) == 0o750


def test_output_may_be_a_link_to_a_directory(dest: Path, way: str) -> None:
    real = dest.parent / "real"
    real.mkdir(parents=True)
    dest.symlink_to("real")
    write(dest, files(a="1"))
    write(dest, files(a="2"))
    assert dest.is_symlink()
    assert on_disk(real) == {"a": "2\n"}


def test_empty_build_leaves_an_empty_tree(dest: Path, way: str) -> None:
    write(dest, files(a__b="1"))
    write(dest, [])
    assert [p.name for p in dest.iterdir()] == ["manifest.json"]


def test_long_and_odd_directory_names(tmp_path: Path) -> None:
    for name in ("x" * 255, "with space\nand 'quote'", "[a-z]*"):
        write(tmp_path / name, files(a="1"))
        write(tmp_path / name, files(a="2"))
        assert on_disk(tmp_path / name) == {"a": "2\n"}
    assert len(list(tmp_path.iterdir())) == 3


def test_many_files_are_flushed_at_once(dest: Path) -> None:
    many = [text_artifact(f"n/{n}", "x") for n in range(300)]
    assert len(write(dest, many).written) == 301
    assert write(dest, many[:-1]).pruned == ("n/299",)
    assert len(on_disk(dest)) == 299


# --- what is not ours ------------------------------------------------------------------------


def test_foreign_files_survive(dest: Path, way: str) -> None:
    write(dest, files(nodes__a__plan="1", old__x="1"))
    outside = dest.parent.parent / "outside"
    outside.write_text("secret")
    (dest / "nodes/a/notes.txt").write_text("mine")
    (dest / ".git/refs").mkdir(parents=True)
    (dest / ".git/HEAD").write_text("ref")
    (dest / "old/kept").symlink_to(outside)
    (dest / "empty/dir").mkdir(parents=True)
    os.mkfifo(dest / "pipe")
    inode = (dest / ".git/HEAD").stat().st_ino
    report = write(dest, files(nodes__a__plan="2"))
    assert (dest / "nodes/a/notes.txt").read_text() == "mine"
    assert (dest / ".git/HEAD").stat().st_ino == inode
    assert (dest / ".git/refs").is_dir()
    assert (dest / "empty/dir").is_dir()
    assert os.readlink(dest / "old/kept") == str(outside)
    assert stat.S_ISFIFO((dest / "pipe").lstat().st_mode)
    assert not (dest / "old/x").exists()
    assert outside.read_text() == "secret"
    assert report.kept_foreign == (".git/", "nodes/a/notes.txt", "old/", "pipe")
    assert listed(dest) == ["nodes/a/plan"]
    assert check_tree(dest, files(nodes__a__plan="2"), plan_version=1).differences == ()


def test_foreign_findings_name_the_files_without_control_characters(dest: Path) -> None:
    write(dest, files(a="1"))
    (dest / "x\x1b[2J\n").write_text("")
    (found,) = write(dest, files(a="2")).findings("out")
    assert found.severity is Severity.INFO
    assert found.message.endswith("x\\x1b[2J\\n")


@pytest.mark.parametrize("kind", ["file", "link", "directory", "parent", "parent-link"])
def test_foreign_in_the_way_is_refused_by_name(dest: Path, way: str, kind: str) -> None:
    write(dest, files(z="1"))
    elsewhere = dest.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f").write_text("foreign")
    match kind:
        case "file":
            (dest / "a").write_text("foreign")
        case "link":
            (dest / "a").symlink_to(elsewhere / "f")
        case "directory":
            (dest / "a/sub").mkdir(parents=True)
            (dest / "a/sub/f").write_text("foreign")
        case "parent":
            (dest / "d").write_text("foreign")
        case "parent-link":
            (dest / "d").symlink_to(elsewhere)
    before = sorted(str(p) for p in dest.rglob("*"))
    message = refusal(dest, files(z="2", **({"d__a": "1"} if "parent" in kind else {"a": "1"})))
    blocker = {"directory": "a/sub/f", "parent": "d", "parent-link": "d"}.get(kind, "a")
    assert message.startswith(f"TRC702 {blocker} was not written by tierc")
    assert sorted(str(p) for p in dest.rglob("*")) == before
    assert (dest / "z").read_text() == "1\n"
    assert [p.name for p in elsewhere.iterdir()] == ["f"]
    assert (elsewhere / "f").read_text() == "foreign"
    nothing_beside(dest)


def test_an_unlisted_file_of_the_right_bytes_is_adopted(dest: Path, way: str) -> None:
    write(dest, files(z="1"))
    (dest / "a").write_text("1\n")
    (dest / "a").chmod(0o644)
    assert write(dest, files(z="1", a="1")).kept_foreign == ()
    assert listed(dest) == ["a", "z"]


def test_an_empty_directory_is_not_in_the_way(dest: Path, way: str) -> None:
    write(dest, files(z="1"))
    (dest / "a/b").mkdir(parents=True)
    write(dest, files(a="1"))
    assert on_disk(dest) == {"a": "1\n"}


def test_edits_by_hand_are_replaced_and_said(dest: Path, way: str) -> None:
    write(dest, files(a="1", b="1", c="1", d="1"))
    (dest / "a").write_text("edited")
    (dest / "b").write_text("edited")
    (dest / "c").unlink()
    (dest / "c").symlink_to("a")
    (dest / "d").unlink()
    report = write(dest, files(a="1", c="1", d="1"))
    assert on_disk(dest) == {"a": "1\n", "c": "1\n", "d": "1\n"}
    assert report.modified == ("a", "b", "c")
    said = [(f.code, f.severity, str(f.span)[:6], f.message[:33]) for f in report.findings("out")]
    assert said[0] == ("TRC705", Severity.WARNING, "out/a:", "a was edited by hand and has been")
    assert [f.message.split()[-1] for f in report.findings("out")[:3]] == [
        "replaced",
        "removed",
        "replaced",
    ]


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"[]", b"\xff", b'{"name": "app", "icons": []}', b"[" * 10**5]
)
def test_a_directory_that_is_not_ours_is_refused(
    dest: Path, way: str, content: bytes | None
) -> None:
    dest.mkdir(parents=True)
    (dest / "index.html").write_text("x")
    if content is not None:
        (dest / "manifest.json").write_bytes(content)
    before = sorted(p.name for p in dest.iterdir())
    assert refusal(dest, files(a="1")).startswith("TRC700 output directory is not a tierc tree")
    with pytest.raises(TreeError, match="not a tierc tree"):
        check_tree(dest, files(a="1"), plan_version=1)
    assert sorted(p.name for p in dest.iterdir()) == before
    nothing_beside(dest)


def test_a_manifest_behind_a_link_or_that_is_a_directory_is_not_ours(dest: Path) -> None:
    write(dest, files(a="1"))
    (dest / "manifest.json").rename(dest / "m")
    (dest / "manifest.json").symlink_to("m")
    assert refusal(dest, files(a="1")).startswith("TRC700")
    (dest / "manifest.json").unlink()
    (dest / "manifest.json").mkdir()
    assert refusal(dest, files(a="1")).startswith("TRC700")


def test_output_that_is_a_file_or_a_loop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for name, says in (("f", "not a directory"), ("loop", "itself"), ("nul\0", "no path")):
        with pytest.raises(TreeError, match=says):
            write(tmp_path / name, files(a="1"))
    assert (tmp_path / "f").read_text() == "x"


_ENTRY = {"sha256": "0" * 64, "size": 1, "mode": "0644"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"files": {"../../victim": _ENTRY}}, "no build writes"),
        ({"files": {"/etc/passwd": _ENTRY}}, "no build writes"),
        ({"files": {"a/../b": _ENTRY}}, "no build writes"),
        ({"files": {"manifest.json": _ENTRY}}, "no build lists"),
        ({"files": {"a": _ENTRY, "a/b": _ENTRY}}, "both as a file and as a directory"),
        ({"files": {"a": {**_ENTRY, "sha256": "G" * 64}}}, "damaged entry for a"),
        ({"files": {"a": {**_ENTRY, "size": True}}}, "damaged entry for a"),
        ({"files": {"a": {**_ENTRY, "mode": "4755"}}}, "damaged entry for a"),
        ({"files": {"a": {**_ENTRY, "extra": 1}}}, "damaged entry for a"),
        ({"files": {"a": []}}, "damaged entry for a"),
        ({"files": []}, "lists no files"),
        ({"format": 2}, "has format 2; this tierc knows 1"),
        ({"format": True}, "has format True"),
        ({"planVersion": "1"}, "no plan version"),
        ({"incomplete": 1}, "incomplete"),
    ],
)
def test_a_manifest_that_cannot_be_trusted_is_refused(
    dest: Path, way: str, change: dict[str, object], says: str
) -> None:
    victim = dest.parent.parent / "victim"
    victim.write_text("x")
    write(dest, files(a="1"))
    body = json.loads((dest / "manifest.json").read_bytes())
    (dest / "manifest.json").write_text(json.dumps({**body, **change}))
    message = refusal(dest, files(b="1"))
    assert message.startswith("TRC701")
    assert says in message
    assert victim.read_text() == "x"
    assert on_disk(dest) == {"a": "1\n"}
    nothing_beside(dest)


def test_a_cut_or_doubled_manifest_of_ours_is_refused(dest: Path) -> None:
    write(dest, files(a="1"))
    data = (dest / "manifest.json").read_bytes()
    for broken in (data[:-10], data.replace(b'"files"', b'"files": {}, "files"')):
        (dest / "manifest.json").write_bytes(broken)
        assert refusal(dest, files(a="1")).startswith("TRC701")


# --- partial builds --------------------------------------------------------------------------


def only(prefix: str) -> Scope:
    return lambda path: path.startswith(prefix)


def test_a_partial_build_leaves_the_rest(dest: Path, way: str) -> None:
    provenance = text_artifact("provenance.json", "all")
    write(dest, [*files(nodes__a__x="1", nodes__a__y="1", nodes__b__x="1"), provenance])
    (dest / "nodes/b/x").write_text("edited")
    report = write(dest, files(nodes__a__x="2"), only("nodes/a/"))
    assert on_disk(dest) == {
        "nodes/a/x": "2\n",
        "nodes/b/x": "edited",
        "provenance.json": "all\n",
    }
    assert report.pruned == ("nodes/a/y",)
    assert report.carried == ("nodes/b/x", "provenance.json")
    assert report.modified == ()
    assert listed(dest) == ["nodes/a/x", "nodes/b/x"]
    full = [*files(nodes__a__x="2", nodes__b__x="1")]
    assert check_tree(dest, full, plan_version=1).differences == (
        Difference("nodes/b/x", "changed"),
    )
    assert write(dest, full).modified == ("nodes/b/x",)
    assert not (dest / "provenance.json").exists()


def test_partial_builds_add_up_to_a_full_one(tmp_path: Path, way: str) -> None:
    everywhere = files(nodes__a__x="1", nodes__b__x="2", nodes__c__x="3")
    write(tmp_path / "full", everywhere)
    for artifact in everywhere:
        write(tmp_path / "shards", [artifact], only(artifact.path))
    assert on_disk(tmp_path / "shards") == on_disk(tmp_path / "full")
    manifests = [(tmp_path / d / "manifest.json").read_bytes() for d in ("full", "shards")]
    assert manifests[0] == manifests[1]


def test_a_partial_build_does_not_mix_plan_versions(dest: Path, way: str) -> None:
    write(dest, files(a="1", b="1"))
    with pytest.raises(TreeError, match="plan version 1, this tierc has 2"):
        write_tree(dest, files(a="2"), plan_version=2, scope=only("a"))
    assert on_disk(dest) == {"a": "1\n", "b": "1\n"}
    write_tree(dest, files(a="2", b="1"), plan_version=2)
    assert json.loads((dest / "manifest.json").read_bytes())["planVersion"] == 2


def test_bugs_of_the_caller_are_value_errors(dest: Path) -> None:
    with pytest.raises(ValueError, match="outside its scope"):
        write(dest, files(b="1"), only("a"))
    with pytest.raises(ValueError, match="outside its scope"):
        write(dest, [text_artifact("manifest.json", "x")])
    with pytest.raises(ValueError, match="two artifacts"):
        write(dest, [*files(a="1"), *files(a="2")])
    assert not dest.exists()


# --- check -----------------------------------------------------------------------------------


def test_check_names_every_kind_of_difference(dest: Path) -> None:
    write(dest, [*files(a="1", b="1", c="1", e="1"), text_artifact("provenance.json", "1")])
    (dest / "b").chmod(0o755)
    (dest / "c").chmod(0o600)  # umask of a checkout, not a difference
    (dest / "notes").write_text("x")
    (dest / "e").unlink()
    (dest / "e").mkdir()
    now = [*files(a="2", b="1", c="1", d="1", e="1"), text_artifact("provenance.json", "2")]
    report = check_tree(dest, [x for x in now if x.path != "c"], plan_version=1)
    assert report.differences == (
        Difference("a", "changed"),
        Difference("b", "mode"),
        Difference("c", "stale"),
        Difference("d", "missing"),
        Difference("e", "changed"),
        Difference("manifest.json", "changed"),
    )
    assert report.foreign == ("notes",)
    found = report.findings("out")
    assert [f.code for f in found] == ["TRC708"] * 6
    assert found[2].message == "c is on disk and not compiled any more"
    assert found[2].span.path == "out/c"


def test_check_of_a_missing_or_empty_directory(dest: Path) -> None:
    expected = (Difference("a", "missing"), Difference("manifest.json", "missing"))
    assert check_tree(dest, files(a="1"), plan_version=1).differences == expected
    assert not dest.parent.exists()
    dest.mkdir(parents=True)
    assert check_tree(dest, files(a="1"), plan_version=1).differences == expected


def test_check_in_scope_overlooks_the_rest(dest: Path) -> None:
    write(dest, files(a="1", b="1"))
    (dest / "b").write_text("edited")
    assert check_tree(dest, files(a="1"), plan_version=1, scope=only("a")).differences == ()
    assert check_tree(dest, files(a="2"), plan_version=1, scope=only("a")).differences == (
        Difference("a", "changed"),
        Difference("manifest.json", "changed"),
    )


_paths = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)
_trees = st.dictionaries(
    _paths, st.tuples(st.binary(max_size=3), st.sampled_from([0o644, 0o755])), max_size=6
).map(
    lambda tree: [
        Artifact(path, *content)
        for path, content in tree.items()
        if not any(other.startswith(f"{path}/") for other in tree)
    ]
)


@pytest.mark.parametrize("in_place", [False, True])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_trees, min_size=1, max_size=4))
def test_after_any_sequence_of_builds_the_tree_is_the_last_one(
    tmp_path_factory: pytest.TempPathFactory, in_place: bool, trees: list[list[Artifact]]
) -> None:
    root = tmp_path_factory.mktemp("t") / "out"
    with pytest.MonkeyPatch.context() as patch:
        if in_place:
            patch.setattr(writing, "_must_be_in_place", lambda _: "forced by the test")
        for tree in trees:
            write(root, tree)
            assert check_tree(root, tree, plan_version=1).differences == ()
    found = {
        str(p.relative_to(root)): (p.read_bytes(), stat.S_IMODE(p.stat().st_mode))
        for p in root.rglob("*")
        if p.is_file()
    }
    del found["manifest.json"]
    assert found == {a.path: (a.data, a.mode) for a in trees[-1]}
    dirs = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()}
    assert dirs == {str(parent) for path in found for parent in Path(path).parents} - {"."}
    nothing_beside(root)


def test_exchange_really_exchanges(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"was-{name}").touch()
    filesystem.exchange(tmp_path / "a", tmp_path / "b")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["was-b"]
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["was-a"]
    with pytest.raises(FileNotFoundError):
        filesystem.exchange(tmp_path / "a", tmp_path / "none")
