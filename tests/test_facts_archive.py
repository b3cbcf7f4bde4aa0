"""Archives in memory: what is in them, as another reader of tar sees it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.files.archive import Limits, read_archive
from compiler.facts.files.keep import MAX_ATTRIBUTE, MAX_FILE
from compiler.facts.files.memory import ClashError, Link, MemoryFiles, Placeholder
from compiler.facts.files.stream import Stream
from compiler.facts.files.tar import TarReader, is_tar
from compiler.facts.tree import Tree
from tests.tar_files import (
    CPU,
    PACKERS,
    SMALL,
    entry,
    hard_link,
    link,
    read,
    tar,
)

# --- what is in it -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("packing", PACKERS)
def test_every_packing_and_tar_format_is_read(packing: str, form: int) -> None:
    long = f"{CPU}/" + "d" * 90 + "/" + "e" * 90 + "/online"
    data = PACKERS[packing](tar([(long, b"0-1\n"), link("sys/class/net", "x" * 90)], form))
    stream = Stream(io.BytesIO(data), limit=SMALL.total)
    assert stream.packing == ("" if packing == "plain" else packing)
    assert is_tar(stream.peek(512))
    files = read_archive(stream, SMALL).files
    assert files.read(f"/{long}", 100) == b"0-1\n"
    assert files.entry("/sys/class/net") == ("link", "x" * 90)


def test_paths_longer_than_headers_hold() -> None:
    long = CPU + "/" + "/".join(["d" * 100] * 10) + "/online"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        files = read(tar([(long, b"7\n"), link(f"{CPU}/l", "t" * 3000)], form)).files
        assert files.read(f"/{long}", 9) == b"7\n"
        assert files.entry(f"/{CPU}/l") == ("link", "t" * 3000)


def test_links_are_links_and_lead_nowhere_out_of_the_archive(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    members = [
        link(f"{CPU}/up", "../../../../../../../../../../etc/hostname"),
        link(f"{CPU}/absolute", str(tmp_path / "secret")),
        link(f"{CPU}/inside", "/sys/devices/system/cpu/online"),
        link(f"{CPU}/loop", "loop"),
        (f"{CPU}/online", b"0\n"),
    ]
    tree = Tree(read(tar(members)).files)
    assert tree.text(f"/{CPU}/up") is None
    assert tree.text(f"/{CPU}/absolute") is None
    assert tree.text(f"/{CPU}/inside") == "0\n"
    assert tree.text(f"/{CPU}/loop") is None
    assert tree.warnings == (f"/{CPU}/loop: too many links",) or "too many" in tree.warnings[0]


def test_hard_links_are_the_file_they_name() -> None:
    files = read(tar([(f"{CPU}/online", b"0-7\n"), hard_link("s/sys/kernel/x", f"{CPU}/online")]))
    assert files.files.read("/s/sys/kernel/x", 9) == b"0-7\n"


def test_what_tar_padded_with_nul_is_as_it_was_read_from_sysfs() -> None:
    files = read(tar([(f"{CPU}/online", b"0-3\n" + bytes(4092))])).files
    assert files.read(f"/{CPU}/online", 99) == b"0-3\n"


def test_only_what_a_reader_could_ask_for_is_kept() -> None:
    kept = (
        f"{CPU}/online", "deep/er/sys/bus/pci/devices/0000:00:00.0/class", "proc/cpuinfo",
        "x/proc/sys/kernel/osrelease", "x/proc/77/comm", "etc/hostname", "a/b/machineinfo.json",
        "n/var/lib/kubelet/cpu_manager_state", "topology/nodes/1/properties", "lstopo.XML",
        "sys/devices/virtual/kfd/kfd/topology/nodes/0/properties", "var/log/lscpu.txt",
    )  # fmt: skip
    dropped = (
        "sys/devices/system/memory/memory0/state", "sys/devices/pci0000:00/power/wakeup",
        "proc/kcore", "proc/77/environ", "var/log/messages", "home/u/.ssh/id_rsa",
        "var/lib/kubelet/pods/u/volumes/secret/token", "sys/kernel/debug/x", "x.tgz",
    )  # fmt: skip
    archive = read(tar([(path, b"1\n") for path in (*kept, *dropped)]))
    there = {path[1:] for path, node in archive.files.nodes() if node == b"1\n"}
    assert there == set(kept)
    assert [note.message for note in archive.notes] == [
        "member 'x.tgz' is an archive itself and is not looked into; unpack it and name it"
    ]


def test_what_is_too_long_is_seen_to_be_and_not_half_read() -> None:
    limits = Limits(members=9, kept=64 << 20, total=64 << 20)
    data = tar(
        [
            (f"{CPU}/online", b"1," * MAX_ATTRIBUTE),
            ("proc/cpuinfo", b"x" * (MAX_FILE + 7)),
            ("big.json", b"[" * (MAX_FILE + 1)),
        ]
    )
    archive = read(data, limits)
    tree = Tree(archive.files)
    assert tree.text(f"/{CPU}/online") is None
    assert tree.text("/proc/cpuinfo", limit=MAX_FILE) is None
    assert [warning.split(": ")[1] for warning in tree.warnings] == [
        f"larger than {MAX_ATTRIBUTE} bytes, not used", f"larger than {MAX_FILE} bytes, not used"
    ]  # fmt: skip
    assert tree.text("/big.json") is None
    assert [n.message for n in archive.notes] == [
        "member 'big.json' is larger than 8 MiB and is left out"
    ]


def test_devices_and_fifos_are_left_out_and_named() -> None:
    members = [
        (entry(f"{CPU}/{name}", type=kind), b"")
        for name, kind in (
            ("c", tarfile.CHRTYPE),
            ("b", tarfile.BLKTYPE),
            ("f", tarfile.FIFOTYPE),
        )
    ]
    archive = read(tar(members))
    assert len(archive.notes) == 3
    tree = Tree(archive.files)
    assert tree.names(f"/{CPU}") == ("b", "c", "f")
    assert tree.text(f"/{CPU}/c") is None
    assert tree.warnings == (f"/{CPU}/c: not a regular file",)


# --- the reader of tar, against another --------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.text(
                st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]),
                min_size=1,
                max_size=150,
            ).filter(lambda name: name not in (".", "..")),
            st.binary(max_size=1500),
        ),
        max_size=6,
    ),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
@settings(max_examples=80)
def test_members_are_those_that_were_packed(members: list[tuple[str, bytes]], form: int) -> None:
    reader = TarReader(Stream(io.BytesIO(tar(members, form)), limit=1 << 20))
    found = [(member.name, reader.content(1 << 20)) for member in reader]
    assert found == members


def test_the_corpus_has_the_members_that_python_sees(shared: Path) -> None:
    seen = 0
    corpus = shared / "corpus" / "topology"
    for path in sorted([*corpus.glob("rocm-kfd/*"), *corpus.glob("ghw-snapshots/*")]):
        with path.open("rb") as raw:
            reader = TarReader(Stream(raw, limit=1 << 30))
            ours = [(one.name.rstrip("/"), reader.content(16 << 20)) for one in reader]
        with tarfile.open(path) as archive:
            theirs = []
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                theirs.append((member.name, file.read() if file is not None else b""))
        assert ours == theirs, path.name
        seen += len(ours)
    assert seen > 11_000


# --- files in memory ---------------------------------------------------------------------------


def test_memory_counts_what_it_holds_and_refuses_clashes() -> None:
    files = MemoryFiles()
    files.add("/a/b", b"12345")
    files.add("/a/b", b"12345")
    files.add_directory("/a/c", ["unknown"])
    assert files.count == 3
    assert files.size == len("/a/b") + 5 + len("/a") + len("/a/c")
    assert sorted(files.names("/a")) == ["b", "c"]
    assert files.names("/a/c") == ["unknown"]
    for path, node in (("/a/b", b"1"), ("/a/b", Link("12345")), ("/a", b""), ("/a/b/c", b"")):
        with pytest.raises(ClashError):
            files.add(path, node)
    with pytest.raises(ClashError):
        files.add_directory("/a/b")
    files.add("/a/pipe", Placeholder("other"))
    with pytest.raises(ClashError):
        files.add("/a/pipe", Link("other"))
    with pytest.raises(FileNotFoundError):
        files.entry("/a/c/unknown")
    with pytest.raises(NotADirectoryError):
        files.names("/a/b")
    with pytest.raises(IsADirectoryError):
        files.read("/a", 1)
    assert files.read("/a/b", 2) == b"123"
