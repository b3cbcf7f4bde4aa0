"""The regular expressions for command lines: subset, matching, emptiness and relations."""

from __future__ import annotations

import re
import warnings
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.patterns import (
    CmdlineRegex,
    PatternError,
    PatternTooComplex,
    contains,
    difference_example,
    example,
    intersects,
)

parse = CmdlineRegex.parse


def oracle(text: str, line: bytes) -> bool:
    """Search with Python's ``re``; the line has no NUL or newline."""
    return line != b"" and re.search(text.encode(), line) is not None


# -- the subset, as a generator ------------------------------------------------------------------

ATOMS = st.sampled_from(["a", "b", "\\.", ".", "[ab]", "[^a]", "[^ab]", "[a-b]", "[]a]", "[b-]"])
ANCHORS = st.sampled_from(["^", "$"])


def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantified = st.tuples(st.one_of(ATOMS, inner.map("({})".format)), st.sampled_from("*+?"))
    piece = st.one_of(ATOMS, quantified.map("".join), inner.map("({})".format), ANCHORS)
    sequence = st.lists(piece, min_size=1, max_size=4).map("".join)
    return st.one_of(sequence, st.tuples(sequence, sequence).map("|".join))


def is_in_the_subset(text: str) -> bool:
    """Tell whether it is; all that the generator makes is, but a ^ that + repeats."""
    try:
        parse(text)
    except PatternError as error:
        return "^ in what + repeats" not in str(error)  # all else fails where it is used
    return True


EXPRESSIONS = st.recursive(ATOMS, extend, max_leaves=8).filter(is_in_the_subset)
LINES = [bytes(line) for size in range(1, 6) for line in product(b"ab.", repeat=size)]
LINES += [b"z", b"az", b"za", b"-", b"]", b"a]", b"b-", b"a b", b"zz"]


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", None, "empty"),
        ("a|", 2, "empty alternative"),
        ("|a", 0, "empty alternative"),
        ("a()", 2, "empty alternative or group"),
        ("*a", 0, "nothing to repeat"),
        ("a(+b)", 2, "nothing to repeat"),
        ("a|?", 2, "nothing to repeat"),
        ("^*", 1, "behind ^"),
        ("a$+", 2, "behind $"),
        ("(^a)+", 4, "^ in what + repeats"),
        ("x((b|^a)*c)+", 11, "repeat only what follows the ^"),
        ("a**", 2, "behind quantifier"),
        ("a+?", 2, "lazy"),
        ("a*+", 2, "possessive"),
        ("a{2}", 1, "{n,m}"),
        ("{", 0, "{n,m}"),
        ("x\\d+", 1, "write [0-9]"),
        ("\\w", 0, "[0-9A-Za-z_]"),
        ("\\bvllm", 0, "edge"),
        ("(a)\\1", 3, "back reference"),
        ("\\q", 0, "write q alone"),
        ("\\é", 0, "not in the subset"),
        ("a\\²", 1, "write ² alone"),
        ("\\0", 0, "back reference"),
        ("\\<vllm", 0, "GNU"),
        ("a\\", 1, "backslash at the end"),
        ("(?i)a", 0, "no flags"),
        ("(?:a)", 0, "( ) alone groups"),
        ("a(?=b)", 1, "look-around"),
        ("(a", 0, "the parenthesis ( is not closed"),
        ("python(", 6, "the parenthesis ( is not closed"),
        ("a(b(c|", 3, "the parenthesis ( is not closed"),
        ("a(b(c)|", 1, "the parenthesis ( is not closed"),
        ("a(|b)", 2, "empty alternative"),
        ("a)", 1, "unmatched )"),
        ("[ab", 0, "unmatched ["),
        ("[]", 0, "unmatched ["),
        ("[^]", 0, "unmatched ["),
        ("[[:alpha:]]", 1, "[:...:]"),
        ("[[=a=]]", 1, "[:...:]"),
        ("[\\d]", 1, "backslash"),
        ("[é]", 1, "several bytes"),
        ("x[z-a]", 2, "backwards"),
        ("a\nb", 1, "U+000A"),
        ("a\0", 1, "U+0000"),
        ("a" * 513, None, "512 bytes"),
        ("(" * 33 + "a" + ")" * 33, 32, "32 groups"),
    ],
)
def test_refusals_point_at_the_place(text: str, offset: int | None, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "text",
    [
        "a" * 512,
        "é" * 256,
        "(" * 32 + "a" + ")" * 32,
        "(a)" * 40,
        "[a-a]",
        "[ ~]",
        "a<b",
        "}",
        "[[a]",
    ],
)
def test_what_is_just_not_refused(text: str) -> None:
    assert not parse(text).is_empty


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a+?", "lazy quantifier +? makes no difference to what is found; write +"),
        ("a*+", "possessive quantifier *+ is not in the subset; write *"),
        ("a?*", "quantifier * behind quantifier ?; one is enough"),
        ("a??", "lazy quantifier ?? makes no difference to what is found; write ?"),
    ],
)
def test_a_second_quantifier_is_named(text: str, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text)
    assert str(caught.value) == words
    assert caught.value.offset == 2


@settings(max_examples=300)
@given(st.text(st.sampled_from("ab()[]{}^$*+?|.\\-:é <"), max_size=8))
def test_any_text_is_an_expression_or_an_error_with_a_place(text: str) -> None:
    try:
        regex = parse(text)
    except PatternError as error:
        offset = error.offset
    else:
        offset = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of set operators that may come
            re.compile(text)  # what the subset holds, Python's re holds
        assert regex.matches("zz ab") in (True, False)
    assert offset is None or 0 <= offset <= len(text)


# -- matching -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("vllm serve", [b"/usr/bin/python3\0/usr/bin/vllm\0serve\0"], [b"vllm\0--serve\0"]),
        ("serve$", [b"vllm\0serve\0", b"vllm\0serve\0\0\0"], [b"vllm\0serve\0x\0"]),
        ("^python3? ", [b"python\0x\0", b"python3\0x\0"], [b"/bin/python3\0x\0", b"python3\0"]),
        ("-m (vllm|sglang)\\.", [b"python3\0-m\0vllm.entrypoints\0"], [b"python3\0-m\0vllmx\0"]),
        ("a.b", [b"a\nb\0", b"a\0b\0"], [b"ab\0"]),
        ("TP[0-7]$", [b"VLLM::Worker_TP7"], [b"VLLM::Worker_TP8"]),
        ("(é)+x", ["éé x éx".encode()], [b"\xa9x"]),
        ("é+x", ["ééx".encode()], [b"\xa9x"]),
        ("x*", [b"y"], [b"", b"\0"]),
        ("\\{\\}", [b"a {}"], [b"a {"]),
    ],
)
def test_matching(text: str, yes: list[bytes], no: list[bytes]) -> None:
    regex = parse(text)
    assert [line for line in yes if not regex.matches(line)] == []
    assert [line for line in no if regex.matches(line)] == []


def test_text_and_bytes_match_alike() -> None:
    assert parse("serve$").matches("vllm serve")
    assert parse("caf..$").matches("café")
    assert not parse("caf.$").matches("café")
    assert parse("a").matches("\udcffa")


def test_matching_is_linear_where_backtracking_is_not() -> None:
    regex = parse("(a*)*(a|b)*(a?)*c$")
    assert not regex.matches("a" * 5000)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS)
def test_matching_agrees_with_re(text: str) -> None:
    regex = parse(text)
    for line in LINES:
        assert regex.matches(line) == oracle(text, line), line


# -- what an expression amounts to --------------------------------------------------------------


@pytest.mark.parametrize("text", ["a^b", "a$b", "^$", "x(^a|^b)", "$a", "(a$)+b", "(x$)+y"])
def test_empty(text: str) -> None:
    regex = parse(text)
    assert regex.is_empty
    assert example(regex) is None
    assert not regex.matches_all
    assert contains(parse("q"), regex)


@pytest.mark.parametrize(
    "text", [".", "x*", ".*", "^", "$", "^.+$", "a|[^a]", "(a?)+", "^.*$", "^[^a]*$|a", "(^|a)"]
)
def test_matches_all(text: str) -> None:
    assert parse(text).matches_all
    assert not parse(text).is_empty


@pytest.mark.parametrize("text", ["..", "a", "^a?$", "[^a]", "a|[^ab]", "^[^a]*$|^a"])
def test_does_not_match_all(text: str) -> None:
    assert not parse(text).matches_all


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("vllm serve", b"vllm serve"),
        ("sglang\\.launch_server", b"sglang.launch_server"),
        ("[v]llm", b"vllm"),
        ("café", "café".encode()),
        ("sglang.launch", None),
        ("^vllm", None),
        ("vllm$", None),
        ("a|b", None),
        ("ab*", None),
        ("é?", None),
    ],
)
def test_literal(text: str, literal: bytes | None) -> None:
    assert parse(text).literal == literal


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_relations_agree_with_brute_force(text_a: str, text_b: str) -> None:
    a, b = parse(text_a), parse(text_b)
    in_a = {line for line in LINES if oracle(text_a, line)}
    in_b = {line for line in LINES if oracle(text_b, line)}
    assert not (a.is_empty and in_a)
    assert not a.matches_all or len(in_a) == len(LINES)
    assert intersects(a, b) or not in_a & in_b
    assert not contains(a, b) or in_b <= in_a
    both, only_a = example(a, b), difference_example(a, b)
    assert (both is not None) == intersects(b, a)
    assert (only_a is None) == contains(b, a)
    if both is not None:
        assert oracle(text_a, both.encode())
        assert oracle(text_b, both.encode())
        assert len(both) <= min((len(line) for line in in_a & in_b), default=len(both))
    if only_a is not None:
        assert oracle(text_a, only_a.encode())
        assert not oracle(text_b, only_a.encode())
    alone = example(a)
    assert (alone is None) == a.is_empty
    assert alone is None or oracle(text_a, alone.encode())


def test_relations_of_real_patterns() -> None:
    wide, narrow = parse("vllm"), parse("^(/usr/bin/)?vllm (serve|bench)( |$)")
    assert contains(wide, narrow)
    assert not contains(narrow, wide)
    assert intersects(wide, parse("sglang"))
    assert not intersects(parse("^python3 "), parse("^/usr/bin/vllm"))
    assert difference_example(wide, narrow) == "vllm"
    assert difference_example(parse("serve"), parse("vllm")) == "serve"


def test_too_complex_is_said_and_said_again() -> None:
    tail = "(a|b)" * 14
    wide = parse(f"^(a|b)*a{tail}$|^(a|b)*b{tail}$")
    narrow = parse(f"^(a|b){tail}(a|b)*$")
    for _ in range(2):
        with pytest.raises(PatternTooComplex):
            contains(wide, narrow)


def test_expressions_are_values() -> None:
    assert parse("a") == parse("a")
    assert sorted([parse("b"), parse("a")]) == [parse("a"), parse("b")]
    assert str(parse("a|b")) == "a|b"
    assert len({parse("a"), parse("a")}) == 1
