"""The name of the node."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.facts.partial import Partial, ReadError
from compiler.facts.shown import shown
from compiler.model.texts import is_node_name


def node_name(partials: Sequence[Partial], given: str | None) -> str:
    """Return the name that was given, else that of the most trusted source that has one.

    Raises:
        ReadError: it is no node name, or there is none.
    """
    name = given
    if name is None:
        name = next((one.node for one in partials if one.node is not None), None)
    if name is None:
        raise ReadError("no source names the node", help="give its name with --name NAME")
    if not is_node_name(name):
        raise ReadError(
            f"{shown(name)} is not a node name: lower-case letters, digits, '-' and '.', at most "
            "253, as Kubernetes accepts it",
            help="give another with --name NAME",
        )
    return name
