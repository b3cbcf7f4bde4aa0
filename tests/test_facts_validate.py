"""Semantic checks of node facts: each finding at its line, and nothing else found."""

from __future__ import annotations

import pytest

from compiler.codes import facts as codes
from compiler.decode import Loaded, decode
from compiler.diagnostics import Code, Severity, Sink
from compiler.facts.validate import validate
from compiler.model.facts import NodeFacts
from compiler.source import parse_source

GOOD = """\
apiVersion: tierc.dev/v1alpha1
kind: NodeFacts
metadata: {name: n}
spec:
  cpus:
    possible: 0-15
    online: 0-7
    isolated: 6-7
  cores:
    - {cpus: 0-3, llc: 0, numa: 0}
    - {cpus: 4-7, llc: 4, numa: 1}
  llcs:
    - {id: 0, level: 3, cpus: 0-3}
    - {id: 4, level: 3, cpus: 4-7}
  numa:
    - {id: 0, cpus: 0-3, role: cpu}
    - {id: 1, cpus: 4-7, role: cpu}
    - {id: 2, cpus: "", role: memory}
  devices:
    - {id: gpu0, type: gpu, bdf: "0000:01:00.0", uuid: GPU-1, numa: 0, locality: {cpus: 0-3}}
    - {id: nic0, type: nic, bdf: "0000:02:00.0", numa: 1, locality: {cpus: 4-5}}
  kubelet: {present: true, policy: static, reserved: 0-1, exclusive: 4-5}
  overrides:
    devices:
      - {id: nic0, cpus: 4-6}
"""


def findings(text: str) -> list[tuple[str, int, str]]:
    sink = Sink()
    (document,) = parse_source("n.yaml", text.encode(), sink).documents
    loaded = decode(document, sink)
    assert list(sink) == []
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    validate(Loaded(loaded.model, loaded.doc), sink)
    for found in sink:
        assert found.help
        assert found.message[0].islower() or found.message[0] == "C"
        assert not found.message.endswith(".")
        assert found.span.col > 1
    return [(found.code, found.span.line, found.message) for found in sink.sorted()]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_good_facts_have_no_findings() -> None:
    assert findings(GOOD) == []


CASES: list[tuple[str, str, Code, str, str]] = [
    # (what is replaced, by what, code, text on the line of the finding, part of the message)
    ("cpus: 4-7}\n  numa", "cpus: 3-7}\n  numa", codes.LLC_OVERLAP, "cpus: 3-7}", "CPU 3"),
    ("{id: 1, cpus: 4-7,", "{id: 1, cpus: 3-7,", codes.NUMA_OVERLAP, "{id: 1,", "CPU 3"),
    ("cpus: 0-3}\n    - {id: 4", "cpus: 0-2}\n    - {id: 4", codes.GROUP_OUTSIDE_LLC,
     "cpus: 0-3, llc: 0", "lacks CPU 3"),
    ("{cpus: 4-7, llc: 4,", "{cpus: 4-7,", codes.GROUP_OUTSIDE_LLC, "{id: 4, level: 3",
     "holds CPU 4-7"),
    ("{id: 1, cpus: 4-7, role: cpu}", "{id: 1, cpus: 4-6}", codes.GROUP_OUTSIDE_NUMA,
     "{cpus: 4-7, llc: 4", "lacks CPU 7"),
    ("llc: 4, numa: 1}", "llc: 4}", codes.GROUP_OUTSIDE_NUMA, "{id: 1, cpus", "holds CPU 4-7"),
    ("locality: {cpus: 0-3}", 'locality: {cpus: "0-3,9"}', codes.LOCAL_CPUS_OFFLINE, "id: gpu0",
     "CPU 9 near gpu0"),
    ("numa: 0, locality: {cpus: 0-3}}", "}", codes.LOCALITY_UNKNOWN, "id: gpu0", "gpu0"),
    ('cpus: "", role: memory', 'cpus: "", role: cpu', codes.NODE_ROLE, "{id: 2", "no CPUs"),
    ("0-3, role: cpu", "0-3, role: gpu-memory", codes.NODE_ROLE, "{id: 0, cpus: 0-3, role",
     "but the CPUs 0-3"),
    ("isolated: 6-7", "isolated: 6-7,16-19", codes.MASK_OUTSIDE, "isolated:", "CPU 16-19"),
    ("reserved: 0-1", 'reserved: "0-1,99"', codes.MASK_OUTSIDE, "kubelet:", "CPU 99"),
    ("  overrides:\n", "  overrides:\n    allowed: 0-31\n", codes.MASK_OUTSIDE, "allowed: 0-31",
     "CPU 16-31"),
    ("isolated: 6-7", 'isolated: ""\n    allowed: 8-9', codes.NOTHING_LEFT, "allowed: 8-9",
     "none of the online CPUs 0-7"),
    ("isolated: 6-7", "isolated: 0-7", codes.NOTHING_LEFT, "isolated: 0-7", "every usable CPU"),
    ("  overrides:\n", '  overrides:\n    allowed: ""\n', codes.NOTHING_LEFT, 'allowed: ""',
     "overrides.allowed (empty)"),
    ("  overrides:\n", "  overrides:\n    allowed: 6-7\n", codes.NOTHING_LEFT, "isolated: 6-7",
     "every usable CPU 6-7"),
    ("reserved: 0-1, ", "", codes.STATIC_WITHOUT_RESERVED, "kubelet:", "no reserved CPUs"),
    ("- {id: nic0, cpus: 4-6}", "- {id: nic1, cpus: 4-6}", codes.UNKNOWN_OVERRIDE, "id: nic1",
     "overrides name nic1"),
    ("- {id: nic0, cpus: 4-6}", "- {id: nic0}", codes.UNKNOWN_OVERRIDE, "- {id: nic0}",
     "says nothing"),
    ("- {id: nic0, cpus: 4-6}", "- {id: nic0, cpus: 4-6}\n      - {id: nic0, numa: 0}",
     codes.UNKNOWN_OVERRIDE, "id: nic0, numa: 0", "twice"),
    ("- {id: nic0, cpus: 4-6}", "- {id: nic0, numa: 7}", codes.UNKNOWN_NODE, "numa: 7", "numa 7"),
    ("- {id: nic0, cpus: 4-6}", "- {id: nic0, cpus: 8}", codes.LOCAL_CPUS_OFFLINE, "cpus: 8}",
     "CPU 8"),
    ("0000:02:00.0", "0000:01:00.0", codes.DUPLICATE_DEVICE, "id: nic0, type", "of gpu0"),
    ('"0000:02:00.0"', '"0000:02:00.0", uuid: GPU-1', codes.DUPLICATE_DEVICE, "id: nic0, type",
     "uuid GPU-1"),
    ("numa: 0, locality", "numa: 5, locality", codes.UNKNOWN_NODE, "id: gpu0", "numa 5"),
    ("locality: {cpus: 0-3}", "locality: {cpus: 0-5}", codes.LOCALITY_CONTRADICTS, "id: gpu0",
     "CPU 4-5"),
    ("  overrides:\n", "  warnings: [first, second]\n  overrides:\n", codes.COLLECTOR_WARNINGS,
     "warnings:", "first (and 1 more)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "code", "at", "message"), CASES)
def test_one_thing_wrong_is_one_finding(
    old: str, new: str, code: Code, at: str, message: str
) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    found = findings(text)
    assert (code.id, line_of(text, at)) in [(id_, line) for id_, line, _ in found]
    assert any(message in said for id_, _, said in found if id_ == code.id)
    assert {id_ for id_, _, _ in found} <= {code.id} | ALSO.get(code.id, set())


# A CPU that two caches or nodes hold is, for one of them, also in the wrong group.
ALSO = {codes.GROUP_OUTSIDE_LLC.id: {codes.LLC_UNKNOWN.id}}


def test_every_code_has_a_case() -> None:
    shown = {case[2].id for case in CASES} | {codes.LLC_UNKNOWN.id}
    assert shown == {value.id for value in vars(codes).values() if isinstance(value, Code)}


def test_an_unknown_llc_is_accepted_with_a_warning() -> None:
    text = GOOD.replace("llc: 0, ", "").replace("llc: 4, ", "")
    text = text.replace("  llcs:\n    - {id: 0, level: 3, cpus: 0-3}\n", "")
    text = text.replace("    - {id: 4, level: 3, cpus: 4-7}\n", "")
    assert findings(text) == [
        (codes.LLC_UNKNOWN.id, line_of(text, "- {cpus: 0-3"),
         "the last-level cache of every CPU is not known")
    ]  # fmt: skip
    assert codes.LLC_UNKNOWN.severity is Severity.WARNING


def test_an_override_settles_an_unknown_place() -> None:
    text = GOOD.replace("numa: 0, locality: {cpus: 0-3}}", "}")
    text = text.replace("- {id: nic0, cpus: 4-6}", "- {id: gpu0, numa: 1}")
    assert findings(text) == []


def test_an_unknown_place_of_a_nic_is_only_worth_a_note() -> None:
    sink = Sink()
    text = GOOD.replace("numa: 1, locality: {cpus: 4-5}}", "}").replace(
        "    devices:\n      - {id: nic0, cpus: 4-6}\n", "    podsRoot: kubepods\n"
    )
    (document,) = parse_source("n.yaml", text.encode(), sink).documents
    loaded = decode(document, sink)
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    validate(Loaded(loaded.model, loaded.doc), sink)
    assert [(f.code, f.severity) for f in sink] == [(codes.LOCALITY_UNKNOWN.id, Severity.INFO)]


def test_did_you_mean() -> None:
    sink = Sink()
    text = GOOD.replace("- {id: nic0, cpus: 4-6}", "- {id: nic9, cpus: 4-6}")
    (document,) = parse_source("n.yaml", text.encode(), sink).documents
    loaded = decode(document, sink)
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    validate(Loaded(loaded.model, loaded.doc), sink)
    assert [f.help for f in sink] == ["did you mean nic0?"]


def test_documentation_of_every_code_says_what_to_do() -> None:
    for value in vars(codes).values():
        if isinstance(value, Code):
            assert 600 <= int(value.id[3:]) <= 649
            assert value.doc.count("\n\n") >= 1
