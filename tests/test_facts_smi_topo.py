"""``nvidia-smi topo -m``: the printer's own form, and what pasting makes of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.smi_topo import FORMAT, is_cut_short
from compiler.facts.partial import DevicePart, Partial, ReadError

HEAD = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"


def read(text: str) -> Partial:
    assert FORMAT.sniff(text)
    (partial,) = FORMAT.read(Text("topo.txt", text))
    return partial


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("topo.txt", text))
    return caught.value


def devices(partial: Partial) -> tuple[DevicePart, ...]:
    assert partial.devices is not None
    return partial.devices


def located(partial: Partial) -> list[tuple[str | None, tuple[int, ...], int | None, str]]:
    return [
        (None if d.cpus is None else str(d.cpus), d.numa, d.memory_node, d.confidence)
        for d in devices(partial)
    ]


def links(partial: Partial) -> list[tuple[int, int, str]]:
    return [(link.a, link.b, link.kind) for link in partial.links]


def messages(partial: Partial) -> list[tuple[int | None, str]]:
    return [(note.line, note.message) for note in partial.notes]


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


# --- what pasting makes of it ------------------------------------------------------------------

PASTED = """\
{0}        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID{1}
{0}GPU0     X      NODE    PHB     0-7     0,2-4           3{1}
{0}GPU1    NODE     X      NODE    0-7     0               N/A{1}
{0}NIC0    PHB     NODE     X{1}
"""


@pytest.mark.parametrize(
    "text",
    [
        PASTED.format("", ""),
        PASTED.format("   ", ""),
        PASTED.format("", "   "),
        PASTED.format("", "\r"),
        PASTED.format("", "\n"),
        PASTED.format("", "").replace("  ", "\u00a0 "),
        PASTED.format("", "").replace("-", "\u2013"),
        PASTED.replace("        GPU0", "\x1b[4m        GPU0").format("", "\x1b[0m"),
        PASTED.replace("        GPU0", "^[[4m\tGPU0").format("", "^[[0m"),
        PASTED.replace("        GPU0", "[4m GPU0").format("", "[0m"),
        "root@box:~# nvidia-smi topo -m\n```\n" + PASTED.format("", "") + "```\n$ exit\n",
        "GPU0\n  GPU product name  : NVIDIA X\n" + PASTED.format("", "") + "\nNIC0\n NIC name: Y\n",
    ],
)
def test_pasted_with_spaces(text: str) -> None:
    partial = read(text)
    assert located(partial) == [
        ("0-7", (0, 2, 3, 4), 3, "measured"),
        ("0-7", (0,), None, "measured"),
        (None, (0,), None, "inferred"),
    ]
    assert links(partial) == [(0, 1, "NODE"), (0, 2, "PHB"), (1, 2, "NODE")]
    assert messages(partial) == []


@pytest.mark.parametrize("width", range(12, 72))
def test_lines_that_a_narrow_terminal_broke(width: int) -> None:
    """Whatever the width: the facts, or unknown; never other ones."""
    whole = [
        "        GPU0    GPU1    GPU2    GPU10   NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID",  # noqa: E501
        "GPU0     X      NV18    NV1     SYS     NODE    0-11,112-119    0,3-5           2",
        "GPU1    NV18     X      NV2     SYS     NODE    0-11,112-119    0,3-5           N/A",
        "GPU2    NV1     NV2      X      PIX     SYS     12-23,120-127   1               N/A",
        "GPU10   SYS     SYS     PIX      X      SYS     12-23,120-127   1               N/A",
        "NIC0    NODE    NODE    SYS     SYS      X",
    ]
    lines = [line[at : at + width] for line in whole for at in range(0, len(line), width)]
    expected = read("\n".join(whole) + "\n")
    try:
        (partial,) = FORMAT.read(Text("t", "\n".join(lines) + "\n\nLegend:\n"))
    except ReadError as error:
        partial, message = None, error.message
    if partial is None:
        assert "header" in message or "column" in message, message
        return
    for found, right in zip(devices(partial), devices(expected), strict=True):
        assert found.index == right.index
        assert found.cpus in (right.cpus, None)
        assert found.numa in (right.numa, ())
        assert found.memory_node in (right.memory_node, None)
    assert set(partial.links) <= set(expected.links)
    if located(partial) != located(expected) or partial.links != expected.links:
        assert partial.notes


def test_most_broken_lines_are_put_together_again() -> None:
    text = (
        "        GPU0    GPU1    CPU Affini\nty    NUMA Affinity\n"
        "GPU0     X      NV1\n8    0-3,8-1\n1     0\n"
        "GPU1    NV18     X \n     4-7,12\n-15    1\n"
    )
    partial = read(text)
    assert located(partial) == [
        ("0-3,8-11", (0,), None, "measured"),
        ("4-7,12-15", (1,), None, "measured"),
    ]
    assert links(partial) == [(0, 1, "NV18")]


def test_a_cpu_list_that_goes_on_in_the_next_line() -> None:
    text = "     GPU0  CPU Affinity\nGPU0  X    0-55,112\n-167\n\nLegend:\n"
    assert located(read(text)) == [("0-55,112-167", (), None, "measured")]


def test_cells_that_grew_together_cost_the_links_only() -> None:
    partial = read(
        "     GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity\n"
        "GPU0 X NODENODE 0-3 0\nGPU1 NODE X SYS 0-3 0\n"
    )
    assert located(partial)[:2] == [("0-3", (0,), None, "measured")] * 2
    assert (0, 2) not in {(link.a, link.b) for link in partial.links}
    assert (2, "GPU0: cells cannot be told apart; its links are not used") in messages(partial)


def test_a_pasted_affinity_that_is_empty_is_not_the_next_column() -> None:
    partial = read(
        "     GPU0    CPU Affinity  NUMA Affinity   GPU NUMA ID\nGPU0  X              1    N/A\n"
    )
    assert located(partial) == [(None, (), None, "unknown")]
    assert messages(partial) == [
        (2, "GPU0: affinity cells cannot be told apart; they are not used")
    ]


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


# --- any machine, any form ---------------------------------------------------------------------

WORDS = st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", "NV1", "NV18"])
CPUS = st.frozensets(st.integers(0, 300), min_size=1, max_size=12)


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[str], dict[tuple[int, int], str], list[list[str]]]:
    gpus, nics = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    labels = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    kinds = {(a, b): draw(WORDS) for a in range(len(labels)) for b in range(a + 1, len(labels))}
    tails = [
        [
            str(CpuSet(draw(CPUS))),
            str(CpuSet(draw(st.frozensets(st.integers(0, 40), min_size=1, max_size=5)))),
            draw(st.one_of(st.just("N/A"), st.integers(0, 40).map(str))),
        ]
        for _ in range(gpus)
    ]
    return labels, kinds, tails


@settings(max_examples=120)
@given(machines(), st.integers(1, 3), st.sampled_from(["tabs", "stops", "spaces"]), st.data())
def test_any_machine_in_any_form_reads_back(
    machine: tuple[list[str], dict[tuple[int, int], str], list[list[str]]],
    columns: int,
    form: str,
    data: st.DataObject,
) -> None:
    labels, kinds, tails = machine
    names = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][:columns]
    rows = [["", *labels, *names]]
    for a, label in enumerate(labels):
        cells = [" X " if a == b else kinds[min(a, b), max(a, b)] for b in range(len(labels))]
        tail = tails[a][:columns] if label.startswith("GPU") else [""] * columns
        if columns == 3 and form != "spaces":
            tail.insert(2, "")  # as printed
        rows.append([label, *cells, *tail])
    if form == "spaces":
        width = data.draw(st.integers(1, 14))
        lines = [" ".join(cell.ljust(width) for cell in row).rstrip() for row in rows]
    else:
        lines = ["\t".join(row) for row in rows]
        if form == "stops":
            stop = data.draw(st.integers(4, 16))
            lines = [line.expandtabs(stop).rstrip() for line in lines]
            # Tab stops narrower than a cell leave at least one blank.
    if data.draw(st.booleans()):
        lines[0] = f"\x1b[4m{lines[0]}\x1b[0m"
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    partial = read(end.join(lines) + end + end + "Legend:" + end)

    found = devices(partial)
    for gpu, (cpus, numa, memory) in zip(found, tails, strict=False):
        assert str(gpu.cpus) == cpus
        assert gpu.numa == (tuple(CpuSet.parse(numa)) if columns > 1 else ())
        assert gpu.memory_node == (int(memory) if columns > 2 and memory != "N/A" else None)
        assert (gpu.confidence == "suspect") == is_cut_short(cpus)
    assert links(partial) == [(a, b, kind) for (a, b), kind in sorted(kinds.items())]


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "GPU0",
                "GPU1",
                "NIC0",
                "X",
                "NODE",
                "0-3",
                "N/A",
                "CPU Affinity",
                "\t",
                " ",
                "\n",
                "\x1b[4m",
            ]
        ),
        max_size=40,
    )
)
def test_any_text_is_read_or_refused(words: list[str]) -> None:
    text = "".join(word + " " * (word.strip() != "") for word in words)
    with contextlib.suppress(ReadError):
        FORMAT.read(Text("t", text))
    assert FORMAT.sniff(text) in (True, False)


def test_a_large_text_takes_no_time() -> None:
    """A MiB of headers without rows, of one endless row, and of short rows."""
    for text in (
        "GPU0 GPU1\n" * 100_000,
        "\tGPU0\tCPU Affinity\nGPU0\t" + "X\t" * 500_000,
        "\tGPU0\tCPU Affinity\nGPU0\tX\t0-3\n" + "GPU7 X\n" * 100_000,
    ):
        with contextlib.suppress(ReadError):
            FORMAT.read(Text("t", text))


# --- real machines -----------------------------------------------------------------------------

# From MANIFEST.tsv and the files read by eye: CPUs and nodes of each GPU.
CORPUS: dict[str, list[tuple[str, tuple[int, ...]]]] = {
    "6gpu-ansi-underline": [("0-23,48-71", (0,))] * 4 + [("24-47,72-95", (1,))] * 2,
    "adroit-a100-4gpu-legacy-nic-columns-truncated": [("0,2,4,6,8,10", (0,))] * 2
    + [("1,3,5,7,9,11", (1,))] * 2,
    "coyote2-4gpu-4nic": [("0-31", (0,))] * 2 + [("32-63", (1,))] * 2,
    "dell-v100-2gpu-24cpu-truncated": [("0,2,4,6,8,10", (0,)), ("1,3,5,7,9,11", (1,))],
    "dgx-a100-8gpu-nps4": [("48-63,176-191", (3,))] * 2
    + [("16-31,144-159", (1,))] * 2
    + [("112-127,240-255", (7,))] * 2
    + [("80-95,208-223", (5,))] * 2,
    "epyc-4gpu-5nic-truncated-mixed": [("0,2,4,6,8,10", (0,))] * 2 + [("1,3,5,7,9,11", (1,))] * 2,
    "gb10-dgx-spark": [("0-19", (0,))],
    "h100pcie-kvm-252cpu": [("0-251", (0,))],
    "rtx4090-8gpu-all-sys": [("0-55,112-167", (0,))] * 4 + [("56-111,168-223", (1,))] * 4,
}


def test_tables_of_real_machines(shared: Path) -> None:
    where = shared / "corpus" / "topology" / "smi-topo"
    files = sorted(where.glob("*.topo.txt"))
    assert {path.name.removesuffix(".topo.txt") for path in files} == CORPUS.keys()
    for path in files:
        expected = CORPUS[path.name.removesuffix(".topo.txt")]
        partial = read(path.read_text("utf-8"))
        gpus = [d for d in devices(partial) if d.type == "gpu"]
        assert [(str(d.cpus), d.numa) for d in gpus] == expected, path.name
        cut = {d.confidence for d in gpus}
        assert cut == {"suspect" if "truncated" in path.name else "measured"}, path.name


def test_nics_of_real_machines(shared: Path) -> None:
    where = shared / "corpus" / "topology" / "smi-topo"

    def nics(name: str) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
        partial = read((where / f"{name}.topo.txt").read_text("utf-8"))
        return [(d.names, d.numa) for d in devices(partial) if d.type == "nic"]

    assert nics("epyc-4gpu-5nic-truncated-mixed")[4] == (("rocep181s0f0",), (1,))
    assert [name for (name,), _ in nics("gb10-dgx-spark")] == [
        "rocep1s0f0",
        "rocep1s0f1",
        "roceP2p1s0f0",
        "roceP2p1s0f1",
    ]
    assert nics("adroit-a100-4gpu-legacy-nic-columns-truncated") == [(("mlx5_0",), (0,))]
    assert [numa for _, numa in nics("rtx4090-8gpu-all-sys")] == [(1,), (1,)]
