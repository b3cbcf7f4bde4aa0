"""YAML files: places, and what is refused and where."""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic, Sink
from compiler.source import Document, Mark, SourceFile, parse_source

FIXTURES = Path(__file__).parent / "fixtures" / "reading"


def _read(text: str | bytes) -> tuple[SourceFile, list[Diagnostic]]:
    sink = Sink()
    data = text if isinstance(text, bytes) else text.encode()
    return parse_source("a.yaml", data, sink), list(sink)


def _one(text: str | bytes) -> Document:
    file, found = _read(text)
    assert not found
    assert len(file.documents) == 1
    return file.documents[0]


def _at(found: Diagnostic) -> tuple[str, int, int]:
    return found.code, found.span.line, found.span.col


def _ends(mark: Mark) -> tuple[int, int, int, int]:
    value = mark.value
    return value.line, value.col, value.end_line, value.end_col


INTENT = """\
# yaml-language-server: $schema=../schemas/intent.json
apiVersion: tierc.dev/v1alpha1
kind: Intent
metadata: {name: chat, labels: {team: inference}}
spec:
  protect: [decode, {path: ttft, tier: interactive}]
  lane:   # who may use it
    cores:
      min: 2
      max: 6

  # the end
  prefer:
  - gpu-local
  -   whole-cores
"""


def test_places_of_keys_and_values() -> None:
    document = _one(INTENT)
    assert (document.kind, document.name, document.index) == ("Intent", "chat", 0)
    assert document.data == {
        "apiVersion": "tierc.dev/v1alpha1",
        "kind": "Intent",
        "metadata": {"name": "chat", "labels": {"team": "inference"}},
        "spec": {
            "protect": ("decode", {"path": "ttft", "tier": "interactive"}),
            "lane": {"cores": {"min": 2, "max": 6}},
            "prefer": ("gpu-local", "whole-cores"),
        },
    }
    marks = document.marks
    assert _ends(marks[()]) == (2, 1, 15, 18)
    assert _ends(marks["metadata",]) == (4, 11, 4, 50)
    assert _ends(marks["spec", "protect"]) == (6, 12, 6, 53)
    assert _ends(marks["spec", "protect", 1, "tier"]) == (6, 40, 6, 51)
    assert marks["spec", "protect", 1, "tier"].text == "interactive"
    # Without brackets, a mapping ends with its last value, not with blank lines and comments.
    assert _ends(marks["spec", "lane"]) == (8, 5, 10, 13)
    assert _ends(marks["spec", "prefer"]) == (14, 3, 15, 18)
    assert _ends(marks["spec", "prefer", 1]) == (15, 7, 15, 18)
    assert marks["spec", "prefer", 1].key is None
    assert marks["spec", "lane"].text is None
    key = marks["spec", "lane", "cores"].key
    assert key is not None
    assert (key.line, key.col, key.end_line, key.end_col) == (8, 5, 8, 10)
    assert len(marks) == sum(1 for _ in marks) == 20
    assert ("spec", "nothing") not in marks
    assert ("spec", "prefer", 2) not in marks
    assert ("spec", "prefer", -1) not in marks
    assert ("spec", "prefer", "1") not in marks


def test_routes_with_steps_that_are_not_in_the_file() -> None:
    document = _one(INTENT)
    assert document.span("spec", "lane", "Lane", "cores", "int") == document.span(
        "spec", "lane", "cores"
    )
    assert document.span("spec", "workload") == document.span("spec")
    assert document.key_span("spec", "lane", "Lane").line == 7
    assert document.key_span("spec", "prefer", 1).line == 15
    assert document.key_span() == document.span()
    assert document.text("spec", "lane", "cores", "min", "int") == "2"
    assert document.text("spec") is None
    bare = Document("b.yaml", 0, {}, {})
    assert str(bare.span("x")) == str(bare.key_span("x")) == "b.yaml:1:1"
    assert bare.text("x") is bare.kind is bare.name is None


@pytest.mark.parametrize("data", [{"kind": 1, "metadata": {"name": 2}}, {"metadata": "x"}, "x"])
def test_kind_and_name_of_other_shapes(data: object) -> None:
    document = Document("b.yaml", 0, data, {})  # type: ignore[arg-type]
    assert document.kind is None
    assert document.name is None


def test_columns_count_characters() -> None:
    for prefix in ("", "\ufeff"):
        for end in ("\n", "\r\n"):
            text = prefix + 'é😀: [日本, "e\u0301\\u00e9😀", x]' + end + "z: w" + end
            document = _one(text)
            assert document.data == {"é😀": ("日本", "e\u0301é😀", "x"), "z": "w"}
            assert _ends(document.marks["é😀",]) == (1, 5, 1, 25)
            assert _ends(document.marks["é😀", 2]) == (1, 23, 1, 24)
            assert _ends(document.marks["z",]) == (2, 4, 2, 5)


def test_carriage_returns_and_byte_order_mark_leave_no_trace() -> None:
    text = "a: |\n  x\n  y\nb: 'c\n\n  d'\nk: >-\n  p\n  q\n"
    plain, _ = _read(text)
    other, found = _read("\ufeff" + text.replace("\n", "\r\n"))
    assert not found
    assert plain == other
    assert plain.documents[0].data == {"a": "x\ny\n", "b": "c\nd", "k": "p q"}


def test_texts_as_written() -> None:
    document = _one("a: 'it''s'\nb: |2-\n   x\n\n\nc: two\n  lines\nd: &q\n  # note\n  \"z\"\ne:\n")
    assert document.data == {"a": "it's", "b": " x", "c": "two lines", "d": "z", "e": None}
    assert document.text("a") == "'it''s'"
    assert document.text("b") == "|2-\n   x"
    assert document.text("c") == "two\n  lines"
    assert document.text("d") == '"z"'
    assert document.text("e") == ""
    assert _ends(document.marks["b",]) == (2, 4, 3, 5)
    assert _ends(document.marks["d",]) == (10, 3, 10, 6)
    assert _ends(document.marks["e",]) == (11, 3, 11, 3)


def test_several_documents_and_empty_ones() -> None:
    file, found = _read("# first\n---\n---\na: 1\n---\n# nothing\n...\n---\nb: 2\n---\n")
    assert not found
    assert [(d.index, d.data, d.span().line) for d in file.documents] == [
        (0, {"a": 1}, 4),
        (1, {"b": 2}, 9),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n", "# only a comment\n", "---\n", "--- # c\n...\n", "\ufeff"]
)
def test_no_document_and_nothing_to_say(text: str) -> None:
    file, found = _read(text)
    assert not found
    assert file.documents == ()


def test_lines_are_those_of_the_file() -> None:
    assert _read("a: 1\r\n\r\nb: 2")[0].lines == ("a: 1", "", "b: 2")
    assert _read("a: 1\n")[0].lines == ("a: 1",)
    assert _read("")[0].lines == ()


# Each: the text, the code, line and column, a part of the message, a part of the help.
REFUSED = [
    # characters
    ("a: \x85b\n", "TRC011", 1, 4, "U+0085", "\\u0085"),
    ("a: b\u2028c\n", "TRC011", 1, 5, "U+2028 (line separator)", "\\u2028"),
    ("# x\u2029\n", "TRC011", 1, 4, "U+2029", ""),
    ("a: 1\nb: \x00\n", "TRC011", 2, 4, "NUL", "not text"),
    ("a: '\x1b[2J'\n", "TRC011", 1, 5, "ESC", ""),
    ("a: 1\rb: 2\n", "TRC011", 1, 5, "carriage return", "LF"),
    ("a: b\x7f\n", "TRC011", 1, 5, "DEL", ""),
    ("a: b # \u202etxet\n", "TRC011", 1, 8, "direction", ""),
    ("a: \ufeffb\n", "TRC011", 1, 4, "byte order mark", ""),
    ("a: \uffffb\n", "TRC011", 1, 4, "U+FFFF", ""),
    ("a:\xa0b\n", "TRC012", 1, 3, "U+00A0 (no-break space)", "space"),
    ("a: x\u200by\n", "TRC012", 1, 5, "U+200B", ""),
    ("k\u3000: y\n", "TRC012", 1, 2, "ideographic space", ""),
    ("a:\n\tb: c\n", "TRC013", 2, 1, "tab", "spaces"),
    ("a:\n  \tb: c\n", "TRC013", 2, 3, "tab", "spaces"),
    ("a:\n  - b\n\t- c\n", "TRC013", 3, 1, "tab", ""),
    ("a: [b,\n\tc]\n", "TRC013", 2, 1, "tab", ""),
    ("a: b\n\tc\n", "TRC013", 2, 1, "tab", ""),
    ("a: 1\n\t\nb: 2\n", "TRC013", 2, 1, "tab", ""),
    # notation
    ("a: [1, 2\nb: 3\n", "TRC020", 2, 2, "`]` of a list", "close the list"),
    ("a: {b: 1\nc: 3\n", "TRC020", 2, 2, "`}` of a mapping", "close the mapping"),
    ("a: {b\n", "TRC020", 1, 6, "`}` of a mapping", ""),
    ("x: y\na: 'b\nc: d\n", "TRC020", 2, 4, "not closed", "close the quote"),
    ('a: "x\n---\ny"\n', "TRC020", 1, 4, "not closed before the end", "close the quote"),
    ('a: "x\\q"\n', "TRC020", 1, 6, "unknown escape", "\\\\"),
    ('a: "\\ud83d\\ude00"\n', "TRC020", 1, 7, "stands for no character", ""),
    ("a: b: c\n", "TRC020", 1, 5, "`:` cannot start a value", "quote the text"),
    ("a: b\n  c: d\n", "TRC020", 2, 4, "`:` cannot start a value", "indentation"),
    ("a: 1\n b: 2\n", "TRC020", 2, 3, "`:` cannot start a value", "indentation"),
    (" a: 1\nb: 2\n", "TRC020", 2, 1, "follows the end of a document", "indentation"),
    ("a: @x\n", "TRC020", 1, 4, "no value can start", "quote"),
    ("a: %x\n", "TRC020", 1, 4, "no value can start", "quote"),
    ("a: - b\n", "TRC020", 1, 4, "list item", "lines of its own"),
    ("- a\nb: c\n", "TRC020", 2, 1, "list item", "indentation"),
    ("a: |x\n  b\n", "TRC020", 1, 5, "follows the `|`", "next line"),
    ("a: *\n", "TRC020", 1, 5, "a name is expected", '"*worker"'),
    ("a: ,\n", "TRC020", 1, 4, "a value is expected", ""),
    ("a: 'x'y\n", "TRC020", 1, 7, "a key is expected", "quotes"),
    ("a: [0000:01:00.0]\n", "TRC020", 1, 5, "`0000:01:00.0` has a `:`", '"0000:01:00.0"'),
    ("a: {comm: VLLM::EngineCor, b: c}\n", "TRC020", 1, 11, "needs quotes", '"VLLM::EngineCor"'),
    ("%YAML 1.1\n---\na: 1\n", "TRC022", 1, 1, "`%YAML 1.1`", "delete"),
    ("%YAML 2.0\n---\na: 1\n", "TRC022", 1, 1, "directive", "delete"),
    ("%TAG ! tag:x,2000:\n---\na: 1\n", "TRC022", 1, 1, "`%TAG ! tag:x,2000:`", "delete"),
    ("a: 1\n---\nb: 1\n...\n%YAML 1.2\n---\nc: 1\n", "TRC022", 5, 1, "`%YAML 1.2`", "delete"),
    ("a: !!str 010\n", "TRC023", 1, 4, "`!!str`", "delete"),
    ("a:\n- !custom {b: c}\n", "TRC023", 2, 3, "`!custom`", "delete"),
    ("a: !<tag:x,2000:y> b\n", "TRC023", 1, 4, "`!<tag:x`", "delete"),
    ("!doc\na: b\n", "TRC023", 1, 1, "`!doc`", "delete"),
    ("&x !t a: b\n", "TRC023", 1, 4, "`!t`", "delete"),
    ("b: &b {x: 1}\nc:\n  <<: *b\n  y: 2\n", "TRC024", 3, 3, "`<<`", "write the keys out"),
    # structure
    ("? [a]\n: b\n", "TRC030", 1, 3, "a list or mapping", ""),
    ("{a: 1}: b\n", "TRC030", 1, 1, "a list or mapping", "quotes"),
    ("a: &x y\n*x : b\n", "TRC030", 2, 1, "an alias", "quotes"),
    ("a: {null: 1}\n", "TRC030", 1, 5, "`null`", '"null"'),
    ("? \n: b\n", "TRC030", 1, 2, "a key is missing", ""),
    ("- a\n- b\n", "TRC032", 1, 1, "a list", "`---`"),
    ("--- text\n", "TRC032", 1, 5, "a single value", "`kind:`"),
    ("a: *b\n", "TRC033", 1, 4, "`&b`", '"*b"'),
    ("a: &b 1\n---\nc: *b\n", "TRC033", 3, 4, "`&b`", "from one document to the next"),
    ("a: &b [1, *b]\n", "TRC034", 1, 11, "`*b` stands inside", "write the inner value out"),
    ("a: &b 1\nc: &b 2\n", "TRC035", 2, 4, "`&b` is already taken", "rename"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line", "col", "message", "fix"), REFUSED)
def test_refused(text: str, code: str, line: int, col: int, message: str, fix: str) -> None:
    _, found = _read(text)
    assert [_at(f) for f in found] == [(code, line, col)]
    assert message in found[0].message
    assert fix in found[0].help
    assert found[0].help


@pytest.mark.parametrize(
    "text",
    [
        "a: 'x\xa0y' # no-break\xa0space\n",
        'a: "x\u200by"\n',
        "a: |\n  x\xa0y\n",
        "a: 1 #\xa0x\n",
        "a: 'x\n\ty'\n",
        "a: |\n  x\n  \ty\n",
        "a:\tb\t# c\n",
        "a: [b, c]\t\n",
        "a: 👩🏽\n",
        "é: ü\n",
        "'<<': 1\n",
        '"1": a\n',
        "a: '*x'\n",
    ],
)
def test_accepted(text: str) -> None:
    file, found = _read(text)
    assert not found
    assert len(file.documents) == 1


def test_every_forbidden_character_is_shown() -> None:
    file, found = _read("a: \x07\nb: \u2066c\n")
    assert [_at(f) for f in found] == [("TRC011", 1, 4), ("TRC011", 2, 4)]
    assert file.documents == ()


@pytest.mark.parametrize(
    ("data", "line", "col", "message"),
    [
        (b"a: \xff\n", 1, 4, "byte 0xff at offset 3"),
        (b"\xef\xbb\xbfa: \xc3\xa9\xc3\n", 1, 5, "byte 0xc3 at offset 8"),
        ("a: 1\r\né: ".encode() + b"\xe9\r\n", 2, 4, "byte 0xe9 at offset 10"),
        ("a: 1\n".encode("utf-16"), 1, 1, "UTF-16"),
        ("a: 1\n".encode("utf-16-le"), 1, 1, "UTF-16LE"),
        ("a: 1\n".encode("utf-16-be"), 1, 1, "UTF-16BE"),
        ("a: 1\n".encode("utf-32"), 1, 1, "UTF-32"),
        ("a: 1\n".encode("utf-32-be"), 1, 1, "UTF-32BE"),
    ],
)
def test_other_encodings(data: bytes, line: int, col: int, message: str) -> None:
    file, found = _read(data)
    assert [_at(f) for f in found] == [("TRC010", line, col)]
    assert message in found[0].message
    assert file.documents == ()


@pytest.mark.parametrize(
    ("pack", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz")]
)
def test_an_archive_is_named_and_its_bytes_are_not_shown(
    pack: Callable[[bytes], bytes], name: str
) -> None:
    file, found = _read(pack(b"a: 1\n" * 100))
    assert [_at(f) for f in found] == [("TRC010", 1, 1)]
    assert name in found[0].message
    assert "facts import" in (found[0].help or "")
    assert not file.lines


def test_duplicate_keys_show_both_places_and_keep_the_first() -> None:
    # The text of case C38.
    file, found = _read(
        "intents:\n  - name: decode\n    cpus: 4-7\n    tier: latency\n    cpus: 8-11\n"
    )
    assert [_at(f) for f in found] == [("TRC031", 5, 5)]
    assert "cpus" in found[0].message
    assert [(r.span.line, r.span.col) for r in found[0].related] == [(3, 5)]
    assert file.documents[0].data == {
        "intents": ({"name": "decode", "cpus": "4-7", "tier": "latency"},)
    }
    assert file.documents[0].span("intents", 0, "cpus").line == 3


def test_duplicate_blocks_far_apart_and_three_times() -> None:
    text = "a:\n  x: 1\n" + "# filler\n" * 200 + '"a": {y: 2}\na: 3\n'
    _, found = _read(text)
    assert [_at(f) for f in found] == [("TRC031", 203, 1), ("TRC031", 204, 1)]
    assert [f.related[0].span.line for f in found] == [1, 1]


def test_a_duplicate_is_reported_even_if_its_value_cannot_be_read() -> None:
    _, found = _read("a: 1\na: [\n")
    assert [f.code for f in found] == ["TRC031", "TRC020"]


def test_aliases_stand_for_values() -> None:
    document = _one("a: &a {x: [1, 2]}\nb: *a\nc: [*a, *a]\ns: &s text\nt: *s\n")
    value = {"x": (1, 2)}
    assert document.data == {"a": value, "b": value, "c": (value, value), "s": "text", "t": "text"}
    # The alias has its own place; what is inside it is where it was written.
    assert _ends(document.marks["b",]) == (2, 4, 2, 6)
    assert _ends(document.marks["c", 1]) == (3, 9, 3, 11)
    assert _ends(document.marks["b", "x", 1]) == (1, 15, 1, 16)
    assert document.text("t") == "text"
    assert document.key_span("b").line == 2


def test_merged_keys_are_reported_once_and_do_not_cascade() -> None:
    file, found = _read("b: &b {x: 1, y: 2}\nc: {<<: [*b, {z: 3}], y: 9}\n")
    assert [f.code for f in found] == ["TRC024"]
    assert file.documents[0].data == {"b": {"x": 1, "y": 2}, "c": {"y": 9, "x": 1, "z": 3}}


def test_documents_before_an_error_are_kept() -> None:
    file, found = _read("a: 1\n---\nb: [\n---\nc: 1\n")
    assert [d.data for d in file.documents] == [{"a": 1}]
    assert [f.code for f in found] == ["TRC020"]


def _bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    for level in range(1, levels):
        inner = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{inner}]")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_bomb(30, 10), "TRC041"),
        (_bomb(60, 2), "TRC041"),
        ("a: " + "[" * 200_000, "TRC040"),
        ("{a: " * 100_000, "TRC040"),
        ("- " * 200_000, "TRC040"),
        ("? " * 200_000, "TRC040"),
        ("[" * 65 + "]" * 65, "TRC040"),
        ("a: [" + "1," * 300_000 + "]", "TRC041"),
        ("a: 1\n---\n" * 6_000, "TRC042"),
        ("a: [" + "010, " * 10_000 + "]", "TRC043"),
        ("a: 1\xa0\n" * 10_000, "TRC043"),
        ("\x01" * 100_000, "TRC043"),
        ("".join(f"%TAG !a{i}! x\n" for i in range(100_000)) + "---\na: 1\n", "TRC022"),
        ("# tierc: ignore\n" * 200_000, "TRC043"),
        ("&a " * 100_000, "TRC020"),
        ("!t " * 100_000, "TRC020"),
        ("a: 'x" + "'" * 100_000 + "\n", "TRC020"),
    ],
)
def test_hostile_files_are_refused_quickly(text: str, code: str) -> None:
    start = time.process_time()
    _, found = _read(text)
    # A generous bound: the point is that nothing grows with what the text stands for.
    assert time.process_time() - start < 10
    assert code in {f.code for f in found}
    assert len(found) <= 101


def test_a_file_of_suppressions_is_read_in_one_pass() -> None:
    start = time.process_time()
    file, found = _read("# tierc: ignore[TRC201] x\n" * 100_000 + "a: 1\n")
    assert time.process_time() - start < 10
    assert not found
    assert {s.line for s in file.suppressions} == {100_001}


def test_depth_64_is_read() -> None:
    document = _one("a: " + "[" * 63 + "]" * 63)
    depth, data = 0, document.data
    while data:
        data = data["a"] if isinstance(data, dict) else data[0]  # type: ignore[index]
        depth += 1
    assert depth == 63


def test_many_comments_with_aliases_do_not_multiply_places() -> None:
    text = _bomb(4, 10) + "".join(f"k{i}: *a3\n" for i in range(10))
    document = _one(text)
    assert len(document.marks) > 100_000
    assert document.span("k9", 0, 0, 0, 9).line == 1


def test_a_file_reads_the_same_wherever_it_is() -> None:
    data = (FIXTURES / "chat.yaml").read_bytes()
    one, two = Sink(), Sink()
    first, second = parse_source("x/y.yaml", data, one), parse_source("z.yml", data, two)
    assert [d.data for d in first.documents] == [d.data for d in second.documents]
    assert [d.kind for d in first.documents] == ["Intent", "Intent"]
    assert not list(one)
    assert str(first.documents[1].span("spec", "workload", "match", 0, "comm")) == "x/y.yaml:17:14"
