"""What every document shares: strictness, names, labels and the scalar types of the language."""

# No `from __future__ import annotations` in modules of models and of the command line: it makes
# texts of annotations, which pydantic and typer compile and evaluate one by one at every start.

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from compiler.cpuset import CpuListError, CpuSet

API_VERSION: Final = "tierc.dev/v1alpha1"

_DURATION: Final = re.compile(r"([1-9][0-9]{0,6})(us|ms|s)\Z", re.ASCII)
_NANOSECONDS: Final = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Model(BaseModel):
    """Base of all models: frozen, strict, no unknown keys, camelCase in files."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_default=False,
        defer_build=True,  # most commands need few of the kinds
    )


def _cpu_list(value: object) -> CpuSet:
    if isinstance(value, CpuSet):
        return value
    if isinstance(value, str):
        if not value.strip():
            return CpuSet()
        return CpuSet.parse(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return CpuSet((value,))
    if isinstance(value, list | tuple) and all(
        isinstance(cpu, int) and not isinstance(cpu, bool) for cpu in value
    ):
        return CpuSet(value)
    raise CpuListError(
        "a CPU list is text such as 0-3,8-11, one CPU number, or a list of CPU numbers"
    )


CpuList = Annotated[
    CpuSet,
    PlainValidator(_cpu_list),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "description": "Kernel CPU list: 0-3,8-11, or with strides (0-31:2/4). Empty: no CPU.",
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9,:/ \-]*$"},
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}},
            ],
        }
    ),
]
"""A :class:`CpuSet` written as a kernel CPU list."""


def _duration(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError("a duration needs a unit: us, ms or s, for example 3ms")
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write a number and us, ms or s, like 3ms")
    return int(match[1]) * _NANOSECONDS[match[2]]


Duration = Annotated[
    int,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": r"^[1-9][0-9]{0,6}(us|ms|s)$"}),
]
"""A duration in nanoseconds, written with a unit."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""A DNS-1123 label: at most 63 of ``a-z 0-9 -``, beginning and ending with a letter or digit."""

LaneName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(@[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?)?$",
    ),
]
"""The name of a lane; ``chat@numa0`` is the member of a family in one locality."""

NodeName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
        max_length=253,
    ),
]
"""A DNS-1123 subdomain, what Kubernetes accepts as a node name."""

LabelKey = Annotated[
    str,
    Field(
        pattern=(
            r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*/)?"
            r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
        ),
        max_length=317,
    ),
]
"""A Kubernetes label key: an optional DNS prefix and a name of at most 63 characters."""

LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")]
"""A Kubernetes label value: at most 63 characters, possibly empty."""

Labels = Mapping[LabelKey, LabelValue]

MAX_CGROUP_PATH: Final = 128
"""Characters of a cgroup path; with it in front, what a pattern adds must fit as well."""

CgroupPath = Annotated[
    str,
    Field(
        pattern=(
            r"^(\.{0,2}[A-Za-z0-9_:\\@-]|\.{3})[A-Za-z0-9_.:\\@-]*"
            r"(/(\.{0,2}[A-Za-z0-9_:\\@-]|\.{3})[A-Za-z0-9_.:\\@-]*)*$"
        ),
        max_length=MAX_CGROUP_PATH,
    ),
]
"""A path below the cgroup v2 root as systemd and kubelets name cgroups: no slash at the ends, no
``.`` or ``..``, nothing a pattern would take for a wildcard."""

Stage = Literal[
    "api",
    "tokenizer",
    "engine-step",
    "worker",
    "detokenizer",
    "dp-coordinator",
    "collective",
    "kv-transfer",
    "ipc",
    "gpu-driver",
    "gpu-irq",
]
"""One CPU-side step of an inference engine; the same words in profiles, intents and plans."""

NODE_STAGES: Final[frozenset[Stage]] = frozenset({"gpu-driver", "gpu-irq"})
"""Stages that belong to the node: one unit each, whatever number of engines needs them."""

Preference = Literal[
    "gpu-local",
    "nic-local",
    "same-llc",
    "performance",
    "efficiency",
    "whole-cores",
    "isolated",
    "leftovers",
]
"""What an intent may ask of its CPUs."""

Version = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,7}$")]
"""A release of an engine: numbers and dots.  Missing numbers at the end are 0."""

VersionRange = Annotated[
    str,
    Field(
        pattern=(
            r"^(\*|(>=|<=|>|<|==)?[0-9]{1,9}(\.[0-9]{1,9}){0,7}"
            r"( *, *(>=|<=|>|<)[0-9]{1,9}(\.[0-9]{1,9}){0,7})*)$"
        ),
        description="Comma-separated comparisons that all hold, such as >=0.10.1,<0.25; * is any.",
    ),
]


class Metadata(Model):
    """Identity of a document that has a policy-wide unique name."""

    name: Name
    """Unique among documents of the same kind."""
    labels: Labels = Field(default_factory=dict)
    """Free labels, for people and selectors."""


class NodeMetadata(Model):
    """Identity of a node."""

    name: NodeName
    """The Kubernetes node name, or the host name."""
    labels: Labels = Field(default_factory=dict)
    """What node selectors match; ``kubernetes.io/hostname`` need not be repeated."""


class Misfit(ValueError):  # noqa: N818 - a validator's finding, not a failure
    """Parts of a document contradict each other; the message says which and what to keep.

    ``routes`` are the places concerned, as keys of the file and positions in lists, counted from
    the model that raises: the decoder shows the last of them in the file first and the others
    beside it.
    """

    def __init__(self, message: str, *routes: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.routes = routes


def one_of(given: Mapping[str, object], what: str, *, required: bool = True) -> None:
    """Check that exactly (or, not ``required``, at most) one of the values is not None.

    The names are those of the file.

    Raises:
        Misfit: naming the alternatives.
    """
    present = [name for name, value in given.items() if value is not None]
    names = ", ".join(given)
    if len(present) > 1:
        both = f"{', '.join(present[:-1])} and {present[-1]} are given"
        raise Misfit(f"{what} takes one of {names}; {both}", *((name,) for name in present))
    if required and not present:
        raise Misfit(f"{what} needs one of {names}")


def wrap_scalar(key: str, written: Any) -> Any:
    """Return a validator that reads the short form ``x`` as ``{key: x}``.

    ``written`` is the type of what files may have, for the JSON Schema.
    """
    return BeforeValidator(
        lambda value: {key: value} if isinstance(value, str) else value,
        json_schema_input_type=written,
    )
