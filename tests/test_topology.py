"""Which CPUs of a machine are whose, and how its cores look to placement."""

from __future__ import annotations

import pytest

from compiler.cpuset import CpuSet
from compiler.topology import Core, topology_of
from compiler.words import natural
from tests.machines import facts, gb10, gpu, hybrid, many_caches, pairs, plain, two_nodes


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_everything_is_effective_on_a_plain_machine() -> None:
    t = topology_of(plain(4))
    assert (t.online, t.allowed, t.effective) == (cpus("0-3"),) * 3
    assert not t.isolated
    assert not t.kubelet_owned
    assert [core.cpus for core in t.cores] == [cpus(str(i)) for i in range(4)]
    assert t.smt == 1
    assert t.kinds == ("standard",)
    assert not t.control_plane


def test_gb10_kinds_caches_and_device() -> None:
    t = topology_of(gb10())
    assert t.arch == "aarch64"
    assert t.kinds == ("performance", "efficiency")
    assert [str(c.cpus) for c in t.cores if c.kind == "performance"] == [
        *"56789",
        "15",
        "16",
        "17",
        "18",
        "19",
    ]
    assert [str(llc) for llc in t.llcs] == ["0-9", "10-19"]
    assert {c.llc for c in t.cores[:10]} == {0}
    gpu0 = t.device("gpu0")
    assert gpu0 is not None
    assert gpu0.cpus == t.online
    assert t.device("gpu1") is None


@pytest.mark.parametrize(
    ("adjacent", "cores"),
    [(True, ["0-1", "2-3", "4-5", "6-7"]), (False, ["0,4", "1,5", "2,6", "3,7"])],
)
def test_sibling_numbering(adjacent: bool, cores: list[str]) -> None:
    t = topology_of(pairs(4, adjacent=adjacent))
    assert [str(core.cpus) for core in t.cores] == cores
    assert t.smt == 2


def test_lists_are_cut_to_online_cpus() -> None:
    # Possible but absent CPUs, and lists made for a larger machine, are nowhere.
    t = topology_of(
        plain(
            16,
            cpus={"possible": "0-511", "allowed": "0-31", "isolated": "14-20"},
            devices=(gpu("gpu0", "8-63"),),
        )
    )
    assert t.allowed == cpus("0-15")
    assert t.isolated == cpus("14-15")
    assert t.effective == cpus("0-13")
    assert t.devices[0].cpus == cpus("8-15")


def test_isolated_and_forbidden_cpus_are_not_effective() -> None:
    t = topology_of(plain(8, cpus={"isolated": "5-7", "allowed": "0-5"}))
    assert t.effective == cpus("0-4")
    assert t.isolated == cpus("5")
    by_cpu = {core.siblings.lowest: core for core in t.cores}
    assert by_cpu[5].isolated
    assert not by_cpu[4].isolated
    assert not by_cpu[7].cpus


def test_an_override_wins_over_what_was_collected() -> None:
    t = topology_of(
        two_nodes(
            cpus={"isolated": "30-31", "allowed": "0-7"},
            overrides={
                "isolated": "",
                "allowed": "0-23",
                "devices": ({"id": "gpu0", "numa": 1},),
            },
        )
    )
    assert t.allowed == t.effective == cpus("0-23")
    assert not t.isolated
    gpu0 = t.devices[0]
    assert (gpu0.cpus, gpu0.numa, gpu0.scope) == (cpus("16-31"), 1, "numa")


def test_an_override_may_name_the_cpus_of_a_device() -> None:
    t = topology_of(two_nodes(overrides={"devices": ({"id": "gpu0", "cpus": "4-7,99"},)}))
    assert t.devices[0].cpus == cpus("4-7")


def test_unknown_locality_stays_unknown_and_none_stays_none() -> None:
    t = topology_of(plain(4, devices=(gpu("gpu0", None), gpu("gpu1", ""))))
    assert t.devices[0].cpus is None
    assert t.devices[1].cpus == CpuSet()


def test_exclusive_cpus_belong_to_the_kubelet() -> None:
    t = topology_of(
        plain(8, kubelet={"present": True, "policy": "none", "exclusive": "4-5", "reserved": "0"})
    )
    assert t.kubelet_owned == cpus("4-5")
    assert t.effective == cpus("0-3,6-7")


def test_the_static_policy_leaves_only_the_reserved_cpus() -> None:
    t = topology_of(plain(8, kubelet={"present": True, "policy": "static", "reserved": "0-2,12"}))
    assert t.kubelet_owned == cpus("3-7")
    assert t.effective == cpus("0-2")


def test_a_static_policy_without_known_reservation_takes_the_exclusive_cpus_only() -> None:
    t = topology_of(plain(8, kubelet={"present": True, "policy": "static", "exclusive": "7"}))
    assert t.effective == cpus("0-6")


def test_an_absent_kubelet_owns_nothing() -> None:
    t = topology_of(plain(4, kubelet={"present": False, "policy": "static", "reserved": "0"}))
    assert t.effective == cpus("0-3")


def test_control_plane() -> None:
    assert topology_of(plain(8, kubelet={"present": True, "controlPlane": True})).control_plane


class TestPartlyUsableCores:
    def core(self, **more: object) -> Core:
        return topology_of(pairs(2, adjacent=True, **more)).cores[1]  # CPUs 2-3

    def test_forbidden_sibling(self) -> None:
        core = self.core(cpus={"allowed": "0-2"})
        assert (str(core.cpus), str(core.siblings)) == ("2", "2-3")
        assert core.split
        assert not core.mixed

    def test_isolated_core(self) -> None:
        core = self.core(cpus={"isolated": "2-3"})
        assert (str(core.cpus), core.isolated, core.split, core.mixed) == (
            "2-3",
            True,
            False,
            False,
        )

    def test_half_isolated_core(self) -> None:
        core = self.core(cpus={"isolated": "3"})
        assert (str(core.cpus), core.isolated, core.mixed) == ("2", False, True)

    def test_offline_sibling_is_nobodys(self) -> None:
        t = topology_of(facts([{"cpus": "0-1", "smt": ["0", "1"]}, {"cpus": "2"}], online="0-2"))
        assert not t.cores[1].split
        assert t.smt == 2


def test_a_cache_is_found_by_its_cpus_where_the_core_names_none() -> None:
    t = topology_of(facts([{"cpus": "0-3"}], online="0-3", llcs={7: "0-1", 9: "2-3"}))
    assert [core.llc for core in t.cores] == [7, 7, 9, 9]


def test_no_cache_known() -> None:
    t = topology_of(facts([{"cpus": "0-3"}], online="0-3", arch="aarch64"))
    assert [core.llc for core in t.cores] == [None] * 4
    assert t.llcs == ()


def test_sparse_ids_and_large_machines() -> None:
    t = topology_of(many_caches(16, 64))
    assert len(t.cores) == 1024
    assert t.cores[1023].cpus == CpuSet((1023, 2047))
    t = topology_of(
        facts([{"cpus": "1,5,700"}], online="1,5,700", numa={0: "1,5", 3: "700", 8: ""})
    )
    assert [core.cpus.lowest for core in t.cores] == [1, 5, 700]
    assert [node.id for node in t.cpu_numas] == [0, 3]


def test_hybrid() -> None:
    t = topology_of(hybrid())
    assert t.kinds == ("performance", "efficiency", "lowpower")
    assert [len(core.cpus) for core in t.cores] == [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_order_of_rows_changes_nothing() -> None:
    rows = [{"cpus": "0-1", "llc": 0}, {"cpus": "2-3", "llc": 1}]
    llcs = {0: "0-1", 1: "2-3"}
    one = facts(rows, online="0-3", llcs=llcs)
    other = facts(rows[::-1], online="0-3", llcs=dict(reversed(llcs.items())))
    assert topology_of(one) == topology_of(other)


def test_a_device_without_locality_is_near_its_numa_node() -> None:
    facts = two_nodes(devices=(gpu("gpu0", None, numa=1), gpu("gpu1", None)))
    known, unknown = topology_of(facts).of_type("gpu")
    assert known.cpus == CpuSet.parse("16-31")
    assert known.confidence == "inferred"
    assert unknown.cpus is None


def test_devices_are_in_the_order_of_their_numbers() -> None:
    names = ["gpu10", "gpu2", "gpu1", "mlx5_10", "mlx5_9"]
    machine = plain(4, devices=[gpu(name, "0-3") for name in names])
    assert [view.id for view in topology_of(machine).devices] == [
        "gpu1", "gpu2", "gpu10", "mlx5_9", "mlx5_10",
    ]  # fmt: skip


def test_addresses_are_in_their_own_order() -> None:
    # 9b is 155 and after 10, which is 16
    names = ["0000:9b:00.0", "0000:10:00.0", "0000:0a:00.1", "0000:0a:00.0"]
    machine = plain(4, devices=[gpu(name, "0-3") for name in names])
    assert [view.id for view in topology_of(machine).devices] == sorted(names)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpu2", "gpu10"),
        ("gpu", "gpu0"),
        ("gpu9", "nic0"),
        ("gpu2/mig10", "gpu10/mig2"),
        ("gpu1/mig2", "gpu1/mig10"),
        ("gpu01", "gpu1"),
        ("0", "a"),
        ("gpu" + "9" * 5000, "gpv"),
    ],
)
def test_natural_order(before: str, after: str) -> None:
    assert sorted([after, before], key=natural) == [before, after]
    assert natural(before) != natural(after)
