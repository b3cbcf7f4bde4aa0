"""The YAML writer: its text means the same to every reader we know of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from compiler.diagnostics import Sink
from compiler.source import parse_source
from compiler.yamlout import dump, scalar

# The implicit types of YAML 1.1 as PyYAML resolves them, retyped from yaml.org/type (bool, float,
# int, merge, null, timestamp, value); a plain scalar that matches one is no text there.
PYYAML = re.compile(
    r"""yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF
    |[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?
    |\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)
    |[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+
    |[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+
    |<<|~|null|Null|NULL||=
    |[0-9]{4}-[0-9]{2}-[0-9]{2}
    |[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?(?:[Tt]|[ \t]+)[0-9][0-9]?:[0-9]{2}:[0-9]{2}.*
    """,
    re.VERBOSE,
)
# The core schema of YAML 1.2.2, section 10.3.2, and what Go's yaml takes for a float.
CORE = re.compile(
    r"null|Null|NULL|~||true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)

TRICKY = [
    "no", "on", "Off", "YES", "y", "N", "true", "null", "~", "", " ", "NaN", ".inf", "inf",
    "010", "08", "00123", "1:30", "0:15", "1e3", "6063e25", "25921e05", "8", "-1", "+1", "1.5",
    "0x1F", "0o17", "0b1", "1_0", "2001-01-01", "1,024", "0,8", "0-3,8", "0-3", "0-30:1/2",
    "01-3", "=", "<<", "-", "- a", "?", "a: b", "a:", ":a", "a #b", "#a", "@a", "`a", "%a", "&a",
    "*a", "!a", "|", ">", "'a'", '"a"', "a\\b", "[a]", "{a}", "a,b", "a\tb", "a\n", "\na", "a\rb",
    "\0", "\x1b[31m", "\x85", "\xa0", "\u2028", "\ufeff", "é", "日本", "😀", "---", "...",
    "VLLM::EngineCor", "000f:01:00.0", "10de", "15b3", "irq/5-nvidia", "a" * 300, " a", "a ",
]  # fmt: skip


def read_back(text: str) -> object:
    """Read with ruamel (YAML 1.2) and with the compiler's own reader, which must agree."""
    sink = Sink()
    own = parse_source("x.yaml", text.encode(), sink)
    assert [str(found) for found in sink] == []
    data = YAML(typ="safe").load(text)
    assert own.documents[0].data == tuples(data)
    return data


def tuples(data: object) -> object:
    if isinstance(data, dict):
        return {key: tuples(value) for key, value in data.items()}
    return tuple(map(tuples, data)) if isinstance(data, list) else data


def lists(data: object) -> object:
    if isinstance(data, dict):
        return {key: lists(value) for key, value in data.items()}
    return [lists(item) for item in data] if isinstance(data, list | tuple) else data


@pytest.mark.parametrize("text", TRICKY)
def test_a_text_stays_that_text(text: str) -> None:
    assert read_back(dump({"key": text, text or "empty": ["a", text]})) == {
        "key": text,
        text or "empty": ["a", text],
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
@settings(max_examples=200)
def test_what_stands_without_quotes_is_a_text_to_old_and_new_readers(text: str) -> None:
    written = scalar(text)
    if not written.startswith('"'):
        assert written == text
        assert not PYYAML.fullmatch(text)
        assert not CORE.fullmatch(text)
        assert text.lower() not in ("y", "n")


@given(st.from_regex(r"[-+0-9a-fxob_.,:/eE]{1,9}", fullmatch=True))
@settings(max_examples=300)
def test_nothing_that_looks_like_a_number_stands_without_quotes(text: str) -> None:
    if not scalar(text).startswith('"'):
        assert not PYYAML.fullmatch(text)
        assert not CORE.fullmatch(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(TRICKY)
    | st.from_regex(r"([a-z ]{0,4}\n?){0,4}", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "no", "1", "x y", ""]), VALUES, max_size=4))
@settings(max_examples=150)
def test_any_plain_data_is_read_back_equal(data: dict[str, object]) -> None:
    text = dump(data)  # type: ignore[arg-type]
    assert text.isascii()
    assert text.endswith("\n")
    assert not text.endswith("\n\n\n")
    assert read_back(text) == data


def test_the_form_of_a_document() -> None:
    data = {
        "kind": "NodeFacts",
        "empty": {},
        "none": None,
        "list": [],
        "yes": True,
        "ratio": 0.5,
        "tiny": 1e-7,
        "whole": 3.0,
        "distances": [10, 20],
        "groups": [{"cpus": "0-3", "smt": ["0-1", "2-3"]}, ["a", ["b"]], {}, "8"],
        "script": "#!/bin/sh\nset -eu\n\necho 'a: b'\n",
    }
    assert dump(data, header=("one", "two")) == (  # type: ignore[arg-type]
        "# one\n"
        "# two\n"
        "kind: NodeFacts\n"
        "empty: {}\n"
        "none: null\n"
        "list: []\n"
        '"yes": true\n'
        "ratio: 0.5\n"
        "tiny: 0.0000001\n"
        "whole: 3.0\n"
        "distances: [10, 20]\n"
        "groups:\n"
        "  - cpus: 0-3\n"
        "    smt:\n"
        "      - 0-1\n"
        "      - 2-3\n"
        "  - - a\n"
        "    - - b\n"
        "  - {}\n"
        '  - "8"\n'
        "script: |\n"
        "  #!/bin/sh\n"
        "  set -eu\n"
        "\n"
        "  echo 'a: b'\n"
    )


def test_numbers_that_need_more_than_a_line_stand_on_several() -> None:
    text = dump({"distances": list(range(100, 140))})
    lines = text.splitlines()
    assert lines[0].startswith("distances: [100, 101, ")
    assert [line[:6] for line in lines[1:]] == ["  117,", "  136,"]  # 17 and 19 of 5 characters
    assert max(map(len, lines)) <= 100
    assert read_back(text) == {"distances": list(range(100, 140))}


def test_comments_stand_above_what_they_are_about_and_change_nothing() -> None:
    data = {"a": {"b": "x"}, "list": [{"k": "v"}, ["m"]]}
    comments = {
        ("a",): "about a",
        ("a", "b"): "two\nlines",
        ("list", 0): "first",
        ("list", 0, "k"): "inner",
        ("list", 1): "hostile\r\x0bkey: é",
    }
    text = dump(data, comments=comments)  # type: ignore[arg-type]
    assert text == (
        "# about a\n"
        "a:\n"
        "  # two\n"
        "  # lines\n"
        "  b: x\n"
        "list:\n"
        "  # first\n"
        "  # inner\n"
        "  - k: v\n"
        "  # hostile  key: \\xe9\n"
        "  - - m\n"
    )
    assert read_back(text) == data


def test_a_comment_about_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="where nothing is"):
        dump({"a": "b"}, comments={("c",): "lost"})


def loop() -> dict[str, object]:
    data: dict[str, object] = {}
    data["again"] = data
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"a": object()}, TypeError),
        ({"a": b"bytes"}, TypeError),
        ({"a": {1: "x"}}, TypeError),
        ({"a": {"x", "y"}}, TypeError),
        (["a"], TypeError),
        ({"a": float("nan")}, ValueError),
        ({"a": float("inf")}, ValueError),
        ({"a": "\ud800"}, ValueError),
        ({"k" * 1001: "x"}, ValueError),
        (loop(), ValueError),
    ],
)
def test_what_is_no_plain_data_is_refused(data: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        dump(data)  # type: ignore[arg-type]


def test_numpy_like_subclasses_of_int_are_written_as_their_value() -> None:
    class Level(int):
        def __str__(self) -> str:
            return "level"

    assert read_back(dump({"a": Level(3), "b": [Level(1)]})) == {"a": 3, "b": [1]}


@given(VALUES)
@settings(max_examples=50)
def test_tuples_and_lists_give_the_same_bytes(value: object) -> None:
    assert dump({"a": tuples(value)}) == dump({"a": lists(value)})  # type: ignore[arg-type]
