"""CPU lists and masks, against sets of integers and the kernel's description of the formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.cpuset import MAX_CPUS, CpuListError, CpuSet, union
from compiler.facts.write import cpu_list

CPUS = st.frozensets(st.integers(0, MAX_CPUS - 1), max_size=40) | st.frozensets(
    st.integers(0, 70), max_size=71
)
SPACE = st.text(" \t", max_size=2)


@st.composite
def items(draw: st.DrawFn) -> tuple[str, frozenset[int]]:
    """An item of a list as text, and the CPUs it means by the kernel's rule."""
    first = draw(st.integers(0, 2000))
    last = first + draw(st.integers(0, 200))
    form = draw(st.sampled_from(["one", "range", "group"]))
    if form == "one":
        return str(first), frozenset({first})
    if form == "range":
        return f"{first}-{last}", frozenset(range(first, last + 1))
    group = draw(st.integers(1, 40))
    used = draw(st.integers(0, group))
    text = f"{first}-{last}:{used}/{group}"
    return text, frozenset(c for c in range(first, last + 1) if (c - first) % group < used)


@given(st.lists(st.tuples(items(), SPACE, SPACE), min_size=1, max_size=6), st.sampled_from("\n\0 "))
def test_a_list_is_the_union_of_its_items_in_any_order(
    parts: list[tuple[tuple[str, frozenset[int]], str, str]], end: str
) -> None:
    text = ",".join(f"{left}{item}{right}" for (item, _), left, right in parts) + end
    wanted = frozenset().union(*(cpus for (_, cpus), _, _ in parts))
    assert set(CpuSet.parse(text)) == wanted


@given(CPUS)
def test_what_is_written_is_read_back(cpus: frozenset[int]) -> None:
    made = CpuSet(cpus)
    assert CpuSet.parse(str(made)) == made
    assert CpuSet.parse(cpu_list(made)) == made
    words = made.words(32, MAX_CPUS // 32)
    assert CpuSet.parse_hex_mask(",".join(f"{word:08x}" for word in reversed(words))) == made
    assert CpuSet.from_mask(sum(1 << cpu for cpu in cpus)) == made


@given(CPUS, CPUS)
def test_the_algebra_is_that_of_sets(a: frozenset[int], b: frozenset[int]) -> None:
    one, two = CpuSet(a), CpuSet(b)
    assert set(one | two) == a | b
    assert set(one & two) == a & b
    assert set(one - two) == a - b
    assert (one <= two, one < two, one == two) == (a <= b, a < b, a == b)
    assert one.isdisjoint(two) == a.isdisjoint(b)
    assert list(one) == sorted(a)
    assert len(one) == len(a)
    assert bool(one) == bool(a)
    assert union((one, two)) == one | two
    assert [cpu in one for cpu in range(72)] == [cpu in a for cpu in range(72)]
    if a:
        assert (one.lowest, one.highest) == (min(a), max(a))


@pytest.mark.parametrize("text", ["", "\n", "(null)", "(null)\n", "\0", " \t\n"])
def test_nothing_is_the_empty_set(text: str) -> None:
    assert CpuSet.parse(text) == CpuSet()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0-31:2/4", {*range(0, 32, 4), *range(1, 32, 4)}),  # the first two of every four
        ("0-15,40-55,20-35", {*range(16), *range(40, 56), *range(20, 36)}),
        ("3,1,2,2-3", {1, 2, 3}),
        (f"{MAX_CPUS - 1}", {MAX_CPUS - 1}),
        ("0-6:4/4", set(range(7))),
        ("0-6:0/4", set()),
    ],
)
def test_lists_by_hand(text: str, wanted: set[int]) -> None:
    assert set(CpuSet.parse(text)) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3-1", "runs backwards; write 1-3"),
        ("1-4294967294", "CPU 4294967294 is above the highest CPU supported, 8191"),
        ("0-999999999999999999999", "is above the highest CPU supported"),
        (f"{MAX_CPUS}", f"CPU {MAX_CPUS}"),
        ("010", "010"),
        ("0,,1", "an empty item"),
        ("0,", "an empty item"),
        ("-1", "'-1' in CPU list"),
        ("1-2-3", "'1-2-3' in CPU list"),
        ("0x1", "'0x1' in CPU list"),
        ("1_0", "'1_0' in CPU list"),
        ("\u0661", "in CPU list"),  # a digit, but not one of ASCII
        ("0-7:1/0", "takes 1 of every 0"),
        ("0-7:3/2", "takes 3 of every 2"),
        ("all", "'all' in CPU list"),
        ("0 1", "'0 1' in CPU list"),
    ],
)
def test_junk_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(CpuListError) as caught:
        CpuSet.parse(text)
    assert said in str(caught.value)


def test_a_message_about_a_long_list_is_short() -> None:
    with pytest.raises(CpuListError) as caught:
        CpuSet.parse(",".join(["5-1"] * 100_000))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ff,00000000", "32-39"),
        ("f\n", "0-3"),
        ("00000000,00000000,00000001", "0"),
        ("80000000", "31"),
        ("0", ""),
        (",".join(["0"] * 100_000 + ["3"]), "0-1"),  # words that name no CPU, however many
    ],
)
def test_masks_by_hand(text: str, wanted: str) -> None:
    assert str(CpuSet.parse_hex_mask(text)) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "0x3", "fffffffff", "3,,3", "g", ",".join(["1"] + ["0"] * (MAX_CPUS // 32))],
)
def test_junk_masks_are_refused(text: str) -> None:
    with pytest.raises(CpuListError):
        CpuSet.parse_hex_mask(text)


@pytest.mark.parametrize("cpu", [-1, MAX_CPUS])
def test_ids_outside_the_range_are_refused(cpu: int) -> None:
    with pytest.raises(CpuListError, match="outside 0-8191"):
        CpuSet((cpu,))


def test_nothing_has_no_lowest_and_no_highest() -> None:
    with pytest.raises(ValueError, match="lowest"):
        CpuSet().lowest  # noqa: B018
    with pytest.raises(ValueError, match="highest"):
        CpuSet().highest  # noqa: B018


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CpuListError, match="CPU 64 does not fit in 64 bits"):
        CpuSet((64,)).words(32, 2)
