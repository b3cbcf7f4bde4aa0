"""The kubelet's cpu_manager_state: its four versions, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.kubelet_state import FORMAT, State, parse_state
from compiler.facts.partial import ReadError


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_pods_have_cpus_for_themselves() -> None:
    state = parse_state(
        '{"policyName":"static","defaultCpuSet":"0,6-7","entries":'
        '{"pod-a":{"main":"1-2","side":"3"},"pod-b":{"main":"4-5"}},"checksum":17}'
    )
    assert state == State("static", cpus("0,6-7"), cpus("1-5"))


def test_containers_of_one_pod_may_use_the_same_cpus_one_after_another() -> None:
    state = parse_state(
        '{"policyName":"static","defaultCpuSet":"0","entries":{"p":{"init":"1-2","main":"1-3"}}}'
    )
    assert state.exclusive == cpus("1-3")
    assert state.notes == ()


def test_version_1_is_by_container() -> None:
    state = parse_state('{"policyName":"static","defaultCpuSet":"0-1","entries":{"0a1b":"2-3"}}')
    assert (state.shared_pool, state.exclusive) == (cpus("0-1"), cpus("2-3"))


def test_version_3_has_cpus_of_whole_pods() -> None:
    state = parse_state(
        '{"policyName":"static","defaultCpuSet":"0-1","entries":{"p":{"main":"2"}},'
        '"podEntries":{"p":{"cpuSet":"2-4"},"q":{}}}'
    )
    assert state.exclusive == cpus("2-4")


def test_version_4_counts_what_is_in_its_text() -> None:
    inner = {"policyName": "static", "defaultCpuSet": "0", "entries": {"p": {"c": "1-3"}}}
    outer = {"policyName": "none", "defaultCpuSet": "", "checksum": 0, "dataChecksum": 5}
    state = parse_state(json.dumps(outer | {"data": json.dumps(inner)}))
    assert state == State("static", cpus("0"), cpus("1-3"))


def test_without_a_policy_there_is_no_pool_and_nothing_is_exclusive() -> None:
    assert parse_state('{"policyName":"none","defaultCpuSet":""}') == State("none", None, CpuSet())
    # Under static an empty pool is empty: all CPUs are taken, the reserved ones kept apart.
    state = parse_state('{"policyName":"static","defaultCpuSet":"","entries":{"p":{"c":"2-3"}}}')
    assert state.shared_pool == CpuSet()


def test_a_pool_with_exclusive_cpus_is_not_believed() -> None:
    state = parse_state('{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":{"c":"3"}}}')
    assert state.shared_pool is None
    assert state.exclusive == cpus("3")
    assert [note.message for note in state.notes] == [
        "CPU 3 is both exclusive and in the shared pool; the shared pool is unknown"
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "not JSON"),
        ('{"policyName":"static",\n"defaultCpuSet":', 2, "not JSON"),
        ("[" * 100_000, None, "not JSON"),
        ("[]", None, "not a JSON object"),
        ("{}", None, "policyName is missing"),
        ('{"policyName":"","defaultCpuSet":""}', None, "policyName is missing"),
        ('{"policyName":"static"}', None, "defaultCpuSet is missing"),
        ('{"policyName":"static","defaultCpuSet":"3-1"}', None, "defaultCpuSet: range"),
        ('{"policyName":"static","defaultCpuSet":"0-99999"}', None, "above the highest CPU"),
        ('{"policyName":"static","defaultCpuSet":"0","entries":[]}', None, "not a mapping"),
        (
            '{"policyName":"static","defaultCpuSet":"0","entries":{"p":{"c":"x"}}}',
            None,
            "entries: 'p': 'c': 'x' in CPU list",
        ),
        (
            '{"policyName":"static","defaultCpuSet":"0","entries":{"p":[1]}}',
            None,
            "entries: 'p' is not a CPU list",
        ),
        (
            '{"policyName":"static","defaultCpuSet":"0","podEntries":{"p":"1"}}',
            None,
            "podEntries: 'p' is not a mapping",
        ),
        ('{"policyName":"Static","machineState":{}}', None, "this is memory_manager_state"),
        ('{"policyName":"none","data":"{","dataChecksum":1}', 1, "data is not JSON"),
    ],
)
def test_what_is_refused(text: str, line: int | None, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        parse_state(text)
    assert message in caught.value.message
    assert caught.value.line == line


def test_it_is_recognised_by_its_keys() -> None:
    assert FORMAT.sniff(' {"policyName":"none","defaultCpuSet":"","checksum":1}\n')
    # The memory manager's is claimed too, so that it is refused by name.
    assert FORMAT.sniff('{"policyName":"Static","machineState":{},"checksum":1}')
    assert FORMAT.sniff('{"policyName":"static","defaultCpuSet":"0","checksum":1')
    for other in (
        "",
        "policyName: none\ndefaultCpuSet: ''\n",
        '{"note": "policyName and defaultCpuSet"}',
        '{"kind":"ConfigMap","policyName":"x","defaultCpuSet":"0"}',
        '[{"policyName":"none","defaultCpuSet":""}]',
    ):
        assert not FORMAT.sniff(other)


def test_the_partial_leaves_what_is_reserved_unknown() -> None:
    [partial] = FORMAT.read(
        Text("state", '{"policyName":"static","defaultCpuSet":"0-1","entries":{"p":{"c":"2"}}}')
    )
    assert partial.reader == "kubelet"
    assert partial.file == "state"
    assert partial.kubelet is not None
    assert partial.kubelet.present
    assert partial.kubelet.policy == "static"
    assert partial.kubelet.shared_pool == cpus("0-1")
    assert partial.kubelet.exclusive == cpus("2")
    assert partial.kubelet.reserved is None
    assert partial.kubelet.strict_reservation is None
    assert partial.online is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", State("none", None, CpuSet())),
        ("strict-reservation", State("static", cpus("2-15,17-31,34-47,49-63"), CpuSet())),
        ("two-pods", State("static", cpus("0,10-15,25-31"), cpus("1-9,16-24"))),
    ],
)
def test_states_of_the_corpus(shared: Path, name: str, expected: State) -> None:
    path = shared / "corpus" / "topology" / "kubelet" / f"cpu_manager_state.{name}.json"
    text = path.read_text()
    assert FORMAT.sniff(text)
    assert parse_state(text) == expected
