"""Values without quotes: what is taken, what is refused, and what the finding says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver

from compiler.diagnostics import Diagnostic, Sink
from compiler.reading.scalars import resolve
from compiler.source import parse_source


def _value(text: str) -> tuple[Any, list[Diagnostic]]:
    sink = Sink()
    file = parse_source("a.yaml", f"k: {text}\n".encode(), sink)
    assert len(file.documents) == 1
    data = file.documents[0].data
    assert isinstance(data, dict)
    assert file.documents[0].text("k") == text
    return data["k"], list(sink)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("0", 0),
        ("-5", -5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("0.24", 0.24),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0,1", "0,1"),
        ("1,024", "1,024"),
        ("0-3,8-11", "0-3,8-11"),
        ("8-11", "8-11"),
        ("0:15", "0:15"),
        ("0000:0f:00.0", "0000:0f:00.0"),
        ("0.24.0", "0.24.0"),
        ("'>=0.10.1'", ">=0.10.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("y", "y"),
        ("n", "n"),
        ("tRUE", "tRUE"),
        ("0x", "0x"),
        ("0b2", "0b2"),
        ("_1", "_1"),
        ("1e", "1e"),
        ("3ms", "3ms"),
        ("2001-01-01x", "2001-01-01x"),
        ("nullable", "nullable"),
        ("--", "--"),
        ('"010"', "010"),
        ("'no'", "no"),
        ('"1e3"', "1e3"),
        ("VLLM::EngineCor", "VLLM::EngineCor"),
        ("irq/*-nvidia", "irq/*-nvidia"),
    ],
)
def test_taken(text: str, value: object) -> None:
    got, found = _value(text)
    assert (type(got), got) == (type(value), value)
    assert not found


# The readings are those of PyYAML 6 (1.1) and ruamel.yaml 0.19 (1.2), as measured.
@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("010", "`010` is 8 to YAML 1.1 readers and 10 to YAML 1.2 readers", "write 8 or 10"),
        ("00123", "`00123` is 83 to YAML 1.1 readers and 123 to YAML 1.2", "write 83 or 123"),
        ("08", "`08` is a text to YAML 1.1 readers and 8 to YAML 1.2 readers", "write 8"),
        ("1_0", "`1_0` is 10 to YAML 1.1 readers and a text to YAML 1.2 readers", "write 10"),
        ("0_1", "`0_1` is 1 to YAML 1.1 readers", "write 1"),
        ("1:30", "`1:30` is 90 to YAML 1.1 readers and a text to YAML 1.2 readers", "write 90"),
        ("190:20:30", "is 685230 to YAML 1.1", "write 685230"),
        ("0000:01:00.0", "is a number in base 60 to YAML 1.1", 'write "0000:01:00.0"'),
        ("1e3", "`1e3` is the number 1000 to some", "write 1000"),
        ("1e1", "`1e1` is the number 10 to some", "write 10"),
        ("6063e25", "is a number to some", 'write "6063e25"'),
        ("25921e05", "is the number 2592100000 to some", 'write "25921e05"'),
        ("0x1F", "`0x1F` is the number 31 to some", "write 31"),
        ("0o17", "`0o17` is a text to YAML 1.1 readers and 15 to YAML 1.2", "write 15"),
        ("0b101", "`0b101` is 5 to YAML 1.1 readers and a text to YAML 1.2", "write 5"),
        ("+1", "`+1` is the number 1 to some", "write 1"),
        ("-0", "`-0` is the number 0 to some", "write 0"),
        ("01.10", "`01.10` is the number 1.1 to some", "write 1.1"),
        ("1.", "`1.` is the number 1", "write 1"),
        (".5", "`.5` is the number 0.5 to some", "write 0.5"),
        ("no", "`no` is false to YAML 1.1 readers and a text", "write false"),
        ("on", "`on` is true to YAML 1.1 readers and a text", "write true"),
        ("Off", "`Off` is false to YAML 1.1 readers", "write false"),
        ("YES", "`YES` is true to YAML 1.1 readers", "write true"),
        ("True", "`True` is the boolean true to some", "write true"),
        ("FALSE", "`FALSE` is the boolean false to some", "write false"),
        ("Null", "`Null` is null to some", "write null"),
        (".inf", "`.inf` is not a finite number", 'write ".inf"'),
        ("-.INF", "`-.INF` is not a finite number", 'write "-.INF"'),
        (".NaN", "`.NaN` is not a finite number", 'write ".NaN"'),
        ("2001-01-01", "`2001-01-01` is a date to YAML 1.1", 'write "2001-01-01"'),
        ("2001-1-1", "is a date to YAML 1.1", 'write "2001-1-1"'),
        ("2001-12-14t21:59:43.10-05:00", "is a date", 'write "2001-12-14t21:59:43.10-05:00"'),
        ("2001-12-14 21:59:43.10 -5", "is a date", 'write "2001-12-14 21:59:43.10 -5"'),
        ("=", "`=` without quotes has a special meaning", 'write "="'),
        ("<<", "`<<` without quotes has a special meaning", 'write "<<"'),
    ],
)
def test_ambiguous(text: str, message: str, fix: str) -> None:
    value, found = _value(text)
    assert value == text, "decoding goes on with the text"
    assert [f.code for f in found] == ["TRC025"]
    assert message in found[0].message
    assert fix in found[0].help
    assert f'"{text}"' in found[0].help
    span = found[0].span
    assert (span.line, span.col, span.end_line, span.end_col) == (1, 4, 1, 4 + len(text))


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "9" * 5000, "1" + "0" * 400 + ".0"]
)
def test_numbers_that_do_not_fit(text: str) -> None:
    value, found = _value(text)
    assert value == text
    assert [f.code for f in found] == ["TRC026"]
    assert len(found[0].message) < 120


@pytest.mark.parametrize("text", ["0" * 5000, "1_" * 3000 + "1", "0x" + "f" * 9000, "1:1" * 4000])
def test_long_texts_are_cheap_and_shown_short(text: str) -> None:
    _, found = _value(text)
    assert all(len(f.message) < 200 and len(f.help) < 200 for f in found)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("1", "the key `1` is not a text"),
        ("true", "the key `true` is not a text"),
        ("~", "the key `~` is not a text"),
        ("1.5", "the key `1.5` is not a text"),
        ("on", "the key `on` is not a text to all YAML readers"),
        ("010", "the key `010` is not a text to all YAML readers"),
        ("2001-01-01", "the key `2001-01-01` is not a text to all YAML readers"),
    ],
)
def test_keys_are_texts(key: str, message: str) -> None:
    sink = Sink()
    file = parse_source("a.yaml", f"a: 1\n{key}: 2\n".encode(), sink)
    assert [d.data for d in file.documents] == [{"a": 1, key: 2}]
    (found,) = sink
    assert (found.code, found.message, found.span.line, found.span.col) == (
        "TRC030",
        message,
        2,
        1,
    )
    assert f'"{key}"' in found.help


@pytest.mark.parametrize("key", ["y", '"1"', "'on'", "matchLabels", "0:15", "0.24.0"])
def test_keys_that_are_texts(key: str) -> None:
    sink = Sink()
    file = parse_source("a.yaml", f"{key}: 2\n".encode(), sink)
    assert [d.data for d in file.documents] == [{key.strip("\"'"): 2}]
    assert not list(sink)


def _library_tags(text: str) -> list[str]:
    """Return the types that ruamel's own resolvers give a plain scalar, for 1.1 and 1.2."""
    tags = []
    for version in ("1.1", "1.2"):
        resolver = VersionedResolver(version)
        tags.append(str(resolver.resolve(ScalarNode, text, (True, False))).rsplit(":", 1)[-1])
    return tags


_OURS = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
_TOKENS = st.text(st.sampled_from(list("0123456789+-._:eExXob~=<nyaNYT")), min_size=1, max_size=10)


def _check_against_library(text: str) -> None:
    value, doubt = resolve(text)
    # By the letter of YAML 1.1 a single y or n is a boolean; PyYAML and others read a text.
    if doubt is None and text not in ("y", "Y", "n", "N"):
        assert set(_library_tags(text)) == {_OURS[type(value)]}, text


@settings(max_examples=300, deadline=None)
@given(_TOKENS)
def test_what_is_taken_has_one_type_in_both_versions(text: str) -> None:
    _check_against_library(text)


def test_every_short_text_has_one_type_in_both_versions() -> None:
    for length in (1, 2):
        for letters in itertools.product("01_.:-+ex=<", repeat=length):
            _check_against_library("".join(letters))


@pytest.mark.parametrize(
    "word",
    ["yes", "no", "on", "off", "true", "false", "null", "True", "TRUE", "Yes", "NO", "oN", "nuLL"],
)
def test_words_have_one_type_in_both_versions(word: str) -> None:
    _check_against_library(word)
