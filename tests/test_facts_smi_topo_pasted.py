"""nvidia-smi topo after terminals, mails and editors had it."""

from __future__ import annotations

import pytest

from compiler.facts.formats.format import Text
from compiler.facts.formats.smi_topo import FORMAT
from compiler.facts.partial import ReadError
from tests.smi_topo_texts import devices, links, located, messages, read

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
