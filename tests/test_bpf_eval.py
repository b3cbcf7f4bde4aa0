"""A seed, evaluated as the kernel would, gives every thread the plan's own first match."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import targets.bpf.layout
import targets.bpf.matchers
import targets.bpf.seed
import targets.bpf.vectors
from compiler.plan import NodePlan
from targets.bpf import TARGET
from targets.bpf.batch import stage_batch
from targets.bpf.matchers import Name
from targets.bpf.seed import build_seed
from tests.bpf_eval import (
    Thread,
    check,
    dump_of_document,
    dump_of_stage,
    first_match,
    fits,
    lookup_rule,
    lpm_lookup,
)
from tests.bpf_plans import RICH_RULES, THREADS, plan, rule


def emitted(a_plan: NodePlan) -> dict[str, bytes]:
    return {artifact.path: artifact.data for artifact in TARGET.emit(a_plan)}


def dump(a_plan: NodePlan) -> Mapping[str, Mapping[bytes, bytes]]:
    return dump_of_stage(stage_batch(build_seed(a_plan)))


def test_every_supported_kind_of_rule() -> None:
    a_plan = plan(RICH_RULES)
    check(dump(a_plan), a_plan, THREADS)
    # The threads are worth something: each rule has one, but for 7, which stands behind its wider
    # neighbour, and some are had by none.
    assert {first_match(a_plan, thread) for thread in THREADS} == {None, *range(14)} - {7}


def test_expected_rules_by_hand() -> None:
    """The direct first match is itself checked against answers written down."""
    a_plan = plan(RICH_RULES)
    maps = dump(a_plan)
    for thread, number in [
        (Thread(b"irq/12-nvidia", kernel=True), 0),
        (Thread(b"irq/12-nvidia2", kernel=True), 1),
        (Thread(b"irq/12-nvidia"), None),
        (Thread(b"VLLM::EngineCor", cgroup=(b"kubepods.slice", b"x")), 2),
        (Thread(b"VLLM::EngineCor", leader=b"python3"), 3),
        (Thread(b"VLLM::EngineCor"), 4),
        (Thread(b"VLLM::EngineCo", cgroup=(b"q", b"serving.scope")), 5),
        (Thread(b"VLLM::EngineCo"), 13),
        (Thread(b"stress-ng-cpu"), 6),
        (Thread(b"bash", cgroup=(b"ci.slice",)), 8),
        (Thread(b"bash", cgroup=(b"a", b"b", b"c")), 9),
        (Thread(b"bash", cgroup=(b"a", b"b", b"c", b"d")), 10),
        (Thread(b"bash", leader=b"pypy", cgroup=(b"z",)), 11),
        (Thread(b"bash", leader=b"pypy", cgroup=(b"z", b"z")), None),
        (Thread(b"kworker/0:0", kernel=True), None),
    ]:
        assert first_match(a_plan, thread) == number, thread
        assert lookup_rule(maps, thread) == number, thread


# --- random rules and threads ----------------------------------------------------------------

# Few letters, so that names meet; lengths to the limit of 15, and one byte of a longer character.
names = st.one_of(
    st.text("ab", max_size=4),
    st.sampled_from(["a" * 13, "a" * 14, "a" * 15, "a" * 14 + "b", "é", "éa"]),
)


@st.composite
def comm_globs(draw: st.DrawFn) -> str:
    name = draw(names)
    star = draw(st.booleans())
    return name + "*" if star or not name else name


components = st.sampled_from(["x", "y", "xx", "x" * 63, "y" * 62])
inner = st.one_of(components, st.just("*"))


@st.composite
def cgroup_globs(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)) == 0:
        return f"**/{draw(components)}/**"
    size = draw(st.sampled_from([0, 1, 1, 2, 2, 3, 7, 8]))
    parts = draw(st.lists(inner, min_size=size, max_size=size))
    tail = draw(st.sampled_from([[], ["**"], ["**", "*"]]))
    if tail == ["**", "*"] and size == 8:
        tail = ["**"]
    return "/".join(parts + tail) or "**"


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, str]:
    if draw(st.integers(0, 5)) == 0:
        return {"kthread": draw(comm_globs())}
    result: dict[str, str] = {}
    for name, globs in (
        ("comm", comm_globs()),
        ("leader_comm", comm_globs()),
        ("cgroup", cgroup_globs()),
    ):
        if draw(st.booleans()):
            result[name] = draw(globs)
    if draw(st.integers(0, 40)) == 0:  # nothing can be both; the seed must agree
        result["kthread"] = "*"
    return result


threads = st.builds(
    Thread,
    comm=names.map(str.encode),
    leader=names.map(str.encode),
    cgroup=st.lists(
        st.sampled_from([b"x", b"y", b"xx", b"x" * 63, b"x" * 64, b"y" * 70]),
        max_size=11,
    ).map(tuple),
    kernel=st.sampled_from([False, False, False, True]),
    rubbish=st.sampled_from([b"", b"b", b"\0a", b"aaaa"]),
)


@settings(max_examples=150)
@given(
    matches=st.lists(conditions(), max_size=12),
    asked=st.lists(threads, min_size=10, max_size=40),
    data=st.data(),
)
@example(matches=[{"comm": "a*"}] * 3, asked=[Thread(b"a")], data=None)
def test_random_rules_and_threads(
    matches: list[dict[str, str]], asked: list[Thread], data: Any
) -> None:
    start = 0 if data is None else data.draw(st.sampled_from([0, 50, 60, 120, 190, 244]))
    step = 1 if data is None or start == 244 else data.draw(st.sampled_from([1, 2, 5]))
    rules = [rule(start + step * n, n % 4, **match) for n, match in enumerate(matches)]
    a_plan = plan(rules, default_band=2)
    files = emitted(a_plan)
    maps = dump_of_stage(files["bpf/stage.batch"].decode())
    check(maps, a_plan, asked)
    assert dump_of_document(files["bpf/seed.json"]) == maps


def test_all_256_rules() -> None:
    rules = [rule(n, n % 4, comm=f"n{n}*" if n % 2 else f"n{n}") for n in range(256)]
    a_plan = plan(rules)
    check(dump(a_plan), a_plan, [Thread(f"n{n}".encode()) for n in range(300)])


def test_lpm_lookup_is_by_bits_and_longest() -> None:
    entries = {
        b"\x08\0\0\0a" + bytes(15): b"a",
        b"\x10\0\0\0ab" + bytes(14): b"ab",
        b"\x0c\0\0\0q" + b"p" + bytes(14): b"12 bits",
    }
    assert lpm_lookup(entries, 128, b"abc".ljust(16, b"\0")) == b"ab"
    assert lpm_lookup(entries, 128, b"ac".ljust(16, b"\0")) == b"a"
    assert lpm_lookup(entries, 8, b"abc".ljust(16, b"\0")) == b"a"
    assert lpm_lookup(entries, 128, b"q\x7f".ljust(16, b"\0")) == b"12 bits"
    assert lpm_lookup(entries, 128, b"q\x8f".ljust(16, b"\0")) is None


# --- teeth: each of these mistakes must be seen ------------------------------------------------


def _short_prefix(name: bytes, *, exact: bool) -> bytes:
    bits = 8 * len(name)  # the NUL of an exact name forgotten
    return bits.to_bytes(4, "little") + name.ljust(16, b"\0")


def _long_prefix(name: bytes, *, exact: bool) -> bytes:
    bits = min(8 * (len(name) + 1), 128)  # a NUL behind a prefix too
    return bits.to_bytes(4, "little") + name.ljust(16, b"\0")


def _not_ored(names: Mapping[Name, int]) -> dict[Name, int]:
    return dict(names)


def _swapped(first: str, second: str) -> Callable[..., bytes]:
    def pack(**fields: Any) -> bytes:
        fields[first], fields[second] = fields[second], fields[first]
        return targets.bpf.layout.pack_band(**fields)

    return pack


def _shifted_cpus(**fields: Any) -> bytes:
    cpus = type(fields["cpus"])(cpu + 1 for cpu in fields["cpus"])
    return targets.bpf.layout.pack_band(**fields | {"cpus": cpus})


def _flags_lost(*lost: str) -> Callable[..., bytes]:
    def pack(**fields: Any) -> bytes:
        fields["flags"] = [flag for flag in fields["flags"] if flag not in lost]
        return targets.bpf.layout.pack_band(**fields)

    return pack


def _shallow_key(depth: int, name: bytes) -> bytes:
    return targets.bpf.layout.pack_cgroup_key(max(depth - 1, 0), name)


def _big_endian(rules: int) -> bytes:
    return rules.to_bytes(32, "big")


def _swapped_words(rules: int) -> bytes:
    data = rules.to_bytes(32, "little")
    return data[8:16] + data[:8] + data[16:]


def _head_swapped(**fields: int) -> bytes:
    fields["n_rules"], fields["default_band"] = fields["default_band"], fields["n_rules"]
    return targets.bpf.layout.pack_head(**fields)


SEED = targets.bpf.seed
MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "exact name without its NUL": (SEED, "pack_comm_key", _short_prefix),
    "prefix with a NUL": (SEED, "pack_comm_key", _long_prefix),
    "shorter prefixes not added": (targets.bpf.vectors, "with_shorter", _not_ored),
    "slice and weight swapped": (SEED, "pack_band", _swapped("slice_ns", "weight")),
    "weight and floor swapped": (SEED, "pack_band", _swapped("weight", "floor")),
    "tier and order swapped": (SEED, "pack_band", _swapped("tier", "order")),
    "domain off by one": (SEED, "pack_band", _shifted_cpus),
    "preempt flag missing": (SEED, "pack_band", _flags_lost("preempt")),
    "hard flag missing": (SEED, "pack_band", _flags_lost("hard")),
    "soft flag missing": (SEED, "pack_band", _flags_lost("soft")),
    "idle-core flag missing": (SEED, "pack_band", _flags_lost("idle-core")),
    "cgroup depth off by one": (SEED, "pack_cgroup_key", _shallow_key),
    "vectors big-endian": (SEED, "pack_vec", _big_endian),
    "vector words swapped": (SEED, "pack_vec", _swapped_words),
    "head fields swapped": (SEED, "pack_head", _head_swapped),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a_plan = plan(RICH_RULES)
    check(dump(a_plan), a_plan, THREADS)
    monkeypatch.setattr(*MISTAKES[mistake])
    with pytest.raises(AssertionError):
        check(dump(a_plan), a_plan, THREADS)


@pytest.mark.parametrize("dimension", [d for d in range(14) if d not in (4, 2)])
def test_a_lost_dontcare_set_is_seen(dimension: int) -> None:
    a_plan = plan(RICH_RULES)
    maps = {name: dict(entries) for name, entries in dump(a_plan).items()}
    maps["dontcare"][dimension.to_bytes(4, "little")] = bytes(32)
    with pytest.raises(AssertionError):
        check(maps, a_plan, THREADS)


def test_level_and_kind_are_needed() -> None:
    a_plan = plan(RICH_RULES)
    for table, size in (("level", 10), ("kind", 2)):
        maps = {name: dict(entries) for name, entries in dump(a_plan).items()}
        maps[table] = {n.to_bytes(4, "little"): b"\xff" * 32 for n in range(size)}
        with pytest.raises(AssertionError):
            check(maps, a_plan, THREADS)


def test_threads_are_diverse() -> None:
    """Any two of the rules above are told apart by some thread."""
    for one, other in itertools.combinations(RICH_RULES, 2):
        assert any(fits(one.match, t) != fits(other.match, t) for t in THREADS)
