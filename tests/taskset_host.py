"""A pretended machine with the taskset scripts on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.plan import NodePlan, Rule
from tests.taskset_live import FakeProc, Shell, make_shell
from tests.taskset_plans import machine, plan, write_scripts

KERNEL = 0x200000  # PF_KTHREAD
BOUND = 0x04000000  # PF_NO_SETAFFINITY
BANDS = [("0", 1), ("2-3", 2), ("0-3", 1)]
FOUR = machine(range(4), [{0}, {1}, {2}, {3}], [], arch="x86_64")


class Host:
    """A pretended machine of four cores and a shell on it."""

    def __init__(self, kind: str, tool: Callable[[str], str], tmp: Path) -> None:
        self.proc = FakeProc(tmp / "host")
        self.proc.cpus("0-3")
        (self.proc.root / "proc").mkdir()
        self.shell: Shell = make_shell(kind, tool, tmp)
        self.shell.env.update(self.proc.env)
        self.shims = self.proc.taskset(tmp / "shims")
        self.tmp = tmp

    def scripts(self, rules: Sequence[Rule], **more: object) -> Path:
        options: dict[str, object] = {"on": FOUR, "bands": BANDS, **more}
        one: NodePlan = plan(rules, **options)  # type: ignore[arg-type]
        return write_scripts(one, self.tmp / "node")

    def apply(self, *rules: Rule, code: int = 0, **more: object) -> str:
        done = self.shell.run(self.scripts(rules, **more) / "apply.sh", shims=self.shims)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def revert(self) -> str:
        done = self.shell.run(self.scripts([]) / "revert.sh", shims=self.shims)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr
