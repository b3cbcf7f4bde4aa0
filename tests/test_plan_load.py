"""A plan read back: what ``NodePlan.data`` leaves out is filled in, nothing else is forgiven."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from compiler.artifact import canonical_json
from compiler.plan import NodePlan

GOLDEN = Path(__file__).parent / "golden"


@cache
def golden() -> tuple[Path, ...]:
    return tuple(sorted(GOLDEN.rglob("plan.json")))


@cache
def written(number: int) -> bytes:
    return golden()[number].read_bytes()


PLANS = st.integers(0, len(golden()) - 1)


def test_there_are_plans_with_and_without_nulls() -> None:
    assert len(golden()) >= 5
    refused = 0
    for number in range(len(golden())):
        try:
            NodePlan.model_validate(json.loads(written(number)))
        except ValidationError:
            refused += 1
    assert refused  # else there is nothing to fill in, and the tests below show nothing


@settings(max_examples=20, deadline=None)
@given(number=PLANS)
def test_what_a_plan_writes_is_the_plan(number: int) -> None:
    data = json.loads(written(number))
    before = deepcopy(data)
    plan = NodePlan.load(data)
    assert data == before
    assert plan.data() == data
    assert canonical_json(plan.data()) == written(number)
    assert NodePlan.load(plan.data()) == plan


def keys(value: Any, route: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the routes of all keys of mappings below a value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*route, key)
            yield from keys(item, (*route, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from keys(item, (*route, index))


def parent(data: Any, route: tuple[Any, ...]) -> Any:
    for step in route[:-1]:
        data = data[step]
    return data


@settings(max_examples=40, deadline=None)
@given(number=PLANS, seed=st.integers(0, 2**32))
def test_a_key_that_is_lost_is_an_error_or_one_that_may_be_absent(number: int, seed: int) -> None:
    data = json.loads(written(number))
    route = Random(seed).choice(list(keys(data)))
    del parent(data, route)[route[-1]]
    before = deepcopy(data)
    try:
        plan = NodePlan.load(data)
    except ValidationError as error:
        at = {tuple(row["loc"]) for row in error.errors()}
        assert route in at
    else:  # it has a default, or null is one of its values: nothing was made up
        said = plan.data()
        assert all(parent(said, r)[r[-1]] == parent(data, r)[r[-1]] for r in leaves(data))
    assert data == before


def leaves(data: Any) -> list[tuple[Any, ...]]:
    return [r for r in keys(data) if not isinstance(parent(data, r)[r[-1]], dict | list)]


@pytest.mark.parametrize("name", ["mode", "fingerprint", "machine", "rules", "defaultBand"])
def test_what_cannot_be_null_must_be_there(name: str) -> None:
    data = json.loads(written(0))
    del data[name]
    with pytest.raises(ValidationError) as caught:
        NodePlan.load(data)
    assert [row["loc"] for row in caught.value.errors()] == [(name,)]


def test_other_errors_are_not_hidden_by_what_is_left_out() -> None:
    data = json.loads(written(0))
    data["rules"] = 7
    data["surplus"] = 1
    with pytest.raises(ValidationError) as caught:
        NodePlan.load(data)
    assert {"rules", "surplus"} <= {row["loc"][0] for row in caught.value.errors()}
