"""The Python layout is what the compiled header says, and the header compiles for both sides."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler import plan as ir
from compiler.cpuset import CpuSet
from targets.bpf import layout

HEADER = Path(__file__).resolve().parent.parent / "bpf" / "tierc_maps.h"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(HEADER.parent)]

CONSTANTS = {
    "TIERC_ABI_MAGIC": layout.ABI_MAGIC,
    "TIERC_ABI_VERSION": layout.ABI_VERSION,
    "TIERC_SLOTS": layout.SLOTS,
    "TIERC_MAX_RULES": layout.MAX_RULES,
    "TIERC_MAX_BANDS": layout.MAX_BANDS,
    "TIERC_MAX_CPUS": layout.MAX_CPUS,
    "TIERC_MAX_GROUPS": layout.MAX_GROUPS,
    "TIERC_MAX_GROUP_CGROUPS": layout.MAX_GROUP_CGROUPS,
    "TIERC_COMM_LEN": layout.COMM_LEN,
    "TIERC_CGROUP_NAME_LEN": layout.CGROUP_NAME_LEN,
    "TIERC_CGROUP_DEPTH": layout.CGROUP_DEPTH,
    "TIERC_CGROUP_WALK": layout.CGROUP_WALK,
    "TIERC_LEVEL_DEEPER": layout.LEVEL_DEEPER,
    "TIERC_KIND_USER": layout.KIND_USER,
    "TIERC_KIND_KERNEL": layout.KIND_KERNEL,
    "TIERC_DIM_COMM": layout.DIM_COMM,
    "TIERC_DIM_LEADER": layout.DIM_LEADER,
    "TIERC_DIM_KIND": layout.DIM_KIND,
    "TIERC_DIM_LEVEL": layout.DIM_LEVEL,
    "TIERC_DIM_GROUP": layout.DIM_GROUP,
    "TIERC_DIM_CGROUP": layout.DIM_CGROUP,
    "TIERC_DIMS": layout.DIMS,
    "TIERC_BAND_PREEMPT": layout.BAND_FLAGS["preempt"],
    "TIERC_BAND_HARD": layout.BAND_FLAGS["hard"],
    "TIERC_BAND_SOFT": layout.BAND_FLAGS["soft"],
    "TIERC_BAND_IDLE_CORE": layout.BAND_FLAGS["idle-core"],
    "TIERC_F_NO_PREALLOC": layout.F_NO_PREALLOC,
}
SIZES = {
    "tierc_vec": layout.VEC_SIZE,
    "tierc_comm_key": layout.COMM_KEY_SIZE,
    "tierc_cgroup_key": layout.CGROUP_KEY_SIZE,
    "tierc_band": layout.BAND_SIZE,
    "tierc_head": layout.HEAD_SIZE,
    "tierc_active": layout.ACTIVE_SIZE,
    "tierc_abi": 4 * len(layout.ABI_FIELDS),
}
FIELDS = {
    "tierc_vec": ["words"],
    "tierc_comm_key": ["bits", "name"],
    "tierc_cgroup_key": ["depth", "name"],
    "tierc_band": ["slice_ns", "weight", "floor", "tier", "order", "flags", "cpus"],
    "tierc_head": ["n_rules", "n_bands", "default_band", "seed"],
    "tierc_active": ["slot", "generation"],
    "tierc_abi": [
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in layout.ABI_FIELDS
    ],
}
# Records as C writes them, beside the same ones as Python packs them.
RECORDS = {
    "struct tierc_vec x = {.words = {[0] = 1ULL << 3 | 1ULL << 63, [2] = 1ULL << 5}}": (
        layout.pack_vec(1 << 3 | 1 << 63 | 1 << 133)
    ),
    'struct tierc_comm_key x = {.bits = 8 * 7, .name = "stress"}': (
        layout.pack_comm_key(b"stress", exact=True)
    ),
    'struct tierc_comm_key x = {.bits = 128, .name = "VLLM::EngineCor"}': (
        layout.pack_comm_key(b"VLLM::EngineCor", exact=True)
    ),
    'struct tierc_comm_key x = {.bits = 8 * 4, .name = "irq/"}': (
        layout.pack_comm_key(b"irq/", exact=False)
    ),
    'struct tierc_cgroup_key x = {.depth = 2, .name = "kubelet.service"}': (
        layout.pack_cgroup_key(2, b"kubelet.service")
    ),
    "struct tierc_band x = {.slice_ns = 0x0102030405060708, .weight = 0x11121314, .floor = 999,"
    " .tier = 0x2122, .order = 0x3132, .flags = TIERC_BAND_PREEMPT | TIERC_BAND_SOFT,"
    " .cpus = {[0] = 1, [1] = 1ULL << 6, [15] = 1ULL << 63}}": (
        layout.pack_band(
            slice_ns=0x0102030405060708,
            weight=0x11121314,
            floor=999,
            tier=0x2122,
            order=0x3132,
            flags=["soft", "preempt"],
            cpus=CpuSet((0, 70, 1023)),
        )
    ),
    "struct tierc_head x = {.n_rules = 1, .n_bands = 2, .default_band = 3, .seed = 0xa1b2c3d4}": (
        layout.pack_head(n_rules=1, n_bands=2, default_band=3, seed=0xA1B2C3D4)
    ),
    "struct tierc_active x = {.slot = 1, .generation = 0xa1b2c3d5}": (
        layout.pack_active(1, 0xA1B2C3D5)
    ),
    "struct tierc_abi x = TIERC_ABI_INIT": layout.pack_abi(),
    "tierc_u32 x = 77": layout.pack_index(77),
}
# include/uapi/linux/bpf.h, enum bpf_map_type
MAP_TYPES = {"hash": 1, "array": 2, "lpm_trie": 11}


def program() -> str:
    lines = [
        '#include "tierc_maps.h"',
        "#include <linux/types.h>",
        "#include <linux/bpf.h>",
        "#include <stddef.h>",
        "#include <stdio.h>",
        "static void bytes(const void *p, size_t n) {",
        '  for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char *)p)[i]);',
        '  printf("\\n");',
        "}",
        "int main(void) {",
    ]
    lines += [f'  printf("{name} %lld\\n", (long long){name});' for name in CONSTANTS]
    lines += [f'  printf("sizeof {name} %zu\\n", sizeof(struct {name}));' for name in SIZES]
    for struct, fields in FIELDS.items():
        lines += [
            f'  printf("offset {struct} {f} %zu %zu\\n", offsetof(struct {struct}, {f}),'
            f" sizeof(((struct {struct} *)0)->{f}));"
            for f in fields
        ]
    lines += [f'  {{ {code}; printf("record "); bytes(&x, sizeof x); }}' for code in RECORDS]
    lines += [
        '  printf("%s %s %s\\n", TIERC_MAP_PREFIX, TIERC_MAP_ACTIVE, TIERC_MAP_ABI);',
        "#define TABLE(name, type, key, value, entries, flags, frozen) \\",
        '  printf("table " #name " %d %zu %zu %d %u %d\\n", BPF_MAP_TYPE_##type, sizeof(key), \\',
        "         sizeof(value), (int)(entries), (unsigned)(flags), frozen);",
        "  TIERC_TABLES(TABLE)",
        "  return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(params=["gcc", "clang"])
def printed(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> str:
    source = tmp_path / "layout.c"
    source.write_text(program())
    binary = tmp_path / "layout"
    run(tool(request.param), *STRICT, "-o", str(binary), str(source))
    return run(str(binary))


def test_python_layout_equals_the_compiled_header(printed: str) -> None:
    lines = printed.splitlines()
    for name, value in CONSTANTS.items():
        assert f"{name} {value}" in lines
    for name, size in SIZES.items():
        assert f"sizeof {name} {size}" in lines
    assert "tierc_ tierc_active tierc_abi" in lines
    assert (layout.MAP_PREFIX, layout.MAP_ACTIVE) == ("tierc_", "tierc_active")
    assert layout.MAP_ABI == "tierc_abi"
    assert [line.split()[1] for line in lines if line.startswith("record")] == [
        data.hex() for data in RECORDS.values()
    ]
    assert [line for line in lines if line.startswith("table")] == [
        f"table {t.name} {MAP_TYPES[t.type]} {t.key_size} {t.value_size} {t.max_entries}"
        f" {t.flags} {int(t.frozen)}"
        for t in layout.TABLES
    ]


def test_no_structure_has_hidden_padding(printed: str) -> None:
    """Every byte belongs to a field, so a key or value never holds what nobody wrote."""
    covered: dict[str, int] = {}
    for line in printed.splitlines():
        if line.startswith("offset"):
            _, struct, field, offset, size = line.split()
            assert int(offset) == covered.get(struct, 0), (struct, field)
            covered[struct] = int(offset) + int(size)
    assert covered == SIZES


@pytest.mark.parametrize("std", ["gnu11", "gnu17"])
def test_header_compiles_as_bpf(tool: Callable[[str], str], tmp_path: Path, std: str) -> None:
    source = tmp_path / "use.c"
    # As a scheduler uses it: one map definition for each table, no other header at all.
    source.write_text(
        '#include "tierc_maps.h"\n'
        "#define INNER(name, type, key_t, value_t, n, flags, frozen) \\\n"
        "  struct inner_##name { int (*max_entries)[n]; key_t *key; value_t *value; }; \\\n"
        "  struct inner_##name *use_##name;\n"
        "TIERC_TABLES(INNER)\n"
        "struct tierc_abi abi = TIERC_ABI_INIT;\n"
        "int tier(struct tierc_band *band) { return band->tier; }\n"
    )
    target = str(tmp_path / "use.o")
    warnings = ["-Wall", "-Wextra", "-Werror", "-I", str(HEADER.parent)]
    clang = [tool("clang"), "-target", "bpf", "-O2", "-g", f"-std={std}", *warnings]
    run(*clang, "-c", "-o", target, str(source))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tierc_u32 weight;", "tierc_u64 weight;"),
        ("tierc_u16 tier;", ""),
        ("#define TIERC_MAX_CPUS 1024", "#define TIERC_MAX_CPUS 1000"),
        ("tierc_u32 seed;", "tierc_u32 seed; tierc_u32 more;"),
        ("__attribute__((aligned(8)))", ""),
    ],
)
def test_assertions_catch_a_changed_header(
    tool: Callable[[str], str], tmp_path: Path, old: str, new: str
) -> None:
    text = HEADER.read_text()
    assert text.count(old) == 1
    (tmp_path / "changed.c").write_text(text.replace(old, new))
    command = [tool("clang"), "-target", "bpf", "-c", "-o", "/dev/null", "changed.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "error: " in done.stderr


def test_header_states_its_licence() -> None:
    assert HEADER.read_text().startswith("/* SPDX-License-Identifier: GPL-2.0-only */\n")


def test_limits_are_those_of_the_plan() -> None:
    assert (layout.MAX_RULES, layout.MAX_BANDS) == (ir.MAX_RULES, ir.MAX_BANDS)


def test_map_names_fit_the_kernel() -> None:
    for table in layout.TABLES:
        for name in (table.inner, table.outer):
            assert len(name) <= 15  # BPF_OBJ_NAME_LEN is 16 with the NUL
            assert set(name) <= set("abcdefghijklmnopqrstuvwxyz_.")


@pytest.mark.parametrize("name", [b"x" * 16, b"a\0b", b"\0"])
def test_no_key_for_an_impossible_comm(name: bytes) -> None:
    with pytest.raises(ValueError, match="no name of at most 15 bytes"):
        layout.pack_comm_key(name, exact=False)


@pytest.mark.parametrize("name", [b"x" * 64, b"a\0b", b""])
def test_no_key_for_an_impossible_cgroup(name: bytes) -> None:
    with pytest.raises(ValueError, match="no cgroup name"):
        layout.pack_cgroup_key(1, name)


def test_numbers_that_do_not_fit_are_refused() -> None:
    band = {
        "slice_ns": 1,
        "weight": 1,
        "floor": 0,
        "tier": 0,
        "order": 0,
        "flags": [],
        "cpus": CpuSet(),
    }
    assert len(layout.pack_band(**band)) == 152  # type: ignore[arg-type]
    for field, value in [
        ("slice_ns", 1 << 64),
        ("weight", 1 << 32),
        ("floor", -1),
        ("tier", 1 << 16),
        ("order", 1 << 16),
        ("cpus", CpuSet((1024,))),
    ]:
        with pytest.raises(ValueError, match="fit"):
            layout.pack_band(**band | {field: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="depth 9"):
        layout.pack_cgroup_key(9, b"x")
    with pytest.raises(ValueError, match="slot 2"):
        layout.pack_active(2, 1)
    with pytest.raises(ValueError, match="rule set"):
        layout.pack_vec(1 << 256)
