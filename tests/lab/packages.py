"""What the lab needs of Debian's packages, unpacked into a cache and never installed.

The machine's own package sources say where the mirror is.  Nothing outside the cache is changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
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
KERNELS: Final = ("6.19.14", "7.3.4")
"""Versions wanted; where one is gone from the mirror, the newest there is taken."""

_LAYOUT: Final = "2"
"""Of the cache; count up when what is put there changes."""
_SUITES: Final = ("bookworm", "bookworm-backports", "trixie-backports")
_KERNEL: Final = re.compile(r"^linux-binary-([0-9]+\.[0-9]+\.[0-9]+)\+deb13-cloud-amd64$", re.M)
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

    def kernels(self) -> dict[str, Path]:
        """Return the kernels by version, oldest first: ELF files."""
        found = {path.name[len("vmlinux-") :]: path for path in self.root.glob("vmlinux-*")}
        return dict(sorted(found.items(), key=lambda one: [int(n) for n in one[0].split(".")]))

    def images(self) -> dict[str, Path]:
        """Return the kernels as they are packaged, by version."""
        images = [
            *self.root.glob("boot/vmlinuz-*"),
            *self.root.glob("usr/lib/modules/*/vmlinuz"),
        ]
        found = {}
        for image in images:
            name = image.parent.name if image.name == "vmlinuz" else image.name[len("vmlinuz-") :]
            found[name.split("+")[0]] = image
        return found


def cache_directory() -> Path:
    """Return where the lab keeps what it downloads."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "tierc-lab"


def prepare(cache: Path) -> Tools:
    """Return the unpacked tools, from the cache if they are there.

    Raises:
        Unavailable: this is no Debian 12 on x86-64, or the packages cannot be had.
    """
    wanted = hashlib.sha256("\n".join((*TOOLS, *KERNELS, *_SUITES, _LAYOUT)).encode()).hexdigest()[
        :12
    ]
    root = cache / f"root-{wanted}"
    if (root / ".complete").exists():
        return Tools(root)
    mirror = _mirror()
    apt = _configure(cache / "apt", mirror)
    _run(["apt-get", "update"], apt)
    kernels = choose_kernels(_run(["apt-cache", "search", "--names-only", "^linux-binary-"], apt))
    archives = cache / "apt" / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    _run(["apt-get", "-y", "--download-only", "--no-install-recommends", "install", *TOOLS], apt)
    _run(["apt-get", "download", *kernels], apt, cwd=archives)
    partial = cache / f"root-{wanted}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(partial)], apt)
    tools = Tools(partial)
    for program in (tools.bpftool, tools.busybox, tools.qemu, tools.zstd):
        if not program.exists():
            raise Unavailable(f"the packages hold no {program.name}")
    for version, image in tools.images().items():
        unpack_kernel(tools, image, partial / f"vmlinux-{version}")
    shutil.rmtree(archives)
    (partial / ".complete").touch()
    shutil.rmtree(root, ignore_errors=True)
    partial.rename(root)
    return Tools(root)


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


def choose_kernels(listing: str) -> list[str]:
    """Return the packages of the wanted kernels, or of the newest instead."""
    there = {
        version: f"linux-binary-{version}+deb13-cloud-amd64"
        for version in _KERNEL.findall(re.sub(r" - .*", "", listing))
    }
    if not there:
        raise Unavailable("the mirror has no kernel with sched_ext")
    newest = max(there, key=lambda version: [int(part) for part in version.split(".")])
    return sorted({there.get(version, there[newest]) for version in KERNELS})


def unpack_kernel(tools: Tools, image: Path, target: Path) -> None:
    """Write the kernel that a bzImage holds: QEMU starts it seconds sooner than it unpacks itself.

    Where it lies, and how long it is, stands in the header of the boot protocol
    (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).  The last four
    bytes are its size.
    """
    data = image.read_bytes()
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (data[0x1F1] + 1) * 512 + offset
    payload = data[start : start + length - 4]
    if data[0x202:0x206] != b"HdrS" or not payload.startswith(b"\x28\xb5\x2f\xfd"):
        raise Unavailable(f"{image.name} is no kernel compressed with zstd")
    with target.open("wb") as out:
        subprocess.run(
            [tools.zstd, "-dcq"], input=payload, stdout=out, env=tools.environment(), check=True
        )


def _run(command: list[str], environment: dict[str, str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:3])} failed: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    """Return the last line, without addresses of mirrors."""
    lines = text.strip().splitlines() or ["no message"]
    return re.sub(r"https?://\S+", "the mirror", lines[-1])
