"""The output tree under kill -9, full disks, missing permissions, and two builds at once."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.artifact import Artifact, text_artifact
from compiler.diagnostics import Severity
from compiler.tree import TreeError, check_tree, filesystem, inplace, retire, write_tree
from compiler.tree import write as writing

ROOT = Path(__file__).resolve().parent.parent


def tree(version: str) -> list[Artifact]:
    """One of two trees: some files equal in both, some different, some in one only."""
    return [
        *(text_artifact(f"same/{n}", f"{n}") for n in range(12)),
        *(text_artifact(f"nodes/{n}/plan", f"{version} {n}" * 200) for n in range(12)),
        *(text_artifact(f"only-{version}/{n}", version) for n in range(6)),
    ]


def write(dest: Path, version: str, **more: float) -> None:
    write_tree(dest, tree(version), plan_version=1, **more)  # type: ignore[arg-type]


def which(dest: Path) -> str:
    """The version that the whole tree is of; ``mixed`` when it is neither."""
    for version in "AB":
        if not check_tree(dest, tree(version), plan_version=1).differences:
            return version
    return "mixed"


_LOOP = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_tree_crash import write
write(Path(sys.argv[1]), "A")
print("ready", flush=True)
while True:
    write(Path(sys.argv[1]), "B")
    write(Path(sys.argv[1]), "A")
"""


def start(dest: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _LOOP, str(dest), str(ROOT / "tests"), str(ROOT)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kill_9_leaves_the_old_or_the_new_tree_whole(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    moments = random.Random(7)
    seen = set()
    for _ in range(30):
        with start(dest) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            (dest / "mine").write_text("foreign")
            time.sleep(moments.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        seen.add(which(dest))
        assert (dest / "mine").read_text() == "foreign"
    assert seen <= {"A", "B"}
    write(dest, "A")
    write(dest, "B")
    assert which(dest) == "B"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert check_tree(dest, tree("B"), plan_version=1).foreign == ("mine",)


def test_a_reader_never_sees_a_mixed_tree(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    looks = 0
    with start(dest) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            while looks < 60:
                # A directory that is held open stays the tree it was.
                fd = os.open(dest, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    names = {_read(fd, f"nodes/{n}/plan")[:1] for n in range(12)}
                except FileNotFoundError:
                    continue  # it was retired while we read it
                finally:
                    os.close(fd)
                assert names in ({"A"}, {"B"})
                looks += 1
        finally:
            process.kill()


def _read(fd: int, path: str) -> str:
    with open(os.open(path, os.O_RDONLY, dir_fd=fd)) as file:
        return file.read()


def test_builds_at_once_take_turns(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    processes = [start(dest) for _ in range(3)]
    try:
        time.sleep(1)
        assert [p.poll() for p in processes] == [None] * 3
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert which(dest) in "AB"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_held_lock_is_waited_for_and_then_refused(
    tmp_path: Path, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    if in_place:
        monkeypatch.setattr(writing, "_must_be_in_place", lambda root: "forced by the test")
    lock = dest / ".tierc-lock" if in_place else tmp_path / ".out.tierc-lock"
    with (
        filesystem.locked(lock, dest, 0),
        pytest.raises(TreeError, match="another build is writing") as caught,
    ):
        write(dest, "B", lock_timeout=0.2)
    assert caught.value.diagnostic.code == "TRC703"
    assert which(dest) == "A"
    write(dest, "B")
    assert which(dest) == "B"
    assert not lock.exists()


def test_a_lock_file_left_by_a_dead_process_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".out.tierc-lock").touch()
    write(tmp_path / "out", "A", lock_timeout=0)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


# --- leftovers -------------------------------------------------------------------------------


def test_leftovers_are_removed_and_only_ours(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    for name in (".out.tierc-0123abcd", ".out.tierc-0123abcd/sub"):
        (tmp_path / name).mkdir()
    others = [
        ".out.tierc-mine",
        ".out2.tierc-0123abcd",
        "out.tierc-0123abcd",
        ".out.tierc-0123ABCD",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / ".out.tierc-deadbeef").symlink_to(others[0])
    write(dest, "B")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["out", ".out.tierc-deadbeef", *others]
    )


def test_a_file_saved_during_the_build_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    (dest / "notes").write_text("first")
    real = filesystem.exchange

    def edit_then_exchange(left: Path, right: Path) -> None:
        (dest / "new-dir").mkdir()
        (dest / "new-dir/new").write_text("new")
        (dest / "notes.tmp").write_text("second")  # as editors save: a new file, renamed
        (dest / "notes.tmp").rename(dest / "notes")
        real(left, right)

    monkeypatch.setattr(filesystem, "exchange", edit_then_exchange)
    write(dest, "B")
    assert which(dest) == "B"
    assert (dest / "notes").read_text() == "second"
    assert (dest / "new-dir/new").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_an_old_tree_left_by_a_kill_does_not_undo_later_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    (dest / "notes").write_text("first")
    monkeypatch.setattr(retire, "retire", lambda *args, **kwargs: "")  # killed right before
    write(dest, "B")
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 2
    (dest / "tmp").write_text("second")
    (dest / "tmp").rename(dest / "notes")
    write(dest, "A")
    assert (dest / "notes").read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_cannot_be_moved_stays_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest = tmp_path / "out"
    write(dest, "A")
    outside = tmp_path / "outside"
    outside.mkdir()
    real = filesystem.exchange

    def meddle(left: Path, right: Path) -> None:
        (dest / "d").mkdir()
        (dest / "d/f").write_text("precious")
        (left / "d").symlink_to(outside)
        real(left, right)

    monkeypatch.setattr(filesystem, "exchange", meddle)
    report = write_tree(dest, tree("B"), plan_version=1)
    assert report.exchanged
    (left,) = tmp_path.glob(".out.tierc-*")
    assert (left / "d/f").read_text() == "precious"
    assert list(outside.iterdir()) == []
    finding = report.findings("out")[-1]
    assert (finding.code, finding.severity) == ("TRC710", Severity.WARNING)
    assert left.name in finding.message


# --- one by one ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EOPNOTSUPP]
)
def test_without_exchange_files_are_replaced_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no(left: Path, right: Path) -> None:
        raise OSError(code, os.strerror(code), str(left), None, str(right))

    dest = tmp_path / "out"
    write(dest, "A")
    (dest / "nodes/mine").write_text("foreign")
    monkeypatch.setattr(filesystem, "exchange", no)
    inode = dest.stat().st_ino
    report = write_tree(dest, tree("B"), plan_version=1)
    assert not report.exchanged
    assert os.strerror(code).lower() in report.note
    assert [f.code for f in report.findings("out")] == ["TRC707", "TRC706"]
    assert dest.stat().st_ino == inode
    assert which(dest) == "B"
    assert not (dest / "only-A").exists()
    assert (dest / "nodes/mine").read_text() == "foreign"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert ".tierc-stage" not in os.listdir(dest)


def test_foreign_files_that_cannot_be_linked_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    dest = tmp_path / "out"
    write(dest, "A")
    monkeypatch.setattr(writing.os, "link", no)
    report = write_tree(dest, tree("B"), plan_version=1)
    assert not report.exchanged
    assert "cannot be linked" in report.note
    assert which(dest) == "B"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("how", ["error", "kill"])
def test_an_interrupted_replacement_is_healed_by_the_next_build(tmp_path: Path, how: str) -> None:
    # In a process of its own, because it forks and a test worker has threads.
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]; import test_tree_crash as t\n"
        "t.interrupt(*sys.argv[1:3])"
    )
    command = [sys.executable, "-c", code, str(tmp_path), how, str(ROOT / "tests"), str(ROOT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # The claim, 12 changed and 6 new files, and the manifest are renamed into place.
    assert done.stdout == "20 interruptions\n"


def interrupt(base: str, how: str) -> None:
    """Stop a replacement before each of its renamings in turn, and build again."""
    step = 0
    while True:
        dest = Path(base, str(step))
        write(dest, "A")
        (dest / "mine").write_text("foreign")
        if (child := os.fork()) == 0:
            os._exit(_fail_at(dest, step, how))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == (3 if how == "kill" else 4), code
        # Not all of "A" again: what is in neither must go, although "B" never finished.
        report = write_tree(dest, tree("A")[:-1], plan_version=1)
        assert check_tree(dest, tree("A")[:-1], plan_version=1).differences == ()
        assert report.modified == ()
        assert report.kept_foreign == ("mine",)
        assert sorted(os.listdir(dest)) == ["manifest.json", "mine", "nodes", "only-A", "same"]
        step += 1
    assert which(dest) == "B"
    print(f"{step} interruptions")


def _fail_at(dest: Path, step: int, how: str) -> int:
    """In a child: write "B" in place, stopping before the renaming number ``step``."""
    count = 0
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        nonlocal count
        if count == step:
            if how == "kill":
                os._exit(3)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        count += 1
        real(source, target)

    try:
        inplace.os.replace = replace  # type: ignore[assignment]
        writing._must_be_in_place = lambda root: "forced by the test"
        write(dest, "B")
    except TreeError as error:
        said = error.diagnostic
        return 4 if "incomplete: build again" in said.help and "input/output" in said.message else 5
    except BaseException:
        return 6
    return 0


# --- the system says no ----------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 256 KiB; only root can make one."""
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(where)]
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small filesystem")
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


@pytest.mark.parametrize("inside", [True, False], ids=["directory", "mount-point"])
def test_a_full_disk_leaves_the_old_tree(small_disk: Path, inside: bool) -> None:
    dest = small_disk / "out" if inside else small_disk
    old = [text_artifact("a", "1"), text_artifact("b", "1")]
    write_tree(dest, old, plan_version=1)
    big = [text_artifact("a", "2"), text_artifact("c", "x" * 300_000)]
    with pytest.raises(TreeError) as caught:
        write_tree(dest, big, plan_version=1)
    found = caught.value.diagnostic
    assert found.code == "TRC704"
    assert "no space left on device" in found.message
    assert found.help == "the tree that was there is as it was"
    assert check_tree(dest, old, plan_version=1).differences == ()
    assert sorted(p.name for p in dest.iterdir()) == ["a", "b", "manifest.json"]
    report = write_tree(dest, [text_artifact("a", "3")], plan_version=1)
    assert report.exchanged is inside
    assert ("mount point" in report.note) is not inside


@pytest.mark.parametrize("failing", ["write_new", "flush", "exchange"])
def test_an_error_anywhere_leaves_the_old_tree_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    dest = tmp_path / "out"
    write(dest, "A")

    def fail(*args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "somewhere\x1b")

    monkeypatch.setattr(filesystem, failing, fail)
    with pytest.raises(TreeError) as caught:
        write(dest, "B")
    assert caught.value.diagnostic.message == (
        "cannot write the output: input/output error (somewhere\\x1b)"
    )
    assert which(dest) == "A"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_ctrl_c_leaves_the_old_tree_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    dest = tmp_path / "out"
    write(dest, "A")
    monkeypatch.setattr(filesystem, "flush", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(dest, "B")
    assert which(dest) == "A"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


_AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_tree_crash as t
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    report = t.write_tree(Path(sys.argv[1]), t.tree("B"), plan_version=1)
except t.TreeError as error:
    print(error.diagnostic.code, error)
else:
    print("written", report.exchanged, report.note)
"""


def as_nobody(dest: Path) -> str:
    command = [sys.executable, "-c", _AS_NOBODY, str(dest), str(ROOT / "tests"), str(ROOT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def open_tmp() -> Iterator[Path]:
    """A directory that an unprivileged user can reach; pytest's own are private."""
    path = filesystem.temporary("tierc-test-", Path("/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_no_permission_is_said_and_harms_nothing(open_tmp: Path) -> None:
    dest = open_tmp / "out"
    write(dest, "A")
    if os.geteuid() != 0:
        for path in (dest, open_tmp):
            path.chmod(0o555)
    said = as_nobody(dest)
    open_tmp.chmod(0o755)
    assert said.startswith("TRC704 cannot write the output: permission denied (")
    assert which(dest) == "A"
    assert [p.name for p in open_tmp.iterdir()] == ["out"]


def test_a_writable_tree_in_a_forbidden_directory_is_written_in_place(open_tmp: Path) -> None:
    dest = open_tmp / "out"
    write(dest, "A")
    if os.geteuid() == 0:
        for path in (dest, *dest.rglob("*")):
            os.chown(path, 65534, 65534)
    else:
        open_tmp.chmod(0o555)
    said = as_nobody(dest)
    open_tmp.chmod(0o755)
    assert said.startswith("written False files were replaced one by one: no permission to write")
    assert which(dest) == "B"


def test_a_filesystem_without_syncfs_or_directory_fsync_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invalid(fd: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(filesystem.os, "fsync", invalid)
    write(tmp_path / "out", "A")
    assert which(tmp_path / "out") == "A"
