"""Kubernetes objects as text, for tests of reading node facts from them.

The samples there are retyped from the API's own reference, with other machines and other numbers
than the corpus has.
"""

from __future__ import annotations

import json

import pytest

from compiler.facts.formats import kubernetes, labels
from compiler.facts.formats.format import Text
from compiler.facts.partial import Partial, ReadError


def read(text: str) -> tuple[Partial, ...]:
    assert kubernetes.FORMAT.sniff(text), "not recognised"
    assert not labels.FORMAT.sniff(text)
    return kubernetes.FORMAT.read(Text("objects", text))


def one(text: str) -> Partial:
    found = read(text)
    assert len(found) == 1
    return found[0]


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        kubernetes.FORMAT.read(Text("objects", text))
    assert caught.value.message[0].islower() or caught.value.message[0] in "'`"
    assert not caught.value.message.endswith(".")
    return caught.value


def said(partial: Partial) -> str:
    return "\n".join(f"{note.line}: {note.message}" for note in partial.notes)


def as_list(*objects: object, kind: str = "List") -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": list(objects)})
