"""lscpu as tables, and as JSON: what they say, and what they do not."""

from __future__ import annotations

import json

import pytest

from compiler.facts.partial import NumaPart
from tests.lscpu_texts import (
    C05,
    DEFAULT,
    E_TABLE,
    cpus,
    llc_sets,
    p,
    read,
    refusal,
    said,
    sets,
)

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
