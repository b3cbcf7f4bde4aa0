"""The cpuset target without a shell: which groups, which CPUs, which weights, which files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.patterns import Glob
from compiler.plan import NodePlan
from targets.cpuset import TARGET
from targets.cpuset.groups import Group, NotOurs, named
from targets.cpuset.settings import settings as settings_of
from targets.cpuset.unions import below
from tests.cpuset_host import (
    BACKGROUND,
    EIGHT,
    IDLE,
    LATENCY,
    NORMAL,
    SYSTEM,
    files,
    plan,
    rule,
    table,
)

CI = rule("4-7", BACKGROUND, cgroup="ci.slice/**")
SSHD = rule("0-1", SYSTEM, comm="sshd")


# --- The union rule ------------------------------------------------------------------------------


def test_a_slice_of_one_kind_of_work_gets_its_cpus_and_its_weight() -> None:
    assert table(plan([CI])) == {"ci.slice": ("4-7", "1", "25", "unit")}


def test_a_rule_that_may_have_a_thread_there_widens_the_group_and_takes_its_weight() -> None:
    # sshd may be started in ci.slice, and its rule comes first
    assert table(plan([SSHD, CI])) == {"ci.slice": ("0-1,4-7", "1", "-", "unit")}


def test_rules_behind_the_one_that_takes_all_do_not_matter() -> None:
    assert table(plan([CI, SSHD]))["ci.slice"][0] == "4-7"


def test_rules_of_other_groups_do_not_matter() -> None:
    other = rule("0-1", LATENCY, cgroup="serving.slice/**", comm="vllm")
    assert table(plan([other, CI]))["ci.slice"][0] == "4-7"


def test_where_no_rule_takes_all_what_no_rule_matches_is_there_too() -> None:
    some = rule("4-7", BACKGROUND, cgroup="ci.slice/**", comm="gcc*")
    assert table(plan([some], shared="2-5")) == {"ci.slice": ("2-7", "1", "-", "unit")}
    top = rule("4-7", BACKGROUND, cgroup="ci.slice")  # the group itself, not what is below
    assert table(plan([top], shared="2-5"))["ci.slice"][0] == "2-7"


@pytest.mark.parametrize(
    ("match", "cpus"),
    [
        ({"cgroup": "**/docker-*.scope/**"}, "0,6-7"),  # one might be in system.slice
        ({"cgroup": "*/docker-*.scope/**"}, "0,6-7"),
        ({"cgroup": "user.slice/**"}, "6-7"),
        ({"cgroup": "system.slice/docker-a.scope/**"}, "0,6-7"),
        ({"cgroup": "system.slicer/**"}, "6-7"),
        ({"leader_comm": "bash"}, "0,6-7"),
        ({"cmdline": "^make"}, "0,6-7"),
        ({"kthread": "kswapd*"}, "6-7"),  # kernel threads are in the root group
    ],
)
def test_whatever_may_be_below_a_slice_joins(match: dict[str, str], cpus: str) -> None:
    """Engines in ``system.slice/docker-*.scope`` exist."""
    one = plan([rule("0", LATENCY, **match), rule("6-7", NORMAL, cgroup="system.slice/**")])
    assert table(one)["system.slice"][0] == cpus


def test_a_name_that_is_any_name_takes_all_and_a_command_line_does_not() -> None:
    anyone = rule("4-5", BACKGROUND, cgroup="ci.slice/**", comm="*", leader_comm="*")
    assert table(plan([anyone, CI]))["ci.slice"][0] == "4-5"
    # a thread may have no command line at all
    lines = rule("4-5", BACKGROUND, cgroup="ci.slice/**", cmdline=".*")
    assert table(plan([lines, CI]))["ci.slice"][0] == "4-7"


def test_pods_are_below_their_root_where_that_is_known() -> None:
    pods = rule("0", LATENCY, pods="app=x")
    machine = EIGHT.model_copy(update={"pods_root": "kubepods.slice"})
    assert table(plan([pods, CI], machine=machine))["ci.slice"][0] == "4-7"
    assert table(plan([pods, CI]))["ci.slice"][0] == "0,4-7"


def test_a_slice_is_as_wide_as_what_is_in_it() -> None:
    """The kernel cuts a child that is wider than its parent."""
    one = plan(
        [
            rule("0-1", LATENCY, cgroup="system.slice/engine.service/**"),
            rule("2", LATENCY, cgroup="system.slice/system-e.slice/e@1.service/**"),
            rule("6-7", BACKGROUND, cgroup="system.slice/**"),
        ]
    )
    assert {path: row[0] for path, row in table(one).items()} == {
        "system.slice": "0-2,6-7",
        "system.slice/engine.service": "0-1",
        "system.slice/system-e.slice/e@1.service": "2",
    }


def test_the_fewest_cpus_are_those_of_the_neediest_band() -> None:
    some = rule("0-2", SYSTEM, least=2, cgroup="a.slice/**", comm="x")
    rest = rule("4-7", IDLE, least=3, cgroup="a.slice/**")
    assert table(plan([some, rest])) == {"a.slice": ("0-2,4-7", "3", "-", "unit")}


def test_a_family_gets_the_cpus_of_all_its_members() -> None:
    one = plan([rule("0-1,4-5", LATENCY, cgroup="chat.slice/**")])
    assert table(one)["chat.slice"][0] == "0-1,4-5"


def test_where_every_cpu_is_allowed_there_is_nothing_to_restrict_and_it_is_said() -> None:
    one = plan([rule("0-1", SYSTEM, cgroup="serving.slice/**", comm="x")])
    assert table(one) == {}
    made = files(one)
    assert sorted(made) == ["apply.sh", "revert.sh"]
    assert "# serving.slice: nothing to restrict, it may use every CPU\n" in made["apply.sh"]


def test_isolated_cpus_and_the_kubelets_are_no_reason_to_restrict() -> None:
    machine = EIGHT.model_copy(update={"effective": CpuSet(range(6))})
    assert (
        table(plan([rule("0-5", NORMAL, cgroup="a.slice/**")], shared="0-5", machine=machine)) == {}
    )


# --- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "weight"),
    [(LATENCY, "1000"), (SYSTEM, "400"), (NORMAL, "-"), (BACKGROUND, "25"), (IDLE, "idle")],
)
def test_a_weight_is_that_of_the_one_tier(tier: int, weight: str) -> None:
    assert table(plan([rule("4-7", tier, cgroup="a.slice/**")]))["a.slice"][2] == weight


def test_a_group_of_one_tier_on_every_cpu_still_has_a_weight() -> None:
    one = plan([rule("0-7", BACKGROUND, cgroup="ci.slice/**")])
    assert table(one) == {"ci.slice": ("-", "1", "25", "unit")}
    assert "AllowedCPUs" not in files(one)["systemd/ci.slice.d/50-tierc.conf"]


# --- Which groups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "unit"),
    [
        ("ci.slice/**", "slice", "ci.slice"),
        ("ci.slice", "slice", "ci.slice"),
        ("system.slice/x.service/**", "service", "x.service"),
        ("system.slice/docker-0a1b.scope/**", "scope", "docker-0a1b.scope"),
        ("a.slice/a-b.slice/a-b-c.slice/**", "slice", "a-b-c.slice"),
        ("system.slice/system-x.slice/x@1.service/**", "service", "x@1.service"),
        (r"system.slice/dev\x2dx.service/**", "service", r"dev\x2dx.service"),
        ("user.slice/user-0.slice/session-1.scope/**", "scope", "session-1.scope"),
        ("x.service/**", "service", "x.service"),
        ("system.slice/_cpu.service/**", "service", "cpu.service"),  # systemd's escape
        ("mine/**", "group", None),
        ("mine/its own/**", "group", None),
        ("a-b.slice/**", "group", None),  # systemd has it in a.slice
        ("a.slice/b.slice/**", "group", None),
        ("mine/x.service/**", "group", None),
        ("system.slice/it is.service/**", "group", None),
        ("-.slice/**", "group", None),
    ],
)
def test_names_of_units(text: str, kind: str, unit: str | None) -> None:
    found = named(text, None)
    assert isinstance(found, Group)
    assert (found.kind, found.unit) == (kind, unit)
    assert found.path == text.removesuffix("/**")


@pytest.mark.parametrize(
    "text",
    [
        "kubepods.slice/**",
        "kubepods/burstable/podx/**",
        "kubelet.slice/kubelet-kubepods.slice/**",
        "kubelet.slice/**",
        "kubelet/**",
        "system.slice/docker-x.scope/kubelet/kubepods/**",
        "kubepods-besteffort.slice/**",
        "pods/**",  # the facts say so
        "pods/a/b/**",
        "srv/**",
        "srv/pods/one/**",
    ],
)
def test_never_at_below_or_above_pods(text: str) -> None:
    root = "srv/pods" if text.startswith("srv") else "pods"
    found = named(text, root)
    assert isinstance(found, NotOurs)
    assert "pods" in found.reason


@pytest.mark.parametrize(
    "unit",
    [
        *("containerd", "docker", "crio", "kubelet", "k3s", "k3s-agent", "rke2-server", "podman"),
        *("snap.microk8s.daemon-containerd", "cri-docker", "buildkit", "k0scontroller"),
    ],
)
def test_never_a_container_runtimes_own_unit(unit: str) -> None:
    found = named(f"system.slice/{unit}.service/**", None)
    assert isinstance(found, NotOurs)
    assert "containers" in found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("**", "no path of whole names"),
        ("**/x.service/**", "no path of whole names"),
        ("system.slice/x-*.service/**", "no path of whole names"),
        ("a/**/b", "no path of whole names"),
        ("user.slice/user-?.slice/**", "no path of whole names"),
        ("user.slice/user-0.slice/user@0.service/app.slice/**", "inside user@0.service"),
        ("system.slice/slurmstepd.scope/job_1/**", "inside slurmstepd.scope"),
        ("init.scope/**", "systemd itself"),
        ("caf\u00e9.slice/**", "printable ASCII"),
        ("a \u202e/**", "printable ASCII"),
        ("trailing /**", "ends in a space"),
        ("/".join(["a" * 100] * 5) + "/" + "a" * 6, "too long"),
    ],
)
def test_what_is_left_alone(text: str, reason: str) -> None:
    found = named(text, None)
    assert isinstance(found, NotOurs)
    assert reason in found.reason


def test_what_is_left_alone_is_named_in_the_script_and_in_the_plan() -> None:
    one = plan([rule("4-7", BACKGROUND, cgroup="**/x.service/**"), CI])
    text = files(one)["apply.sh"]
    assert "\n# Named by the policy, and left alone:\n#   **/x.service/**: it is no path" in text
    rows = TARGET.lacks(plan([rule("4-7", NORMAL, cgroup="kubepods.slice/**"), SSHD, CI]))
    assert [(r.feature, r.unit, r.rules) for r in rows] == [
        ("match.cgroup.path", "unit-0", (0,)),
        ("match.cgroup.path", "unit-2", (2,)),
    ]
    assert rows[0].message.endswith("the kubelet manages the groups of pods")
    assert rows[1].message == (
        'cpuset does not bound cgroup "ci.slice/**" to its CPUs: threads of other rules may be '
        "there too, so it gets 0-1,4-7"
    )
    assert TARGET.lacks(plan([CI, SSHD])) == ()


# --- Exclusive lanes -----------------------------------------------------------------------------

ENGINE = rule("2-3", LATENCY, cgroup="serving.slice/**")
LANE = {"chat": ("2-3", "exclusive")}


def partitioned(one: NodePlan) -> str | None:
    """Return why the lane is open, None where a partition closes it."""
    (row,) = settings_of(one).lanes.values()
    assert (row is None) == any("lane" in how for *_, how in table(one).values())
    assert (row is not None) == ("lane.exclusive" in [r.feature for r in TARGET.lacks(one)])
    return row


def test_an_exclusive_lane_of_one_named_group_is_a_partition() -> None:
    one = plan([ENGINE, CI], shared="0-1,4-7", lanes=LANE)
    assert partitioned(one) is None
    assert table(one)["serving.slice"] == ("2-3", "1", "1000", "unit+lane")
    assert table(one)["ci.slice"][3] == "unit"


def test_of_nested_groups_the_outer_one_is_the_partition() -> None:
    inner = rule("2-3", LATENCY, cgroup="serving.slice/x.service/**")
    one = plan([inner, ENGINE], shared="0-1,4-7", lanes=LANE)
    assert partitioned(one) is None
    assert {path: how for path, (*_, how) in table(one).items()} == {
        "serving.slice": "unit+lane",
        "serving.slice/x.service": "unit",
    }


@pytest.mark.parametrize(
    "rules",
    [
        [rule("2-3", LATENCY, comm="vllm")],
        [rule("2-3", LATENCY, comm="vllm"), ENGINE],  # vllm anywhere
        [rule("2-3", LATENCY, kthread="nv_queue"), ENGINE],
        [ENGINE, rule("2-3", LATENCY, cgroup="other.slice/**")],
        [rule("0", SYSTEM, comm="sshd"), ENGINE],  # sshd in serving.slice is not in the lane
        [rule("2-3", LATENCY, cgroup="serving.slice/**", comm="vllm")],
        [rule("2-4", LATENCY, cgroup="serving.slice/**")],
        [],
    ],
)
def test_a_lane_with_users_elsewhere_is_no_partition(
    rules: list[tuple[str, int, int, object]],
) -> None:
    one = plan(rules, shared="0-1,4-7", lanes=LANE)  # type: ignore[arg-type]
    assert "in one control group" in (partitioned(one) or "")


def test_neither_are_isolated_lanes_and_those_that_anyone_may_use() -> None:
    assert "isolated CPUs" in (
        partitioned(plan([ENGINE], shared="0-1", lanes=LANE, isolated=["chat"])) or ""
    )
    assert "no rule matches" in (partitioned(plan([ENGINE], shared="0-3", lanes=LANE)) or "")


def test_a_guarded_lane_is_no_partition() -> None:
    one = plan([ENGINE], shared="0-1,4-7", lanes={"chat": ("2-3", "guarded")})
    assert table(one)["serving.slice"][3] == "unit"
    assert settings_of(one).lanes == {}


# --- Files ---------------------------------------------------------------------------------------


def test_the_drop_in_of_each_kind_of_unit() -> None:
    one = plan(
        [
            rule("4-7", BACKGROUND, cgroup="ci.slice/**"),
            rule("0,2-3", LATENCY, cgroup="system.slice/x.service/**"),
            rule("4-7", IDLE, cgroup="system.slice/slurmstepd.scope/**"),
        ]
    )
    made = {path: text for path, text in files(one).items() if path.startswith("systemd/")}
    head = "# Written by tierc: change the intents and build again rather than this file.\n"
    assert made == {
        "systemd/ci.slice.d/50-tierc.conf": head
        + "# ci.slice: unit-0; all of tier background\n[Slice]\nAllowedCPUs=4-7\nCPUWeight=25\n",
        "systemd/x.service.d/50-tierc.conf": head
        + "# system.slice/x.service: unit-1; all of tier latency\n"
        "[Service]\nAllowedCPUs=0,2-3\nCPUWeight=1000\n",
        "systemd/slurmstepd.scope.d/50-tierc.conf": head
        + "# system.slice/slurmstepd.scope: unit-2; all of tier idle\n"
        "[Scope]\nAllowedCPUs=4-7\n# systemd before 252 knows no idle, and keeps the number\n"
        "CPUWeight=1\nCPUWeight=idle\n",
    }
    assert not any("CPUAffinity" in text for text in made.values())


def test_systemd_takes_the_drop_ins_without_a_word(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    analyze = tool("systemd-analyze")
    one = plan(
        [
            rule("4-7", IDLE, cgroup="ci.slice/**"),
            rule("0-1", BACKGROUND, cgroup="a.slice/a-b.slice/**"),
            rule("0,2-3", LATENCY, cgroup="system.slice/x@1.service/**"),
            rule("2", IDLE, cgroup="system.slice/y.service/**"),
        ]
    )
    for path, text in files(one).items():
        if path.startswith("systemd/"):
            place = tmp_path / path.removeprefix("systemd/")
            place.parent.mkdir()
            place.write_text(text)
            unit = tmp_path / place.parent.name.removesuffix(".d")
            unit.write_text(
                "[Service]\nExecStart=/bin/true\n" if unit.suffix == ".service" else "[Unit]\n"
            )
    units = sorted(p for p in tmp_path.iterdir() if p.is_file())
    assert len(units) == 4
    for unit in units:
        done = subprocess.run(
            [analyze, "verify", unit], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), unit
    # and it would say so: it ends with 0 whatever it finds
    (tmp_path / "y.service.d/50-tierc.conf").write_text("[Service]\nAllowedCPUs=no\nCPUWeight=0\n")
    done = subprocess.run(
        [analyze, "verify", units[-1]], capture_output=True, text=True, check=False
    )
    assert "AllowedCPUs" in done.stderr or "affinity" in done.stderr


def test_a_unit_whose_name_is_no_file_name_of_ours_is_left_to_the_script() -> None:
    one = plan([rule("4-7", BACKGROUND, cgroup=r"system.slice/a\x2db.service/**")])
    assert sorted(files(one)) == ["apply.sh", "revert.sh"]
    assert table(one) == {r"system.slice/a\x2db.service": ("4-7", "1", "25", "unit")}


def test_in_mode_observe_there_is_nothing_to_copy() -> None:
    assert sorted(files(plan([CI], mode="observe"))) == ["apply.sh", "revert.sh"]


@pytest.mark.parametrize("mode", ["observe", "fallback", "sched_ext"])
def test_the_scripts_are_clean(tool: Callable[[str], str], tmp_path: Path, mode: str) -> None:
    hostile = [
        rule("4-7", BACKGROUND, cgroup="mine $(touch x)`id`/'\"/**"),
        rule("4-7", BACKGROUND, cgroup="END/**"),
        rule("4-7", BACKGROUND, cgroup="a\\/**"),
        rule("4-7", BACKGROUND, cgroup="-rf/**"),
        rule("4-7", BACKGROUND, cgroup="%s/#x/**"),
    ]
    lanes = {"chat": ("2-3", "exclusive")}
    one = plan([*hostile, ENGINE, SSHD], shared="0-1,4-7", lanes=lanes, mode=mode)  # type: ignore[arg-type]
    checker, dash, busybox = tool("shellcheck"), tool("dash"), tool("busybox")
    for name, text in files(one).items():
        if not name.endswith(".sh"):
            continue
        path = tmp_path / name
        path.write_text(text)
        assert max(map(len, text.splitlines())) < 150
        for command in ([dash, "-n"], [busybox, "sh", "-n"], [checker]):
            done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout + done.stderr) == (0, ""), done.stdout


def test_revert_is_the_same_for_every_plan() -> None:
    assert files(plan([CI]))["revert.sh"] == files(plan([ENGINE, SSHD]))["revert.sh"]


def test_plans_that_contradict_themselves_are_refused() -> None:
    one = plan([CI])
    for update in (
        {"fingerprint": "0" * 64},
        {"bands": one.bands[:1]},
        {"tiers": one.tiers[:1]},
    ):
        with pytest.raises(ValueError, match="plan"):
            TARGET.emit(one.model_copy(update=update))


# --- Properties ----------------------------------------------------------------------------------

GLOBS = [
    "**",
    "a.slice/**",
    "a.slice",
    "a.slice/x.service/**",
    "a.slice/a-b.slice/**",
    "b.slice/**",
]
GLOBS += ["**/x.service/**", "a.slice/*.service", "*/y.service/**", "mine/**", "mine/deep/er/**"]
PLACES = [
    "",
    "a.slice",
    "a.slice/x.service",
    "a.slice/x.service/sub",
    "a.slice/a-b.slice/y.service",
]
PLACES += ["b.slice/x.service", "b.slice/y.service", "mine", "mine/deep", "mine/deep/er/still"]
NAMES = ["x", "xy", "z", ""]
CPU_SETS = ["0", "1-2", "3-7", "2,5", "0-7"]

matches = st.fixed_dictionaries(
    {},
    optional={
        "cgroup": st.sampled_from(GLOBS),
        "comm": st.sampled_from(["x", "x*", "*", "?"]),
        "leader_comm": st.sampled_from(["x", "*"]),
    },
).filter(bool)
rules_of_a_plan = st.lists(
    st.tuples(st.sampled_from(CPU_SETS), st.integers(0, 4), matches), max_size=6
)


@settings(max_examples=150)
@given(rows=rules_of_a_plan, shared=st.sampled_from(["0-7", "4-7", "0"]))
def test_no_thread_is_bound_narrower_than_its_band(
    rows: list[tuple[str, int, dict[str, str]]], shared: str
) -> None:
    """Threads one by one, by the plan's order: what the union rule promises of them."""
    one = plan([rule(cpus, tier, **match) for cpus, tier, match in rows], shared=shared)
    made = [row.below for row in settings_of(one).rows]
    for place in PLACES:
        for comm in NAMES:
            for leader in NAMES:
                band = one.bands[one.default_band]
                for candidate in one.rules:
                    match = candidate.match
                    if (
                        (match.cgroup is None or Glob.cgroup(match.cgroup).matches(place))
                        and (match.comm is None or Glob.comm(match.comm).matches(comm))
                        and (
                            match.leader_comm is None
                            or Glob.comm(match.leader_comm).matches(leader)
                        )
                    ):
                        band = one.bands[candidate.band]
                        break
                for row in made:
                    path = row.group.path
                    if place == path or place.startswith(f"{path}/"):
                        assert band.cpus <= row.cpus
                        assert band.tier in row.tiers
                        assert row.min_cpus >= band.min_cpus
    for outer in made:
        assert below(one, outer.group).cpus <= outer.cpus
        for inner in made:
            if inner.group.is_in(outer.group):
                assert inner.cpus <= outer.cpus


@settings(max_examples=60)
@given(rows=rules_of_a_plan)
def test_what_is_written_names_only_cpus_there_are(
    rows: list[tuple[str, int, dict[str, str]]],
) -> None:
    one = plan([rule(cpus, tier, **match) for cpus, tier, match in rows])
    for cpus, least, weight, _ in table(one).values():
        assert cpus == "-" or (CpuSet.parse(cpus) and CpuSet.parse(cpus) < one.machine.effective)
        assert int(least) >= 1
        assert weight in ("-", "idle") or 1 <= int(weight) <= 10_000
    assert files(one) == files(one)
