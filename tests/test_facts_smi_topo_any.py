"""nvidia-smi topo of any machine in any form, and of real ones."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.smi_topo import FORMAT, is_cut_short
from compiler.facts.partial import ReadError
from tests.smi_topo_texts import devices, links, read

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
