"""What a path holds: formats, encodings, archives, and several machines in one."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts import sniff as sniff_module
from compiler.facts.decode import decode
from compiler.facts.files import find as find_module
from compiler.facts.files.archive import Limits, read_archive
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.find import find
from compiler.facts.files.memory import Link, MemoryFiles
from compiler.facts.files.stream import Stream
from compiler.facts.formats.format import Format, Text
from compiler.facts.host import read_host
from compiler.facts.partial import Partial, ReadError
from compiler.facts.sniff import FORMATS, Reading, read_path, read_text
from compiler.facts.tree import Tree
from tests.sysfs_builder import SysfsBuilder, gb10
from tests.test_facts_hostile import rich

LSCPU = """\
# The following is the parsable format.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,0,0,,1,1,1,0
"""


def refusal(path: Path) -> ReadError:
    with pytest.raises(ReadError) as caught:
        read_path(path, path.name)
    assert caught.value.message.isprintable()
    return caught.value


def packed(root: Path, out: Path, mode: str = "w:gz") -> Path:
    """Pack a directory as `tar -C root .` does."""
    with tarfile.open(out, mode) as archive:  # type: ignore[call-overload]
        archive.add(root, ".")
    return out


# --- texts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoded",
    [
        LSCPU.encode(),
        codecs.BOM_UTF8 + LSCPU.encode(),
        codecs.BOM_UTF16_LE + LSCPU.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + LSCPU.encode("utf-16-be"),
        gzip.compress(LSCPU.encode(), mtime=0),
        bz2.compress(LSCPU.encode()),
        lzma.compress(LSCPU.encode()),
        gzip.compress(codecs.BOM_UTF16_LE + LSCPU.encode("utf-16-le"), mtime=0),
        LSCPU.encode() + bytes(100),
        LSCPU.replace("\n", "\r\n").encode(),
    ],
)
def test_a_text_in_any_packing_and_encoding(tmp_path: Path, encoded: bytes) -> None:
    path = tmp_path / "anything"
    path.write_bytes(encoded)
    (reading,) = read_path(path, "anything")
    (partial,) = reading.partials
    assert reading.format == "lscpu-p"
    assert partial.file == "anything"
    assert partial.online == CpuSet((0, 1))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (bytes(40), "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0x", "binary"),
        (b"ok\nl\xe4ngd\n", "byte 0xe4 is not UTF-8"),
        (codecs.BOM_UTF16_LE + b"a", "damaged UTF-16"),
        (b"PK\x03\x04whatever", "zip"),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], "ends too early"),
        (b"hello world\n", "unknown format"),
        (b'{"a": 1}', "unknown format"),
        (b"x" * ((8 << 20) + 1), "larger than 8 MiB"),
        (gzip.compress(bytes(9 << 20), mtime=0), "larger than 8 MiB"),
    ],
)
def test_what_is_no_text_of_a_format(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    error = refusal(path)
    assert said in error.message
    if said == "unknown format":
        assert all(one.title in error.help for one in FORMATS)


def test_the_line_that_is_not_utf8_is_named() -> None:
    with pytest.raises(ReadError) as caught:
        decode(b"one\ntwo\nth\xffree\n")
    assert caught.value.line == 3
    assert "iconv" in caught.value.help


def test_one_format_claims_a_text_or_none() -> None:
    def read(text: Text) -> tuple[Partial, ...]:
        return (Partial("node", text.name),)

    a = Format("a", "format A", lambda text: "a" in text, read)
    b = Format("b", "format B", lambda text: "b" in text, read)
    assert read_text(Text("f", "bb"), (a, b)) == Reading("b", (Partial("node", "f"),))
    with pytest.raises(ReadError, match="format A and format B at once"):
        read_text(Text("f", "ab"), (a, b))
    with pytest.raises(ReadError, match="unknown format") as caught:
        read_text(Text("f", "c"), (a, b))
    assert caught.value.help.endswith("format A, format B")


def test_formats_have_names_and_titles_of_their_own() -> None:
    assert len({one.name for one in FORMATS}) == len({one.title for one in FORMATS}) == len(FORMATS)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(LSCPU.encode())

    monkeypatch.setattr(sniff_module.sys, "stdin", Input)
    (reading,) = read_path(Path("-"), "standard input")
    assert reading.partials[0].file == "standard input"


def test_pipes_are_read_as_from_process_substitution(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, LSCPU.encode())
    os.close(writer)
    try:
        (reading,) = read_path(Path(f"/dev/fd/{reader}"), "pipe")
    finally:
        os.close(reader)
    assert reading.format == "lscpu-p"


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").message == "cannot be read: no such file or directory"
    assert "holds nothing that tells of a node" in refusal(tmp_path).message
    assert "binary" in refusal(Path("/dev/zero")).message or "8 MiB" in refusal(
        Path("/dev/zero")
    ).message  # fmt: skip
    assert refusal(Path("/dev/null")).message == "is empty"


# --- where machines are ------------------------------------------------------------------------


@pytest.mark.parametrize("build", [rich, gb10])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_directory_and_its_archive_say_the_same(
    tmp_path: Path, build: Callable[[Path], SysfsBuilder], mode: str
) -> None:
    root = build(tmp_path / "root").root
    (tree,) = read_path(root, "m")
    (archive,) = read_path(packed(root, tmp_path / "out", mode), "m")
    assert tree == archive
    assert tree == Reading("sysfs", (read_host(Tree.of_disk(root), live=False, name="m"),))


def test_machines_anywhere_below_and_texts_beside_them(tmp_path: Path) -> None:
    top = tmp_path / "top"
    gb10(top / "a" / "deep" / "one")
    rich(top / "b")
    (top / "b" / "lscpu.txt").write_text(LSCPU)
    (top / "README.txt").write_text("not of any format\n")
    (top / "broken.xml").write_bytes(b"\xff\xfe\xff")
    for path in (top, packed(top, tmp_path / "all.tgz")):
        readings = read_path(path, "all")
        assert [(one.format, one.partials[0].file) for one in readings] == [
            ("sysfs", "all!b"), ("sysfs", "all!a/deep/one"), ("lscpu-p", "all!b/lscpu.txt")
        ]  # fmt: skip
        assert readings[0].partials[0].online == CpuSet(range(4))
        assert readings[1].partials[0].online == CpuSet(range(20))


def test_a_text_in_an_archive_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    top = tmp_path / "top"
    rich(top / "m")
    (top / "lscpu.txt").write_text(LSCPU + "0,0,0,0,,0,0,0,0\nx,y\n")
    error = refusal(packed(top, tmp_path / "all.tgz"))
    assert error.message.startswith("lscpu.txt, line ")
    assert error.line is None


def test_a_machine_in_an_archive_without_cpus_is_named(tmp_path: Path) -> None:
    (tmp_path / "top" / "m" / "sys" / "devices" / "system" / "cpu").mkdir(parents=True)
    assert refusal(tmp_path / "top").message.startswith("m: ")


def kfd(root: Path) -> None:
    for node, text in (
        (0, "cpu_cores_count 4\nsimd_count 0\n"),
        (1, "cpu_cores_count 0\nsimd_count 304\nlocation_id 256\ndomain 0\nvendor_id 4098\n"
            "device_id 29857\nunique_id 77\n"),
    ):  # fmt: skip
        (root / str(node)).mkdir(parents=True)
        (root / str(node) / "properties").write_text(text)


@pytest.mark.parametrize("where", ["nodes", "topology/nodes", "x/y/topology/nodes"])
def test_the_topology_of_the_amd_driver_alone(tmp_path: Path, where: str) -> None:
    kfd(tmp_path / "top" / where)
    for path in (tmp_path / "top", packed(tmp_path / "top", tmp_path / "k.tgz")):
        (reading,) = read_path(path, "k")
        assert reading.format == "kfd"
        assert reading.partials[0].devices is not None
        assert [one.bdf for one in reading.partials[0].devices] == ["0000:01:00.0"]


def test_the_topology_of_the_amd_driver_in_sysfs(tmp_path: Path) -> None:
    b = gb10(tmp_path / "root")
    kfd(b.root / "sys/devices/virtual/kfd/kfd/topology/nodes")
    b.link("sys/class/kfd/kfd", "sys/devices/virtual/kfd/kfd")
    for path in (b.root, packed(b.root, tmp_path / "k.tgz")):
        assert [one.format for one in read_path(path, "k")] == ["sysfs", "kfd"]


def test_notes_of_an_archive_are_kept(tmp_path: Path) -> None:
    b = gb10(tmp_path / "root")
    os.mkfifo(b.root / "sys/devices/system/cpu/pipe")
    (reading,) = read_path(packed(b.root, tmp_path / "k.tgz"), "k")
    assert "is a device or FIFO" in reading.partials[0].notes[0].message


def test_limits_are_passed_on(tmp_path: Path) -> None:
    path = packed(gb10(tmp_path / "root").root, tmp_path / "k.tgz")
    with pytest.raises(ReadError, match="more than 10 members"):
        read_path(path, "k", Limits(members=10))
    with pytest.raises(ReadError, match="holds more than 0 MiB"):
        read_path(path, "k", Limits(total=1000))


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    deep = "/d" * 14
    files.add(f"{deep}/sys/devices/system/cpu/online", b"0\n")
    assert find(files).systems == ()
    files.add(f"{'/e' * 12}/sys/devices/system/cpu/online", b"0\n")
    assert find(files).systems == ("/e" * 12,)
    files.add("/loop", Link("."))
    assert find(files).systems == ("/e" * 12,)
    monkeypatch.setattr(find_module, "MAX_LOOKED_AT", 5)
    found = find(files)
    assert found.systems == ()
    assert "only the first 5" in found.notes[0].message


def test_what_is_below_a_system_is_not_searched(tmp_path: Path) -> None:
    rich(tmp_path)
    rich(tmp_path / "home" / "u")
    assert find(DiskFiles(tmp_path)).systems == ("/",)


def test_a_directory_that_cannot_be_listed_is_a_note() -> None:
    files = MemoryFiles()
    files.add("/a/sys/devices/system/cpu/online", b"0\n")
    files.add_directory("/closed")
    files.add_error("names", "/closed", 13)
    found = find(files)
    assert found.systems == ("/a",)
    assert [note.message for note in found.notes] == [
        "/closed cannot be listed and is not searched"
    ]


# --- the corpus --------------------------------------------------------------------------------


def test_exactly_one_format_claims_each_text_of_the_corpus(shared: Path) -> None:
    corpus = shared / "corpus" / "topology"
    claims = {}
    for path in sorted(corpus.rglob("*.*")):
        if path.is_file() and path.name != "MANIFEST.tsv" and "tar" not in path.name:
            if path.suffix == ".tgz":
                continue
            text = decode(path.read_bytes())
            claims[path.name] = [one.name for one in FORMATS if one.sniff(text)]
    assert {name: found for name, found in claims.items() if len(found) != 1} == {}
    assert len(claims) == 75


@pytest.mark.parametrize(
    "name",
    [
        "hwloc-sysfs/16em64t-4s2c2t-offlines.tar.bz2",
        "hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2",
        "hwloc-sysfs/2pa-pcidomain32bits.tar.bz2",
        "lscpu-dumps/vbox-win.tar.gz",
        "ghw-snapshots/linux-amd64-accel.tar.gz",
        "ghw-snapshots/linux-arm64-c288e0776090cd558ef793b2a4e61939.tar.gz",
        "openshift-mustgather/sno-sno-sysinfo.tgz",
        "rocm-kfd/topo-mi210-xgmi-pcie.tar.gz",
    ],
)
def test_archives_of_the_corpus_say_what_their_files_say(
    shared: Path, tmp_path: Path, name: str
) -> None:
    path = shared / "corpus" / "topology" / name
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    assert read_path(path, "x") == read_path(tmp_path, "x")


def test_snapshots_of_the_corpus_stay_small_in_memory(shared: Path) -> None:
    path = shared / "corpus/topology/openshift-mustgather/bare-metal-master.internal-sysinfo.tgz"
    with path.open("rb") as raw:
        files = read_archive(Stream(raw, limit=1 << 30)).files
    assert files.size < 4 << 20
    assert files.count < 12_000
