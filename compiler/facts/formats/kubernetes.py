"""Kubernetes objects as ``kubectl get -o yaml`` or ``-o json`` prints them, one or many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from compiler.facts.formats.dra import read_slices
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.kubernetes_object import KubernetesObject, read_objects
from compiler.facts.formats.node_object import NODE_OF_FEATURE, read_feature, read_node
from compiler.facts.formats.nrt import read_nrt
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.shown import clean, shown
from compiler.model.texts import is_node_name

_Reader = Callable[[KubernetesObject, str, str], Partial]

# Kind -> its API group and reader; slices are read together.
_READERS: Final[dict[str, tuple[str, _Reader | None]]] = {
    "Node": ("v1", read_node),
    "NodeResourceTopology": ("topology.node.k8s.io", read_nrt),
    "NodeFeature": ("nfd.k8s-sigs.io", read_feature),
    "ResourceSlice": ("resource.k8s.io", None),
}
_KINDS: Final = "|".join([*_READERS, *(f"{kind}List" for kind in _READERS), "List"])
_YAML: Final = re.compile(rf"^(?:[ ]*- +|[ ]*)kind:[ ]*[\"']?(?:{_KINDS})[\"']?[ \r]*$", re.M)
_JSON: Final = re.compile(rf'"kind"\s*:\s*"(?:{_KINDS})"')
_VERSION: Final = re.compile(r"^(?:[ ]*- +|[ ]*)apiVersion:[ ]|\"apiVersion\"\s*:", re.M)
_HELP: Final = (
    "import the output of `kubectl get nodes,noderesourcetopologies,resourceslices -o yaml`, or of "
    "a part of it"
)


def _sniff(text: str) -> bool:
    if _VERSION.search(text) is None:
        return False
    return (_JSON if text.lstrip().startswith("{") else _YAML).search(text) is not None


def _read(text: Text) -> tuple[Partial, ...]:
    """Return what the objects say, each object by itself, the slices of a driver together."""
    notes: list[Note] = []
    found: list[Partial] = []
    slices: dict[tuple[str, str], list[KubernetesObject]] = {}
    places: dict[tuple[str, str], int] = {}
    unknown: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for item in read_objects(text):
        kind = item.kind if _is_known(item) else f"{item.kind or 'no kind'} ({item.api_version})"
        if kind not in _READERS:
            unknown[kind] += 1
            lines.setdefault(kind, item.line())
            continue
        node = _node_of(item, notes)
        if node is None:
            continue
        reader = _READERS[kind][1]
        if reader is not None:
            found.append(reader(item, text.name, node))
            continue
        key = (node, item.text("spec", "driver") or "")
        slices.setdefault(key, []).append(item)
        places.setdefault(key, len(found))
    for (node, driver), members in reversed(slices.items()):
        partial = read_slices(driver, members, text.name, node)
        if partial is not None:
            found.insert(places[node, driver], partial)
    for kind in sorted(unknown):
        times = f"{unknown[kind]} objects" if unknown[kind] > 1 else "an object"
        notes.append(Note(f"{times} of kind {clean(kind, 80)}, not used", lines[kind]))
    if not found:
        first = notes[0] if notes else Note("there is no object in it")
        raise ReadError(
            f"nothing here says anything about a node: {first.message}", line=first.line, help=_HELP
        )
    found[0] = replace(found[0], notes=(*found[0].notes, *notes))
    return tuple(found)


def _is_known(item: KubernetesObject) -> bool:
    group = _READERS.get(item.kind, ("", None))[0]
    return bool(group) and (item.api_version == group or item.api_version.startswith(f"{group}/"))


def _node_of(item: KubernetesObject, notes: list[Note]) -> str | None:
    """Return the name of the node an object is about; None, with a note, if it is about none."""
    if item.kind == "ResourceSlice":
        node, route = item.text("spec", "nodeName"), ("spec", "nodeName")
    elif item.kind == "NodeFeature":
        route = ("metadata", "labels")
        node = item.text(*route, NODE_OF_FEATURE) or item.text("metadata", "name")
    else:
        node, route = item.text("metadata", "name"), ("metadata", "name")
    what = f"{item.kind} {shown(item.name)}"
    if node is None or not is_node_name(node):
        said = "names no node" if node is None else f"is of {shown(node)}, which is no node name"
        notes.append(Note(f"{what} {said}, not used", item.line(*route)))
        return None
    system = ("status", "nodeInfo", "operatingSystem")
    if item.text(*system) == "windows":
        notes.append(Note(f"{what} runs Windows, not used", item.line(*system)))
        return None
    return node


FORMAT: Final = Format(
    "kubernetes",
    "Kubernetes objects: Node, NodeFeature, NodeResourceTopology, ResourceSlice (YAML or JSON)",
    _sniff,
    _read,
)
"""One object, several documents, or lists of them."""
