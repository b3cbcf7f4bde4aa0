"""What a seed's files hold, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from compiler.cpuset import CpuSet
from compiler.plan import Lane, NodePlan
from targets.bpf import TARGET
from targets.bpf.layout import TABLES
from targets.bpf.seed import build_seed
from tests.bpf_eval import dump_of_document, dump_of_stage, read_stage
from tests.bpf_plans import BANDS, EFFECTIVE, RICH_RULES, TIERS, band, plan, rule

ROOT = Path(__file__).resolve().parent.parent


def emitted(a_plan: NodePlan) -> dict[str, bytes]:
    return {artifact.path: artifact.data for artifact in TARGET.emit(a_plan)}


def key(name: str, bits: int, size: int = 16) -> bytes:
    return bits.to_bytes(4, "little") + name.encode().ljust(size, b"\0")


def mask(*rules: int) -> bytes:
    return sum(1 << n for n in rules).to_bytes(32, "little")


def tables(a_plan: NodePlan) -> dict[str, dict[bytes, bytes]]:
    return dump_of_stage(emitted(a_plan)["bpf/stage.batch"].decode())


def test_files() -> None:
    files = emitted(plan(RICH_RULES))
    assert sorted(files) == [
        "bpf/load.sh",
        "bpf/seed.json",
        "bpf/slot0/flip.batch",
        "bpf/slot0/publish.batch",
        "bpf/slot1/flip.batch",
        "bpf/slot1/publish.batch",
        "bpf/stage.batch",
        "bpf/unload.sh",
    ]
    assert all(data.endswith(b"\n") and data.isascii() for data in files.values())


def test_target() -> None:
    assert TARGET.name == "bpf"
    assert TARGET.modes == {"sched_ext"}
    unsupported = {
        "match.comm.glob",
        "match.leader.glob",
        "match.kthread.glob",
        "match.cgroup.glob",
        "match.cgroup.long",
        "match.cmdline",
        "match.pods",
        "lane.isolated",
        "cpus.1024",
    }
    assert not TARGET.supports & unsupported


# --- bytes -------------------------------------------------------------------------------------


def test_comm_keys_and_shorter_prefixes() -> None:
    maps = tables(
        plan(
            [
                rule(0, comm="VLLM::EngineCor"),
                rule(1, comm="VLLM::EngineCor*"),  # 15 bytes: the same name
                rule(2, comm="VLLM*"),
                rule(3, comm="VLLM"),
                rule(4, comm="*"),
                rule(5, leader_comm="V*"),
                rule(6, kthread="VLLM"),
                rule(7, comm="x"),
            ]
        )
    )
    assert maps["comm"] == {
        key("VLLM::EngineCor", 128): mask(0, 1, 2),
        key("VLLM", 32): mask(2),
        key("VLLM", 40): mask(2, 3, 6),
        key("x", 16): mask(7),
    }
    assert maps["leader"] == {key("V", 8): mask(5)}
    assert maps["kind"] == {
        (0).to_bytes(4, "little"): mask(0, 1, 2, 3, 4, 5, 7),
        (1).to_bytes(4, "little"): mask(6),
    }
    dontcare = list(maps["dontcare"].values())
    assert dontcare[0] == mask(4, 5)
    assert dontcare[1] == mask(0, 1, 2, 3, 4, 6, 7)
    assert dontcare[2] == mask()  # every rule says user or kernel
    assert dontcare[3:] == [mask(*range(8))] * 11


def test_cgroup_keys_and_levels() -> None:
    maps = tables(
        plan(
            [
                rule(0, cgroup="a/*/c"),
                rule(1, cgroup="a/**"),
                rule(2, cgroup="**/c/**"),
                rule(3, cgroup="**"),
                rule(4, cgroup="1/2/3/4/5/6/7/8/**"),
            ]
        )
    )
    ids = {
        (1, "a"): mask(0, 1),
        (3, "c"): mask(0),
        (0, "c"): mask(2),
        **{(n, str(n)): mask(4) for n in range(1, 9)},
    }
    assert maps["cgroup"] == {key(name, depth, 64): rules for (depth, name), rules in ids.items()}
    levels = [value for _, value in sorted(maps["level"].items())]
    assert levels == [
        mask(),
        mask(1),
        mask(1),
        mask(0, 1),
        *[mask(1)] * 4,
        mask(1, 4),
        mask(1, 4),
    ]
    dontcare = [value for _, value in sorted(maps["dontcare"].items())]
    assert dontcare[3] == mask(2, 3)  # level
    assert dontcare[5] == mask(0, 1, 3, 4)  # anywhere
    assert dontcare[6] == mask(2, 3)  # depth 1
    assert dontcare[7] == mask(0, 1, 2, 3)  # depth 2: only 4 names it


def test_rules_bands_and_head() -> None:
    a_plan = plan([rule(0, 2, comm="a"), rule(3, 1, comm="b")], default_band=3)
    maps = tables(a_plan)
    assert maps["rules"] == {bytes(4): b"\2\0\0\0", b"\3\0\0\0": b"\1\0\0\0"}
    # slice 3,000,000 ns = 0x2dc6c0; weight 1000 = 0x3e8; floor 0; tier 1; order 2;
    # preempt | hard | idle core = 11; CPUs 5-9 = 0x3e0
    assert maps["bands"][b"\1\0\0\0"] == bytes.fromhex(
        "c0c62d0000000000 e8030000 00000000 0100 0200 0b000000 e003000000000000"
    ) + bytes(15 * 8)
    head = maps["head"][bytes(4)]
    assert head[:12] == bytes.fromhex("04000000 04000000 03000000")
    assert int.from_bytes(head[12:], "little") == build_seed(a_plan).number


def test_soft_only_when_a_wish_narrows() -> None:
    bands = [
        band(0, tier=4),  # every effective CPU: no domain
        band(1, tier=4, cpus="0-3"),
        band(2, tier=4, cpus="0-3", hard=True),
        band(3, tier=4, hard=True),
    ]
    flags = [value[20] for _, value in sorted(tables(plan(bands=bands))["bands"].items())]
    assert flags == [0, 4, 2, 2]


@pytest.mark.parametrize(
    ("share", "tier", "flags"),
    [
        ("open", 0, [0, 4, 2]),
        ("guarded", 5, [0, 4, 2]),  # of a lower tier
        ("guarded", 4, [0, 4, 2]),  # of its own: only lower ones are kept out
        ("guarded", 1, [0, 2, 2]),
        ("exclusive", 5, [0, 2, 2]),
    ],
)
def test_a_soft_domain_is_hard_where_leaving_it_could_end_in_a_closed_lane(
    share: Literal["open", "guarded", "exclusive"], tier: int, flags: list[int]
) -> None:
    bands = [band(0, tier=4), band(1, tier=4, cpus="0-3"), band(2, tier=4, cpus="8-9", hard=True)]
    lane = Lane(
        name="serving",
        cpus=CpuSet.parse("8-9"),
        cores=2,
        min_cores=2,
        max_cores=2,
        share=share,
        tier=tier,
        intents=("serving",),
        prefer=(),
        require=(),
    )
    a_plan = plan(bands=bands).model_copy(update={"lanes": (lane,)})
    found = [value[20] for _, value in sorted(tables(a_plan)["bands"].items())]
    assert found == flags


def test_cpu_mask_reaches_1023() -> None:
    bands = [band(0, cpus="0,63-64,1023", hard=True)]
    wide = plan(bands=bands, effective=CpuSet.parse("0-1023"))
    assert tables(wide)["bands"][bytes(4)][24:] == (
        bytes.fromhex("0100000000000080 0100000000000000") + bytes(8 * 13 + 7) + b"\x80"
    )


def test_empty_plan_of_rules_still_makes_every_table() -> None:
    maps = tables(plan())
    assert list(maps) == [table.name for table in TABLES]
    assert maps["comm"] == maps["leader"] == maps["cgroup"] == maps["rules"] == {}
    assert set(maps["dontcare"].values()) == {bytes(32)}
    assert maps["head"][bytes(4)][:4] == bytes(4)


def test_run_time_tables_are_empty_and_open() -> None:
    staged = read_stage(emitted(plan(RICH_RULES))["bpf/stage.batch"].decode())
    for path, one in staged.items():
        assert one.frozen == (not path.endswith(("/group", "/groupvec")))
        if not one.frozen:
            assert one.entries == {}


# --- files agree -------------------------------------------------------------------------------


def test_stage_batch_is_seed_json_in_other_words() -> None:
    files = emitted(plan(RICH_RULES))
    document: Any = json.loads(files["bpf/seed.json"])
    lines = []
    for table in document["tables"]:
        path = f"{document['pins']['stage']}/{table['name']}"
        lines.append(
            f"map create {path} type {table['type']} key {table['keySize']}"
            f" value {table['valueSize']} entries {table['maxEntries']}"
            f" name {table['inner']} flags {table['flags']}"
        )
        for entry in table["entries"]:
            pair = [bytes.fromhex(entry[side]).hex(" ") for side in ("key", "value")]
            lines.append(f"map update pinned {path} key hex {pair[0]} value hex {pair[1]}")
        if table["frozen"]:
            lines.append(f"map freeze pinned {path}")
    written = files["bpf/stage.batch"].decode().splitlines()
    assert [line for line in written if line and not line.startswith("#")] == lines
    assert dump_of_document(files["bpf/seed.json"]) == tables(plan(RICH_RULES))


def test_entries_are_sorted_by_key_bytes_and_sized() -> None:
    staged = read_stage(emitted(plan(RICH_RULES))["bpf/stage.batch"].decode())
    for one in staged.values():
        assert list(one.entries) == sorted(one.entries)
        for entry in one.entries.items():
            assert [len(part) for part in entry] == [
                int(one.geometry["key"]),
                int(one.geometry["value"]),
            ]


def test_seed_json_reads_well() -> None:
    document: Any = json.loads(emitted(plan(RICH_RULES))["bpf/seed.json"])
    by_name = {table["name"]: table for table in document["tables"]}

    def meanings(table: str) -> list[Any]:
        return [entry["means"] for entry in by_name[table]["entries"]]

    assert {"name": "VLLM::EngineCor", "rules": "2-5,13"} in meanings("comm")
    assert {"startsWith": "VLLM::", "rules": "3,5,13"} in meanings("comm")
    assert {"depth": "any", "name": "serving.scope", "rules": "5"} in meanings("cgroup")
    assert {"depth": 1, "name": "a", "rules": "9-10"} in meanings("cgroup")
    assert {"components": "9 and more", "rules": "2,8,10"} in meanings("level")
    assert {"kind": "kernel", "rules": "0-1"} in meanings("kind")
    assert {"rule": 2, "band": 1} in meanings("rules")
    assert {
        "band": 1,
        "tier": 1,
        "tierName": "latency",
        "order": 2,
        "sliceNs": 3_000_000,
        "weight": 1000,
        "floor": 0,
        "flags": ["preempt", "hard", "idle-core"],
        "cpus": "5-9",
    } in meanings("bands")
    assert document["rules"][2] == {
        "id": 2,
        "unit": "intent-2",
        "band": 1,
        "match": {"comm": "VLLM::EngineCor", "cgroup": "kubepods.slice/**"},
    }
    assert document["abi"]["fields"]["version"] == 1
    assert document["abi"]["raw"].startswith("5449524301000000")  # "TIRC", 1


def test_publish_and_flip() -> None:
    a_plan = plan(RICH_RULES)
    files = emitted(a_plan)
    number = build_seed(a_plan).number
    for slot in (0, 1):
        publish = files[f"bpf/slot{slot}/publish.batch"].decode()
        assert re.findall(r"^map .*", publish, re.M) == [
            f"map update pinned /sys/fs/bpf/tierc_{t.name} key hex 0{slot} 00 00 00"
            f" value pinned /sys/fs/bpf/tierc_stage/{t.name}"
            for t in TABLES
        ]
        flip = re.findall(r"^map .*", files[f"bpf/slot{slot}/flip.batch"].decode(), re.M)
        generation = ((number & ~1) | slot).to_bytes(4, "little").hex(" ")
        assert flip == [
            "map update pinned /sys/fs/bpf/tierc_active key hex 00 00 00 00"
            f" value hex 0{slot} 00 00 00 {generation}"
        ]


def test_no_text_from_a_policy_reaches_a_batch() -> None:
    """Names are hex there, so nothing in them can be a command."""
    hostile = "a\\b;#'$(x)"
    files = emitted(plan([rule(0, comm=hostile, cgroup=f"{hostile}/**")]))
    for path, data in files.items():
        if path.endswith(".batch"):
            assert b"$" not in data
            assert b";" not in data
    assert hostile.encode().hex(" ") in files["bpf/stage.batch"].decode()


# --- the same bytes, and other bytes for another seed --------------------------------------------


def test_order_of_bands_and_tiers_is_no_input() -> None:
    assert emitted(plan(RICH_RULES)) == emitted(
        plan(RICH_RULES, bands=BANDS[::-1], tiers=TIERS[::-1])
    )


def test_same_bytes_under_any_hash_seed() -> None:
    code = (
        "import hashlib; from tests.bpf_plans import *; from targets.bpf import TARGET\n"
        "print(hashlib.sha256(b''.join(a.data for a in TARGET.emit(plan(RICH_RULES)))).hexdigest())"
    )
    here = hashlib.sha256(b"".join(a.data for a in TARGET.emit(plan(RICH_RULES)))).hexdigest()
    for seed in ("0", "7"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


def test_generation_differs_with_content_and_slot() -> None:
    seeds = [
        build_seed(p)
        for p in (
            plan(),
            plan(RICH_RULES),
            plan(RICH_RULES[:-1]),
            plan(RICH_RULES, default_band=1),
            plan(RICH_RULES, bands=[*BANDS[:3], band(3, tier=0, order=1)]),
        )
    ]
    generations = [seed.generation(slot) for seed in seeds for slot in (0, 1)]
    assert len(set(generations)) == len(generations)
    assert 0 not in generations
    assert all(seed.generation(slot) & 1 == slot for seed in seeds for slot in (0, 1))


def test_unit_names_are_no_content() -> None:
    """Renaming an intent reclassifies nothing."""
    renamed = [r.model_copy(update={"unit": "other"}) for r in RICH_RULES]
    assert build_seed(plan(renamed)) == build_seed(plan(RICH_RULES))


def test_the_plan_is_left_alone() -> None:
    a_plan = plan(RICH_RULES)
    before = a_plan.model_dump_json()
    TARGET.emit(a_plan)
    assert a_plan.model_dump_json() == before
    assert a_plan.machine.effective == EFFECTIVE
