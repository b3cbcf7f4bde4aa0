"""What was compiled for the node: the directory ``nodes/NODE`` of an output tree."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from compiler.fingerprint import cpu_text, device_digest, digest
from compiler.patterns import PatternError
from compiler.plan import MAX_BANDS, MAX_RULES, PLAN_VERSION, NodePlan
from compiler.verify.matching import RuleIndex
from compiler.verify.seedfile import SeedFile, parse_seed

MAX_BYTES: Final = 32 << 20
"""Bytes of one JSON file; a full seed has two million."""
_TARGETS: Final = ("bpf", "cpuset", "irq", "taskset")
"""Targets whose effect can be seen on a node."""


class NodeDirError(Exception):
    """The directory is not what ``tierc build`` wrote for a node; the message says why."""


@dataclass(frozen=True, slots=True)
class NodeDir:
    """What is in the directory.

    Attributes:
        path: the directory as it was given.
        plan: the plan.
        seed: the map content of ``bpf/seed.json``; None without.
        targets: names of the targets that have files there, sorted.
    """

    path: Path
    plan: NodePlan
    seed: SeedFile | None
    targets: tuple[str, ...]


def load_node_dir(path: Path) -> NodeDir:
    """Read the directory of a node.

    Raises:
        NodeDirError: it has no plan of this version, or what it has is damaged or of two builds.
    """
    if not os.path.isdir(path):
        raise NodeDirError(
            f"{path} is not a directory that can be read; give DIR/nodes/NODE of a built tree"
        )
    plan = _plan(path, path / "plan.json")
    targets = tuple(
        name
        for name in _TARGETS
        if any(os.path.isfile(path / name / file) for file in ("apply.sh", "seed.json"))
    )
    seed = None
    if "bpf" in targets:
        file = path / "bpf/seed.json"
        try:
            seed = parse_seed(_json(file))
        except ValueError as error:
            raise NodeDirError(f"{file} is damaged: {error}") from error
        _same_build(file, seed, plan)
    return NodeDir(path, plan, seed, targets)


def _json(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise NodeDirError(f"cannot read {file}: {(error.strerror or '').lower()}") from error
    if len(data) > MAX_BYTES:
        raise NodeDirError(f"{file} is larger than {MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "not JSON in UTF-8"
        raise NodeDirError(f"{file} is damaged: {why[:1].lower()}{why[1:]}") from error
    if not isinstance(value, dict):
        raise NodeDirError(f"{file} is damaged: not a JSON object")
    return value


def _plan(path: Path, file: Path) -> NodePlan:
    if not os.path.isfile(file):
        hint = ""
        if os.path.isdir(path / "nodes"):
            hint = f"; it is a whole tree, name a node: {path}/nodes/NODE"
        raise NodeDirError(f"{path} has no plan.json{hint or '; give DIR/nodes/NODE of a tree'}")
    data = _json(file)
    version = data.get("planVersion")
    if version != PLAN_VERSION:
        known = isinstance(version, int) and not isinstance(version, bool)
        said = f"has plan version {version}" if known else "says no plan version"
        raise NodeDirError(
            f"{file} {said}, and this tierc reads {PLAN_VERSION}: build the tree with the tierc "
            "that verifies it"
        )
    try:
        plan = NodePlan.load(data)
        _check(plan)
        RuleIndex(plan.rules)  # every pattern can be read
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NodeDirError(f"{file} is damaged: {where}: {first['msg'].lower()}") from error
    except PatternError as error:
        raise NodeDirError(f"{file} is damaged: a rule has a bad pattern: {error}") from error
    except ValueError as error:
        raise NodeDirError(f"{file} is damaged: {error}") from error
    return plan


def _check(plan: NodePlan) -> None:
    """Check what the rest relies on.

    Raises:
        ValueError: something named is not there, or a fingerprint is not the machine's.
    """
    machine = plan.machine
    text = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(text) != plan.fingerprint:
        raise ValueError("its fingerprint is not that of the machine in it")
    if device_digest(machine.gpus, machine.nics) != plan.device_fingerprint:
        raise ValueError("its device fingerprint is not that of the machine in it")
    tiers = {tier.id for tier in plan.tiers}
    bands = {band.id for band in plan.bands}
    units = {unit.name for unit in plan.units}
    if len(bands) < len(plan.bands):
        raise ValueError("two bands have one id")
    for band in plan.bands:
        if not 0 <= band.id < MAX_BANDS:
            raise ValueError(f"band id {band.id} is outside 0-{MAX_BANDS - 1}")
        if band.tier not in tiers:
            raise ValueError(f"band {band.id} has tier {band.tier}, which it lacks")
    if plan.default_band not in bands:
        raise ValueError(f"its default band {plan.default_band} is not there")
    last = -1
    for rule in plan.rules:
        if rule.id <= last:
            raise ValueError("its rules are not in the order of their ids")
        last = rule.id
        if last >= MAX_RULES:
            raise ValueError(f"rule id {last} is outside 0-{MAX_RULES - 1}")
        for id in (rule.band, *(member.band for member in rule.members)):
            if id not in bands:
                raise ValueError(f"rule {rule.id} has band {id}, which it lacks")
        if rule.unit not in units:
            raise ValueError(f"rule {rule.id} is of unit {rule.unit!r}, which it lacks")
    for name, tier in (
        *((lane.name, lane.tier) for lane in plan.lanes),
        *((unit.name, unit.tier) for unit in plan.units),
    ):
        if tier not in tiers:
            raise ValueError(f"{name} has tier {tier}, which it lacks")


def _same_build(file: Path, seed: SeedFile, plan: NodePlan) -> None:
    hidden = {id for row in plan.left_out.get("bpf", ()) for id in row.rules}
    planned = [(rule.id, rule.band) for rule in plan.rules if rule.id not in hidden]
    if planned != list(seed.rules):
        raise NodeDirError(f"{file} and plan.json are of two builds; build the tree anew")
