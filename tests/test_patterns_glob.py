"""Globs on thread names and cgroup paths: what they accept, refuse and amount to."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.patterns import (
    COMM_BYTES,
    Glob,
    PatternError,
    PatternTooComplex,
    contains,
    difference_example,
    example,
    intersects,
    truncate_comm,
)

# -- independent oracles ------------------------------------------------------------------------


def comm_oracle(text: str, name: bytes) -> bool:
    """Match a comm glob by translation to ``re``, an implementation the compiler does not use."""
    if len(name) > 15 or 0 in name:
        return False
    return translated(text).fullmatch(name) is not None


@lru_cache(maxsize=64)
def translated(text: str) -> re.Pattern[bytes]:
    pieces = {b"*": b".*", b"?": b"."}
    data = re.sub(r"[*]+", "*", text).encode()
    singles = [data[i : i + 1] for i in range(len(data))]
    return re.compile(b"".join(pieces.get(b) or re.escape(b) for b in singles), re.DOTALL)


def path_oracle(text: str, path: str) -> bool:
    """Match a cgroup glob by recursion over components."""
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") for part in parts):
        return False

    def walk(globs: list[str], names: list[str]) -> bool:
        if not globs:
            return not names
        if globs[0] == "**":
            return any(walk(globs[1:], names[i:]) for i in range(len(names) + 1))
        if not names:
            return False
        body = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in globs[0])
        return re.fullmatch(body, names[0], re.DOTALL) is not None and walk(globs[1:], names[1:])

    return walk(text.split("/"), parts)


COMM_TEXTS = st.one_of(
    st.text("a*?", min_size=1, max_size=7),
    st.text("aab*?", min_size=1, max_size=16),
    st.builds(
        lambda head, gap, tail: head + "?" * gap + tail,
        st.text("a*", max_size=3),
        st.integers(0, 14),
        st.text("ab*", min_size=1, max_size=3),
    ),
)
COMPONENTS = st.one_of(
    st.sampled_from(["**", "*", "?", "a", "a*", "*a", ".?", "?."]),
    st.text("a*?", min_size=1, max_size=3),
).filter(lambda c: "**" not in c or c == "**")
PATH_TEXTS = st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join)

# With one literal, all other bytes are alike: these are all names of up to 15 bytes, but for that.
ALL_NAMES = [bytes(n) for size in range(16) for n in product(b"az", repeat=size)]
SHORT_NAMES = [bytes(n) for size in range(7) for n in product(b"abz", repeat=size)]
SOME_PATHS = [
    "".join(p)
    for size in range(8)
    for p in product("a./", repeat=size)
    if all(c not in ("", ".", "..") for c in "".join(p).split("/")) or size == 0
] + ["z", "zz", "az", "za", "z/a", "a/z", "z/z", "z/z/z", "a/zz/z", "zz/a/zz"]


def is_comm(text: str) -> bool:
    try:
        Glob.comm(text)
    except PatternError:
        return False
    return True


# -- comm ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("VLLM::EngineCor", ["VLLM::EngineCor"], ["VLLM::EngineCo", "VLLM::EngineCore", ""]),
        ("VLLM::EngineCor*", ["VLLM::EngineCor"], ["VLLM::EngineCo", "VLLM::EngineCore"]),
        ("irq/*-nvidia", ["irq/35-nvidia", "irq/-nvidia"], ["irq/35-nvidia2", "nvidia"]),
        ("*", ["", "x", "a/b c"], ["sixteen bytes ok"]),
        ("?*", ["x", "ab"], [""]),
        ("caf??", ["café", "cafes"], ["cafe", "café!"]),
        ("[vkps] Update", ["[vkps] Update"], ["v Update"]),
        ("a.b+c", ["a.b+c"], ["axbbc"]),
        ("system\\x2dfoo", ["system\\x2dfoo"], ["system-foo"]),
    ],
)
def test_comm_examples(text: str, yes: list[str], no: list[str]) -> None:
    glob = Glob.comm(text)
    assert [n for n in yes if not glob.matches(n)] == []
    assert [n for n in no if glob.matches(n)] == []
    assert [n for n in yes if not glob.matches(n.encode())] == []


def test_question_mark_is_one_byte_not_one_character() -> None:
    assert not Glob.comm("caf?").matches("café")
    assert Glob.comm("caf?").matches(b"caf\xff")


@pytest.mark.parametrize(
    ("text", "exact", "prefix"),
    [
        ("vllm", b"vllm", None),
        ("VLLM::EngineCor*", b"VLLM::EngineCor", None),
        ("*VLLM::*EngineCor", b"VLLM::EngineCor", None),
        ("VLLM::EngineCo*", None, b"VLLM::EngineCo"),
        ("VLLM::Worker**", None, b"VLLM::Worker"),
        ("*", None, b""),
        ("***", None, b""),
        ("?*", None, None),
        ("*?*", None, None),
        ("a*b", None, None),
        ("a*a*", None, None),
        ("VLLM::EngineCo?", None, None),
        ("VLLM::EngineCore", None, None),
        ("décodeur*", None, "décodeur".encode()),
    ],
)
def test_comm_exact_and_prefix(text: str, exact: bytes | None, prefix: bytes | None) -> None:
    glob = Glob.comm(text)
    assert (glob.exact, glob.prefix) == (exact, prefix)
    assert glob.subtree is None


def test_comm_longer_than_the_kernel_keeps_matches_nothing() -> None:
    for text in ("vllm-engine-core", "décodeur-vllm-1", "?" * 16, "a*bcdefghijklmnop"):
        glob = Glob.comm(text)
        assert glob.is_empty
        assert example(glob) is None
        assert not glob.matches(text)
        assert not intersects(glob, Glob.comm("*"))
        assert contains(Glob.comm("x"), glob)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", None, "empty"),
        ("a\0b", 1, "U+0000"),
        ("ab\n", 2, "U+000A"),
        ("a\tb", 1, "U+0009"),
        ("a\x7f", 1, "U+007F"),
        ("a\ud800", 1, "surrogate"),
        ("x" * 65, None, "64 bytes"),
        ("é" * 33, None, "64 bytes"),
        ("Worker_TP[0-9]", 9, "classes like [0-9]"),
        ("Worker[a-zA-Z_]x", 6, "classes"),
        ("w[!x]", 1, "classes"),
        ("w[^x]*", 1, "classes"),
        ("w[[:digit:]]", 1, "classes"),
        ("{vllm,sglang}*", 0, "alternatives"),
        ("a\\*b", 1, "escapes"),
        ("[kworker/0:1]", 0, "write kworker/0:1 "),
    ],
)
def test_comm_refusals(text: str, offset: int | None, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        Glob.comm(text)
    assert caught.value.offset == offset
    assert words in str(caught.value)
    assert not str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "text", ["x" * 64, "é" * 32, "a b~", "\x80", "\ud7ff", "\ue000", "a[b]", "{a}"]
)
def test_what_is_just_not_refused_of_comms(text: str) -> None:
    assert Glob.comm(text).text == text


def test_globs_are_values() -> None:
    a, b = Glob.comm("a"), Glob.comm("b*")
    assert sorted([b, a, Glob.cgroup("a")]) == [Glob.cgroup("a"), a, b]
    assert {a: 1}[Glob.comm("a")] == 1
    assert Glob.comm("a") != Glob.cgroup("a")
    assert str(b) == b.text == "b*"


# -- cgroup -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (
            "ci.slice/**",
            ["ci.slice", "ci.slice/a", "ci.slice/a/b"],
            ["ci.slices", "x/ci.slice", ""],
        ),
        ("ci.slice/*", ["ci.slice/a"], ["ci.slice", "ci.slice/a/b", "ci.slice/"]),
        ("**", ["", "a", "a/b"], ["a//b", "a/"]),
        ("**/*", ["a", "a/b"], [""]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax", "x/a", ""]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "a"]),
        ("a*b", ["ab", "axxb"], ["a/b", "ax/b"]),
        ("a?b", ["axb"], ["a/b", "ab"]),
        ("system\\x2dgetty.slice", ["system\\x2dgetty.slice"], []),
        ("docker-*.scope", ["docker-.scope", "docker-1f.scope"], ["docker-1f/x.scope"]),
        ("..?", ["..a"], [".."]),
        ("?.", ["a."], [".."]),
    ],
)
def test_cgroup_examples(text: str, yes: list[str], no: list[str]) -> None:
    glob = Glob.cgroup(text)
    assert [n for n in yes if not glob.matches(n)] == []
    assert [n for n in no if glob.matches(n)] == []
    assert [n for n in yes if not glob.matches("/" + n)] == [], "as /proc/PID/cgroup writes it"


@pytest.mark.parametrize(
    ("text", "exact", "prefix", "subtree"),
    [
        ("a/b", b"a/b", None, None),
        ("a/**", None, None, b"a"),
        ("a/**/**", None, None, b"a"),
        ("**", None, b"", b""),
        ("**/**", None, b"", b""),
        ("a/*/**", None, b"a/", None),
        ("a/**/*", None, b"a/", None),
        ("a*/**", None, b"a", None),
        ("a/b*/**", None, b"a/b", None),
        ("**/*", None, None, None),
        ("a*", None, None, None),
        ("a?/**", None, None, None),
    ],
)
def test_cgroup_shapes(
    text: str, exact: bytes | None, prefix: bytes | None, subtree: bytes | None
) -> None:
    glob = Glob.cgroup(text)
    assert (glob.exact, glob.prefix, glob.subtree) == (exact, prefix, subtree)
    assert glob.matches_all == (text in ("**", "**/**"))
    assert not glob.is_empty


@pytest.mark.parametrize(
    ("text", "head", "tail"),
    [
        ("a/**", b"a", b""),  # a itself is one of them
        ("**/a", b"", b"a"),
        ("a/**/b", b"a", b"b"),
        ("a/*/**/b", b"a/", b"b"),
        ("a/b*/c", b"a/b", b"/c"),
        ("a/b", b"a/b", b"a/b"),
    ],
)
def test_what_every_cgroup_begins_and_ends_with(text: str, head: bytes, tail: bytes) -> None:
    assert (Glob.cgroup(text).shape.head, Glob.cgroup(text).shape.tail) == (head, tail)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", None, "empty"),
        ("/ci.slice/**", 0, "write ci.slice/**"),
        ("/sys/fs/cgroup/ci.slice", 0, "write ci.slice"),
        ("/", 0, "write **"),
        ("/sys/fs/cgroup/", 0, "write **"),
        ("//a//", 0, "write a"),
        ("ci.slice/", 8, "ci.slice/**"),
        ("a//", 2, "write a for the cgroup alone, a/** with all below it"),
        ("a//b", 2, "empty component"),
        ("a/./b", 2, "component ."),
        ("../b", 0, "component .."),
        ("a/**x", 2, "whole component"),
        ("a/x**", 3, "whole component"),
        ("a/***", 2, "whole component"),
        ("a/[0-9]", 2, "classes"),
        ("a/{b,c}", 2, "alternatives"),
        ("a/b\\?", 3, "escapes"),
        ("a\nb", 1, "U+000A"),
        ("a/" * 300, None, "512 bytes"),
        ("b/" + "a" * 256, 2, "255 bytes"),
    ],
)
def test_cgroup_refusals(text: str, offset: int | None, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        Glob.cgroup(text)
    assert caught.value.offset == offset
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "/".join(["a" * 255, "b" * 254, "c"]),
        "*" + "a" * 255,
        "é" * 127 + "?",
        "...",
        ".a/a..",
        "x/...",
    ],
)
def test_what_is_just_not_refused_of_cgroups(text: str) -> None:
    assert Glob.cgroup(text).text == text
    assert not Glob.cgroup(text).is_empty


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("*a" * 17, 0, "more than 16 stars"),
        ("/".join(["*a"] * 17), 16 * 3, "more than 16 stars"),
        ("/".join(["**"] * 17), 16 * 3, "more than 16 stars"),
        ("x/**/" + "/".join("?" * 9), 5 + 8 * 2, "more than 8 components like ? behind **"),
        ("**/" + "/".join(["?*"] * 4 + ["a"] + ["*"] * 5), 3 + 4 * 3 + 2 + 4 * 2, "like * behind"),
    ],
)
def test_refusals_of_what_is_too_complex_point_at_what_is_too_much(
    text: str, offset: int, words: str
) -> None:
    with pytest.raises(PatternTooComplex, match=re.escape(words)) as caught:
        Glob.cgroup(text)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "text",
    ["/".join(["*a"] * 16), "/".join(["**"] * 16), "/".join(["?"] * 9 + ["**"] + ["?"] * 8)],
)
def test_as_much_as_is_allowed_is_read(text: str) -> None:
    assert Glob.cgroup(text).text == text


def test_pathological_cgroup_patterns_are_refused_before_they_cost_anything() -> None:
    for text in ("*a" * 100, "**/a/" * 17 + "b", "**/?" + "/*" * 9):
        with pytest.raises(PatternTooComplex):
            Glob.cgroup(text)


def test_hard_pairs_within_the_limits_are_answered() -> None:
    pod = "????????_????_????_????_????????????"
    hard = [
        "*a" * 16,
        "*" + "a*" * 15,
        "*a" + "?" * 60,
        "*" + "a?" * 30,
        "**/?" + "/*" * 7,
        "**" + "/*" * 8,
        "**/??/**/?" + "/*" * 5,
        "**" + "/?/**/??/**" * 3 + "/*" * 2,
        f"**/*-pod{pod}.slice/**",
        f"kubepods.slice/**/*-burst-pod{pod}.slice/cri-*.scope",
        "**/a/" * 16 + "b",
    ]
    globs = [Glob.cgroup(text) for text in hard]
    for a, b in product(globs, repeat=2):
        missing = difference_example(a, b)
        assert (missing is None) == contains(b, a)
        if missing is not None:
            assert a.matches(missing)
            assert not b.matches(missing)
    assert contains(globs[8], globs[9])
    assert contains(globs[4], globs[5]) is False


def test_as_case_of_a_cgroup_glob_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="case"):
        Glob.cgroup("a").as_case()


# -- relations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("VLLM::EngineCor", "VLLM::EngineCor*", True),
        ("VLLM::*", "VLLM::EngineCor", True),
        ("a*", "a??????????????", True),
        ("a??????????????*", "a??????????????", True),
        ("a??????????????", "a??????????????*", True),
        ("*a*", "a*", True),
        ("a*", "*a*", False),
        ("*??*", "*?*", False),
        ("?*", "*", False),
        # the only room for the second a is right behind or one further
        ("a*b?????????????", "ab?????????????", True),
    ],
)
def test_comm_containment_knows_the_fifteen_bytes(wide: str, narrow: str, expected: bool) -> None:
    assert contains(Glob.comm(wide), Glob.comm(narrow)) is expected


def test_examples_are_short_and_readable() -> None:
    comm, cgroup = Glob.comm, Glob.cgroup
    assert example(comm("irq/*-nvidia")) == "irq/-nvidia"
    assert example(comm("a?c")) == "axc"
    assert example(comm("x?x")) == "xax", "a byte no pattern names reads best"
    assert example(comm("*")) == "x"
    assert example(comm("stress*"), comm("*-ng*")) == "stress-ng"
    assert example(comm("ab??"), comm("*b*")) == "abxx", "the last place is as free as the others"
    assert example(comm("b??b?"), comm("*b*")) == "bxxbx"
    assert example(comm("abcdefgh*"), comm("*ijklmnop")) is None, "16 bytes"
    assert difference_example(comm("*"), comm("?*")) == ""
    assert difference_example(comm("vllm*"), comm("vllm")) == "vllmx"
    assert example(cgroup("**")) == "x"
    assert example(cgroup("a/**"), cgroup("**/b")) == "a/b"
    assert example(cgroup("?."), cgroup(".?")) is None, ".. is no cgroup"
    assert difference_example(cgroup("a/**"), cgroup("a/*")) == "a"
    assert difference_example(cgroup("**"), cgroup("*/**")) == ""


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (Glob.comm("abcdefgh*"), Glob.comm("*ijklmnop"), False),  # 16 bytes
        (Glob.comm("abcdefgh*"), Glob.comm("*hijklmno"), True),
        (Glob.comm("ab*"), Glob.comm("abc*"), True),
        (Glob.comm("ab*"), Glob.comm("ac*"), False),
        (Glob.cgroup("a/.*/**"), Glob.cgroup("a/?"), False),  # a/. is no cgroup
        (Glob.cgroup("a/.*/**"), Glob.cgroup("a/??"), True),
        (Glob.cgroup("a/.*/**"), Glob.cgroup("a/..*/**"), True),
        (Glob.cgroup("a/b*/**"), Glob.cgroup("a/c*/**"), False),
    ],
)
def test_what_starts_alike_need_not_meet(one: Glob, two: Glob, expected: bool) -> None:
    assert intersects(one, two) is expected
    assert intersects(two, one) is expected


def test_patterns_of_different_kinds_do_not_compare() -> None:
    a, b = Glob.comm("a"), Glob.cgroup("a")
    for ask in (contains, intersects, example, difference_example):
        with pytest.raises(ValueError, match="comm pattern and a cgroup pattern"):
            ask(a, b)


@settings(max_examples=60, deadline=None)
@given(COMM_TEXTS.filter(is_comm), st.lists(st.sampled_from(SHORT_NAMES), max_size=40))
def test_comm_matching_agrees_with_re(text: str, names: list[bytes]) -> None:
    glob = Glob.comm(text)
    for name in [*names, text.encode(), text.replace("*", "").replace("?", "z").encode()]:
        assert glob.matches(name) == comm_oracle(text, name), name


@settings(max_examples=10, deadline=None)
@given(*[COMM_TEXTS.map(lambda t: t.replace("b", "a")).filter(is_comm)] * 2)
def test_comm_relations_agree_with_all_names(text_a: str, text_b: str) -> None:
    a, b = Glob.comm(text_a), Glob.comm(text_b)
    in_a = {n for n in ALL_NAMES if comm_oracle(text_a, n)}
    in_b = {n for n in ALL_NAMES if comm_oracle(text_b, n)}
    assert a.is_empty == (not in_a)
    assert a.matches_all == (len(in_a) == len(ALL_NAMES))
    # b"a" alone could be one of many names when it stands for ?, so ask with the other byte too
    assert a.exact == (next(iter(in_a)) if len(in_a) == 1 and "?" not in text_a else None)
    if a.prefix is not None:
        assert in_a == {n for n in ALL_NAMES if n.startswith(a.prefix)}
    assert all(n.startswith(a.shape.head) and n.endswith(a.shape.tail) for n in in_a)
    assert contains(a, b) == (in_b <= in_a)
    assert intersects(a, b) == intersects(b, a) == bool(in_a & in_b)
    both, only_a = example(a, b), difference_example(a, b)
    assert (both is None) == (not in_a & in_b)
    assert (only_a is None) == (in_a <= in_b)
    if both is not None:
        assert comm_oracle(text_a, both.encode())
        assert comm_oracle(text_b, both.encode())
        if any(in_a & in_b):
            assert len(both) == min(len(n) for n in in_a & in_b if n)
    if only_a is not None:
        assert comm_oracle(text_a, only_a.encode())
        assert not comm_oracle(text_b, only_a.encode())


@settings(max_examples=100, deadline=None)
@given(*[COMM_TEXTS.filter(is_comm)] * 2)
def test_comm_relations_hold_for_short_names(text_a: str, text_b: str) -> None:
    a, b = Glob.comm(text_a), Glob.comm(text_b)
    in_a = {n for n in SHORT_NAMES if comm_oracle(text_a, n)}
    in_b = {n for n in SHORT_NAMES if comm_oracle(text_b, n)}
    assert intersects(a, b) or not in_a & in_b
    assert not contains(a, b) or in_b <= in_a
    both, only_a = example(a, b), difference_example(a, b)
    assert (both is not None) == intersects(a, b)
    assert (only_a is None) == contains(b, a)
    if both is not None:
        assert comm_oracle(text_a, both.encode())
        assert comm_oracle(text_b, both.encode())
    if only_a is not None:
        assert comm_oracle(text_a, only_a.encode())
        assert not comm_oracle(text_b, only_a.encode())


@settings(max_examples=120, deadline=None)
@given(PATH_TEXTS.filter(lambda t: "." not in t.split("/")), PATH_TEXTS)
def test_cgroup_relations_agree_with_brute_force(text_a: str, text_b: str) -> None:
    a, b = Glob.cgroup(text_a), Glob.cgroup(text_b)
    in_a = {p for p in SOME_PATHS if path_oracle(text_a, p)}
    in_b = {p for p in SOME_PATHS if path_oracle(text_b, p)}
    assert in_a == {p for p in SOME_PATHS if a.matches(p)}
    head, tail = a.shape.head.decode(), a.shape.tail.decode()
    assert all(p.startswith(head) and p.endswith(tail) for p in in_a)
    assert intersects(a, b) or not in_a & in_b
    assert not contains(a, b) or in_b <= in_a
    assert a.matches_all == contains(a, Glob.cgroup("**"))
    both, only_a = example(a, b), difference_example(a, b)
    assert (both is not None) == intersects(a, b) == intersects(b, a)
    assert (only_a is None) == contains(b, a)
    if both is not None:
        assert path_oracle(text_a, both)
        assert path_oracle(text_b, both)
    if only_a is not None:
        assert path_oracle(text_a, only_a)
        assert not path_oracle(text_b, only_a)
    if a.exact is not None:
        assert in_a <= {a.exact.decode()}
    if a.prefix is not None:
        assert in_a == {p for p in SOME_PATHS if p.startswith(a.prefix.decode())}
    if a.subtree:
        top = a.subtree.decode()
        assert in_a == {p for p in SOME_PATHS if p == top or p.startswith(top + "/")}


@settings(max_examples=40, deadline=None)
@given(*[PATH_TEXTS] * 3)
def test_containment_is_an_order(x: str, y: str, z: str) -> None:
    a, b, c = Glob.cgroup(x), Glob.cgroup(y), Glob.cgroup(z)
    assert contains(a, a)
    assert not (contains(a, b) and contains(b, c)) or contains(a, c)
    assert not contains(a, b) or intersects(a, b)


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("vllm", "vllm"),
        ("VLLM::EngineCor", "VLLM::EngineCor"),
        ("vllm-engine-core", "vllm-engine-cor"),
        ("vllm-decode-worker-a", "vllm-decode-wor"),
        ("décodeur-vllm-1", "décodeur-vllm-"),
        ("fourteen-bytesé", "fourteen-bytes"),
        ("thirteen-byte漢", "thirteen-byte"),
        ("twelve-bytes漢", "twelve-bytes漢"),
        ("thirteen-byt\U0001f600", "thirteen-byt"),
        ("", ""),
    ],
)
def test_truncate_comm(name: str, cut: str) -> None:
    assert truncate_comm(name) == cut


@given(st.text())
def test_truncated_names_fit_and_lose_at_most_three_bytes(name: str) -> None:
    cut = truncate_comm(name)
    size = len(cut.encode("utf-8", "surrogatepass"))
    assert name.startswith(cut)
    assert size <= COMM_BYTES
    assert cut == name or size >= COMM_BYTES - 3
    assert truncate_comm(cut) == cut


@settings(max_examples=150)
@given(st.text(max_size=30))
def test_any_text_is_a_glob_or_an_error_with_a_place(text: str) -> None:
    for make in (Glob.comm, Glob.cgroup):
        offset: int | None = 0
        try:
            glob = make(text)
        except PatternError as error:
            offset = error.offset
        else:
            witness = example(glob)
            assert (witness is None) == glob.is_empty
            assert witness is None or glob.matches(witness)
        assert offset is None or 0 <= offset < max(len(text), 1)
