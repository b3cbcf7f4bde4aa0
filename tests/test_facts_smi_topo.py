"""nvidia-smi topo as it is printed, and what is not believed of it."""

from __future__ import annotations

import pytest

from compiler.facts.formats.smi_topo import FORMAT, is_cut_short
from tests.smi_topo_texts import HEAD, devices, links, located, messages, read, refused

# --- what the printer writes -------------------------------------------------------------------


def test_tabs_as_printed() -> None:
    partial = read(
        HEAD
        + "GPU0\t X \tNV4\t0-3,8-11\t0\t\tN/A\n"
        + "GPU1\tNV4\t X \t4-7,12-15\t1\t\tN/A\n\nLegend:\n\n  X    = Self\n"
    )
    assert partial.reader == "nvidia-smi topo"
    assert partial.file == "topo.txt"
    assert [(d.type, d.index, d.vendor, d.bdf) for d in devices(partial)] == [
        ("gpu", 0, "10de", None),
        ("gpu", 1, "10de", None),
    ]
    assert located(partial) == [
        ("0-3,8-11", (0,), None, "measured"),
        ("4-7,12-15", (1,), None, "measured"),
    ]
    assert links(partial) == [(0, 1, "NV4")]
    assert messages(partial) == []


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("0-7\t0\t\t1", ("0-7", (0,), 1, "measured")),
        ("0-7\t0,3-5\t\t2", ("0-7", (0, 3, 4, 5), 2, "measured")),
        ("0-7\t0,2-4\t\tN/A", ("0-7", (0, 2, 3, 4), None, "measured")),
        ("0-15\t0-1\t\tN/A", ("0-15", (0, 1), None, "measured")),
        ("0-7\tN/A\t\tN/A", ("0-7", (), None, "measured")),
        ("0-7\t\tN/A\t\tN/A", ("0-7", (), None, "measured")),
        ("0-7\t\t1\t\t3", ("0-7", (1,), 3, "measured")),
        ("N/A\tN/A\t\tN/A", (None, (), None, "unknown")),
        # The CPUs of the node are not among those the process may use.
        ("\t1\t\tN/A", (None, (1,), None, "measured")),
        ("\t\t\tN/A", (None, (), None, "unknown")),
        ("0-7\t1", ("0-7", (1,), None, "measured")),
        ("0-7\t-1\t\tN/A", ("0-7", (), None, "measured")),
    ],
)
def test_affinity_columns(tail: str, expected: tuple[object, ...]) -> None:
    partial = read(HEAD + f"GPU0\t X \tSYS\t{tail}\nGPU1\tSYS\t X \t8-15\t1\t\tN/A\n")
    assert located(partial)[0] == expected
    assert located(partial)[1] == ("8-15", (1,), None, "measured")
    assert links(partial) == [(0, 1, "SYS")]


@pytest.mark.parametrize(
    ("columns", "tail", "expected"),
    [
        ("CPU Affinity", "0-5", ("0-5", (), None, "measured")),
        ("CPU Affinity\tNUMA Affinity", "0-5\t2", ("0-5", (2,), None, "measured")),
        ("CPU Affinity\tNUMA Affinity", "0-5\t\t2", ("0-5", (2,), None, "measured")),
    ],
)
def test_older_drivers_have_fewer_columns(
    columns: str, tail: str, expected: tuple[object, ...]
) -> None:
    assert located(read(f"\tGPU0\t{columns}\nGPU0\t X \t{tail}\n")) == [expected]


def test_the_old_word_for_sys() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-1\nGPU1\tSOC\t X \t2-3\n"
    assert links(read(text)) == [(0, 1, "SYS")]


def test_nics_are_where_a_gpu_of_the_same_node_is() -> None:
    partial = read(
        "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tSYS\tPXB\tSYS\tSYS\t0-3\t0\t\tN/A\n"
        "GPU1\tSYS\t X \tSYS\tNODE\tSYS\t4-7\t1\t\tN/A\n"
        "NIC0\tPXB\tSYS\t X \tSYS\tSYS\t\t\t\t\n"
        "NIC1\tSYS\tNODE\tSYS\t X \tSYS\t\t\t\t\n"
        "NIC2\tSYS\tSYS\tSYS\tSYS\t X \n"
        "\nNIC Legend:\n\n  NIC0: mlx5_2\n  NIC1: rocep1s0f0\n"
    )
    assert located(partial)[2:] == [
        (None, (0,), None, "inferred"),
        (None, (1,), None, "inferred"),
        (None, (), None, "unknown"),
    ]
    assert [(d.type, d.index, d.names) for d in devices(partial)[2:]] == [
        ("nic", 0, ("mlx5_2",)),
        ("nic", 1, ("rocep1s0f0",)),
        ("nic", 2, ()),
    ]
    assert (0, 2, "PXB") in links(partial)
    assert len(links(partial)) == 10
    assert messages(partial) == []


def test_a_nic_beside_a_gpu_of_unknown_node_stays_unknown() -> None:
    partial = read(
        "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-3\tN/A\nNIC0\tPIX\t X \t\t\n"
    )
    assert located(partial)[1] == (None, (), None, "unknown")


def test_a_nic_near_gpus_of_two_nodes_stays_unknown() -> None:
    partial = read(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tSYS\tNODE\t0-3\t0\nGPU1\tSYS\t X \tNODE\t4-7\t1\nNIC0\tNODE\tNODE\t X \t\t\n"
    )
    assert located(partial)[2] == (None, (), None, "unknown")
    assert messages(partial) == [(1, "NIC0 is near GPUs of different NUMA nodes")]


def test_legacy_columns_are_names() -> None:
    partial = read(
        "      GPU0\tmlx5_3\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tNODE\t0-3\t1\nmlx5_3\tNODE\t X \t\t\n"
    )
    nic = devices(partial)[1]
    assert (nic.type, nic.names, nic.index, nic.numa) == ("nic", ("mlx5_3",), None, (1,))


def test_a_list_that_the_tool_cut_is_suspect() -> None:
    partial = read(
        HEAD + "GPU0\t X \tSYS\t0,2,4,6,8,10\t0\t\tN/A\nGPU1\tSYS\t X \t1,3,5,7,9,11\t1\t\tN/A\n"
    )
    assert located(partial) == [
        ("0,2,4,6,8,10", (0,), None, "suspect"),
        ("1,3,5,7,9,11", (1,), None, "suspect"),
    ]
    end = "looks cut short: nvidia-smi prints no more than 6 items"
    assert messages(partial) == [
        (2, f"GPU0: CPU Affinity 0,2,4,6,8,10 {end}"),
        (3, f"GPU1: CPU Affinity 1,3,5,7,9,11 {end}"),
    ]


@pytest.mark.parametrize(
    ("cpus", "cut"),
    [
        ("0,4,8,12,16,20", True),
        ("0-1,4-5,8-9,12-13,16-17,20-21", True),
        ("0,2,4,6,8", False),
        ("0,2,4,6,8,10,12", False),
        ("0,2,4,6,8,11", False),
        ("0-23,48-71", False),
        ("N/A", False),
        ("a,b,c,d,e,f", False),
    ],
)
def test_what_looks_cut_short(cpus: str, cut: bool) -> None:
    assert is_cut_short(cpus) is cut


# --- what is not believed ----------------------------------------------------------------------


def test_a_row_that_lost_a_cell_is_noticed_by_its_own_x() -> None:
    partial = read(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tSYS\tPIX\t0-1\nGPU1\tX\tPIX\tSYS\t2-3\n"
    )
    assert links(partial) == [(0, 1, "SYS"), (0, 2, "PIX")]
    assert (3, "GPU1: cells cannot be told apart; its links are not used") in messages(partial)


def test_a_connection_that_differs_by_direction_is_not_used() -> None:
    partial = read(HEAD + "GPU0\t X \tSYS\t0-1\t0\t\tN/A\nGPU1\tNODE\t X \t2-3\t1\t\tN/A\n")
    assert links(partial) == []
    assert messages(partial) == [(3, "GPU0 to GPU1 is SYS, but NODE the other way; not used")]


def test_an_unknown_word_is_no_connection() -> None:
    partial = read(HEAD + "GPU0\t X \tC2C\t0-1\t0\t\tN/A\nGPU1\tC2C\t X \t2-3\t1\t\tN/A\n")
    assert links(partial) == []
    assert messages(partial) == [(2, "'C2C' is no kind of connection; not used")]
    assert located(partial)[0] == ("0-1", (0,), None, "measured")


def test_rows_that_were_cut_off() -> None:
    partial = read("\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tSYS\tPIX\t0-1\n")
    assert links(partial) == [(0, 1, "SYS"), (0, 2, "PIX")]
    assert messages(partial) == [(1, "no row of GPU1, NIC0: the table is incomplete")]


def test_a_reversed_range_is_unknown() -> None:
    partial = read("\tGPU0\tCPU Affinity\nGPU0\t X \t7-4\n")
    assert located(partial) == [(None, (), None, "unknown")]
    assert "runs backwards" in messages(partial)[0][1]


@pytest.mark.parametrize("number", ["99999999999999", "0-4294967294"])
def test_absurd_cpus_are_unknown(number: str) -> None:
    partial = read(f"\tGPU0\tCPU Affinity\nGPU0\t X \t{number}\n")
    assert located(partial) == [(None, (), None, "unknown")]
    assert "highest CPU supported" in messages(partial)[0][1]


def test_two_tables_are_refused() -> None:
    one = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n"
    error = refused(one + "\nLegend:\n\nhost b\n" + one)
    assert (error.line, error.message) == (
        7,
        "a second table of nvidia-smi topo -m (the first is in line 1)",
    )
    assert "a file of its own" in error.help


def test_two_rows_of_one_gpu_are_refused() -> None:
    error = refused("\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\nGPU0\t X \t4-7\n")
    assert (error.line, error.message) == (3, "a second row of GPU0 (the first is in line 2)")


def test_a_p2p_matrix_beside_the_table_is_not_taken_for_one() -> None:
    p2p = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\n"
    table = HEAD + "GPU0\t X \tSYS\t0-1\t0\t\tN/A\nGPU1\tSYS\t X \t2-3\t1\t\tN/A\n"
    assert links(read(p2p + table)) == [(0, 1, "SYS")]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("\tGPU0\tCPU Affinity\tDPU Affinity", "unknown column 'DPU Affinity'"),
        ("\tGPU0\tNUMA Affinity\tCPU Affinity", "affinity columns in an unknown order"),
        ("\tGPU0\tGPU0\tCPU Affinity", "a device has two columns"),
        ("\tGPU0\tGPU2\tGPU1\tCPU Affinity", "columns of GPUs are not in ascending order"),
        ("\tGPU0\tFOO\tCPU Affinity", "a column that is neither a GPU nor a NIC"),
        (
            "\t" + "\t".join(f"GPU{n}" for n in range(520)) + "\tCPU Affinity",
            "no table of nvidia-smi topo -m",
        ),
    ],
)
def test_headers_that_are_refused(header: str, message: str) -> None:
    assert refused(header + "\nGPU0\t X \t0-3\n").message == message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPU0\n",
        "GPU0 and GPU1 are X\n",
        "CPU(s): 4\nModel name: X\n",
        "|   0  NVIDIA X  On | 00000000:4F:00.0 Off |\n",
        "GPU[0] : (Topology) Numa Node: 3\n",
        '{"GPU0": "X"}',
    ],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not FORMAT.sniff(text)
    assert refused(text).message == "no table of nvidia-smi topo -m"
