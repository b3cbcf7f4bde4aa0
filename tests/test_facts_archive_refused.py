"""Archives that are damaged, hostile or too large."""

from __future__ import annotations

import io
import random
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.files.archive import MAX_DEPTH, MAX_PATH
from compiler.facts.files.memory import Link
from compiler.facts.files.stream import Stream
from compiler.facts.partial import ReadError
from compiler.facts.tree import Tree
from tests.tar_files import (
    CPU,
    MACHINE,
    PACKERS,
    entry,
    hard_link,
    link,
    raw_header,
    read,
    read_or_refused,
    refusal,
    tar,
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/etc/passwd", "'/etc/passwd' has an absolute path"),
        ("../x", "'../x' climbs"),
        ("sys/../../x", "climbs"),
        ("a/b/..", "climbs"),
        ("d/" * (MAX_DEPTH + 1) + "f", "directories deep"),
        ("n" * (MAX_PATH + 1), "longer than 4096"),
    ],
)
def test_paths_that_lead_elsewhere(name: str, said: str) -> None:
    assert said in refusal(tar([(name, b"x")]))
    assert said in refusal(tar([("a.txt", b"x"), hard_link("b.txt", name)]))


def pax(body: bytes, kind: bytes = b"x") -> bytes:
    return raw_header(b"p", b"%o" % len(body), kind) + body + bytes(-len(body) % 512)


def record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest)
    while len(b"%d" % size) + len(rest) != size:
        size = len(b"%d" % size) + len(rest)
    return b"%d" % size + rest


END = bytes(1024)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (raw_header(b"") + END, "empty or has NUL"),
        (pax(record(b"path", b"a\0b")) + raw_header() + END, "empty or has NUL"),
        (pax(record(b"path", b"")) + raw_header() + END, "empty or has NUL"),
        (raw_header(b"./") + END, "has no name"),
        (raw_header(kind=b"S") + END, "is sparse"),
        (pax(record(b"GNU.sparse.major", b"1")) + raw_header() + END, "is sparse"),
        (pax(record(b"path", b"/etc"), b"g") + raw_header() + END, "global header"),
        (pax(b"99 path=x\n") + raw_header() + END, "extended header cannot be read"),
        (pax(b"x path=x\n") + raw_header() + END, "extended header cannot be read"),
        (pax(b"0 path=x\n") + raw_header() + END, "extended header cannot be read"),
        (pax(b"99999999999999999999 a=b\n") + raw_header() + END, "extended header"),
        (pax(record(b"size", b"-5")) + raw_header() + END, "size is not a number"),
        (pax(record(b"path", b"a")) + END, "ends after an extended header"),
        (raw_header(size=b"9z") + END, "a size is not a number"),
        (raw_header(size=b"\xff" * 12) + END, "negative or absurd"),
        (raw_header(size=b"\x80" + b"\xff" * 11) + END, "negative or absurd"),
        (raw_header(size=b"77777777777") + END, "too early"),
        (raw_header(size=b"1000") + b"short", "too early"),
        (raw_header(size=b"777777777", kind=b"L"), "extended header of the archive has"),
        (raw_header(size=b"77777777777", kind=b"x"), "extended header of the archive has"),
        (raw_header() + b"x" * 512, "checksum is wrong"),
        (raw_header() + b"x" * 100, "too early"),
        (raw_header(kind=b"M") + END, "several volumes"),
        (raw_header(b"l", kind=b"2") + END, "target of member 'l' is empty"),
        (raw_header(b"x.txt", kind=b"1") + END, "is empty"),
    ],
)
def test_archives_that_tar_would_not_write(data: bytes, said: str) -> None:
    assert said in refusal(data)


def test_checksums_of_old_writers_add_signed_characters() -> None:
    head = bytearray(raw_header("\xe4.txt".encode(), b"2"))
    signed = sum(byte - 256 * (byte > 127) for byte in head[:148] + b" " * 8 + head[156:])
    head[148:156] = b"%06o\0 " % signed
    files = read(bytes(head) + b"hi".ljust(512, b"\0") + END).files
    assert files.read("/\xe4.txt", 9) == b"hi"
    head[148:156] = b"%06o\0 " % (signed + 1)
    assert "checksum is wrong" in refusal(bytes(head))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("a.txt", b"1"), ("a.txt", b"2")], "there twice"),
        ([("a.txt", b"1"), link("a.txt", "b")], "there twice"),
        ([link("sys/class", "/etc"), ("sys/class/net/x", b"1")], "lies below 'sys/class'"),
        ([("a.txt", b"1"), ("a.txt/b.txt", b"1")], "lies below 'a.txt'"),
        ([("a.txt/b.txt", b"1"), ("a.txt", b"1")], "there twice"),
        ([hard_link("a.txt", "b.txt"), ("b.txt", b"1")], "not in the archive before it"),
        ([hard_link("a.txt", "a.txt")], "not in the archive before it"),
        ([link("sys/class", "b"), hard_link("a.txt", "sys/class")], "which is not a file"),
    ],
)
def test_members_that_contradict_each_other(
    members: list[tuple[str | tarfile.TarInfo, bytes]], said: str
) -> None:
    assert said in refusal(tar(members))


def test_the_same_member_twice_is_one() -> None:
    files = read(tar([("a.txt", b"1"), ("./a.txt", b"1"), ("b/", b""), ("b/", b"")])).files
    assert files.read("/a.txt", 9) == b"1"


def test_members_and_kept_bytes_are_bounded() -> None:
    assert "more than 100 members" in refusal(tar([(f"{n}.log", b"") for n in range(101)]))
    assert "more than 100 members" in refusal(tar([(f"{n}.bin", b"") for n in range(101)]))
    # Directories that paths imply count: 64 a path.
    deep = [(f"{n}/" + "d/" * 40 + "x.txt", b"") for n in range(3)]
    assert "more than 100 members" in refusal(tar(deep))
    assert "more than 1 MiB" not in str(read(tar([("a.txt", bytes(1 << 19))])).notes)
    big = [(f"{n}.txt", b"x" * (1 << 19)) for n in range(3)]
    assert "more than 1 MiB of files" in refusal(tar(big))


@pytest.mark.parametrize("packing", PACKERS)
def test_truncated_at_any_place(packing: str) -> None:
    data = PACKERS[packing](MACHINE)
    rng = random.Random(1)
    # A plain archive whose closing blocks are missing is whole: its members are.
    end = len(data) if packing != "plain" else MACHINE.rindex(b"Architecture") + 400
    for cut in {*range(40), *(rng.randrange(end) for _ in range(60)), end - 1}:
        short = data[:cut]
        if packing == "plain" and cut % 512 == 0:
            continue
        refusal(short)


@given(st.data())
@settings(max_examples=150)
def test_flipped_bits_end_in_facts_or_one_refusal(data: st.DataObject) -> None:
    packing = data.draw(st.sampled_from(sorted(PACKERS)))
    packed = bytearray(PACKERS[packing](MACHINE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] ^= 1 << data.draw(st.integers(0, 7))
    assert read_or_refused(bytes(packed)).files.count < 100


NAMES = st.one_of(
    st.sampled_from(
        ["", ".", "..", "/", "a", "sys", CPU, f"{CPU}/online", "../../etc/passwd", "a//b", "a/./b",
         "/abs", "a/../b", "x.txt", "proc/1/comm", "d/" * 70, "\x1b[2J", "x" * 300, "sys/class/net"]
    ),
    st.text(max_size=12),
)  # fmt: skip


@given(
    st.lists(
        st.tuples(NAMES, st.sampled_from("0125346D"), NAMES, st.binary(max_size=40)), max_size=8
    ),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
@settings(max_examples=150)
def test_hostile_members_never_get_out(
    members: list[tuple[str, str, str, bytes]], form: int
) -> None:
    packed = tar(
        [
            (entry(name, type=kind.encode(), linkname=target), data if kind == "0" else b"")
            for name, kind, target, data in members
        ],
        form,
    )
    files = read_or_refused(packed).files
    for path, node in files.nodes():
        assert path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/")[1:])
        tree = Tree(files)
        found = tree.resolve(path)
        assert found is None or files.entry(found)[0] != "link"
        if isinstance(node, Link):
            tree.text(path)


@given(st.binary(max_size=2000), st.sampled_from([b"", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0"]))
@settings(max_examples=100)
def test_junk_is_refused(junk: bytes, magic: bytes) -> None:
    assert read_or_refused(magic + junk).files.count < 100


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"PK\x03\x04....", "zip"),
        (b"7z\xbc\xaf\x27\x1c..", "7z"),
        (b"\x1f\x9d......", "compress"),
    ],
)
def test_other_packers_are_named_with_a_way_out(head: bytes, said: str) -> None:
    with pytest.raises(ReadError) as caught:
        Stream(io.BytesIO(head), limit=100)
    assert said in caught.value.message
    assert caught.value.help
