"""Semantic checks of node facts: each finding at its line, and nothing else found."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.codes import facts as codes
from compiler.decode import Loaded, decode
from compiler.diagnostics import Code, Severity, Sink
from compiler.facts.validate import validate
from compiler.facts.validate_strict import validate_strict
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


def test_a_part_of_a_gpu_is_where_the_gpu_is_and_has_its_address() -> None:
    gpu = '    - {id: gpu0, type: gpu, bdf: "0000:01:00.0"'
    assert gpu in GOOD
    whole = next(line for line in GOOD.splitlines() if line.startswith(gpu))
    part = '    - {id: gpu0-mig0, type: gpu, bdf: "0000:01:00.0", uuid: MIG-1, parent: gpu0}'
    assert findings(GOOD.replace(whole, f"{whole}\n{part}")) == []
    twin = part.replace(", parent: gpu0", "")
    assert {code for code, _, _ in findings(GOOD.replace(whole, f"{whole}\n{twin}"))} == {
        codes.DUPLICATE_DEVICE.id,
        codes.LOCALITY_UNKNOWN.id,
    }


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
    ("reserved: 0-1, ", "", codes.STATIC_WITHOUT_RESERVED, "kubelet:", "which CPUs it reserves"),
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
    """Those of ``facts import`` (TRC620 to TRC639) are not raised by validation."""
    shown = {case[2].id for case in (*CASES, *STRICT)}
    shown |= {codes.LLC_UNKNOWN.id, codes.TOO_MANY_NODES.id, codes.NUMA_UNKNOWN.id}
    every = {value.id for value in vars(codes).values() if isinstance(value, Code)}
    assert shown == {id_ for id_ in every if not "TRC620" <= id_ <= "TRC639"}


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


# --- the kubelet and many NUMA nodes (case C04) ----------------------------------------------


def grace(nodes: int, kubelet: str) -> str:
    """A machine with CPUs in node 0, and nodes that are memory of its GPU."""
    more = "".join(f'    - {{id: {i}, cpus: "", role: gpu-memory}}\n' for i in range(1, nodes))
    text = GOOD.replace("numa: 1", "numa: 0").replace("    - {id: 1, cpus: 4-7, role: cpu}\n", "")
    text = text.replace('    - {id: 2, cpus: "", role: memory}\n', more)
    text = text.replace("{id: 0, cpus: 0-3, role", "{id: 0, cpus: 0-7, role")
    return text.replace("policy: static,", kubelet)


def test_nodes_without_cpus_count_for_the_kubelet() -> None:
    assert findings(grace(8, "policy: static,")) == []
    text = grace(9, "policy: static,")
    assert findings(text) == [
        (
            codes.TOO_MANY_NODES.id,
            line_of(text, "  numa:\n"),
            "the node has 9 NUMA nodes, and the kubelet's Topology Manager takes 8 unless it is "
            "told otherwise",
        )
    ]


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_a_topology_policy_is_what_cannot_take_them(policy: str) -> None:
    text = grace(9, f"policy: static, topologyPolicy: {policy},")
    assert [id_ for id_, _, _ in findings(text)] == [codes.TOO_MANY_NODES.id]
    assert findings(grace(9, "policy: static, topologyPolicy: none,")) == []


def test_without_a_kubelet_nobody_minds() -> None:
    text = grace(34, "policy: static,")
    gone = text.replace("kubelet: {present: true, policy: static, reserved: 0-1, exclusive: 4-5}",
                        "kubelet: {present: false}")  # fmt: skip
    assert gone != text
    assert findings(gone) == []


# --- strict ----------------------------------------------------------------------------------

KNOWN = GOOD.replace("  cpus:\n", "  arch: x86_64\n  cpus:\n    allowed: 0-7\n", 1).replace(
    "  overrides:\n",
    "  kernel: {release: 6.17.0, preemptRt: false, cgroup: v2, schedExt: {supported: true}}\n"
    "  overrides:\n",
).replace("locality: {cpus: 0-3}", "locality: {cpus: 0-3, confidence: measured}")  # fmt: skip

STRICT: list[tuple[str, str, Code, str, str]] = [
    ("  arch: x86_64\n", "", codes.ARCH_UNKNOWN, "spec:", "the architecture is not known"),
    ("confidence: measured", "confidence: suspect", codes.LOCALITY_UNCERTAIN, "id: gpu0",
     "that CPU 0-3 is near gpu0 is suspect"),
    ("confidence: measured", "confidence: inferred", codes.LOCALITY_UNCERTAIN, "id: gpu0",
     "that CPU 0-3 is near gpu0 is inferred"),
    (", confidence: measured", "", codes.LOCALITY_UNCERTAIN, "id: gpu0",
     "that CPU 0-3 is near gpu0 has no known origin"),
    ("preemptRt: false, ", "", codes.KERNEL_UNKNOWN, "kernel:",
     "of the kernel preemptRt is not known"),
    (", cgroup: v2, schedExt: {supported: true}", "", codes.KERNEL_UNKNOWN, "kernel:",
     "of the kernel schedExt and cgroup are not known"),
    ("    allowed: 0-7\n", "", codes.ALLOWED_UNKNOWN, "  cpus:\n",
     "allowed is not given, so all online CPUs are taken as allowed"),
]  # fmt: skip


def strict(text: str) -> list[tuple[str, int, str, Severity]]:
    sink = Sink()
    (document,) = parse_source("n.yaml", text.encode(), sink).documents
    loaded = decode(document, sink)
    assert list(sink) == []
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    validate_strict(Loaded(loaded.model, loaded.doc), sink)
    assert all(found.help for found in sink)
    return [(f.code, f.span.line, f.message, f.severity) for f in sink.sorted()]


def test_what_is_known_passes_strictly() -> None:
    assert strict(KNOWN) == []


@pytest.mark.parametrize(("old", "new", "code", "at", "message"), STRICT)
def test_what_is_not_known_is_reported_strictly_and_only_so(
    old: str, new: str, code: Code, at: str, message: str
) -> None:
    assert KNOWN.count(old) == 1
    text = KNOWN.replace(old, new)
    assert strict(text) == [(code.id, line_of(text, at), message, code.severity)]
    assert findings(text) == []


# `numa` and `llcs` cannot be left out of GOOD alone: cores and devices name them.
BARE = """\
apiVersion: tierc.dev/v1alpha1
kind: NodeFacts
metadata: {name: n}
spec:
  arch: x86_64
  cpus: {online: 0-3, allowed: 0-2}
  cores:
    - {cpus: 0-1}
    - {cpus: 2-3}
  kernel: {release: 6.17.0, preemptRt: false, cgroup: v2, schedExt: {supported: false}}
"""


def test_unknown_numa_nodes_and_caches_are_both_reported() -> None:
    assert strict(BARE) == [
        (codes.LLC_UNKNOWN.id, 8, "the last-level cache of every CPU is not known",
         Severity.WARNING),
        (codes.NUMA_UNKNOWN.id, 8, "no NUMA node is known", Severity.WARNING),
    ]  # fmt: skip


def test_cpus_in_no_node_are_named() -> None:
    text = BARE.replace("{cpus: 0-1}", "{cpus: 0-1, numa: 0}").replace(
        "  kernel", "  numa: [{id: 0, cpus: 0-1}]\n  kernel"
    )
    assert (
        codes.NUMA_UNKNOWN.id,
        9,
        "the NUMA node of CPU 2-3 is not known",
        Severity.WARNING,
    ) in (strict(text))


def test_nothing_but_cpus_is_reported_where_the_key_would_be() -> None:
    text = "\n".join(line for line in BARE.splitlines() if "kernel" not in line) + "\n"
    found = {code: (line, said) for code, line, said, _ in strict(text)}
    assert found[codes.KERNEL_UNKNOWN.id] == (
        4, "of the kernel release, preemptRt, schedExt and cgroup are not known"
    )  # fmt: skip


def test_a_device_near_all_cpus_is_only_worth_a_note() -> None:
    text = BARE.replace("  kernel", "  devices:\n    - {id: gpu0, type: gpu, locality: "
                        "{cpus: 0-3, confidence: inferred}}\n  kernel")  # fmt: skip
    assert [
        severity for code, _, _, severity in strict(text) if code == codes.LOCALITY_UNCERTAIN.id
    ] == [Severity.INFO]


def test_a_part_of_a_gpu_is_where_the_gpu_is() -> None:
    near = "locality: {cpus: 0-1, confidence"
    text = BARE.replace(
        "  kernel",
        f"  devices:\n    - {{id: gpu0, type: gpu, {near}: measured}}}}\n"
        f"    - {{id: mig0, type: gpu, parent: gpu0, {near}: inferred}}}}\n  kernel",
    )
    assert codes.LOCALITY_UNCERTAIN.id not in [code for code, *_ in strict(text)]


def test_an_unknown_place_of_a_nic_counts_strictly() -> None:
    text = BARE.replace("  kernel", "  devices:\n    - {id: nic0, type: nic}\n  kernel")
    assert (
        codes.LOCALITY_UNKNOWN.id, 11, "which CPUs are near nic0 is not known", Severity.WARNING
    ) in strict(text)  # fmt: skip


def test_overrides_settle_what_is_not_known() -> None:
    text = KNOWN.replace("confidence: measured", "confidence: suspect").replace(
        "    devices:\n      - {id: nic0",
        "    devices:\n      - {id: gpu0, numa: 0}\n      - {id: nic0",
    )
    text = text.replace("    allowed: 0-7\n", "").replace(
        "  overrides:\n", "  overrides:\n    allowed: 0-6\n"
    )
    assert strict(text) == []


@pytest.mark.parametrize(
    ("text", "plain", "severe"),
    [
        (KNOWN, 0, 0),
        (KNOWN.replace("  arch: x86_64\n", ""), 0, 1),  # unknown: only strictly
        (KNOWN.replace("    allowed: 0-7\n", ""), 0, 0),  # a note
        (KNOWN.replace("reserved: 0-1, ", ""), 0, 1),  # a warning
        (KNOWN.replace("cpus: 4-7}\n  numa", "cpus: 3-7}\n  numa"), 1, 1),  # an error
    ],
)
def test_exit_codes(
    text: str, plain: int, severe: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n.yaml").write_text(text)
    assert main(["facts", "validate", str(tmp_path / "n.yaml")]) == plain
    assert main(["facts", "validate", "--strict", str(tmp_path / "n.yaml")]) == severe
    assert capsys.readouterr().err == ""


def test_the_limit_of_the_kubelet_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", codes.TOO_MANY_NODES.id]) == 0
    assert 'max-allowable-numa-nodes: "16"' in capsys.readouterr().out
