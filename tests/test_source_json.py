"""JSON files: the same documents, with places, and strict."""

from __future__ import annotations

import time

import pytest

from compiler.diagnostics import Diagnostic, Sink
from compiler.source import SourceFile, parse_source


def _read(text: str) -> tuple[SourceFile, list[Diagnostic]]:
    sink = Sink()
    return parse_source("a.json", text.encode(), sink), list(sink)


def test_places() -> None:
    text = (
        '{\n  "kind": "Intent",\n  "metadata": {"name": "é😀"},\n'
        '  "s": [1, -2.5e1, null, [], {}]\n}\n'
    )
    file, found = _read(text)
    assert not found
    (document,) = file.documents
    assert document.data == {
        "kind": "Intent",
        "metadata": {"name": "é😀"},
        "s": (1, -25.0, None, (), {}),
    }
    assert (document.kind, document.name) == ("Intent", "é😀")
    marks = document.marks

    def ends(*route: str | int) -> tuple[int, int, int, int]:
        value = marks[route].value
        return value.line, value.col, value.end_line, value.end_col

    assert ends() == (1, 1, 5, 2)
    assert ends("metadata") == (3, 15, 3, 29)
    assert ends("metadata", "name") == (3, 24, 3, 28)
    assert ends("s", 1) == (4, 12, 4, 18)
    assert marks["s", 1].text == "-2.5e1"
    assert marks["kind",].text == '"Intent"'
    key = marks["kind",].key
    assert key is not None
    assert (key.line, key.col, key.end_col) == (2, 3, 9)


@pytest.mark.parametrize("text", ["", " \r\n\t", "\ufeff", '{"a": "# tierc: ignore"}'])
def test_nothing_to_say(text: str) -> None:
    file, found = _read(text)
    assert not found
    assert file.suppressions == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
        (r'"\u00e9\ud83d\ude00\u0000"', "é😀\0"),
        ("0", 0),
        ("-0", 0),
        ("1e2", 100.0),
        ("1E-2", 0.01),
        ("9223372036854775807", 2**63 - 1),
        ("true", True),
        ("null", None),
    ],
)
def test_values(text: str, value: object) -> None:
    file, found = _read(f'{{"k": {text}}}')
    assert not found
    data = file.documents[0].data
    assert isinstance(data, dict)
    assert (type(data["k"]), data["k"]) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "code", "line", "col", "message", "fix"),
    [
        ('{"a": 1, "a": 2}', "TRC031", 1, 10, 'duplicate key "a"', "remove"),
        ('{"a": 1, "\\u0061": 2}', "TRC031", 1, 10, 'duplicate key "a"', "remove"),
        ('{"a": NaN}', "TRC021", 1, 7, "`NaN`", "null"),
        ('{"a": -Infinity}', "TRC021", 1, 7, "`-Infinity`", "null"),
        ('{\n"cpu": 1, "core": -}', "TRC021", 2, 19, "`-` is not a JSON value", "null"),
        ('{"a": 01}', "TRC021", 1, 7, "`01`", "leading zeros"),
        ('{"a": +1}', "TRC021", 1, 7, "`+1`", "sign"),
        ('{"a": 1.}', "TRC021", 1, 7, "`1.`", "plain decimal"),
        ('{"a": .5}', "TRC021", 1, 7, "`.5`", "plain decimal"),
        ('{"a": 0x1F}', "TRC021", 1, 7, "`0x1F`", "plain decimal"),
        ('{"a": True}', "TRC021", 1, 7, "`True`", "true, false and null"),
        ('{"a": nothing}', "TRC021", 1, 7, "`nothing`", "double quotes"),
        ('{"a": 1,}', "TRC021", 1, 8, "comma after the last", "delete"),
        ('{"a": [1,\n]}', "TRC021", 1, 9, "comma after the last", "delete"),
        ('{"a": [,1]}', "TRC021", 1, 8, "a value is expected", ""),
        ('{"a": }', "TRC021", 1, 7, "a value is expected", ""),
        ('{"a"; 1}', "TRC021", 1, 5, "`:` is expected", ""),
        ('{"a": 1 "b": 2}', "TRC021", 1, 9, "`,` or `}`", "comma"),
        ('{"a": [1 2]}', "TRC021", 1, 10, "`,` or `]`", "comma"),
        ('{"a": [1\n', "TRC021", 1, 9, "the end of the file", ""),
        ('{"a":\n\n', "TRC021", 1, 6, "the file ends", ""),
        ("{a: 1}", "TRC021", 1, 2, "a key in double quotes", ""),
        ("{'a': 1}", "TRC021", 1, 2, "a key in double quotes", ""),
        ("{1: 1}", "TRC021", 1, 2, "a key in double quotes", ""),
        ('// c\n{"a": 1}', "TRC021", 1, 1, "no comments", "YAML"),
        ('{"a": 1, /* c */ "b": 2}', "TRC021", 1, 10, "no comments", "YAML"),
        ('{"a": 1} {"b": 1}', "TRC021", 1, 10, "follows the end", "YAML"),
        ('{"a": "x}', "TRC021", 1, 7, "not closed", ""),
        ('{"a": "x\n"}', "TRC021", 1, 7, "not closed", ""),
        ('{"a": "x\ty"}', "TRC021", 1, 9, "a tab", "\\t"),
        ('{"a": "\\x"}', "TRC021", 1, 8, "`\\x` is not an escape", "\\\\"),
        ('{"a": "\\u12"}', "TRC021", 1, 8, "four hexadecimal digits", ""),
        ('{"a": "\\ud83d"}', "TRC021", 1, 8, "half of a character", ""),
        ('{"a": "\\ude00\\ud83d"}', "TRC021", 1, 8, "half of a character", ""),
        ('{"a": "\\ud83d\\u0041"}', "TRC021", 1, 8, "half of a character", ""),
        ('{"a":\xa01}', "TRC021", 1, 6, "U+00A0 (no-break space) cannot stand here", "space"),
        ('{"a": 9223372036854775808}', "TRC026", 1, 7, "64 bits", "smaller"),
        ('{"a": 1e999}', "TRC026", 1, 7, "64 bits", "smaller"),
        ('[{"a": 1}]', "TRC032", 1, 1, "a list", '"kind"'),
        ('\n "x"', "TRC032", 2, 2, "a single value", '"kind"'),
        ('{"a": "\u202e"}', "TRC011", 1, 8, "direction", ""),
        ('{"a": "\x00"}', "TRC011", 1, 8, "NUL", ""),
    ],
)
def test_refused(text: str, code: str, line: int, col: int, message: str, fix: str) -> None:
    _, found = _read(text)
    assert [(f.code, f.span.line, f.span.col) for f in found] == [(code, line, col)]
    assert message in found[0].message
    assert fix in found[0].help
    assert found[0].help


def test_a_duplicate_shows_the_first_and_keeps_it() -> None:
    file, found = _read('{"a": 1,\n "b": 2,\n "a": 3}')
    assert [(r.span.line, r.span.col, r.span.end_col) for r in found[0].related] == [(1, 2, 5)]
    assert file.documents[0].data == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 200_000, "TRC040"),
        ('{"a":' * 100_000, "TRC040"),
        ("[" + "1," * 300_000 + "1]", "TRC041"),
        ("{" + '"a":1,' * 1_000 + '"b":1}', "TRC043"),
        ('{"a": "' + "x" * 1_000_000, "TRC021"),
        ('{"a": ' + "9" * 1_000_000 + "}", "TRC026"),
        ('{"a": "' + "\\n" * 1_000_000 + "\\q", "TRC021"),
    ],
)
def test_hostile_files_are_refused_quickly(text: str, code: str) -> None:
    start = time.process_time()
    _, found = _read(text)
    assert time.process_time() - start < 10
    assert found[-1].code == code
    assert len(found) <= 101
    assert len(found[-1].message) < 200
