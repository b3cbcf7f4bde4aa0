"""A pretended kernel and systemd for the cpuset scripts: run as ``tee`` and as ``systemctl``.

It works on a tree of plain files as cgroup v2 shows them, and follows what the kernel's
documentation of cpusets says (Documentation/admin-guide/cgroup-v2.rst) and what was seen of it:
a populated group's ``cpuset.cpus`` cannot be emptied (ENOSPC), an effective set is the wish cut by
the group above, or that one's where nothing is left of it, and a partition takes its CPUs away
from the group above.  It shares nothing with the compiler.

    python cpuset_kernel.py ROOT tee -- FILE       (the text on stdin)
    python cpuset_kernel.py ROOT systemctl ARG...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def cpus(text: str) -> set[int]:
    found: set[int] = set()
    for item in filter(None, text.replace(",", " ").split()):
        first, _, last = item.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def text_of(found: set[int], between: str = ",") -> str:
    out: list[str] = []
    for cpu in sorted(found):
        if cpu - 1 in found:
            continue
        last = cpu
        while last + 1 in found:
            last += 1
        out.append(str(cpu) if last == cpu else f"{cpu}-{last}")
    return between.join(out)


class Refused(Exception):
    """What the kernel answers instead of doing it."""


class Kernel:
    """The tree below ``ROOT/cgroup``; ``ROOT/kernel.json`` says what this kernel has."""

    def __init__(self, root: Path) -> None:
        self.top = root / "cgroup"
        options = root / "kernel.json"
        self.has = {"exclusive": True, "idle": True, "partition": True, "empties": False}
        if options.exists():
            self.has.update(json.loads(options.read_text()))

    def write(self, path: Path, text: str) -> None:
        group, name = path.parent, path.name
        text = text.strip()
        if name == "cgroup.subtree_control":
            for word in text.split():
                self._control(group, word)
        elif name == "cpuset.cpus":
            before = path.read_text().strip()
            if before and not text and self._is_populated(group) and not self.has["empties"]:
                raise Refused("No space left on device")
            if not cpus(text) <= cpus((self.top / "possible").read_text()):
                raise Refused("Numerical result out of range")
            path.write_text(text_of(cpus(text)) + "\n")
            self._end_partitions_beside(group, cpus(text))
        elif name == "cpuset.cpus.exclusive":
            if group.parent != self.top and not cpus(text) <= self._cpus_of(
                group.parent, "cpuset.cpus.exclusive"
            ):
                raise Refused("Invalid argument")
            path.write_text(text_of(cpus(text)) + "\n")
        elif name == "cpuset.cpus.partition":
            path.write_text(self._partition(group, text) + "\n")
        elif name == "cpu.idle":
            path.write_text(text + "\n")
            (group / "cpu.weight").write_text("0\n" if text == "1" else "100\n")
        elif name == "cpu.weight":
            if self._line(group, "cpu.idle") == "1":
                raise Refused("Invalid argument")
            path.write_text(text + "\n")
        else:
            raise Refused("Permission denied")
        self.settle()

    def settle(self) -> None:
        """Compute every effective set anew, from the top."""
        online = cpus((self.top / "online").read_text())
        taken: set[int] = set()
        for group in self._groups():
            if self._line(group, "cpuset.cpus.partition") == "root":
                taken |= self._own(group) & online
        top = self.top / "cpuset.cpus.effective"
        top.write_text(text_of(online - taken) + "\n")
        for group in self._groups():
            if not (group / "cpuset.cpus").exists():
                continue
            wish = self._cpus_of(group, "cpuset.cpus")
            if self._line(group, "cpuset.cpus.partition") == "root":
                found = self._own(group) & online
            else:
                above = self._cpus_of(group.parent, "cpuset.cpus.effective")
                found = (wish & above) or above
            (group / "cpuset.cpus.effective").write_text(text_of(found) + "\n")

    def _end_partitions_beside(self, group: Path, mine: set[int]) -> None:
        """A cpuset with a CPU of a partition beside it makes that invalid (seen in Linux 6.19)."""
        for other in group.parent.iterdir():
            if other == group or self._line(other, "cpuset.cpus.partition") != "root":
                continue
            if mine & self._own(other):
                (other / "cpuset.cpus.partition").write_text(
                    "root invalid (Cpu list in cpuset.cpus not exclusive)\n"
                )

    def _own(self, group: Path) -> set[int]:
        """The CPUs of a partition: its exclusive ones go before its cpuset."""
        return self._cpus_of(group, "cpuset.cpus.exclusive") or self._cpus_of(group, "cpuset.cpus")

    def _groups(self) -> list[Path]:
        return sorted(Path(d) for d, _, _ in os.walk(self.top) if Path(d) != self.top)

    def _line(self, group: Path, name: str) -> str:
        path = group / name
        return path.read_text().strip() if path.exists() else ""

    def _cpus_of(self, group: Path, name: str) -> set[int]:
        return cpus(self._line(group, name))

    def _is_populated(self, group: Path) -> bool:
        return any(Path(d, "cgroup.procs").read_text().strip() for d, _, _ in os.walk(group))

    def _control(self, group: Path, word: str) -> None:
        controller, on = word[1:], word[0] == "+"
        path = group / "cgroup.subtree_control"
        there = set(path.read_text().split())
        if on:
            if controller not in (group / "cgroup.controllers").read_text().split():
                raise Refused("No such file or directory")
            if group != self.top and (group / "cgroup.procs").read_text().strip():
                raise Refused("Device or resource busy")
            there.add(controller)
        else:
            there.discard(controller)
        path.write_text(" ".join(sorted(there)) + "\n")
        for child in sorted(p for p in group.iterdir() if p.is_dir()):
            self.provide(child)

    def provide(self, group: Path) -> None:
        """Give a group the files of the controllers that the group above hands down."""
        there = (group.parent / "cgroup.subtree_control").read_text().split()
        (group / "cgroup.controllers").write_text(" ".join(there) + "\n")
        for path in (group / "cgroup.procs", group / "cgroup.subtree_control"):
            if not path.exists():
                path.write_text("")
        files = {
            "cpuset": {
                "cpuset.cpus": "\n",
                "cpuset.cpus.effective": "\n",
                **({"cpuset.cpus.partition": "member\n"} if self.has["partition"] else {}),
                **({"cpuset.cpus.exclusive": "\n"} if self.has["exclusive"] else {}),
            },
            "cpu": {
                "cpu.weight": "100\n",
                "cpu.max": "max 100000\n",
                **({"cpu.idle": "0\n"} if self.has["idle"] else {}),
            },
        }
        for controller, rows in files.items():
            for name, text in rows.items():
                if controller not in there:
                    (group / name).unlink(missing_ok=True)
                elif not (group / name).exists():
                    (group / name).write_text(text)

    def _partition(self, group: Path, word: str) -> str:
        if word == "member":
            return word
        mine = self._cpus_of(group, "cpuset.cpus")
        for other in group.parent.iterdir():
            if other != group and other.is_dir() and mine & self._cpus_of(other, "cpuset.cpus"):
                return f"{word} invalid (Cpu list in cpuset.cpus not exclusive)"
        if group.parent != self.top and not mine <= self._cpus_of(group, "cpuset.cpus.exclusive"):
            return f"{word} invalid (Parent is not a partition root)"
        return word


class Systemd:
    """The units of ``ROOT/units.json``: name -> its properties, ``group`` is where it runs."""

    def __init__(self, root: Path, kernel: Kernel) -> None:
        self.root = root
        self.kernel = kernel
        self.store = root / "units.json"
        self.units = json.loads(self.store.read_text()) if self.store.exists() else {}

    def call(self, words: list[str]) -> int:
        with (self.root / "calls").open("a") as calls:
            calls.write(" ".join(words) + "\n")
        verb, *rest = words
        split = rest.index("--")
        options, (name, *values) = rest[:split], rest[split + 1 :]
        unit = self.units.get(name)
        if verb == "show":
            self._show(unit, options[1::2])
            return 0
        assert verb == "set-property"
        assert options == ["--runtime"]
        if unit is None:
            sys.stderr.write(f"Failed to set unit properties: Unit {name} not found.\n")
            return 1
        for assignment in values:
            key, _, value = assignment.partition("=")
            if key == "CPUWeight" and value == "idle" and unit.get("old"):
                sys.stderr.write("Failed to parse CPUWeight= parameter: idle\n")
                return 1
            if unit.get("broken"):
                sys.stderr.write("Failed to set unit properties: Access denied\n")
                return 1
            self._set(name, unit, key, value)
        self.store.write_text(json.dumps(self.units))
        self.kernel.settle()
        return 0

    def _show(self, unit: dict[str, str] | None, keys: list[str]) -> None:
        found = {
            "CPUWeight": "[not set]",
            "AllowedCPUs": "",
            "ControlGroup": "",
            "LoadState": "not-found" if unit is None else "loaded",
        }
        if unit is not None:
            found["ControlGroup"] = f"/{unit['group']}" if unit.get("group") else ""
            found["AllowedCPUs"] = unit.get("AllowedCPUs", "")
            found["CPUWeight"] = unit.get("CPUWeight") or "[not set]"
        for key, value in found.items():  # in systemd's order, not as asked
            if key in keys:
                print(f"{key}={value}")

    def _set(self, name: str, unit: dict[str, str], key: str, value: str) -> None:
        drop_ins = self.root / "run/systemd/system.control" / f"{name}.d"
        drop_ins.mkdir(parents=True, exist_ok=True)
        (drop_ins / f"50-{key}.conf").write_text(f"{key}={value}\n")
        if key == "AllowedCPUs":
            value = text_of(cpus(value), " ")
        unit[key] = value
        path = unit.get("group")
        if not path or not (self.kernel.top / path).is_dir():
            return
        group = self.kernel.top
        for part in path.split("/"):
            for controller in ("cpuset", "cpu"):
                there = group / "cgroup.subtree_control"
                if controller not in there.read_text().split():
                    there.write_text(f"{there.read_text().strip()} {controller}\n")
            group = group / part
            self.kernel.provide(group)
        if key == "AllowedCPUs" and value:  # an empty one is not even written
            self.kernel.write(group / "cpuset.cpus", value.replace(" ", ","))
        elif key == "CPUWeight":
            (group / "cpu.weight").write_text(f"{'0' if value == 'idle' else value or '100'}\n")


def main(argv: list[str]) -> int:
    root = Path(argv[1])
    kernel = Kernel(root)
    if argv[2] == "systemctl":
        return Systemd(root, kernel).call(argv[3:])
    path = Path(argv[-1])
    text = sys.stdin.read()
    sys.stdout.write(text)
    if not path.exists():
        sys.stderr.write(f"tee: {path}: No such file or directory\n")
        return 1
    try:
        kernel.write(path, text)
    except Refused as refusal:
        sys.stderr.write(f"tee: {path}: {refusal}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
