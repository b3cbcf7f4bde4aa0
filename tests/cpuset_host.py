"""Plans for the cpuset target, built by hand, and a pretended machine to run its scripts on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text, device_digest, digest
from compiler.plan import Band, Condition, Lane, Machine, Mode, NodePlan, Rule, Tier, Unit
from targets.cpuset import TARGET
from tests.cpuset_kernel import Kernel
from tests.taskset_live import FakeProc, Shell, make_shell, shim

LATENCY, SYSTEM, NORMAL, BACKGROUND, IDLE = range(5)
TIERS = (("latency", 1000), ("system", 400), ("normal", 100), ("background", 25), ("idle", 1))

EIGHT = Machine(
    arch="x86_64",
    online=CpuSet(range(8)),
    effective=CpuSet(range(8)),
    isolated=CpuSet(),
    cores=tuple(CpuSet([cpu]) for cpu in range(8)),
    llcs=(),
)
"""Eight cores of one CPU each."""

Line = tuple[str, int, str] | tuple[str, int, str, int]
"""CPUs, tier, cgroup glob, and fewest CPUs."""


def rule(cpus: str, tier: int, *, least: int = 1, **match: str) -> tuple[str, int, int, Condition]:
    """Return what a rule of :func:`plan` is made of; the keywords are fields of its condition."""
    return cpus, tier, least, Condition(**match)


def plan(
    rules: Sequence[tuple[str, int, int, Condition]],
    *,
    shared: str = "0-7",
    lanes: Mapping[str, tuple[str, str]] | None = None,
    isolated: Sequence[str] = (),
    machine: Machine = EIGHT,
    mode: Mode = "fallback",
) -> NodePlan:
    """Return a plan with a rule a line; ``lanes`` are name -> (CPUs, share)."""
    keys = [(shared, NORMAL, 1), *((cpus, tier, least) for cpus, tier, least, _ in rules)]
    kinds = list(dict.fromkeys(keys))
    bands = tuple(
        Band(
            id=number,
            tier=tier,
            order=0,
            cpus=CpuSet.parse(cpus),
            min_cpus=least,
            hard=True,
            prefer_idle_core=False,
        )
        for number, (cpus, tier, least) in enumerate(kinds)
    )
    made = tuple(
        Rule(id=n, unit=f"unit-{n}", band=kinds.index((cpus, tier, least)), match=match)
        for n, (cpus, tier, least, match) in enumerate(rules)
    )
    return NodePlan(
        mode=mode,
        fingerprint=digest(cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)),
        device_fingerprint=device_digest(machine.gpus, machine.nics),
        machine=machine,
        housekeeping=CpuSet(),
        shared=CpuSet.parse(shared),
        leftovers=CpuSet(),
        tiers=tuple(
            Tier(id=i, name=name, slice_ns=3_000_000, weight=weight, floor=0, preempt=False)
            for i, (name, weight) in enumerate(TIERS)
        ),
        default_band=0,
        bands=bands,
        rules=made,
        units=tuple(
            Unit(
                name=one.unit,
                intent=one.unit,
                stage=None,
                tier=bands[one.band].tier,
                order=0,
                effect="protect",
                lane=None,
                cpus=bands[one.band].cpus,
                band=one.band,
            )
            for one in made
        ),
        lanes=tuple(
            Lane(
                name=name,
                cpus=CpuSet.parse(cpus),
                cores=1,
                min_cores=1,
                max_cores=1,
                share=share,  # type: ignore[arg-type]
                tier=LATENCY,
                intents=("one",),
                prefer=(),
                require=(),
                isolated=name in isolated,
            )
            for name, (cpus, share) in (lanes or {}).items()
        ),
        degradations=(),
    )


def files(one: NodePlan) -> dict[str, str]:
    """Return the artifacts of a plan: path below ``cpuset/`` -> text."""
    return {a.path.removeprefix("cpuset/"): a.data.decode() for a in TARGET.emit(one)}


def table(one: NodePlan) -> dict[str, tuple[str, str, str, str]]:
    """Return the groups that ``apply.sh`` sets: path -> CPUs, fewest, weight, how."""
    lines = files(one)["apply.sh"].split("groups() {\n", 1)[1].split("\nEND\n", 1)[0].splitlines()
    rows = (line.split(None, 4) for line in lines if not line.startswith(("#", "  cat")))
    return {path: (cpus, least, weight, how) for cpus, least, weight, how, path in rows}


def emit_to(one: NodePlan, where: Path) -> Path:
    """Emit the artifacts of a plan; return the directory they are in."""
    for artifact in TARGET.emit(one):
        path = where / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
        path.chmod(artifact.mode)
    return where / "cpuset"


class Host:
    """A pretended machine of eight cores with cgroup v2, and a shell on it."""

    def __init__(self, kind: str, tool: Callable[[str], str], tmp: Path) -> None:
        self.root = tmp / "host"
        self.cgroup = self.root / "cgroup"
        self.cgroup.mkdir(parents=True)
        proc = FakeProc(self.root)
        proc.cpus("0-7")
        (self.root / "proc").mkdir()
        for name, text in {
            "online": "0-7",
            "possible": "0-7",
            "cgroup.controllers": "cpuset cpu memory",
            "cgroup.subtree_control": "",
            "cgroup.procs": "1",
            "cpuset.cpus.effective": "0-7",
        }.items():
            (self.cgroup / name).write_text(text + "\n")
        for cpu in range(8):
            proc.cpu(cpu, topology__core_cpus_list=str(cpu))
        self.shell: Shell = make_shell(kind, tool, tmp)
        self.shell.env.update(proc.env)
        self.shell.env["TIERC_RUN"] = str(self.root / "run")
        self.shell.env["TIERC_UNITS"] = str(self.root / "etc")
        self.shims = tmp / "shims"
        kernel = Path(__file__).parent / "cpuset_kernel.py"
        self._call = f'exec "{sys.executable}" -S -E "{kernel}" "{self.root}"'
        shim(self.shims, "tee", f'{self._call} tee "$@"')
        shim(self.shims, "id", "echo 0")
        self.tmp = tmp

    def kernel(self, **has: bool) -> None:
        """Say what this kernel has."""
        (self.root / "kernel.json").write_text(json.dumps(has))

    def group(self, path: str, *pids: int) -> Path:
        """Make a control group with processes in it."""
        there = self.cgroup
        for part in path.split("/"):
            there = there / part
            there.mkdir(exist_ok=True)
            Kernel(self.root).provide(there)
        (there / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        Kernel(self.root).settle()
        return there

    def systemd(self, **units: Mapping[str, str | None]) -> None:
        """Make it a machine of systemd; names of units have ``__`` for ``.``."""
        shim(self.shims, "systemctl", f'{self._call} systemctl "$@"')
        (self.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        named = {name.replace("__", "."): dict(unit) for name, unit in units.items()}
        (self.root / "units.json").write_text(json.dumps(named))

    def unit(self, name: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.root / "units.json").read_text())[name]
        return found

    @property
    def calls(self) -> list[str]:
        """What was asked of systemctl beside ``show``."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if not line.startswith("show ")]

    def read(self, path: str) -> str:
        return (self.cgroup / path).read_text().strip()

    def emit(self, one: NodePlan) -> Path:
        return emit_to(one, self.tmp / "node")

    def run(self, one: NodePlan, *options: str) -> CompletedProcess[str]:
        return self.shell.run(self.emit(one) / "apply.sh", *options, shims=self.shims)

    def apply(self, one: NodePlan, *options: str, code: int = 0) -> str:
        done = self.run(one, *options)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def revert(self, *options: str, code: int = 0) -> str:
        script = self.emit(plan([])) / "revert.sh"
        done = self.shell.run(script, *options, shims=self.shims)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def snapshot(self) -> dict[str, str]:
        """Return every file of the tree."""
        return {
            str(p.relative_to(self.cgroup)): p.read_text()
            for p in sorted(self.cgroup.rglob("*"))
            if p.is_file()
        }
