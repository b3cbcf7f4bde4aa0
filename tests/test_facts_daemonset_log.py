"""Reading the log of pods that collect a fleet."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.daemonset.manifest import Options, manifest, script
from compiler.facts.formats import stream
from tests.daemonset_log import read, refused


def payload(cpus: int, *, padding: int = 0) -> bytes:
    """Pack a machine of so many CPUs by hand; ``padding`` bytes do not compress."""
    files = {
        "tierc-bundle.json": json.dumps({"format": "tierc-bundle-1", "live": True}).encode(),
        "root/sys/devices/system/cpu/online": f"0-{cpus - 1}\n".encode(),
        "root/var/padding": random.Random(cpus).randbytes(padding),
    }
    for cpu in range(cpus):
        base = f"root/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"
        files[base] = f"{cpu}\n".encode()
    return packed(files)


def packed(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def lines_of(node: str, data: bytes) -> list[str]:
    """Print an archive as the script does."""
    digest = hashlib.sha256(data).hexdigest()
    text = base64.b64encode(data).decode()
    parts = [text[at : at + 3000] for at in range(0, len(text), 3000)]
    return [
        f"tierc-facts1 {node} {digest} {number} {len(parts)} {part}"
        for number, part in enumerate(parts, 1)
    ]


A, B = lines_of("a", payload(2, padding=9000)), lines_of("b.example", payload(4, padding=5000))


def log_of(*lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for some in lines for line in some)


def seen(log: str) -> list[tuple[str | None, str]]:
    return [(part.node, str(part.online)) for part in read(log)]


BOTH: list[tuple[str | None, str]] = [("a", "0-1"), ("b.example", "0-3")]


def test_one_log_of_two_nodes() -> None:
    assert len(A) > 3
    found = read(log_of(B, A))
    assert [(p.node, p.file, p.reader) for p in found] == [
        ("a", "fleet.log!a", "sysfs"),
        ("b.example", "fleet.log!b.example", "sysfs"),
    ]


@pytest.mark.parametrize(
    "dress",
    [
        lambda line: f"[pod/tierc-facts-x7k2p/collect] {line}",
        lambda line: f"2025-11-02T10:11:12.123456789Z {line}",
        lambda line: f"[pod/x/collect] 2025-11-02T10:11:12.1Z {line}",
        lambda line: f"\x1b[36mtierc-facts-x7k2p\x1b[0m collect {line}\x1b[0m",
        lambda line: json.dumps({"log": f"{line}\n", "stream": "stdout"}),
        lambda line: f"2025-11-02T10:11:12Z stdout F {line}",
        lambda line: f"{line}\r",
    ],
)
def test_what_tools_put_around_lines(dress: Callable[[str], str]) -> None:
    noise = ["", "some other pod says something", "tierc-facts1 ", "tierc-facts2 a b"]
    assert seen(log_of(noise, map(dress, A), noise, map(dress, B))) == BOTH  # type: ignore[arg-type]


@settings(max_examples=25)
@given(st.permutations([*A, *B, *A]))
def test_lines_in_any_order_and_number(lines: list[str]) -> None:
    assert seen(log_of(lines)) == BOTH


@settings(max_examples=25)
@given(st.sets(st.integers(0, len(A) - 1), min_size=1, max_size=len(A) - 1))
def test_a_missing_line_names_the_node_and_what_to_do(gone: set[int]) -> None:
    rest = [line for at, line in enumerate(A) if at not in gone]
    error = refused(log_of(rest, B))
    assert error.message.startswith("of node a ")
    assert f"missing of {len(A)}" in error.message
    assert "kubectl logs --tail=-1" in error.help
    assert error.line == 1


def test_the_last_ten_lines_of_many_pods() -> None:
    many = [lines_of(f"n{n}", payload(n + 1, padding=4000)) for n in range(8)]
    error = refused(log_of(*(lines[-1:] for lines in many)))
    assert "of node n0 line 1 is missing of 2" in error.message
    assert "3 more nodes are incomplete" in error.message


def test_the_last_complete_collection_counts() -> None:
    again = lines_of("a", payload(3, padding=9000))
    assert seen(log_of(A, again)) == [("a", "0-2")]
    assert seen(log_of(again, A)) == [("a", "0-1")]
    (found,) = read(log_of(A, again[:-1]))
    assert str(found.online) == "0-1"
    assert found.notes[0].message == "a later collection of a is incomplete"
    assert found.notes[0].line == len(A) + 1
    (found,) = read(log_of(again[1:], A))
    assert found.notes == read(log_of(A))[0].notes


def test_a_failed_collection_counts_unless_there_is_a_complete_one() -> None:
    failed = ["tierc-facts1 a error the image has no base64"]
    error = refused(log_of(B, failed))
    assert error.message == "node a could not collect: the image has no base64"
    assert error.line == len(B) + 1
    assert seen(log_of(failed, A)) == BOTH[:1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (A[0][:-1], "line 1 of 5 of node a is cut: it has 2999 characters of data, not 3000"),
        (A[0][:200], "is cut"),
        (A[0].replace(" 1 5 ", " 6 5 "), "line 6 of 5 of node a cannot be"),
        (A[0].replace(" 1 5 ", " 1 900000 "), "cannot be"),
        (A[0].replace(" 1 5 ", " 1 4 "), "twice, with different contents"),
        (A[1].replace(" 2 5 ", " 1 5 "), "twice, with different contents"),
        (A[0].replace(" a ", " -a- "), "'-a-' is no node name"),
    ],
)
def test_lines_that_cannot_be(line: str, words: str) -> None:
    assert len(A) == 5
    error = refused(log_of(A, [line]))
    assert words in error.message
    assert error.line == 6


def test_damaged_data() -> None:
    for change in ("A", "=", "+"):
        line = A[2]
        bad = line[:-7] + change + line[-6:] if line[-7] != change else line[:-7] + "B" + line[-6:]
        assert "SHA-256" in refused(log_of([*A[:2], bad, *A[3:]])).message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ""),
        (b"no archive", "node x: "),
        (payload(1)[:-30], "node x: "),
    ],
)
def test_data_that_are_no_bundle(data: bytes, words: str) -> None:
    log = log_of(lines_of("x", data)) or "tierc-facts1 x error nothing\n"
    assert words in refused(log).message


def test_a_bundle_without_cpus() -> None:
    about = json.dumps({"format": "tierc-bundle-1", "live": True}).encode()
    data = packed({"tierc-bundle.json": about})
    assert "no such directory" in refused(log_of(lines_of("x", data))).message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tierc-facts1 is what lines begin with\n",
        script(),
        manifest(Options()),
        "NAME STATUS\ntierc-facts1-abc Running\n",
    ],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not stream.FORMAT.sniff(text)
