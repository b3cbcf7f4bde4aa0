"""What a project says of a whole cluster: options of its targets, and the pace of a rollout."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, WithJsonSchema, model_validator

from compiler.model.base import (
    LabelKey,
    LabelValue,
    Misfit,
    Model,
    Name,
    NodeName,
    one_of,
)

DnsName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
        max_length=253,
    ),
]
"""A DNS-1123 subdomain, what Kubernetes accepts as the name of most objects."""

Image = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-zA-Z0-9._:/-]*[a-zA-Z0-9](@sha256:[0-9a-f]{64})?$", max_length=500),
]
"""A reference to a container image."""

Percentage = Annotated[str, Field(pattern=r"^([1-9][0-9]?|100)%$")]
"""A part of something, as Kubernetes writes it."""


class Toleration(Model):
    """One taint that the pods tolerate, as in Kubernetes."""

    key: LabelKey | None = None
    """Key of the taint; omitted, with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Omitted: all effects."""

    @model_validator(mode="after")
    def _as_kubernetes_has_it(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise Misfit("operator Exists takes no value", ("value",))
        if self.operator == "Equal" and self.key is None:
            raise Misfit("operator Equal needs a key; write operator: Exists for any", ())
        return self


def _unavailable_tag(value: object) -> str:
    return "percent" if isinstance(value, str) else "number"


MaxUnavailable = Annotated[
    Annotated[Percentage, Tag("percent")] | Annotated[int, Field(ge=1, le=10_000), Tag("number")],
    Discriminator(_unavailable_tag),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 10_000},
                {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"},
            ]
        }
    ),
]


class KubernetesOptions(Model):
    """Options of the kubernetes target."""

    namespace: Name = "tierc-system"
    """Where the objects live."""
    create_namespace: bool = False
    """Emit the namespace too; its pods need the privileged level of Pod Security."""
    image: Image = "docker.io/library/busybox:1.37.0"
    """What the scripts run in: busybox, or anything with the same tools; with a version."""
    image_pull_secrets: tuple[DnsName, ...] = ()
    """Names of the secrets that the image needs."""
    select: Literal["names", "labels"] = "names"
    """How nodes get their class: objects list their names, or nodes have a label that Node Feature
    Discovery sets for tierc."""
    max_names: Annotated[int, Field(ge=1, le=1000)] = 100
    """Most nodes that one object may list; above, select: labels is needed."""
    label_prefix: DnsName = "tierc.feature.node.kubernetes.io"
    """Prefix of the labels with select: labels."""
    nfd_namespace: Name = "node-feature-discovery"
    """Where Node Feature Discovery runs."""
    interval_seconds: Annotated[int, Field(ge=1, le=86_400)] = 30
    """How long a pod waits before it looks for new threads again."""
    tolerations: tuple[Toleration, ...] | None = None
    """Taints that the pods tolerate; omitted: all."""
    max_unavailable: MaxUnavailable = 1
    """How many pods of one object are replaced at a time: a number, or such as 10%."""
    priority_class_name: DnsName | None = None
    """Priority class of the pods; omitted: the cluster's default."""
    create_priority_class: bool = False
    """Emit that priority class too."""
    kill_switch: Literal["/etc/tierc/disabled", "/var/lib/tierc/disabled"] = "/etc/tierc/disabled"
    """The file on a node that has everything put back; the second one for nodes whose /etc cannot
    be written."""

    @model_validator(mode="after")
    def _image_has_a_version(self) -> Self:
        name, _, digest = self.image.partition("@")
        tag = name.rpartition("/")[2].partition(":")[2]
        if not digest and tag in ("", "latest"):
            raise Misfit(
                f'image "{self.image}" has no version, so nodes would run what was newest when '
                "they pulled it; add a tag such as :1.37.0, or a digest",
                ("image",),
            )
        return self

    @model_validator(mode="after")
    def _secrets_are_told_once(self) -> Self:
        seen: dict[str, tuple[str | int, ...]] = {}
        for index, name in enumerate(self.image_pull_secrets):
            here = ("imagePullSecrets", index)
            if name in seen:
                raise Misfit(f'"{name}" is named twice; keep one of them', seen[name], here)
            seen[name] = here
        return self

    @model_validator(mode="after")
    def _label_may_be_set(self) -> Self:
        prefix = f".{self.label_prefix}"
        own = (".feature.node.kubernetes.io", ".profile.node.kubernetes.io")
        if prefix.endswith(".kubernetes.io") and not prefix.endswith(own):
            raise Misfit(
                f'Node Feature Discovery sets no labels of "{self.label_prefix}"; use a name below '
                "feature.node.kubernetes.io, or a domain of yours",
                ("labelPrefix",),
            )
        return self

    @model_validator(mode="after")
    def _priority_class_can_be_made(self) -> Self:
        if self.create_priority_class:
            if self.priority_class_name is None:
                raise Misfit(
                    "createPriorityClass needs priorityClassName", ("createPriorityClass",)
                )
            if self.priority_class_name.startswith("system-"):
                raise Misfit(
                    f'"{self.priority_class_name}" is one of Kubernetes\' own and cannot be '
                    "created; drop createPriorityClass",
                    ("priorityClassName",),
                    ("createPriorityClass",),
                )
        return self


class RolloutStep(Model):
    """Nodes that get new plans together."""

    names: tuple[NodeName, ...] | None = None
    """These nodes."""
    percent: Annotated[int, Field(ge=1, le=99)] | None = None
    """This part of all nodes, counted from the first step on: the same nodes each time, whatever
    nodes come and go."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        one_of({"names": self.names, "percent": self.percent}, "a step")
        if self.names == ():
            raise Misfit("names is an empty list; name the nodes, or drop the step", ("names",))
        return self


def _step_tag(value: object) -> str:
    return "word" if isinstance(value, str) else "step"


Step = Annotated[
    Annotated[Literal["all"], Tag("word")] | Annotated[RolloutStep, Tag("step")],
    Discriminator(_step_tag),
]


class Rollout(Model):
    """The order in which nodes get new plans."""

    steps: Annotated[tuple[Step, ...], Field(max_length=50)] = ()
    """One after the other; a node is in the first that takes it, and what none takes comes
    last."""

    @model_validator(mode="after")
    def _steps_add_up(self) -> Self:
        percent = 0
        seen: dict[str, tuple[str | int, ...]] = {}
        for index, step in enumerate(self.steps):
            if step == "all":
                if index != len(self.steps) - 1:
                    raise Misfit(
                        "all must be the last step: nothing is left for others", ("steps", index)
                    )
                continue
            if step.percent is not None:
                if step.percent <= percent:
                    raise Misfit(
                        f"percent counts from the first step on: {step.percent} after {percent} "
                        "adds no node; write a larger number",
                        ("steps", index, "percent"),
                    )
                percent = step.percent
            for place, name in enumerate(step.names or ()):
                here = ("steps", index, "names", place)
                if name in seen:
                    raise Misfit(f'"{name}" is named twice; keep one of them', seen[name], here)
                seen[name] = here
        return self
