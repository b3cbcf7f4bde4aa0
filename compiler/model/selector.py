"""Node selectors, with the semantics of Kubernetes label selectors."""

from typing import Literal, Self

from pydantic import Field, model_validator

from compiler.model.base import LabelKey, Labels, LabelValue, Misfit, Model, NodeName


class Expression(Model):
    """One requirement on one label."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[LabelValue, ...] = ()

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        if self.operator in ("In", "NotIn") and not self.values:
            raise Misfit(f"operator {self.operator} needs at least one of values", ("operator",))
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise Misfit(f"operator {self.operator} takes no values", ("values",))
        if self.operator in ("Gt", "Lt") and not (
            len(self.values) == 1 and self.values[0].isdecimal()
        ):
            raise Misfit(
                f"operator {self.operator} takes one value, a decimal number",
                ("values",) if self.values else ("operator",),
            )
        return self


class NodeSelector(Model):
    """Which nodes; all given parts must hold.  An empty selector selects every node."""

    match_labels: Labels = Field(default_factory=dict)
    """Labels that must have exactly these values."""
    match_expressions: tuple[Expression, ...] = ()
    """Further requirements, as in Kubernetes."""
    names: tuple[NodeName, ...] | None = None
    """Node names, any of which may match."""

    @model_validator(mode="after")
    def _names_not_empty(self) -> Self:
        if self.names == ():
            raise Misfit("names is an empty list and would match no node; leave it out", ("names",))
        return self


class PodSelector(Model):
    """Which pods: resolved on the node at run time, never at compile time."""

    namespace: LabelValue | None = None
    """Namespace of the pods; omitted: any."""
    match_labels: Labels = Field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.namespace is None and not self.match_labels and not self.match_expressions:
            raise ValueError("an empty pod selector would match every pod; name what is meant")
        return self
