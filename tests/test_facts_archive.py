"""Archives: what a hostile one cannot do, what tar packs, and the corpus as tar reads it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.files.archive import MAX_DEPTH, MAX_PATH, Archive, Limits, read_archive
from compiler.facts.files.keep import MAX_ATTRIBUTE, MAX_FILE
from compiler.facts.files.memory import ClashError, Link, MemoryFiles, Placeholder
from compiler.facts.files.stream import Stream
from compiler.facts.files.tar import MAX_EXTENDED, TarReader, is_tar
from compiler.facts.partial import ReadError
from compiler.facts.tree import Tree

CPU = "sys/devices/system/cpu"
SMALL = Limits(members=100, kept=1 << 20, total=4 << 20)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def entry(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target), b""


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target), b""


def tar(
    members: Iterable[tuple[str | tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for member, data in members:
            info = entry(member) if isinstance(member, str) else member
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read(data: bytes, limits: Limits = SMALL) -> Archive:
    return read_archive(Stream(io.BytesIO(data), limit=limits.total), limits)


def read_or_refused(data: bytes) -> Archive:
    """Read an archive; one that is refused, with a message as it must be, is as an empty one."""
    try:
        return read(data)
    except ReadError:
        refusal(data)
        return Archive()


def refusal(data: bytes, limits: Limits = SMALL) -> str:
    with pytest.raises(ReadError) as caught:
        read(data, limits)
    message = caught.value.message
    assert message.isprintable()
    assert not message.endswith(".")
    return message


MACHINE = tar(
    [
        (f"m/{CPU}/online", b"0-3\n"),
        (f"m/{CPU}/cpu0/topology/core_id", b"0\n"),
        link(f"m/{CPU}/cpu0/node0", "../../node/node0"),
        (entry("m/sys/devices/system/node/node0", type=tarfile.DIRTYPE, mode=0o755), b""),
        ("m/proc/cpuinfo", b"processor : 0\n" * 400),
        ("m/lscpu.txt", b"Architecture: x86_64\n"),
    ]
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


# --- what is refused ---------------------------------------------------------------------------


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


def raw_header(name: bytes = b"x", size: bytes = b"0", kind: bytes = b"0") -> bytes:
    head = bytearray(512)
    head[0:100] = name.ljust(100, b"\0")
    head[100:108] = b"0000644\0"
    head[124:136] = size.ljust(12, b"\0")
    head[156:157] = kind
    head[257:265] = b"ustar\x0000"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


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


# --- compressed data ---------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz"])
def test_streams_in_a_row_and_padding(packing: str) -> None:
    pack = PACKERS[packing]
    data = pack(b"one ") + bytes(8) + pack(b"two ") + pack(b"") + pack(b"three") + bytes(512)
    assert Stream(io.BytesIO(data), limit=1000).read(99) == b"one two three"
    with pytest.raises(ReadError, match="something else after"):
        Stream(io.BytesIO(data + b"junk"), limit=1000).read(99)


class Trickle(io.RawIOBase):
    """Gives one byte at a time, as a slow pipe may."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        self._at += 1
        return self._data[self._at - 1 : self._at]


@pytest.mark.parametrize("packing", PACKERS)
def test_pipes_give_less_than_asked(packing: str) -> None:
    data = PACKERS[packing](MACHINE)
    archive = read_archive(Stream(Trickle(data), limit=SMALL.total), SMALL)
    assert archive.files.read(f"/m/{CPU}/online", 9) == b"0-3\n"


def test_a_stream_is_read_in_pieces_of_any_size() -> None:
    text = bytes(range(256)) * 1000
    for packing, pack in PACKERS.items():
        stream = Stream(io.BytesIO(pack(b"-" + text)[0:] if packing != "plain" else b"-" + text),
                        limit=1 << 20)  # fmt: skip
        assert stream.peek(3) == b"-\x00\x01"
        assert stream.read(1) == b"-"
        assert stream.skip(1000) == 1000
        rest = b"".join(iter(lambda one=stream: one.read(777), b""))
        assert rest == text[1000:]
        assert stream.skip(5) == 0


BOMB = """
import io, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]) << 20,) * 2)
from compiler.facts.files.archive import Limits, read_archive
from compiler.facts.files.stream import Stream
from compiler.facts.partial import ReadError
try:
    with open(sys.argv[1], "rb", buffering=0) as raw:
        limit = int(sys.argv[3]) << 20
        read_archive(Stream(raw, limit=limit), Limits(total=limit))
except ReadError as error:
    print("refused:", error.message)
else:
    print("read")
"""


def in_little_memory(path: Path, mib: int = 160, total: int = 1024) -> str:
    """Read an archive in a process that may use ``mib`` MiB of address space."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(path), str(mib), str(total)],
        capture_output=True, text=True, check=False, timeout=300,
        cwd=Path(__file__).resolve().parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repeated(path: Path, packing: str, head: bytes, mib: int) -> Path:
    """Write an archive that is a header and that many MiB of zeros."""
    pieces = [head, *([bytes(1 << 20)] * mib)]
    if packing == "gzip":
        with gzip.open(path, "wb", 1) as out:
            out.writelines(pieces)
    elif packing == "bzip2":
        with bz2.open(path, "wb", 1) as out:
            out.writelines(pieces)
    else:
        with lzma.open(path, "wb", preset=0) as out:
            out.writelines(pieces)
    return path


def test_a_gibibyte_of_zeros_takes_no_memory(tmp_path: Path) -> None:
    head = raw_header(f"{CPU}/online".encode(), b"%o" % (1 << 30))
    path = repeated(tmp_path / "bomb", "gzip", head, 1025)
    assert path.stat().st_size < 6 << 20
    assert in_little_memory(path) == "refused: holds more than 1024 MiB"


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_of_a_gibibyte_is_not_read(tmp_path: Path, kind: bytes) -> None:
    head = raw_header(b"p", b"%o" % (1 << 30), kind)
    path = repeated(tmp_path / "bomb", "gzip", head, 1)
    assert "extended header of the archive has 1073741824 bytes" in in_little_memory(path)
    assert MAX_EXTENDED <= 1 << 20


@pytest.mark.parametrize("packing", ["bzip2", "xz"])
def test_bombs_of_other_packers(tmp_path: Path, packing: str) -> None:
    head = raw_header(b"proc/cpuinfo", b"%o" % (1 << 30))
    path = repeated(tmp_path / "bomb", packing, head, 70)
    assert in_little_memory(path, total=64) == "refused: holds more than 64 MiB"


def test_an_xz_dictionary_larger_than_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(
        lzma.compress(MACHINE, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}])
    )
    # The block header after the 12 bytes of the stream's: its own size, flags, then the filter:
    # LZMA2 (0x21), one byte of properties, the dictionary size in steps of powers of two.
    length = (packed[12] + 1) * 4
    at = packed.index(b"\x21\x01") + 2
    packed[at] = 34  # 512 MiB
    crc = zlib.crc32(packed[12 : 12 + length - 4])
    packed[12 + length - 4 : 12 + length] = crc.to_bytes(4, "little")
    path = tmp_path / "big.xz"
    path.write_bytes(packed)
    assert "takes more than 128 MiB of memory" in in_little_memory(path)


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
