"""Versions and ranges: order, ends, emptiness."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.versions import Range, Version, VersionError, contains, intersects, overlaps


@pytest.mark.parametrize(
    ("range_text", "inside", "outside"),
    [
        ("*", ["0", "0.0.1", "999.1"], []),
        (">=0.10.1", ["0.10.1", "0.10.1.0", "0.10.2", "0.11", "1"], ["0.10.0", "0.10", "0.9.9"]),
        (">=0.10.1,<0.25", ["0.10.1", "0.24.9", "0.24.0.5"], ["0.25", "0.25.0", "0.10", "1.0"]),
        ("<=0.24", ["0.24", "0.24.0", "0.9"], ["0.24.1", "0.25"]),
        (">0.24", ["0.24.0.1", "0.25"], ["0.24", "0.24.0"]),
        ("==0.5.2", ["0.5.2", "0.5.2.0"], ["0.5.2.1", "0.5.1", "0.5"]),
        ("0.5.2", ["0.5.2"], ["0.5.3"]),
        (">=1 , <2", ["1", "1.9"], ["2", "0.9"]),
    ],
)
def test_what_is_in_a_range(range_text: str, inside: list[str], outside: list[str]) -> None:
    for version in inside:
        assert contains(range_text, version), version
    for version in outside:
        assert not contains(range_text, version), version


def test_numbers_are_compared_as_numbers() -> None:
    assert Version.parse("0.9") < Version.parse("0.10") < Version.parse("0.10.1")
    assert Version.parse("1.0.0") == Version.parse("1")
    assert hash(Version.parse("1.0.0")) == hash(Version.parse("1"))
    assert str(Version.parse("1.0.0")) == "1.0.0"


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        (">=2,<1", True),
        (">1,<1", True),
        (">=1,<1", True),
        (">1,<=1", True),
        (">=1,<=1.0", False),
        (">1,<2", False),
        (">1,<1.0.0.1", False),  # 1.0.0.0.1 lies between
        ("<0", True),
        ("<=0", False),
        ("*", False),
        ("==1,>=2", True),
    ],
)
def test_emptiness(text: str, empty: bool) -> None:
    assert Range.parse(text).is_empty is empty


def test_overlap_with_the_known_versions_includes_both_ends() -> None:
    known = ("0.6.6", "0.33.0")
    assert overlaps(">=0.33", known)
    assert not overlaps(">0.33", known)
    assert overlaps("<=0.6.6", known)
    assert not overlaps("<0.6.6", known)
    assert overlaps("==0.10.1", known)
    assert not overlaps(">=2,<1", known)
    with pytest.raises(ValueError, match="empty"):
        overlaps("*", ())


@pytest.mark.parametrize(
    "text", ["", "v1", "1.", ".1", "1..2", "1.2-rc1", "1" * 10, ".".join("111111111"), "٣"]
)
def test_malformed_versions(text: str) -> None:
    with pytest.raises(VersionError, match="is not a version"):
        Version.parse(text)


@pytest.mark.parametrize("text", ["", ",", ">=1,", "~=1", "=>1", ">= ", ">=1 <2", "1,*", "**"])
def test_malformed_ranges(text: str) -> None:
    with pytest.raises(VersionError):
        Range.parse(text)


NUMBERS = st.lists(st.integers(0, 2), min_size=1, max_size=3)
VERSIONS = NUMBERS.map(lambda numbers: ".".join(map(str, numbers)))
RANGES = st.lists(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=="]), VERSIONS), min_size=1, max_size=3
)
# Every version a bound of at most 3 numbers up to 2 can tell apart, and one between neighbours.
ALL = [
    Version.parse(f"{a}.{b}.{c}.{d}")
    for a in range(4)
    for b in range(4)
    for c in range(4)
    for d in (0, 1)
]


def holds(comparisons: list[tuple[str, str]], version: Version) -> bool:
    width = 4
    left = (version.numbers + (0,) * width)[:width]
    for operator, text in comparisons:
        right = (*map(int, text.split(".")), *(0,) * width)[:width]
        order = {
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
            "==": left == right,
        }
        if not order[operator]:
            return False
    return True


@settings(max_examples=200)
@given(RANGES)
def test_ranges_agree_with_brute_force(comparisons: list[tuple[str, str]]) -> None:
    parsed = Range.parse(",".join(operator + text for operator, text in comparisons))
    members = [version for version in ALL if holds(comparisons, version)]
    assert [version for version in ALL if version in parsed] == members
    assert parsed.is_empty == (not members)


@settings(max_examples=200)
@given(RANGES, RANGES)
def test_intersections_agree_with_brute_force(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    texts = [",".join(operator + text for operator, text in part) for part in (one, other)]
    members = [v for v in ALL if holds(one, v) and holds(other, v)]
    assert intersects(*texts) == bool(members)


@settings(max_examples=100)
@given(NUMBERS, NUMBERS)
def test_order_is_that_of_padded_numbers(one: list[int], other: list[int]) -> None:
    a, b = (Version.parse(".".join(map(str, numbers))) for numbers in (one, other))
    padded = [tuple(numbers + [0] * (3 - len(numbers))) for numbers in (one, other)]
    assert (a < b) == (padded[0] < padded[1])
    assert (a == b) == (padded[0] == padded[1])
