"""lscpu as a summary, and sbc-bench: what they say, and what they do not."""

from __future__ import annotations

import json
import re

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.partial import NumaPart
from compiler.model.facts import Virtualization
from tests.lscpu_texts import (
    GB_LIKE,
    SUMMARY,
    TABLE,
    cpus,
    formats_of,
    kinds,
    read,
    refusal,
    said,
    sets,
)

# --- the summary -----------------------------------------------------------------------------


def test_one_thread_a_core_in_every_stanza_names_the_cores() -> None:
    partial = read(GB_LIKE)
    assert partial.arch == "aarch64"
    assert partial.online == cpus("0-5")
    assert partial.cores == sets("0", "1", "2", "3", "4", "5")
    assert partial.numa == (NumaPart(0, cpus("0-5")),)
    assert partial.llcs is None
    assert partial.packages is None
    assert partial.kinds is None
    assert partial.cpu_count is None
    assert "does not say which CPUs share a cache" in said(partial)


def test_a_rounded_quotient_of_threads_names_no_cores() -> None:
    # lscpu before 2.37 on 4 cores with 2 threads and 4 with 1: 12 CPUs / 8 cores is 1.
    text = GB_LIKE.replace("0-5", "0-11").replace("CPU(s):                   6", "CPU(s): 12")
    partial = read(text)
    assert partial.online == cpus("0-11")
    assert partial.cores is None
    assert "which CPUs form a core or share a cache" in said(partial)


def test_two_threads_a_core_name_no_cores() -> None:
    text = GB_LIKE.replace("Thread(s) per core:       1", "Thread(s) per core:       2", 1)
    assert read(text).cores is None


def test_nodes_without_cpus_and_gaps_between_nodes() -> None:
    partial = read(
        "CPU(s): 8\nOn-line CPU(s) list: 0-3\nOff-line CPU(s) list: 4-7\nNUMA node(s): 3\n"
        "NUMA node0 CPU(s):   0,1\nNUMA node8 CPU(s):   2,3\nNUMA node252 CPU(s): \n"
    )
    assert partial.online == cpus("0-3")
    assert partial.present == cpus("0-7")
    assert partial.numa == (
        NumaPart(0, cpus("0-1")),
        NumaPart(8, cpus("2-3")),
        NumaPart(252, CpuSet()),
    )


def test_a_paste_of_the_nodes_alone_says_only_those() -> None:
    partial = read("NUMA node0 CPU(s):   0-3,8-11\nNUMA node1 CPU(s):   4-7,12-15\n")
    assert partial.online is None
    assert partial.arch is None
    assert partial.cores is None
    assert partial.numa == (NumaPart(0, cpus("0-3,8-11")), NumaPart(1, cpus("4-7,12-15")))


def test_a_cut_paste_leaves_nodes_unknown() -> None:
    partial = read("NUMA node(s):       2\nNUMA node0 CPU(s):  0-3\n")
    assert partial.numa is None
    assert "NUMA node(s) is 2, but 1 are listed" in said(partial)


def test_a_cut_list_leaves_online_unknown() -> None:
    partial = read("CPU(s):              16\nOn-line CPU(s) list: 0,2,4\n")
    assert partial.online is None
    assert partial.cpu_count == 16
    assert partial.notes[0].line == 2


def test_lists_that_a_narrow_terminal_broke() -> None:
    partial = read(
        "CPU(s):                  8\n"
        "  On-line CPU(s) list:   0,2,4,6,8,10,1\n"
        "                         2,14\n"
        "NUMA:                    \n"
        "  NUMA node(s):          1\n"
        "  NUMA node0 CPU(s):     0,2,4,6\n"
        "                         ,8,10,12,14\n"
        "Vulnerabilities:         \n"
        "  Spectre v2:            Mitigation; IBPB: conditional\n"
    )
    assert partial.online == cpus("0-14:1/2")
    assert partial.numa == (NumaPart(0, cpus("0-14:1/2")),)


def test_masks() -> None:
    partial = read(
        "On-line CPU(s) mask:  ffef\nOff-line CPU(s) mask: 10\nNUMA node0 CPU(s):    f\n"
        "NUMA node1 CPU(s):    20\nNUMA node2 CPU(s):    0xffc0\nNUMA node3 CPU(s): 0\n"
    )
    assert partial.online == cpus("0-3,5-15")
    assert partial.present == cpus("0-15")
    assert [(node.id, node.cpus) for node in partial.numa or ()] == [
        (0, cpus("0-3")),
        (1, cpus("5")),
        (2, cpus("6-15")),
        (3, CpuSet()),
    ]
    # What lscpu 2.38 prints where the kernel allows two CPUs.
    partial = read("CPU(s): 2\nOn-line CPU(s) mask: 0\nNUMA node0 CPU(s): 0\n")
    assert partial.online is None
    assert partial.numa is None
    assert partial.cpu_count == 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "Hypervisor vendor: KVM\nVirtualization type: full",
            Virtualization(vm=True, hypervisor="kvm"),
        ),
        (
            "Hypervisor vendor: VMware\nVirtualization type: para",
            Virtualization(vm=True, hypervisor="vmware"),
        ),
        (
            "Hypervisor vendor: Parallels\nVirtualization type: container",
            Virtualization(container=True),
        ),
        ("Hypervisor vendor: Xen\nVirtualization type: none", None),
        ("Virtualization: VT-x", None),
    ],
)  # fmt: skip
def test_virtual_machines(lines: str, expected: Virtualization | None) -> None:
    assert read(f"{GB_LIKE}{lines}\n").virtualization == expected


def test_json_nested_and_flat_say_the_same() -> None:
    entries = [
        ("Architecture", "x86_64"),
        ("CPU(s)", "4"),
        ("On-line CPU(s) list", "0-2"),
        ("Off-line CPU(s) list", "3"),
        ("Thread(s) per core", "1"),
        ("Core(s) per socket", "3"),
        ("Socket(s)", "1"),
        ("NUMA node0 CPU(s)", "0-2"),
    ]
    flat = {"lscpu": [{"field": f"{key}:", "data": value} for key, value in entries]}
    nested = {
        "lscpu": [
            {"field": "Architecture:", "data": "x86_64", "children": [flat["lscpu"][1]]},
            {"field": "NUMA:", "data": None, "children": [{"children": flat["lscpu"][2:]}]},
        ]
    }
    text = "".join(f"{key}: {value}\n" for key, value in entries)
    one, two, three = read(json.dumps(flat)), read(json.dumps(nested, indent=3)), read(text)
    for partial in (one, two, three):
        assert partial.online == cpus("0-2")
        assert partial.present == cpus("0-3")
        assert partial.cores == sets("0", "1", "2")
        assert partial.arch == "x86_64"
        assert partial.numa == (NumaPart(0, cpus("0-2")),)


FRENCH = """\
Architecture :                          x86_64
Mode(s) op\u00e9ratoire(s) des processeurs : 32-bit, 64-bit
Processeur(s) :                         4
Liste de processeur(s) en ligne :       0-3
Thread(s) par c\u0153ur :                    2
Socket(s) :                             1
N\u0153ud NUMA 0 de processeur(s) :          0-3
"""
CHINESE = """\
\u67b6\u6784\uff1a           x86_64
CPU:                     4
\u5728\u7ebf CPU \u5217\u8868\uff1a   0-3
NUMA \u8282\u70b9\uff1a      2
NUMA \u8282\u70b90 CPU\uff1a 0,1
NUMA \u8282\u70b91 CPU\uff1a 2,3
"""
GERMAN = """\
Architektur:             x86_64
Byte-Reihenfolge:        Little Endian
CPU(s):                  2
Liste der Online-CPU(s): 0,1
Thread(s) pro Kern:      1
Sockel:                  2
NUMA-Knoten0 CPU(s):     0,1
"""


@pytest.mark.parametrize("text", [FRENCH, CHINESE, GERMAN])
def test_a_summary_in_another_language_is_refused(text: str) -> None:
    error = refusal(text)
    assert "recorded in another language" in error.message
    assert error.line is not None
    assert "LC_ALL=C" in error.help
    rows = [line.partition(":")[::2] for line in text.replace("\uff1a", ":").splitlines()]
    as_json = json.dumps({"lscpu": [{"field": f"{key}:", "data": data} for key, data in rows]})
    assert "recorded in another language" in refusal(as_json).message


def test_a_half_translated_summary_is_refused() -> None:
    error = refusal("On-line CPU(s) list: 0-3\nNUMA-Knoten0 CPU(s): 0-3\n")
    assert error.line == 2
    assert "recorded in another language" in error.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("CPU(s): 4\nOn-line CPU(s) list: 3-0\n", 2, "runs backwards"),
        ("CPU(s): 4\nOn-line CPU(s) list: 0-99999\n", 2, "above the highest CPU"),
        ("On-line CPU(s) mask: xyz\n", 1, "is not a CPU mask"),
        ("On-line CPU(s) mask: " + "f" * 9000 + "\n", 1, "is not a CPU mask"),
        ("On-line CPU(s) list: 0-3\nCPU(s): four\n", 2, "'four' is no number"),
        ("On-line CPU(s) list: 0-3\n\nOn-line CPU(s) list: 0-7\n", 3, "one machine"),
        ("NUMA node0 CPU(s): 0-3\nNUMA node0 CPU(s): 4-7\n", 2, "one machine"),
        ("CPU(s): 4\nOn-line CPU(s) list: \n", 2, "no CPU is online"),
    ],
)
def test_a_damaged_summary_is_refused(text: str, line: int, message: str) -> None:
    error = refusal(text)
    assert error.line == line
    assert message in f"{error.message} {error.help}"


def test_other_texts_are_not_claimed() -> None:
    for text in (
        "",
        "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU architecture: 8\n",
        "GPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n",
        "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[1]\t\t: (Topology) Numa Node: 1\n",
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\n",
        "# comment\nkind: Node\n",
        "apiVersion: v1\nkind: Node\nstatus:\n  nodeInfo:\n    architecture: amd64\n",
        '{"kind": "Node", "note": "On-line CPU(s) list: 0-3"}',
        "<topology/>",
    ):
        assert formats_of(text) == []


# --- sbc-bench -------------------------------------------------------------------------------


def test_core_types_are_kinds_fastest_first() -> None:
    partial = read(TABLE + SUMMARY)
    assert partial.reader == "sbc-bench"
    assert partial.online == cpus("0-3")
    assert partial.cores == sets("0", "1", "2", "3")
    assert partial.packages == ((36, cpus("0-3")),)
    assert kinds(partial) == [
        ("performance", "1,3", "Cortex-X925", 4004),
        ("efficiency", "0,2", "Cortex-A725", 2860),
    ]
    assert {kind.evidence for kind in partial.kinds or ()} == {"midr"}


def test_one_model_is_one_kind_whatever_the_clocks() -> None:
    assert kinds(read(TABLE.replace("X925", "A725") + SUMMARY)) == []


def test_the_third_kind_and_those_below_are_low_power() -> None:
    text = TABLE.replace("338    2860   Cortex-A725", "338    1800   Cortex-A520")
    text = text.replace("4004   Cortex-X925", "1000   Cortex-A34")
    assert kinds(read(text + SUMMARY)) == [
        ("performance", "1", "Cortex-X925", 3900),
        ("efficiency", "0", "Cortex-A725", 2808),
        ("lowpower", "2-3", "Cortex-A520, Cortex-A34", 1800),
    ]


def test_models_of_one_speed_have_no_order() -> None:
    partial = read(re.sub(r"(3900|4004|2808|2860) ", "2000 ", TABLE) + SUMMARY)
    assert partial.kinds is None
    assert "the maximum speeds do not say which are faster" in said(partial)


def test_core_types_of_x86_and_unknown_ones_are_not_used() -> None:
    text = re.sub(r"Cortex-A725 / r0p1", "Gracemont", TABLE)
    assert read(text + SUMMARY).kinds is None
    text = re.sub(r"Cortex-\w+ / r0p1", "    -", TABLE).replace("36", "-1")
    partial = read(text + SUMMARY)
    assert partial.kinds is None
    assert partial.packages is None


def test_rows_of_offline_cpus_are_not_used() -> None:
    summary = SUMMARY.replace("0-3", "0-2").replace("CPU(s):              4", "CPU(s): 3")
    partial = read(TABLE.replace("  3       36", "  3       40") + summary)
    assert partial.online == cpus("0-2")
    assert partial.packages == ((36, cpus("0-2")),)


def test_a_table_without_lscpu_says_nothing_of_online() -> None:
    partial = read(TABLE)
    assert partial.online is None
    assert [str(kind.cpus) for kind in partial.kinds or ()] == ["1,3", "0,2"]
    assert "no lscpu output follows" in said(partial)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TABLE.replace("  2       36", "  1       36"), 6, "CPU 1 is listed twice"),
        (TABLE.replace("  2       36", "  x       36"), 6, "is no row of the table"),
        (TABLE.replace("  2       36", "99999       36"), 6, "outside 0-8191"),
        (TABLE.replace("core type", "type"), None, "has no header"),
        ("\n".join(TABLE.split("\n")[:3]), 3, "the table of CPUs is empty"),
    ],
)
def test_a_damaged_table_is_refused(text: str, line: int | None, message: str) -> None:
    error = refusal(text)
    assert error.line == line
    assert message in error.message
