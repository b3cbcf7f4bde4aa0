"""Logs of pods that collect a fleet, read."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.facts.formats import stream
from compiler.facts.formats.format import Text
from compiler.facts.partial import Partial, ReadError

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "compiler" / "facts" / "daemonset" / "collect.sh"


def read(log: str) -> tuple[Partial, ...]:
    assert stream.FORMAT.sniff(log)
    return stream.FORMAT.read(Text("fleet.log", log))


def refused(log: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        stream.FORMAT.read(Text("fleet.log", log))
    assert not caught.value.message.endswith(".")
    return caught.value
