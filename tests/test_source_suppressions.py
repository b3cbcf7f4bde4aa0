"""Suppressions are comments: found outside quotes, bound to a line, with a reason."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Diagnostic, Severity, Sink
from compiler.source import Suppression, parse_source

ONE = "# tierc: ignore[TRC201] reason"


def _read(text: str) -> tuple[tuple[Suppression, ...], list[Diagnostic]]:
    sink = Sink()
    return parse_source("a.yaml", text.encode(), sink).suppressions, list(sink)


@pytest.mark.parametrize(
    ("text", "comment", "line"),
    [
        (f"a: 1\nb: 2  {ONE}\nc: 3\n", (2, 7), 2),
        (f"a: 1\n{ONE}\nb: 2\n", (2, 1), 3),
        (f"a:\n  {ONE}\n\n  # more\n\t\n  b: 2\n".replace("\t", ""), (2, 3), 6),
        (f"a: |  {ONE}\n  text\n", (1, 7), 1),
        (f"a: >-  {ONE}\n  text\n", (1, 8), 1),
        (f"a: |\n  text\n{ONE}\nb: 1\n", (3, 1), 4),
        (f"a: [1,  {ONE}\n  2]\n", (1, 9), 1),
        (f"a: [1,\n  {ONE}\n  2]\n", (2, 3), 3),
        (f"a: 'x'  {ONE}\n", (1, 9), 1),
        (f'a: "#"  {ONE}\n', (1, 9), 1),
        (f"a: x#y  {ONE}\n", (1, 9), 1),
        (f"a: [&x 1, *x]  {ONE}\n", (1, 16), 1),
        (f"a: &x  {ONE}\n  b: 1\n", (1, 8), 1),
        (f"a: &x  {ONE}\n  1\n", (1, 8), 1),
        (f"a:  {ONE}\n  b: 1\n", (1, 5), 1),
        (f"- a  {ONE}\n".replace("- a", "b:\n- a"), (2, 6), 2),
        (f"{ONE}\na: 1\n---\nb: 1\n", (1, 1), 2),
        (f"a: 1\n---  {ONE}\nb: 1\n", (2, 6), 2),
        (f"a: 1\n...\n{ONE}\n---\nb: 1\n", (3, 1), 4),
        (f"é😀: '日本'  {ONE}\n", (1, 11), 1),
        (f"a: 1\n{ONE}\n", (2, 1), 2),
        (f"a: 1\r\n{ONE}\r\nb: 1\r\n", (2, 1), 3),
    ],
)
def test_found_and_bound_to_a_line(text: str, comment: tuple[int, int], line: int) -> None:
    suppressions, found = _read(text)
    assert not found
    (one,) = suppressions
    assert (one.path, one.line, one.codes, one.reason) == ("a.yaml", line, ("TRC201",), "reason")
    span = one.comment_span
    assert (span.line, span.col) == comment
    assert (span.end_line, span.end_col) == (span.line, span.col + len(ONE))


@pytest.mark.parametrize(
    "text",
    [
        f"a: '{ONE}'\n",
        f'a: "x {ONE}"\n',
        f"a: 'x\n  {ONE}'\n",
        f"a: |\n  {ONE}\n",
        f"a: >\n  x\n  {ONE}\n\nb: 1\n",
        "a: x#tierc:ignore[TRC201]reason\n",
        "a: 1 # see tierc: ignore[TRC201] reason\n",
        "a: 1 # tierc is a compiler\n",
        "# yaml-language-server: $schema=../schemas/tierc: x.json\na: 1\n",
    ],
)
def test_not_a_suppression(text: str) -> None:
    suppressions, found = _read(text)
    assert not found
    assert suppressions == ()


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        ("# tierc: ignore[TRC201, TRC204] two of them", ("TRC201", "TRC204"), "two of them"),
        ("#tierc:ignore[TRC201,TRC201]  twice # and a hash ", ("TRC201",), "twice # and a hash"),
        ("## tierc: ignore [ TRC201 ] x", ("TRC201",), "x"),
    ],
)
def test_spellings(comment: str, codes: tuple[str, ...], reason: str) -> None:
    suppressions, found = _read(f"a: 1 {comment}\n")
    assert not found
    assert [(s.codes, s.reason) for s in suppressions] == [(codes, reason)]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# tierc: ignore[TRC201]", "gives no reason"),
        ("# tierc: ignore[TRC201]  ", "gives no reason"),
        ("# tierc: ignore", "names no code"),
        ("# tierc: ignore because", "names no code"),
        ("# tierc: ignore[] because", "names no code"),
        ("# tierc: ignore[TRC201 because", "brackets"),
        ("# tierc: ignore[TRC201,] because", "an empty item is not a code"),
        ("# tierc: ignore[201] because", "`201` is not a code"),
        ("# tierc: ignore[trc201] because", "`trc201` is not a code"),
        ("# tierc: ignore[comm-length] because", "`comm-length` is not a code"),
        ("# tierc: disable[TRC201] because", "`disable` after `tierc:` is not known"),
        ("# tierc: noqa", "`noqa` after `tierc:` is not known"),
        ("# tierc:", "nothing follows `tierc:`"),
    ],
)
def test_out_of_form(comment: str, message: str) -> None:
    suppressions, found = _read(f"a: 1\nb: 2 {comment}\n")
    assert suppressions == ()
    (one,) = found
    assert (one.code, one.severity) == ("TRC045", Severity.WARNING)
    assert (one.span.line, one.span.col) == (2, 6)
    assert message in one.message
    assert "# tierc: ignore[TRC201] reason" in one.help


def test_what_was_read_before_an_error_counts() -> None:
    suppressions, found = _read(f"a: 1  {ONE}\n---\nb: ]\n{ONE}\n")
    assert [s.line for s in suppressions] == [1]
    assert [f.code for f in found] == ["TRC020"]
