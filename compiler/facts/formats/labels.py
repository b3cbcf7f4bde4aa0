"""Labels of a node: which are kept, and the bare form in which label maps are passed around."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.kubernetes_object import read_objects
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.shown import shown
from compiler.model.texts import is_label, is_label_key

VOLATILE: Final = frozenset(
    {
        "nvidia.com/gfd.timestamp",  # when GPU feature discovery last ran
        "nvidia.com/gpu-driver-upgrade-state",  # how far an upgrade has come
        "nvidia.com/mig.config.state",  # how far a change of the MIG layout has come
        "nvidia.com/vgpu.config.state",
    }
)
"""Labels that change while the node stays what it is.

Kept, every collection would differ from the one before, and no one selects nodes by them.
"""
VOLATILE_PREFIX: Final = "nvidia.com/gpu.deploy."
"""The GPU operator's switches for its own pods; it flips them while it upgrades a driver."""

_MAX_SNIFFED: Final = 1024 * 1024
_FIRST_ENTRY: Final = re.compile(r'\s*\{\s*"[^"\\]+"\s*:\s*"')


def kept_labels(
    given: Mapping[str, object], line: Callable[[str], int]
) -> tuple[dict[str, str], tuple[Note, ...]]:
    """Return the labels to keep, sorted, and what is said about the others.

    Args:
        given: labels as a source has them.
        line: the line of a label, by its key.
    """
    kept: dict[str, str] = {}
    notes: list[Note] = []
    for key, value in sorted(given.items()):
        if key in VOLATILE or key.startswith(VOLATILE_PREFIX):
            continue
        if not is_label_key(key):
            notes.append(Note(f"{shown(key)} is no label key, left out", line(key)))
        elif not isinstance(value, str) or not is_label(key, value):
            what = shown(value) if isinstance(value, str) else "what it has"
            notes.append(Note(f"label {key}: {what} is no label value, left out", line(key)))
        else:
            kept[key] = value
    return kept, tuple(notes)


def _sniff(text: str) -> bool:
    """Recognise one flat JSON mapping of texts with a prefixed key among them."""
    if len(text) > _MAX_SNIFFED or _FIRST_ENTRY.match(text) is None:
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(data, dict)
        and all(isinstance(value, str) for value in data.values())
        and any("/" in key and is_label_key(key) for key in data)
    )


def _read(text: Text) -> tuple[Partial, ...]:
    """Return the labels, of a node that the text does not name.

    Nothing else follows from them: ``nvidia.com/gpu.count`` may count MIG slices or time-sliced
    replicas, and ``nvidia.com/gpu.memory`` is in MiB or in bytes.
    """
    found = read_objects(text)
    if not found:
        raise ReadError("this is no mapping of labels")
    labels, notes = kept_labels(found[0].data, found[0].line)
    if not labels:
        raise ReadError(
            "there is no label that says something about the node",
            help="import `kubectl get node NAME -o jsonpath='{.metadata.labels}'`",
        )
    return (Partial(reader="labels", file=text.name, labels=labels, notes=notes),)


FORMAT: Final = Format("labels", "node labels (a flat JSON mapping)", _sniff, _read)
"""Labels as ``kubectl get node NAME -o jsonpath='{.metadata.labels}'`` prints them."""
