"""What the lab needs of Debian's packages, unpacked into a cache and never installed.

The machine's own package sources say where the mirror is.  Nothing outside the cache is changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "TIERC_LAB_CACHE"

# Debian 12 with its backports.  clang 14's objects have kernel functions that no loader finds;
# bpftool 7.1 knows no .struct_ops.link; QEMU 7.2 counts instructions too coarsely.
TOOLS: Final = (
    "clang-16",
    "busybox-static",
    "bpftool/bookworm-backports",
    "qemu-system-x86/bookworm-backports",
    "qemu-system-common/bookworm-backports",
    "qemu-system-data/bookworm-backports",
    "seabios/bookworm-backports",
    "zstd",
)
_SUITES: Final = ("bookworm", "bookworm-backports", "trixie-backports")
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """The lab cannot run on this machine, and why."""


@dataclass(frozen=True)
class Tools:
    """An unpacked set of packages."""

    root: Path

    @property
    def library_path(self) -> str:
        """Return where its libraries are, for LD_LIBRARY_PATH."""
        lib = "lib/x86_64-linux-gnu"
        return f"{self.root}/usr/{lib}:{self.root}/{lib}:{self.root}/usr/lib/llvm-16/lib"

    def environment(self) -> dict[str, str]:
        """Return the environment for its programs."""
        return {**os.environ, "LD_LIBRARY_PATH": self.library_path, "LC_ALL": "C.UTF-8"}

    @property
    def qemu(self) -> Path:
        return self._program("usr/bin/qemu-system-x86_64")

    @property
    def clang(self) -> Path:
        return self.root / "usr/lib/llvm-16/bin/clang"

    @property
    def bpftool(self) -> Path:
        return self._program("usr/sbin/bpftool")

    @property
    def busybox(self) -> Path:
        return self._program("bin/busybox")

    @property
    def zstd(self) -> Path:
        return self._program("usr/bin/zstd")

    def _program(self, path: str) -> Path:
        """Return a program; those that the machine has in that version are not unpacked."""
        unpacked = self.root / path
        return unpacked if unpacked.exists() else Path("/", path)


def cache_directory() -> Path:
    """Return where the lab keeps what it downloads."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "tierc-lab"


@dataclass(frozen=True)
class Apt:
    """The machine's package sources with a configuration of our own.

    Attributes:
        environment: of its programs.
        archives: an empty directory for packages.
    """

    environment: Mapping[str, str]
    archives: Path

    def run(self, *command: str | Path) -> str:
        """Run a program among the archives; return what it printed.

        Raises:
            Unavailable: it failed.
        """
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.archives,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = " ".join(str(word) for word in command[:3])
            raise Unavailable(f"{said} failed: {_last_line(done.stderr)}")
        return done.stdout


def prepare(cache: Path) -> Tools:
    """Return the unpacked tools, from the cache if they are there.

    Raises:
        Unavailable: this is no Debian 12 on x86-64, or the packages cannot be had.
    """
    wanted = hashlib.sha256("\n".join((*TOOLS, *_SUITES)).encode()).hexdigest()[:12]
    root = cache / f"tools-{wanted}"
    if (root / ".complete").exists():
        return Tools(root)
    apt = open_apt(cache)
    apt.run("apt-get", "-y", "--download-only", "--no-install-recommends", "install", *TOOLS)
    partial = cache / f"tools-{wanted}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for package in sorted((cache / "apt" / "archives").glob("*.deb")):
        apt.run("dpkg-deb", "-x", package, partial)
    tools = Tools(partial)
    for program in (tools.bpftool, tools.busybox, tools.qemu, tools.zstd):
        if not program.exists():
            raise Unavailable(f"the packages hold no {program.name}")
    (partial / ".complete").touch()
    shutil.rmtree(root, ignore_errors=True)
    partial.rename(root)
    return Tools(root)


def open_apt(cache: Path) -> Apt:
    """Read the lists of the machine's mirror into the cache.

    Raises:
        Unavailable: this is no Debian 12 on x86-64, or the mirror cannot be reached.
    """
    mirror = _mirror()
    archives = cache / "apt" / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    apt = Apt(_configure(cache / "apt", mirror), archives)
    apt.run("apt-get", "update")
    return apt


def _mirror() -> str:
    """Return the address of the mirror that this machine uses."""
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        release = ""
    if not re.search(r'^VERSION_ID="?12"?$', release, re.M) or os.uname().machine != "x86_64":
        raise Unavailable("the lab's packages are for Debian 12 on x86-64")
    for tool in ("apt-get", "apt-cache", "dpkg-deb", "gcc"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    directory = Path("/etc/apt")
    sources = [directory / "sources.list", *sorted(directory.glob("sources.list.d/*"))]
    for source in sources:
        if source.suffix not in (".list", ".sources") or not source.is_file():
            continue
        text = source.read_text()
        for stanza in re.split(r"\n\s*\n", text):
            uri = re.search(r"^URIs:\s*(\S+)", stanza, re.M)
            if uri and re.search(r"^Suites:.*\bbookworm\b", stanza, re.M):
                return uri[1]
        line = re.search(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+bookworm\s", text, re.M)
        if line:
            return line[1]
    raise Unavailable("the machine has no package source for Debian 12")


def _configure(directory: Path, mirror: str) -> dict[str, str]:
    """Write a private configuration of apt; return the environment that uses it."""
    for name in ("lists/partial", "archives/partial", "etc"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    lines = [f"deb [signed-by={_KEYRING}] {mirror} {suite} main\n" for suite in _SUITES]
    (directory / "etc/sources.list").write_text("".join(lines))
    (directory / "etc/apt.conf").write_text(
        f'Dir::Etc::sourcelist "{directory}/etc/sources.list";\n'
        'Dir::Etc::sourceparts "-";\n'
        f'Dir::State::lists "{directory}/lists";\n'
        f'Dir::Cache "{directory}";\n'
        'Acquire::Languages "none";\n'
        'APT::Sandbox::User "root";\n'
        'Debug::NoLocking "1";\n'
    )
    return {**os.environ, "APT_CONFIG": str(directory / "etc/apt.conf"), "LC_ALL": "C.UTF-8"}


def _last_line(text: str) -> str:
    """Return the last line, without addresses of mirrors."""
    lines = text.strip().splitlines() or ["no message"]
    return re.sub(r"https?://\S+", "the mirror", lines[-1])
