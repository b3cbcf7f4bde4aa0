"""lscpu in all its forms, and sbc-bench: what they say, and what they do not."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats import lscpu_json, lscpu_table, lscpu_text, sbc_bench
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import NumaPart, Partial, ReadError
from compiler.model.facts import Virtualization

FORMATS = (
    *lscpu_table.FORMATS,
    lscpu_text.FORMAT,
    *lscpu_json.FORMATS,
    sbc_bench.FORMAT,
)


def formats_of(text: str) -> list[str]:
    return [one.name for one in FORMATS if one.sniff(text)]


def read(text: str, name: str = "node1.txt") -> Partial:
    [found] = [one for one in FORMATS if one.sniff(text)]
    [partial] = found.read(Text(name, text))
    return partial


def refusal(text: str) -> ReadError:
    [found] = [one for one in FORMATS if one.sniff(text)]
    with pytest.raises(ReadError) as caught:
        found.read(Text("node1.txt", text))
    return caught.value


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def sets(*texts: str) -> tuple[CpuSet, ...]:
    return tuple(cpus(text) for text in texts)


def llc_sets(partial: Partial) -> tuple[CpuSet, ...]:
    assert partial.llcs is not None
    return tuple(llc.cpus for llc in partial.llcs)


def p(header: str, *rows: str) -> str:
    return "\n".join(["# The following is the parsable format", f"# {header}", *rows, ""])


def said(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


DEFAULT = "CPU,Core,Socket,Node,,L1d,L1i,L2,L3"


# --- lscpu -p --------------------------------------------------------------------------------


def test_p_says_online_cores_packages_nodes_and_the_last_level_cache() -> None:
    partial = read(
        p(
            DEFAULT,
            "0,0,0,0,,0,0,0,0",
            "1,1,0,0,,2,2,1,0",
            "2,0,0,0,,0,0,0,0",
            "3,2,1,4,,4,4,2,8",
        )
    )
    assert partial.online == cpus("0-3")
    assert partial.cores == sets("0,2", "1", "3")
    assert partial.packages == ((0, cpus("0-2")), (1, cpus("3")))
    assert partial.numa == (NumaPart(0, cpus("0-2")), NumaPart(4, cpus("3")))
    assert llc_sets(partial) == sets("0-2", "3")
    assert {llc.level for llc in partial.llcs or ()} == {3}
    assert partial.present is None
    assert partial.kinds is None
    assert partial.notes == ()


def test_p_with_chosen_columns_and_the_caches_in_one_column() -> None:
    text = p(
        "Online,CPU,L1d:L1i:L2,Core,Socket",
        "Y,0,0:0:0,0,0",
        "N,1,,,",
        "Y,2,1:1:1,1,0",
        "Y,3,1:1:1,1,0",
    )
    partial = read(text)
    assert partial.online == cpus("0,2-3")
    assert partial.present == cpus("0-3")
    assert partial.cores == sets("0", "2-3")
    assert llc_sets(partial) == sets("0", "2-3")
    assert partial.numa is None
    assert partial.notes == ()


def test_names_of_cores_that_start_again_for_each_model_are_no_siblings() -> None:
    # Two models, as on GB10: both count cores and sockets from 0, and share only the L3.
    rows = [f"{cpu},{cpu % 3},0,0,,{cpu},{cpu},{cpu},0" for cpu in range(6)]
    partial = read(p(DEFAULT, *rows))
    assert partial.cores == sets("0", "1", "2", "3", "4", "5")
    assert partial.packages is None
    assert "CPUs 0,3 have one core number" in said(partial)
    assert "packages are unknown" in said(partial)
    assert llc_sets(partial) == sets("0-5")


def test_core_numbers_alone_make_no_siblings() -> None:
    partial = read(p("CPU,Core,Socket,Node", "0,0,0,0", "1,0,0,0", "2,1,0,0"))
    assert partial.online == cpus("0-2")
    assert partial.cores is None
    assert partial.packages is None
    assert "no cache shows that they are one core" in said(partial)
    # Where each CPU has its own there is nothing to mistake.
    partial = read(p("CPU,Core,Socket,Node", "0,0,0,", "1,1,0,"))
    assert partial.cores == sets("0", "1")
    assert partial.packages == ((0, cpus("0-1")),)


def test_halves_of_a_module_share_the_instruction_cache_only() -> None:
    partial = read(p(DEFAULT, "0,0,0,0,,0,0,0,0", "1,0,0,0,,1,0,0,0"))
    assert partial.cores == sets("0-1")


def test_core_ids_of_halves_of_a_module_are_no_cores() -> None:
    # lscpu -y on AMD Bulldozer: a core id each, one instruction cache.
    rows = [f"{cpu},{cpu},0,0,,{cpu},{cpu // 2},{cpu // 2},0" for cpu in range(4)]
    partial = read(p(DEFAULT, *rows))
    assert partial.cores is None
    assert "CPUs 0-1 share a cache of level 1, but not a core number" in said(partial)


def test_pairs_of_threads_that_share_no_near_cache_are_unknown() -> None:
    rows = [f"{cpu},0,0,0,,{cpu // 2},{cpu // 2},{cpu // 2},0" for cpu in range(4)]
    partial = read(p(DEFAULT, *rows))
    assert partial.cores is None
    assert "which CPUs form a core is unknown" in said(partial)


def test_physical_core_numbers_repeat_in_each_socket() -> None:
    rows = ["0,0,3,0,,0,0,0,0", "1,8,3,0,,8,8,8,0", "2,0,7,1,,16,16,16,1", "3,8,7,1,,24,24,24,1"]
    partial = read(p(DEFAULT, *rows))
    assert partial.cores == sets("0", "1", "2", "3")
    assert partial.packages == ((3, cpus("0-1")), (7, cpus("2-3")))


def test_sockets_without_a_number_are_unknown() -> None:
    partial = read(p("CPU,Core,Socket,Node", "0,0,-1,0", "1,1,-,0"))
    assert partial.packages is None


def test_a_socket_may_be_called_a_cluster() -> None:
    partial = read(p("CPU,Core,Cluster,Node", "0,0,0,", "1,1,1,"))
    assert partial.packages == ((0, cpus("0")), (1, cpus("1")))
    assert partial.clusters is None


def test_a_cpu_outside_the_l3_has_its_l2() -> None:
    # Since 2.37 the place of a missing cache is missing too.
    partial = read(
        p(DEFAULT, "0,0,0,0,,0,0,0,0", "1,1,0,0,,1,1,1,0", "2,2,0,0,,8,8,8", "3,3,0,0,,9,9,8")
    )
    assert llc_sets(partial) == sets("0-1", "2-3")
    assert [llc.level for llc in partial.llcs or ()] == [3, 2]
    # Before, it is empty.
    partial = read(p("CPU,Core,L1d:L1i:L2:L3", "0,0,0:0:0:0", "1,1,1:1:1:", "2,2,2:2:1:"))
    assert llc_sets(partial) == sets("0", "1-2")


def test_a_missing_cache_that_could_be_either_leaves_the_last_level_unknown() -> None:
    # CPU 2's third number, 0, may be the L2 or the L3 of CPUs 0 and 1.
    partial = read(p(DEFAULT, "0,0,0,0,,0,0,1,0", "1,1,0,0,,1,1,2,0", "2,2,0,0,,8,8,0"))
    assert llc_sets(partial) == sets("0-1")
    assert "the last-level cache of CPU 2 is not said" in said(partial)


def test_offline_cpus_without_an_online_column() -> None:
    partial = read(p(DEFAULT, "0,0,0,0,,0,0,0,0", "1,,,,,", "2,1,0,0,,1,1,1,0"))
    assert partial.online == cpus("0,2")
    assert [(note.line, note.message) for note in partial.notes] == [
        (4, "CPU 1 has no core, socket, node or cache; taken as offline")
    ]


def test_a_cpu_that_may_be_offline_or_in_no_node_leaves_online_unknown() -> None:
    partial = read(p(DEFAULT, "0,0,0,0,,0,0,0,0", "1,1,0,,,1,1,1,0"))
    assert partial.online is None
    assert "CPU 1 is in no NUMA node, as an offline CPU would be" in said(partial)
    # An online column settles it.
    partial = read(p("CPU,Online,Core,Socket,Node", "0,Y,0,0,0", "1,Y,1,0,"))
    assert partial.online == cpus("0-1")
    assert partial.numa == (NumaPart(0, cpus("0")),)


def test_numbers_only_say_nothing_of_online() -> None:
    partial = read(p("CPU,Core,Socket,Node", "0,,,", "1,,,"))
    assert partial.online is None
    assert "which are online is unknown" in said(partial)


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (["0,0,0,0,,0,0,0,0,0"], 3, "10 fields, but the header names 9 columns"),
        (["0,0,0"], 3, "3 fields"),
        (["0,0,0,0,,0,0,0,0", "0,1,0,0,,1,1,1,0"], 4, "CPU 0 is listed twice"),
        (["0,0,zero,0,,0,0,0,0"], 3, "'zero' in column SOCKET is no number"),
        (["0,0,0,0,,0,0,0,0x1"], 3, "'0x1' in column CACHE is no number"),
        (["99999999,0,0,0,,0,0,0,0"], 3, "CPU 99999999 is outside 0-8191"),
        (["9999999999,0,0,0,,0,0,0,0"], 3, "in column CPU is no number"),
        ([], None, "no CPU is listed"),
        (["0,0,0,0,,0,0,0,0"] * 9000, 8195, "more than 8192 rows"),
    ],
)
def test_damaged_p_is_refused(rows: list[str], line: int | None, message: str) -> None:
    error = refusal(p(DEFAULT, *rows))
    assert (error.line, message in error.message) == (line, True), error.message


def test_p_of_offline_cpus_only_is_refused() -> None:
    error = refusal(p("CPU,Online", "4,N"))
    assert error.message == "every CPU listed is offline: recorded with --offline"


def test_p_without_its_comments_is_refused() -> None:
    error = refusal("0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n")
    assert "without its comment lines" in error.message
    assert "LC_ALL=C lscpu -p=" in error.help


def test_more_than_a_thousand_cpus() -> None:
    rows = [
        f"{cpu},{cpu % 1024},{cpu % 1024 // 128},{cpu % 1024 // 128},,"
        f"{cpu % 1024},{cpu % 1024},{cpu % 1024},{cpu % 1024 // 16}"
        for cpu in range(2048)
    ]
    partial = read(p(DEFAULT, *rows))
    assert partial.online == cpus("0-2047")
    assert partial.cores is not None
    assert len(partial.cores) == 1024
    assert partial.cores[5] == cpus("5,1029")
    assert len(partial.packages or ()) == 8
    assert len(llc_sets(partial)) == 64


# --- lscpu -e --------------------------------------------------------------------------------

E_TABLE = """\
$ lscpu -e
CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE    MAXMHZ   MINMHZ
  0    0      0    0 0:0:0:0          yes 3200.0000 800.0000
  1    -      -    - -                 no         -        -
  2    2      1    1 1:1:1:1          yes 3200.0000 800.0000
  3    2      1    1 1:1:1:1          yes 3200.0000 800.0000
"""


def test_e_marks_offline_cpus() -> None:
    partial = read(E_TABLE)
    assert partial.online == cpus("0,2-3")
    assert partial.present == cpus("0-3")
    assert partial.cores == sets("0", "2-3")
    assert partial.packages == ((0, cpus("0")), (1, cpus("2-3")))
    assert partial.numa == (NumaPart(0, cpus("0")), NumaPart(2, cpus("2-3")))
    assert llc_sets(partial) == sets("0", "2-3")
    assert partial.notes == ()


@pytest.mark.parametrize(("yes", "no"), [("oui", "non"), ("ja", "nein"), ("\u662f", "\u5426")])
def test_e_in_another_language_is_refused(yes: str, no: str) -> None:
    error = refusal(E_TABLE.replace("yes", yes).replace(" no ", f" {no} "))
    assert "recorded in another language" in error.message
    assert error.line == 3
    assert "LC_ALL=C" in error.help


def test_a_cut_row_of_e_is_refused() -> None:
    error = refusal(E_TABLE.replace("  3    2      1    1 1:1:1:1          yes", "  3    2"))
    assert error.line == 6
    assert "4 fields, but the header names 8 columns" in error.message


def test_a_row_without_a_number_is_left_out() -> None:
    partial = read("CPU CORE ONLINE\n0 0 yes\n- - no\n")
    assert partial.online == cpus("0")
    assert "a row without a CPU number" in said(partial)


def test_lists_of_caches_are_refused() -> None:
    for text in (
        "NAME ONE-SIZE ALL-SIZE WAYS TYPE LEVEL\nL3 32M 32M 16 Unified 3\n",
        '{"caches": [{"name": "L3"}]}',
    ):
        assert "not which CPUs share them" in refusal(text).message


# --- lscpu -J -e -----------------------------------------------------------------------------

C05 = """\
{ "cpus": [
   {"cpu": 0, "core": 0, "node": 0},
   {"cpu": 1, "core": -, "node": -},
   {"cpu": 2, "core": 1, "node": 0} ] }
"""


def test_a_bare_dash_is_an_offline_cpu_and_never_node_0() -> None:
    partial = read(C05)
    assert partial.online == cpus("0,2")
    assert partial.cores == sets("0", "2")
    assert partial.numa == (NumaPart(0, cpus("0,2")),)
    assert [(note.line, note.message) for note in partial.notes] == [
        (3, "CPU 1 has no core, socket, node or cache; taken as offline")
    ]


@pytest.mark.parametrize("dash", ['"-"', "null", '""', "  -  ", "-1"])
def test_every_spelling_of_nothing(dash: str) -> None:
    partial = read(C05.replace(": -", f": {dash}"))
    assert partial.online == cpus("0,2")


def test_dashes_in_texts_stay() -> None:
    text = '{"cpus": [{"cpu": "0", "core": "0", "online": true, "modelname": "a: -, \\" b: -}"}]}'
    partial = read(text)
    assert partial.online == cpus("0")


def test_numbers_may_be_texts_and_names_upper_case() -> None:
    text = json.dumps(
        {
            "cpus": [
                {"CPU": "0", "NODE": "0", "CORE": "0", "L1d:L1i:L2": "0:0:0", "ONLINE": "yes"},
                {"CPU": "1", "NODE": "0", "CORE": "0", "L1d:L1i:L2": "0:0:0", "ONLINE": "no"},
            ]
        }
    )
    partial = read(text)
    assert partial.online == cpus("0")
    assert partial.present == cpus("0-1")
    assert llc_sets(partial) == sets("0")


def test_a_machine_without_numa_has_a_dash_for_every_cpu() -> None:
    partial = read('{"cpus": [{"cpu": 0, "core": 0, "node": -},{"cpu": 1, "core": 1, "node": -}]}')
    assert partial.online == cpus("0-1")
    assert partial.numa is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"cpus": [\n{"cpu": 0,\n "core": }]}', 3, "not json"),
        ('{"cpus": [\n{"cpu": 0, "core": "0', 2, "not json"),
        ('{"cpus": [1]}', None, "no list of objects"),
        ('{"cpus": [\n\n{"cpu": [0]}]}', 3, "neither a number nor a text"),
        ('{"cpus": [{"core": 0}]}', None, "no row has a cpu"),
        ('{"cpus": [{"cpu": 0, "online": "oui"}]}', 1, "another language"),
        ('{"cpus": [{"cpu": 0, "l1d:l2": "0:1:2"}]}', 1, "3 caches, but the key names 2"),
        ('{"cpus": [' + "[" * 100_000, None, "not json"),
        ('{"cpus": [{"cpu": ' + "9" * 10_000 + "}]}", None, "not json"),
    ],
)
def test_damaged_json_is_refused(text: str, line: int | None, message: str) -> None:
    error = refusal(text)
    assert message in error.message.lower()
    assert error.line == line or line is None


def test_hostile_json_takes_no_quadratic_time() -> None:
    # A string without an end, full of escaped quotes: each could be tried as a start.
    assert "not JSON" in refusal('{"cpus": ["' + '\\"' * 500_000 + "\\").message


# --- the summary -----------------------------------------------------------------------------

GB_LIKE = """\
Architecture:             aarch64
CPU(s):                   6
On-line CPU(s) list:      0-5
Model name:               Cortex-X925
Thread(s) per core:       1
Core(s) per socket:       2
Socket(s):                1
Model name:               Cortex-A725
Thread(s) per core:       1
Core(s) per socket:       4
Socket(s):                1
L3 cache:                 24 MiB (2 instances)
NUMA node(s):             1
NUMA node0 CPU(s):        0-5
Vulnerability Spectre v2: Mitigation; CSV2, BHB
"""


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

TABLE = """\
CPU sysfs topology (clusters, cpufreq members, clockspeeds)
                 cpufreq   min    max
 CPU    cluster  policy   speed  speed   core type
  0       36        0      338    2808   Cortex-A725 / r0p1
  1       36        1     1378    3900   Cortex-X925 / r0p1
  2       36        2      338    2860   Cortex-A725 / r0p1
  3       36        3     1378    4004   Cortex-X925 / r0p1
"""
SUMMARY = """
CPU(s):              4
On-line CPU(s) list: 0-3
Thread(s) per core:  1
Core(s) per socket:  4
Socket(s):           1

Processor Information
\tFamily: ARMv8
"""


def kinds(partial: Partial) -> list[tuple[str, str, str | None, int | None]] | None:
    if partial.kinds is None:
        return None
    return [(kind.name, str(kind.cpus), kind.model, kind.value) for kind in partial.kinds]


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


# --- properties ------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    shape=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_p_e_and_json_of_one_machine_agree(shape: list[tuple[int, int]], order: object) -> None:
    """Any machine of cores with threads, in nodes, whatever the numbers of its CPUs."""
    threads = [(core, node) for core, (count, node) in enumerate(shape) for _ in range(count)]
    order.shuffle(threads)  # type: ignore[attr-defined]
    names = ("cpu", "online", "core", "socket", "node", "L1d:L1i:L2:L3")
    rows = [
        (str(cpu), "yes", str(core), str(node // 2), str(node), f"{core}:{core}:{core}:{node}")
        for cpu, (core, node) in enumerate(threads)
    ]
    as_e = "\n".join(
        " ".join(row) for row in ((*(n.upper() for n in names[:-1]), names[-1]), *rows)
    )
    as_p = p(
        "CPU,Online,Core,Socket,Node,L1d:L1i:L2:L3",
        *(",".join(row).replace("yes", "Y") for row in rows),
    )
    as_json = json.dumps({"cpus": [dict(zip(names, row, strict=True)) for row in rows]})
    cores = {
        core: CpuSet(cpu for cpu, (own, _) in enumerate(threads) if own == core)
        for core, _ in threads
    }
    nodes = {
        node: CpuSet(cpu for cpu, (_, own) in enumerate(threads) if own == node)
        for _, node in threads
    }
    for text in (as_p, as_e, as_json):
        partial = read(text)
        assert partial.online == CpuSet(range(len(threads)))
        assert set(partial.cores or ()) == set(cores.values())
        assert {node.id: node.cpus for node in partial.numa or ()} == nodes
        assert set(llc_sets(partial)) == set(nodes.values())
        assert partial.notes == ()


@settings(max_examples=150)
@given(
    seed=st.sampled_from([E_TABLE, C05, GB_LIKE, TABLE + SUMMARY, p(DEFAULT, "0,0,0,0,,0,0,0,0")]),
    at=st.integers(0, 400),
    cut=st.integers(0, 30),
    put=st.text(alphabet='0123456789,-:{}[]"\\ \n\tCPUxe\0\u00e9', max_size=6),
)
def test_damage_is_an_error_with_a_message_or_read(seed: str, at: int, cut: int, put: str) -> None:
    text = seed[:at] + put + seed[at + cut :]
    for one in FORMATS:
        if one.sniff(text):
            assert outcome(one, text)


def outcome(one: Format, text: str) -> str:
    try:
        one.read(Text("x", text))
    except ReadError as error:
        return error.message if "\n" not in error.message else ""
    return "read"


# --- the corpus ------------------------------------------------------------------------------


def test_the_recordings_of_one_alder_lake_agree(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "lscpu-derived"
    rows, table, summary = (
        read((folder / f"alderlake.lscpu-{name}").read_text())
        for name in ("p.csv", "J-e.json", "J.json")
    )
    # 6 cores with two threads, 8 with one, one L3 and one node, as its name in the corpus says.
    pairs = tuple(CpuSet((cpu, cpu + 1)) for cpu in range(0, 12, 2))
    for partial in (rows, table):
        assert partial.online == cpus("0-19")
        assert partial.cores == (*pairs, *(CpuSet((cpu,)) for cpu in range(12, 20)))
        assert partial.packages == ((0, cpus("0-19")),)
        assert partial.numa == (NumaPart(0, cpus("0-19")),)
        assert llc_sets(partial) == sets("0-19")
    assert summary.online == rows.online
    assert summary.numa == rows.numa
    assert (summary.cores, summary.packages, summary.llcs) == (None, None, None)


def test_pasted_summaries_of_the_corpus(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "smi-topo"
    gb10 = read((folder / "gb10-dgx-spark.lscpu.txt").read_text())
    assert gb10.online == cpus("0-19")
    assert gb10.cores is not None
    assert len(gb10.cores) == 20
    mi300a = read((folder / "mi300a-4apu.lscpu.txt").read_text())
    assert mi300a.online is None
    assert [node.cpus for node in mi300a.numa or ()] == [
        cpus(f"{24 * n}-{24 * n + 23},{96 + 24 * n}-{119 + 24 * n}") for n in range(4)
    ]
    power9 = read((folder / "power9-traverse-4v100.lscpu.txt").read_text())
    assert power9.cores is None
    assert {node.id: str(node.cpus) for node in power9.numa or ()} == {
        0: "0-63", 8: "64-127", 252: "", 253: "", 254: "", 255: "",
    }  # fmt: skip


def test_sbc_bench_reports_of_the_corpus(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "sbc-bench"
    gb10 = read((folder / "fcm1253.topology.txt").read_text())
    assert gb10.packages == ((36, cpus("0-19")),)
    assert kinds(gb10) == [
        ("performance", "5-9,15-19", "Cortex-X925", 4004),
        ("efficiency", "0-4,10-14", "Cortex-A725", 2860),
    ]
    altra = read((folder / "4kiu.topology.txt").read_text())
    assert altra.packages == ((56, cpus("0-127")), (76, cpus("128-255")))
    assert altra.kinds == ()
    ampere = read((folder / "XUpQ.topology.txt").read_text())
    assert ampere.online == cpus("0-191")
    assert ampere.kinds == ()


# --- real lscpu over snapshots ---------------------------------------------------------------

SNAPSHOTS = [
    "hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2",
    "hwloc-sysfs/16amd64-8n2c-cpusets.tar.bz2",
    "hwloc-sysfs/64amd64-4s2n4ca2co.tar.bz2",
    "hwloc-sysfs/memorysidecaches.tar.bz2",
    "lscpu-dumps/armv7.tar.gz",
    "lscpu-dumps/ppc64-POWER7-64cpu.tar.gz",
    "lscpu-dumps/s390-lpar-drawer.tar.gz",
    "lscpu-dumps/vbox-win.tar.gz",
    "lscpu-dumps/vmware_fpe.tar.gz",
    "lscpu-dumps/x86_64-64cpu-linux6.2.tar.gz",
]
BULLDOZERS = ("hwloc-sysfs/64amd64-4s2n4ca2co.tar.bz2", "lscpu-dumps/vmware_fpe.tar.gz")
WANTED = re.compile(
    r"/sys/devices/system/(cpu/(kernel_max|possible|present|online)"
    r"|cpu/cpu\d+/(topology|cache/index\d+)/\w+|cpu/cpu\d+/online"
    r"|node/(online|possible)|node/node\d+/(cpumap|cpulist))$"
    r"|/proc/(cpuinfo|sysinfo)$"
)


def unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isreg() and WANTED.search(member.name) and ".." not in member.name:
                data = tar.extractfile(member)
                assert data is not None
                target = into / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data.read())
    [system] = into.glob("**/sys/devices/system")
    return system.parents[2]


class Sysfs:
    """The files that lscpu reads, read again in the plainest way: the oracle."""

    def __init__(self, root: Path) -> None:
        self.cpu = root / "sys/devices/system/cpu"
        self.node = root / "sys/devices/system/node"
        self.online = CpuSet.parse((self.cpu / "online").read_text())

    def shared(self, name: str) -> set[CpuSet]:
        found = {
            CpuSet.parse_hex_mask((self.cpu / f"cpu{cpu}" / name).read_text()) & self.online
            for cpu in self.online
        }
        return found - {CpuSet()}

    def llcs(self) -> set[tuple[int, CpuSet]]:
        found = set()
        for cpu in self.online:
            levels = {}
            for index in (self.cpu / f"cpu{cpu}" / "cache").glob("index*"):
                if (index / "type").read_text().strip() != "Instruction":
                    levels[int((index / "level").read_text())] = index
            if levels:
                mask = (levels[max(levels)] / "shared_cpu_map").read_text()
                found.add((max(levels), CpuSet.parse_hex_mask(mask) & self.online))
        return found

    def nodes(self) -> dict[int, CpuSet]:
        return {
            int(path.parent.name[4:]): cpus
            for path in self.node.glob("node*/cpumap")
            if (cpus := CpuSet.parse_hex_mask(path.read_text()) & self.online)
        }


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_same_machine_through_lscpu_and_sysfs(
    name: str, shared: Path, tool: Callable[[str], str], tmp_path: Path
) -> None:
    lscpu = tool("lscpu")
    root = unpacked(shared / "corpus" / "topology" / name, tmp_path)
    expected = Sysfs(root)

    def run(*options: str) -> Partial:
        done = subprocess.run(
            [lscpu, "--sysroot", root, *options],
            env={"LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=True,
        )
        return read(done.stdout, " ".join(options))

    rows = [
        run("-p"),
        run("-p=cpu,online,core,socket,node,cache"),
        run("-e"),
        run("-J", "-e"),
        run("-J", "-e=cpu,cache,core,socket,node,online"),
        run("-y", "-e"),
    ]
    for partial in rows:
        assert partial.online == expected.online
        # -y prints core ids, which on AMD Bulldozer are not those of siblings: unknown there.
        assert partial.cores is not None or (partial is rows[-1] and name in BULLDOZERS)
        if partial.cores is not None:
            assert set(partial.cores) == expected.shared("topology/thread_siblings")
        assert {(llc.level, llc.cpus) for llc in partial.llcs or ()} == expected.llcs()
        assert {node.id: node.cpus for node in partial.numa or ()} == expected.nodes()
    for partial in rows[:-1]:
        packages = {cpus for _, cpus in partial.packages or ()}
        assert packages == expected.shared("topology/core_siblings")
    for partial in (run(), run("-J"), run("-x")):
        assert partial.online in (expected.online, None)
        assert partial.online or "armv7" in name
        assert partial.cores in (None, rows[0].cores)
        found = {node.id: node.cpus for node in partial.numa or () if node.cpus}
        assert found == expected.nodes() or partial.online is None
