"""What patterns are written as for other programs, read by those programs themselves.

awk, grep and the shells run once per example, over a batch of patterns and names.  Programs that
are not installed are left out; mawk, dash, grep or their likes are on every machine that can run
the emitted scripts at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from compiler.patterns import CmdlineRegex, Glob, PatternError

ENV = {"LC_ALL": "C", "PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def installed(*commands: str) -> list[list[str]]:
    found = [c.split() for c in commands if shutil.which(c.split()[0])]
    return found if found else [[commands[0]]]  # so that a machine with none of them fails


AWKS = installed("awk", "mawk", "gawk --posix", "gawk", "busybox awk")
GREPS = installed("grep -E", "busybox grep -E")
SHELLS = installed("sh", "dash", "busybox sh", "bash")


def run(command: Sequence[str], stdin: bytes) -> bytes:
    done = subprocess.run(command, input=stdin, env=ENV, capture_output=True, check=False)
    assert done.stderr == b"", (command, done.stderr)
    return done.stdout


def awk_answers(awk: list[str], pairs: list[tuple[str, bytes]]) -> list[bool]:
    """Ask awk whether each expression, read as data and not as program text, is in each name."""
    lines = b"".join(pattern.encode() + b"\t" + name + b"\n" for pattern, name in pairs)
    out = run([*awk, "-F\t", "{ print ($2 ~ $1) }"], lines)
    return [answer == b"1" for answer in out.split()]


def case_answers(shell: list[str], pairs: list[tuple[str, bytes]]) -> list[bool]:
    """Ask a shell whether each ``case`` pattern takes each name; names come as input lines."""
    script = "".join(
        f"IFS= read -r n; case $n in {pattern}) echo 1;; *) echo 0;; esac\n" for pattern, _ in pairs
    )
    stdin = b"".join(name + b"\n" for _, name in pairs)
    done = subprocess.run(
        [*shell, "-c", script], input=stdin, env=ENV, capture_output=True, check=False
    )
    assert done.stderr == b"", done.stderr
    return [answer == b"1" for answer in done.stdout.split()]


def wrong(pairs: list[tuple[object, bytes]], said: list[bool], right: list[bool]) -> list[object]:
    assert len(said) == len(right) == len(pairs)
    return [(p, s) for p, s, r in zip(pairs, said, right, strict=True) if s != r]


SPECIAL = ".+()[]{}|^$\\/'\"`!~#&;<>=%@-_,: "
COMM_CHARS = st.text(st.sampled_from("ab*?" + SPECIAL + "é漢"), min_size=1, max_size=8)
NAMES = st.text(st.sampled_from("ab" + SPECIAL + "é漢"), max_size=5).filter(
    lambda n: len(n.encode()) <= 15
)


def comm_or_none(text: str) -> Glob | None:
    try:
        return Glob.comm(text)
    except PatternError:
        return None


GLOBS = COMM_CHARS.map(comm_or_none).filter(lambda g: g is not None)
PATHS = st.lists(st.text(st.sampled_from("ab.-\\@"), min_size=1, max_size=3), max_size=4).map(
    "/".join
)


def cgroup_or_none(text: str) -> Glob | None:
    try:
        return Glob.cgroup(text)
    except PatternError:
        return None


CGROUPS = (
    st.lists(
        st.one_of(st.just("**"), st.text(st.sampled_from("ab*?.-\\@"), min_size=1, max_size=3)),
        min_size=1,
        max_size=4,
    )
    .map("/".join)
    .map(cgroup_or_none)
    .filter(lambda g: g is not None)
)


def fitting(glob: Glob) -> bytes:
    """Return a name that matches, so that batches hold more than mismatches."""
    text = glob.text.replace("**", "x").replace("*", "").replace("?", "y")
    return text.removeprefix("/").encode()


@pytest.mark.parametrize("char", [*SPECIAL, "é", "*", "?"])
def test_every_special_character_is_literal_everywhere(char: str) -> None:
    text = f"a{char}b" if char not in "*?" else f"a{char}"
    glob = Glob.comm(text)
    names = [f"a{char}b".encode(), b"ab", b"a", b"aXb", b"aa", b"b", b"", b"a\\b", "aéb".encode()]
    right = [glob.matches(name) for name in names]
    assert any(right)
    assert not all(right)
    for awk in AWKS:
        assert awk_answers(awk, [(glob.as_ere(), n) for n in names]) == right, awk
    for grep in GREPS:
        out = run([*grep, "-n", "-e", glob.as_ere()], b"".join(n + b"\n" for n in names))
        hits = {int(line.split(b":")[0]) - 1 for line in out.splitlines()}
        assert [i in hits for i in range(len(names))] == right, grep
    for shell in SHELLS:
        assert case_answers(shell, [(glob.as_case(), n) for n in names]) == right, shell


@settings(max_examples=12, deadline=None)
@given(st.lists(GLOBS, min_size=5, max_size=25), st.lists(NAMES, min_size=3, max_size=12))
def test_comm_globs_in_awk_and_shells(globs: list[Glob], names: list[str]) -> None:
    pairs = [(g, n.encode()) for g in globs for n in names]
    pairs += [(g, fitting(g)) for g in globs if len(fitting(g)) <= 15]
    right = [g.matches(n) for g, n in pairs]
    for awk in AWKS:
        said = awk_answers(awk, [(g.as_ere(), n) for g, n in pairs])
        assert wrong(pairs, said, right) == [], awk
    for shell in SHELLS:
        said = case_answers(shell, [(g.as_case(), n) for g, n in pairs])
        assert wrong(pairs, said, right) == [], shell


@settings(max_examples=12, deadline=None)
@given(st.lists(CGROUPS, min_size=5, max_size=25), st.lists(PATHS, min_size=3, max_size=12))
def test_cgroup_globs_in_awk(globs: list[Glob], paths: list[str]) -> None:
    real = [p for p in paths if not {".", ".."} & set(p.split("/"))]
    pairs = [(g, p.encode()) for g in globs for p in ["", "a", "a/b", *real]]
    pairs += [(g, fitting(g)) for g in globs if g.matches(fitting(g))]
    right = [g.matches(p) for g, p in pairs]
    for awk in AWKS:
        said = awk_answers(awk, [(g.as_ere(), p) for g, p in pairs])
        assert wrong(pairs, said, right) == [], awk


# -- command lines ------------------------------------------------------------------------------

ATOMS = st.sampled_from(
    ["a", "b", "\\.", ".", "[ab]", "[^a]", "[a-b]", "[]a]", "[^]a]", "[b-]", "[-^]", "[a^]", "[.-]"]
    + ["\\" + c for c in "()[]{}|^$\\/*+?-"]
    + ["/", "-", "é", "}", "]", " ", "[Z-a]", "[[]", "[!-~]", "[^!-~]", "[0-9a-fA-F_]"]
)


def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantified = st.tuples(st.one_of(ATOMS, inner.map("({})".format)), st.sampled_from("*+?"))
    piece = st.one_of(
        ATOMS, quantified.map("".join), inner.map("({})".format), st.sampled_from("^$")
    )
    sequence = st.lists(piece, min_size=1, max_size=4).map("".join)
    return st.one_of(sequence, st.tuples(sequence, sequence).map("|".join))


def parsed(text: str) -> CmdlineRegex:
    try:
        return CmdlineRegex.parse(text)
    except PatternError as error:
        if "^ in what + repeats" not in str(error):
            raise
        reject()


REGEXES = st.recursive(ATOMS, extend, max_leaves=6).map(parsed)
LINES = st.text(st.sampled_from("aabb.()[]{}|^$\\/*+?- éZ_0"), min_size=1, max_size=6).map(
    str.encode
)


@settings(max_examples=8, deadline=None)
@given(st.lists(REGEXES, min_size=5, max_size=12), st.lists(LINES, min_size=10, max_size=30))
def test_cmdline_expressions_in_grep_and_awk(
    regexes: list[CmdlineRegex], lines: list[bytes]
) -> None:
    for regex in regexes:
        right = [regex.matches(line) for line in lines]
        for grep in GREPS:
            out = run([*grep, "-n", "-e", regex.as_ere()], b"".join(n + b"\n" for n in lines))
            hits = {int(line.split(b":")[0]) - 1 for line in out.splitlines()}
            said = [i in hits for i in range(len(lines))]
            assert wrong([(regex, n) for n in lines], said, right) == [], (grep, regex.as_ere())
    pairs = [(r, n) for r in regexes if r.awk_safe for n in lines]
    for awk in AWKS:
        said = awk_answers(awk, [(r.as_ere(), n) for r, n in pairs])
        assert wrong(pairs, said, [r.matches(n) for r, n in pairs]) == [], awk


@settings(max_examples=60, deadline=None)
@given(REGEXES)
def test_emitted_expressions_are_stable(
    regex: CmdlineRegex,
) -> None:
    ere = regex.as_ere()
    if "\\\\" not in ere:  # [\\] is how awk wants it, and the subset refuses it in a class
        assert CmdlineRegex.parse(ere).as_ere() == ere


@pytest.mark.parametrize(
    ("text", "ere"),
    [
        ("vllm serve", "vllm serve"),
        ("sglang\\.launch", "sglang[.]launch"),
        ("^a(b|c)*$", "^a(b|c)*$"),
        ("é+", "(é)+"),
        ("Āx", "Āx"),  # its second byte is the first that is not ASCII
        ("(ab)?", "(ab)?"),
        ("(a)b", "ab"),
        ("[^a-z]", "[^a-z]"),
        ("[a-z0-9_-]", "[0-9_a-z-]"),
        ("[a-c]", "[abc]"),
        ("[dabc]", "[a-d]"),
        ("[W-Z]", "[W-Z]"),
        ("[^w-z6-9]", "[^6-9w-z]"),
        ("[X-c]", "[]XYZ_`abc[\\\\^]"),
        ("[-^]", "[-^]"),
        ("a|^b", "a|^b"),
        ("\\^\\\\", "\\^[\\\\]"),
    ],
)
def test_emitted_expressions(text: str, ere: str) -> None:
    assert CmdlineRegex.parse(text).as_ere() == ere


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("vllm", True),
        ("^a|b$", True),
        ("(^|/)vllm( |$)", True),
        ("^(a|b)+$", True),
        ("a^b", False),
        ("$(a|b)", False),
        ("(^a)*b", False),
        ("(a$)?", False),
    ],
)
def test_anchors_inside_are_not_for_awk(text: str, safe: bool) -> None:
    assert CmdlineRegex.parse(text).awk_safe is safe


def test_emitted_globs() -> None:
    assert Glob.comm("VLLM::EngineCor*").as_ere() == "^VLLM::EngineCor$"
    assert Glob.comm("irq/*-nvidia").as_ere() == "^irq/.*-nvidia$"
    assert Glob.comm("it's*").as_case() == "'it'\\''s'*"
    assert Glob.cgroup("ci.slice/**").as_ere() == "^ci[.]slice(/.*)?$"
    assert Glob.cgroup("a/**/b?").as_ere() == "^a(/.*)?/b[^/]$"
