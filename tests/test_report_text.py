"""Reports as a person reads them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.diagnostics import Diagnostic, Related, Severity, Sink, Span
from compiler.report.text import render_text, summary
from compiler.source import parse_source

PATH = "intents/chat.yaml"


def _report(text: str, found: Diagnostic, *, color: bool = False) -> str:
    lines = text.split("\n")
    return render_text([found], lambda path: lines if path == PATH else None, color=color)


def _finding(
    line: int,
    col: int,
    end_col: int,
    *,
    message: str = "something",
    related: Sequence[Related] = (),
    help: str = "",
    nodes: Sequence[str] = (),
    end_line: int | None = None,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    span = Span(PATH, line, col, end_line or line, end_col)
    return Diagnostic("TRC031", severity, message, span, tuple(related), help, tuple(nodes))


def test_a_finding_with_two_places() -> None:
    text = "\n".join(
        [*["x: 1"] * 8, "    tier: normal", "    a: 1", "    b: 2", "    tier: latency"]
    )
    found = _finding(
        12,
        5,
        9,
        message='duplicate key "tier"',
        related=[Related(Span(PATH, 9, 5, 9, 9), "first defined here")],
        help="remove one of the two",
        nodes=["spark-a", "spark-b"],
    )
    assert (
        _report(text, found)
        == """\
error[TRC031]: duplicate key "tier"
  --> intents/chat.yaml:12:5
   |
12 |     tier: latency
   |     ^^^^
   |
  ::: intents/chat.yaml:9:5
   |
 9 |     tier: normal
   |     ---- first defined here
   = help: remove one of the two
   = nodes: spark-a, spark-b
"""
    )


def test_several_findings_have_a_blank_line_between() -> None:
    out = render_text([_finding(1, 1, 2), _finding(1, 1, 2)], lambda _: None, color=False)
    assert (
        out
        == """\
error[TRC031]: something
 --> intents/chat.yaml:1:1

error[TRC031]: something
 --> intents/chat.yaml:1:1
"""
    )
    assert render_text([], lambda _: None, color=False) == ""


def test_a_place_without_lines() -> None:
    found = _finding(
        1,
        4,
        5,
        related=[
            Related(Span("nodes/a.yaml", 7, 2), "needs it"),
            Related(Span(PATH, 2, 1, 2, 2), "b"),
        ],
        help="first line\nsecond line",
        severity=Severity.WARNING,
    )
    assert (
        _report("a: 1\nb: 2", found)
        == """\
warning[TRC031]: something
 --> intents/chat.yaml:1:4
  |
1 | a: 1
  |    ^
  |
 ::: nodes/a.yaml:7:2: needs it
  |
 ::: intents/chat.yaml:2:1
  |
2 | b: 2
  | - b
  = help: first line
          second line
"""
    )


@pytest.mark.parametrize(
    ("line", "col", "end_col", "shown", "marker"),
    [
        ("a: 日本 x", 7, 8, "a: 日本 x", "        ^"),
        ("a: 日本 x", 4, 6, "a: 日本 x", "   ^^^^"),
        ("e\u0301: x", 5, 6, "e\u0301: x", "   ^"),
        ("é😀: x", 5, 6, "é😀: x", "     ^"),
        ("\ta:\tx", 5, 6, "    a:  x", "        ^"),
        ("a: \x1b[31mx", 4, 5, "a: \\x1b[31mx", "   ^^^^"),
        ("a: \u202ex", 4, 5, "a: \\u{202e}x", "   ^^^^^^^^"),
        ("a: \u200bx", 5, 6, "a: \\u{200b}x", "           ^"),
        ("a:\xa0x", 3, 4, "a:\\xa0x", "  ^^^^"),
        ("a: \x85x", 4, 5, "a: \\x85x", "   ^^^^"),
        ("a: \udcff", 4, 5, "a: \\u{dcff}", "   ^^^^^^^^"),
        ("a: ", 4, 4, "a:", "   ^"),
        ("a", 9, 9, "a", " ^"),
        ("", 1, 1, "", "^"),
        ("abc", 3, 2, "abc", "  ^"),
    ],
)
def test_markers_stand_under_what_they_mark(
    line: str, col: int, end_col: int, shown: str, marker: str
) -> None:
    rows = _report(line, _finding(1, col, end_col)).split("\n")
    assert rows[3:5] == [f"1 | {shown}".rstrip(), f"  | {marker}"]


def test_of_several_lines_the_first_is_marked_to_its_end() -> None:
    rows = _report("spec:  \n  a: 1\n  b: 2", _finding(1, 1, 7, end_line=3)).split("\n")
    assert rows[3:6] == ["1 | spec:", "  | ^^^^^", ""]


def test_a_line_behind_the_end_of_the_file() -> None:
    assert _report("a: 1", _finding(9, 1, 1)) == (
        "error[TRC031]: something\n --> intents/chat.yaml:9:1\n"
    )


@pytest.mark.parametrize(("col", "length"), [(1, 3), (500, 3), (998, 3), (400, 600), (1, 1000)])
def test_long_lines_are_cut_around_the_marker(col: int, length: int) -> None:
    line = "".join(chr(97 + i % 26) for i in range(1000))
    rows = _report(line, _finding(1, col, col + length)).split("\n")
    source, marker = rows[3][4:], rows[4][4:]
    assert len(source) <= 120
    assert len(marker) <= 120
    start = marker.index("^")
    marked = source[start : start + marker.count("^")]
    wanted = line[col - 1 : col - 1 + length]
    assert wanted.startswith(marked.removesuffix("..."))
    assert len(marked) >= min(length, 90)
    assert source.startswith("...") == (col > 20)
    assert f":1:{col}" in rows[1]


def test_a_long_line_whose_marker_is_near_its_start_keeps_the_start() -> None:
    line = "key: value " + "x" * 500
    rows = _report(line, _finding(1, 6, 11)).split("\n")
    assert rows[3].startswith("1 | key: value xxx")
    assert rows[3].endswith("x...")
    assert rows[4] == "  |      ^^^^^"


def test_a_line_of_megabytes_is_cheap() -> None:
    line = "日" * 2_000_000
    rows = _report(line, _finding(1, 1_000_000, 1_000_001)).split("\n")
    assert rows[3].count("日") <= 60
    assert rows[4].endswith("^^")


def test_nothing_of_the_input_reaches_the_terminal_raw() -> None:
    hostile = "\x1b]0;owned\x07\r\n\x9b2J\u202e\u2066"
    found = Diagnostic(
        "TRC020",
        Severity.ERROR,
        hostile,
        Span(f"x{hostile}.yaml", 1, 1, 1, 2),
        (Related(Span(f"y{hostile}.yaml", 1, 1, 1, 2), hostile),),
        hostile,
        (hostile,),
    )
    out = render_text([found], lambda _: [hostile], color=False)
    assert {c for c in out if unicodedata.category(c) in ("Cc", "Cf")} == {"\n"}
    colored = render_text([found], lambda _: [hostile], color=True)
    assert re.sub("\x1b\\[[0-9;]*m", "", colored) == out


def test_without_colour_there_is_none() -> None:
    assert "\x1b" not in _report("a: 1", _finding(1, 1, 2))
    assert "\x1b[1;31m^\x1b[0m" in _report("a: 1", _finding(1, 1, 2), color=True)


def test_many_nodes_are_counted() -> None:
    nodes = [f"n{i}" for i in range(9)]
    assert "  = nodes: n0, n1, n2, n3, n4 and 4 more\n" in _report(
        "a", _finding(1, 1, 2, nodes=nodes)
    )
    out = render_text(
        [_finding(1, 1, 2, nodes=nodes[:2])], lambda _: None, color=False, nodes_limit=2
    )
    assert out.endswith("  = nodes: n0, n1\n")


@pytest.mark.parametrize(
    ("severities", "suppressed", "expected"),
    [
        ([], 0, "no findings"),
        ([], 1, "no findings, 1 suppressed"),
        ([3], 0, "1 error"),
        ([3, 3, 2, 1], 3, "2 errors, 1 warning, 1 note, 3 suppressed"),
        ([2, 2, 1, 1], 0, "2 warnings, 2 notes"),
    ],
)
def test_summary(severities: list[int], suppressed: int, expected: str) -> None:
    found = [_finding(1, 1, 2, severity=Severity(level)) for level in severities]
    assert summary(found, suppressed) == expected


def test_a_real_file() -> None:
    sink = Sink()
    data = b"kind: Intent\nspec:\n  gpus:\n  - 0000:01:00.0\n  names: [on]\n"
    file = parse_source(PATH, data, sink)
    out = render_text(sink.sorted(), lambda _: file.lines, color=False)
    assert (
        out
        == """\
error[TRC025]: `0000:01:00.0` is a number in base 60 to YAML 1.1 readers and a text to YAML 1.2 readers
 --> intents/chat.yaml:4:5
  |
4 |   - 0000:01:00.0
  |     ^^^^^^^^^^^^
  = help: write "0000:01:00.0" if the text is meant

error[TRC025]: `on` is true to YAML 1.1 readers and a text to YAML 1.2 readers
 --> intents/chat.yaml:5:11
  |
5 |   names: [on]
  |           ^^
  = help: write "on" if the text is meant; write true if that is meant
"""  # noqa: E501
    )


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=200),
    st.integers(-3, 250),
    st.integers(-3, 250),
    st.integers(0, 4),
    st.text(max_size=20),
)
def test_any_finding_can_be_shown(
    text: str, col: int, end_col: int, line: int, message: str
) -> None:
    found = _finding(
        line, col, end_col, message=message, related=[Related(Span(PATH, 1, col), "x")]
    )
    out = _report(text, found)
    assert f"{PATH}:{line}:{col}" in out
    assert out.endswith("\n")
    assert {c for c in out if unicodedata.category(c) in ("Cc", "Cf", "Cs")} <= {"\n"}
