"""The fingerprint that apply.sh computes in sh against compiler.fingerprint."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text
from tests.taskset_live import Shell, make_shell
from tests.taskset_plans import plan, read_machine, this_machine, write_scripts


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


def live_text(shell: Shell, sys: Path, tmp: Path, arch: str = "x86_64") -> str:
    """Return what ``apply.sh --fingerprint`` prints for a /sys tree."""
    on = this_machine().model_copy(update={"arch": arch})
    script = write_scripts(plan([], on=on, bands=[(str(on.online), 1)]), tmp / "node") / "apply.sh"
    done = subprocess.run(
        [*shell.argv, str(script), "--fingerprint"],
        env={**shell.environ(), "TIERC_SYS": str(sys), "TIERC_ARCH": arch},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def hex_mask(cpus: Iterable[int]) -> str:
    value = sum(1 << cpu for cpu in set(cpus))
    words = []
    while value or not words:
        words.append(f"{value & 0xFFFFFFFF:08x}")
        value >>= 32
    return ",".join(reversed(words))


def cpu_list(cpus: Iterable[int]) -> str:
    """Write a list without ranges: the kernel's form is only one of several."""
    return ",".join(map(str, sorted(set(cpus))))


Caches = Mapping[tuple[int, str], list[list[int]]]


def write_sys(
    root: Path,
    online: str | None,
    cores: list[list[int]],
    caches: Caches,
    *,
    names: tuple[str, str] = ("core_cpus_list", "shared_cpu_list"),
    write: Callable[[Iterable[int]], str] = cpu_list,
) -> Path:
    """Write /sys/devices/system/cpu: caches by (level, type) as the sets that share one."""
    base = root / "devices/system/cpu"
    base.mkdir(parents=True)
    if online is not None:
        (base / "online").write_text(online + "\n")
    for core in cores:
        for cpu in core:
            topology = base / f"cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / names[0]).write_text(write(core) + "\n")
            (topology / "core_id").write_text("0\n")
    for index, ((level, kind), sets) in enumerate(caches.items()):
        for shared in sets:
            for cpu in shared:
                cache = base / f"cpu{cpu}/cache/index{index}"
                cache.mkdir(parents=True)
                (cache / "level").write_text(f"{level}\n")
                (cache / "type").write_text(f"{kind}\n")
                (cache / names[1]).write_text(write(shared) + "\n")
    (base / "cpufreq").mkdir()
    return root


def pairs(first: range, second: range) -> list[list[int]]:
    return [[a, b] for a, b in zip(first, second, strict=True)]


def text(online: str, cores: Iterable[Iterable[int]], llcs: Iterable[Iterable[int]]) -> str:
    return cpu_text("x86_64", CpuSet.parse(online), map(CpuSet, cores), map(CpuSet, llcs))


def test_gb10(shell: Shell, tmp_path: Path) -> None:
    """DGX Spark: twenty cores without siblings, two caches of ten."""
    halves = [list(range(10)), list(range(10, 20))]
    sys = write_sys(
        tmp_path / "sys",
        "0-19",
        [[cpu] for cpu in range(20)],
        {
            (1, "Data"): [[cpu] for cpu in range(20)],
            (1, "Instruction"): [[cpu] for cpu in range(20)],
            (2, "Unified"): [[cpu] for cpu in range(20)],
            (3, "Unified"): halves,
        },
    )
    got = live_text(shell, sys, tmp_path, "aarch64")
    lines = ["tierc-cpu-1", "arch aarch64", "online 0-19", *[f"core {cpu}" for cpu in range(20)]]
    assert got.splitlines() == [*lines, "llc 0-9", "llc 10-19"]
    assert got == text("0-19", [[c] for c in range(20)], halves).replace("x86_64", "aarch64")


def test_strided_siblings_and_many_cpus(shell: Shell, tmp_path: Path) -> None:
    cores = pairs(range(128), range(128, 256))
    llcs = [[*range(n, n + 16), *range(n + 128, n + 144)] for n in range(0, 128, 16)]
    sys = write_sys(tmp_path / "sys", "0-255", cores, {(3, "Unified"): llcs})
    assert live_text(shell, sys, tmp_path) == text("0-255", cores, llcs)


def test_low_power_cores_outside_the_last_cache(shell: Shell, tmp_path: Path) -> None:
    """The last level is a CPU's own: on some it is L2, and an L1 of instructions never."""
    cores = [[0, 1], [2, 3], [4], [5], [6], [7], [8]]
    caches = {
        (1, "Instruction"): [[c] for c in range(9)],
        (3, "Unified"): [[0, 1, 2, 3, 4, 5]],
        (2, "Unified"): [[0, 1], [2, 3], [4, 5], [6, 7]],
        (4, "Instruction"): [[0]],
    }
    sys = write_sys(tmp_path / "sys", "0-8", cores, caches)
    assert live_text(shell, sys, tmp_path) == text("0-8", cores, [[0, 1, 2, 3, 4, 5], [6, 7]])


@pytest.mark.parametrize(
    ("names", "write"),
    [
        (("thread_siblings_list", "shared_cpu_list"), cpu_list),
        (("thread_siblings", "shared_cpu_map"), hex_mask),
        (("core_cpus", "shared_cpu_map"), hex_mask),
    ],
)
def test_older_kernels(
    shell: Shell,
    tmp_path: Path,
    names: tuple[str, str],
    write: Callable[[Iterable[int]], str],
) -> None:
    cores = pairs(range(40), range(68, 108))
    caches = [list(range(40)) + list(range(68, 108))]
    sys = write_sys(
        tmp_path / "sys", "0-39,68-107", cores, {(3, "Unified"): caches}, names=names, write=write
    )
    assert live_text(shell, sys, tmp_path) == text("0-39,68-107", cores, caches)


def test_offline_cpus_are_cut_out(shell: Shell, tmp_path: Path) -> None:
    """CPU 0 and a sibling are offline; lists may still name them."""
    sys = write_sys(
        tmp_path / "sys",
        "1-2,4-7",
        [[0, 4], [1, 5], [2, 6], [3, 7]],
        {(3, "Unified"): [[*range(8)]]},
    )
    want = text("1-2,4-7", [[4], [1, 5], [2, 6], [7]], [[1, 2, 4, 5, 6, 7]])
    assert live_text(shell, sys, tmp_path) == want
    assert "core 1,5\ncore 2,6\ncore 4\ncore 7\nllc 1-2,4-7\n" in want


def test_no_caches_no_topology_no_online(shell: Shell, tmp_path: Path) -> None:
    sys = write_sys(tmp_path / "a", "0-2", [[0, 1]], {})
    assert live_text(shell, sys, tmp_path) == text("0-2", [[0, 1], [2]], [])
    sys = write_sys(tmp_path / "b", None, [[0, 1], [2]], {})
    assert live_text(shell, sys, tmp_path) == text("0-2", [[0, 1], [2]], [])


def test_order_of_sets_with_one_lowest_cpu(shell: Shell, tmp_path: Path) -> None:
    """By lowest CPU, then by mask: {0,9} is the greater mask of {0-8} and {0,9}."""
    caches = {(2, "Unified"): [[0, 9]], (3, "Unified"): [[*range(1, 9)]]}
    sys = write_sys(tmp_path / "sys", "0-9", [[c] for c in range(10)], caches)
    for cpu in range(1, 9):
        path = sys / f"devices/system/cpu/cpu{cpu}/cache/index1/shared_cpu_list"
        path.write_text("0-8\n")
    got = live_text(shell, sys, tmp_path)
    assert got.endswith("llc 0-8\nllc 0,9\n")
    assert got == text("0-9", [[c] for c in range(10)], [[0, 9], range(9)])


def test_a_tree_without_cpus_is_an_error(shell: Shell, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        live_text(shell, tmp_path / "none", tmp_path)
    assert caught.value.returncode == 7
    assert "no CPUs in" in caught.value.stderr


def test_this_machine(shell: Shell, tmp_path: Path) -> None:
    on = this_machine()
    want = cpu_text("x86_64", on.online, on.cores, on.llcs)
    assert live_text(shell, Path("/sys"), tmp_path) == want


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_random_machines(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(range(0, 72, 3)))
    threads = data.draw(st.sampled_from([1, 2, 4]))
    cores = [list(ids[n : n + threads]) for n in range(0, len(ids), threads)]
    per_cache = data.draw(st.integers(1, 6))
    llcs = [
        [cpu for core in cores[n : n + per_cache] for cpu in core]
        for n in range(0, len(cores), per_cache)
    ]
    off = set(data.draw(st.lists(st.sampled_from(ids), max_size=5)))
    online = str(CpuSet(set(ids) - off))
    tmp = tmp_path_factory.mktemp("machine")
    write = data.draw(st.sampled_from([cpu_list, lambda c: str(CpuSet(c))]))
    sys = write_sys(tmp / "sys", online, cores, {(3, "Unified"): llcs}, write=write)
    assert live_text(shell, sys, tmp) == text(online, cores, llcs)


def test_real_machines(tool: Callable[[str], str], shared: Path, tmp_path: Path) -> None:
    """Every sysfs snapshot of the corpus, against a reader of this test's own."""
    archives = sorted((shared / "corpus/topology/hwloc-sysfs").glob("*.tar.bz2"))
    assert archives
    shells = [make_shell(kind, tool, tmp_path) for kind in ("dash", "busybox")]
    wanted = r"online|cpu\d+/topology/\w+_(?:cpus|siblings)\w*|cpu\d+/cache/index\d+/\w+"
    inside = re.compile(rf"(?:^|/)sys/(devices/system/cpu/(?:{wanted}))$")
    for archive in archives:
        root = tmp_path / archive.name / "sys"
        with tarfile.open(archive) as tar:
            for member in tar:
                match = inside.search(member.name)
                if match is None or not member.isfile():
                    continue
                stream = tar.extractfile(member)
                assert stream is not None
                path = root / match[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(stream.read(65536))
        online, cores, llcs = read_machine(root / "devices/system/cpu")
        assert online
        want = cpu_text("x86_64", CpuSet(online), map(CpuSet, cores), map(CpuSet, llcs))
        for shell in shells:
            assert live_text(shell, root, tmp_path) == want, archive.name
