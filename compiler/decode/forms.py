"""The forms of texts and values in words a user knows: what is allowed, and a repaired example."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

from compiler.model.base import (
    CgroupPath,
    LabelKey,
    LabelValue,
    Name,
    NodeName,
    Version,
    VersionRange,
)
from compiler.model.cluster import DnsName, Image, Percentage
from compiler.model.facts import Bdf
from compiler.model.policytest import FactsPath, SnapshotPath
from compiler.model.project import CodeName


@dataclass(frozen=True, slots=True)
class Form:
    """What a text must look like.

    Attributes:
        what: the noun, with its article.
        allowed: what it consists of.
        example: one that is right.
        repair: makes a likely right text of a wrong one; the result is checked before it is shown.
        exact: a text that people take for a pattern, with wildcards.
    """

    what: str
    allowed: str
    example: str
    repair: Callable[[str], str] = str
    exact: bool = False


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return "".join(char for char in plain if not unicodedata.combining(char))


def _label(text: str) -> str:
    lowered = _ascii(text).lower().strip()
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9-]+", "-", lowered)).strip("-")[:63].strip("-")


def _node_name(text: str) -> str:
    return ".".join(filter(None, map(_label, text.split("."))))


def _label_value(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", _ascii(text).strip())[:63].strip("-._")


def _label_key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    return f"{_node_name(prefix)}{slash if prefix else ''}{_label_value(name)}"


def _version(text: str) -> str:
    match = re.search(r"[0-9]+(?:\.[0-9]+)*", text)
    return match[0] if match else ""


def _range(text: str) -> str:
    compact = text.replace(" ", "").replace("~=", ">=").replace("=>", ">=").replace("=<", "<=")
    compact = compact.replace("v", "").replace("&&", ",").replace("&", ",")
    return re.sub(r"(?<=[0-9])(?=[<>])", ",", compact).strip(",")


def _bdf(text: str) -> str:
    short = re.fullmatch(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", lowered := text.strip().lower())
    return f"0000:{lowered}" if short else lowered


def _cgroup_path(text: str) -> str:
    """Take away what surrounds a path; what is odd inside may mean anything."""
    return text.strip().removeprefix("/sys/fs/cgroup/").removesuffix("/**").strip("/").strip()


def _snapshot(text: str) -> str:
    return f"{text.lstrip('/').removesuffix('.json').removesuffix('.plan')}.plan.json"


def _pattern(annotation: Any) -> str:
    """Return the regular expression of a named text type of the models."""
    for item in get_args(annotation)[1:]:
        if isinstance(item, FieldInfo):
            for demand in item.metadata:
                if isinstance(pattern := getattr(demand, "pattern", None), str):
                    return pattern
    raise AssertionError(f"{annotation} has no pattern")


FORMS: Final[Mapping[str, Form]] = {
    _pattern(Name): Form(
        "a name",
        "at most 63 of a-z, 0-9 and -, with a letter or digit at both ends",
        "chat-1",
        _label,
    ),
    _pattern(NodeName): Form(
        "a node name",
        "a-z, 0-9 and -, in parts of at most 63 joined by dots, with a letter or digit at the ends"
        " of each",
        "spark-a",
        _node_name,
        exact=True,
    ),
    _pattern(LabelKey): Form(
        "a label key",
        "a name of at most 63 letters, digits, -, _ and ., before it optionally a DNS name and /",
        "example.com/pool",
        _label_key,
    ),
    _pattern(LabelValue): Form(
        "a label value",
        "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        "gb10",
        _label_value,
    ),
    _pattern(Version): Form("a version", "numbers joined by dots", "0.24.0", _version),
    _pattern(VersionRange): Form(
        "a version range",
        "comparisons (>=, >, <=, <) with versions, joined by commas; or one version; or *",
        ">=0.10.1,<0.25",
        _range,
    ),
    _pattern(Bdf): Form(
        "a PCI address",
        "domain:bus:device.function in lower-case hexadecimal",
        "0000:0f:00.0",
        _bdf,
    ),
    _pattern(CgroupPath): Form(
        "a cgroup path",
        "names of letters, digits, _, ., :, \\, @ and -, joined by /, without a slash at the ends",
        "kubepods.slice",
        _cgroup_path,
    ),
    _pattern(DnsName): Form(
        "a DNS name",
        "a-z, 0-9 and -, in parts of at most 63 joined by dots, with a letter or digit at the ends"
        " of each",
        "example.org",
        _node_name,
    ),
    _pattern(Image): Form(
        "an image",
        "a registry and a path in letters, digits, ., _ and -, joined by /, then : and a tag, or"
        " @sha256: and 64 hexadecimal digits",
        "docker.io/library/busybox:1.37.0",
        str.strip,
    ),
    _pattern(Percentage): Form(
        "a percentage", "a number from 1 to 100 without leading zeros, and %", "10%"
    ),
    _pattern(CodeName): Form("a code", "TRC and three digits", "TRC201", str.upper),
    _pattern(FactsPath): Form(
        "a file of node facts",
        "a path relative to the file of the test, ending in .yaml, .yml or .json",
        "fixtures/box.yaml",
    ),
    _pattern(SnapshotPath): Form(
        "a snapshot file",
        "a path relative to the file of the test, ending in .plan.json",
        "snapshots/spark-a.plan.json",
        _snapshot,
    ),
}
"""By the regular expression the model demands."""

VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("Lane", "cores"): "a number of cores such as 4, {min: 2, max: 6}, rest or measured",
    ("IntentSpec", "protect"): "a path such as decode, {path: ttft, tier: interactive},"
    " {stage: engine-step}, all, or a list of these",
    ("Workload", "gpus"): "allocated, all, or a list of PCI addresses, UUIDs and {model: ...}",
    ("LaneTest", "cores"): "a number of cores such as 4, or bounds such as {min: 4, max: 6}",
    (
        "FindingsTest",
        "present",
    ): "a list of codes such as TRC207 and of {code: TRC207, intent: chat}",
    (
        "FindingsTest",
        "absent",
    ): "a list of codes such as TRC310 and of {code: TRC310, intent: chat}",
    ("Reserve", "housekeeping"): "auto or a number of cores from 1 to 256",
    ("KubernetesOptions", "maxUnavailable"): "a number of pods such as 1, or a part such as 10%",
    ("Tier", "slice"): "a duration such as 3ms",
    ("DemandSpec", "window"): "a duration such as 600s",
}
"""Values that may be written in several ways, by model and key."""


TIERS: Final = ("critical", "latency", "interactive", "system", "normal", "background", "idle")
"""Tiers of the built-in ladder, highest first: what is shown where no tier is named at all."""

TIER_PLACES: Final[Mapping[tuple[str, str], str]] = {
    ("IntentSpec", "demote"): "background or idle",
    ("IntentSpec", "keep"): "system or interactive",
    ("Protect", "tier"): "latency or interactive",
    ("ThreadExpectation", "tier"): "latency or background",
    ("LaneTest", "tier"): "latency or interactive",
}
"""Where a tier is named, by model and key, and what is usual there."""


def repaired(pattern: str, text: str) -> str | None:
    """Return a text of the wanted form that ``text`` probably meant, or None."""
    candidate = FORMS[pattern].repair(text)
    if candidate and candidate != text and re.search(pattern, candidate):
        return candidate
    return None
