"""The sysfs snapshots of the shared corpus, unpacked for a test."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path, PurePosixPath

FOLDERS = {
    "hwloc-sysfs": 14,
    "ghw-snapshots": 5,
    "nri-plugins-sysfs": 1,
    "lscpu-dumps": 6,
    "openshift-mustgather": 3,
}
"""Folder of the corpus -> how many sysfs snapshots it holds."""

# Parts of a tree that no fact is read from, and that are most of its 97,000 files.
_UNREAD = re.compile(
    r"/memory\d+(/|$)|(^|/)proc/(irq|device-tree)/|/node\d+/(hugepages|vmstat|cpu\d+)|/msi_irqs/"
    r"|/(power|cpuidle|thermal_throttle|microcode|hotplug|driver)/|/uevent$|/core_id$"
    r"|/cache/index\d+/(coherency|number|ways|physical|allocation|write)_\w+$"
    r"|/topology/(core_siblings|package_cpus|die|cluster|book|drawer|ppin)\w*$"
)
# What tells the layout of CPUs, to lscpu and hwloc too.
_LAYOUT = re.compile(
    r"/sys/devices/system/(cpu/(kernel_max|possible|present|online)|cpu/cpu\d+/online"
    r"|cpu/cpu\d+/topology/\w+|cpu/cpu\d+/cache/index\d+/(level|type|size|id|shared_cpu_\w+)"
    r"|node/(online|possible)|node/node\d+/(cpumap|cpulist|distance|meminfo))$"
    r"|/proc/(cpuinfo|sysinfo|meminfo|version)$"
)
_MAX_MEMBER = 8 * 1024 * 1024


def snapshots(corpus: Path) -> list[Path]:
    """Return the archives, by name."""
    return [path for name in FOLDERS for path in sorted((corpus / name).glob("*.t*gz"))] + sorted(
        path for name in FOLDERS for path in (corpus / name).glob("*.tar.bz2")
    )


def unpack(archive: Path, into: Path, *, layout: bool = False) -> Path:
    """Unpack files, then links, so that nothing is written through a link; return the sysroot.

    ``layout``: only what tells the layout of CPUs, but all of that.
    """
    links = []
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            assert not path.is_absolute()
            assert ".." not in path.parts
            if layout and not _LAYOUT.search(f"/{member.name}"):
                continue
            if not layout and _UNREAD.search(member.name):
                continue
            target = into / path
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                links.append((target, member.linkname))
            elif member.isreg():
                assert member.size <= _MAX_MEMBER
                data = tar.extractfile(member)
                assert data is not None
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data.read())
    for target, name in links:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink() and not target.exists():
            target.symlink_to(name)
    (root,) = (path.parents[3] for path in into.glob("**/sys/devices/system/cpu"))
    return root
