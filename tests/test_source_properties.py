"""Reading is total, and what it reads is what was written, at the place where it was written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.diagnostics import Severity, Sink, Span
from compiler.source import Data, SourceFile, parse_source

# No characters that must not stand in a source as they are.
_LETTERS = st.characters(exclude_categories=("Cc", "Cs", "Cf", "Cn", "Co", "Zl", "Zp"))
_TEXTS = st.text(_LETTERS, max_size=12)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.decimals(-9999, 9999, places=3).map(float)
    | _TEXTS
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=15,
)
_MAPPINGS = st.dictionaries(_TEXTS, _VALUES, max_size=5)
_YAML_LIKE = st.text(
    st.sampled_from(list("ab01 \t\n\r:-?#,[]{}&*!|>'\"%@`~<=.\\_xe\xa0\x85\u2028é😀\ufeff")),
    max_size=40,
)
_YAML_PIECES = st.lists(
    st.sampled_from(
        ["---\n", "...\n", "\n", "  ", "    ", "a: ", "b: ", "- ", "&a ", "*a", "<<: ", "\t", "'",
         '"', "|\n", ">-\n", "[", "]", "{", "}", ", ", "# tierc: ignore[TRC201] x\n", "x", "010",
         "%YAML 1.1\n", "!!str ", "? ", ": ", "\r\n", "é", "😀", "\\", "\\u12", "# c", " "]
    ),
    max_size=30,
).map("".join)  # fmt: skip


def _read(text: str | bytes, path: str = "a.yaml") -> tuple[SourceFile, Sink]:
    sink = Sink()
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return parse_source(path, data, sink), sink


def _plain(data: Any) -> Data:
    if isinstance(data, list):
        return tuple(_plain(item) for item in data)
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    return data


def _block(data: Any, indent: int = 0) -> str:
    """Write data in block style, texts and keys in double quotes."""
    pad = " " * indent
    if isinstance(data, dict) and data:
        return "".join(
            f"\n{pad}{json.dumps(key, ensure_ascii=False)}: {_block(value, indent + 2)}"
            for key, value in data.items()
        )
    if isinstance(data, list) and data:
        return "".join(f"\n{pad}- {_block(value, indent + 2)}" for value in data)
    if isinstance(data, float):
        return f"{data:.3f}"
    return json.dumps(data, ensure_ascii=False)


def _slice(lines: tuple[str, ...], span: Span) -> str:
    rows = [*lines[span.line - 1 : span.end_line]] or [""]
    rows[-1] = rows[-1][: span.end_col - 1]
    rows[0] = rows[0][span.col - 1 :]
    return "\n".join(rows)


def _check_places(file: SourceFile, sink: Sink) -> None:
    for found in sink:
        for span in (found.span, *(related.span for related in found.related)):
            assert 1 <= span.line <= max(1, len(file.lines))
            assert (span.line, span.col) <= (span.end_line, span.end_col)
            line = file.lines[span.line - 1] if file.lines else ""
            assert 1 <= span.col <= len(line) + 1
        assert found.message
        assert not found.message.endswith(".")
        assert "<" + "unicode" not in found.message
    for document in file.documents:
        for route, mark in document.marks.items():
            written = _slice(file.lines, mark.value)
            if mark.text is not None and not written.startswith("*"):
                assert written == mark.text
            if mark.key is not None:
                assert _slice(file.lines, mark.key).strip("'\" \n") is not None
                assert mark.key.line <= mark.value.line or written.startswith("*")
            assert document.span(*route) == mark.value


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
@example(b"\xef\xbb\xbf")
@example(b"\xff\xfe")
@example(b"\x00")
def test_any_bytes_give_findings_and_no_exception(data: bytes) -> None:
    for path in ("a.yaml", "a.json"):
        file, sink = _read(data, path)
        _check_places(file, sink)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | _YAML_LIKE | _YAML_PIECES)
@example("a: b\n# tierc: ignore[TRC201] x")
@example("a: |\n\n\n")
@example("? |\n x\n: y")
@example("{a: &b\n  # c\n  x}")
def test_any_text_gives_findings_and_no_exception(text: str) -> None:
    for path in ("a.yaml", "a.json"):
        file, sink = _read(text, path)
        _check_places(file, sink)
        if not file.documents and text.strip(" \t\r\n\ufeff") and path == "a.json":
            assert any(found.severity is Severity.ERROR for found in sink)


@settings(max_examples=100, deadline=None)
@given(_MAPPINGS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_block_yaml_reads_back(data: dict[str, Any], end: str, bom: bool) -> None:
    text = ("\ufeff" if bom else "") + "--- " + _block(data) + "\n"
    file, sink = _read(text.replace("\n", end))
    assert not list(sink)
    assert [document.data for document in file.documents] == [_plain(data)]
    _check_places(file, sink)


@settings(max_examples=100, deadline=None)
@given(_MAPPINGS, st.booleans(), st.sampled_from([None, 2]))
def test_json_reads_back(data: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    file, sink = _read(text, "a.json")
    assert not list(sink)
    assert [document.data for document in file.documents] == [_plain(data)]
    _check_places(file, sink)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from(list('{}[]:,"\\ 01e.-+tfnu\n/#aé')), max_size=20))
def test_json_agrees_with_the_standard_library(text: str) -> None:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise ValueError("a key twice")
        return dict(items)

    def refuse(word: str) -> None:
        raise ValueError(word)

    file, sink = _read(text, "a.json")
    try:
        expected = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except ValueError:
        assert not file.documents or list(sink)
        if text.strip():
            assert list(sink)
        return
    if isinstance(expected, dict) and not list(sink):
        assert [document.data for document in file.documents] == [_plain(expected)]
    else:
        assert list(sink)
