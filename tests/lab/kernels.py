"""The kernels that the lab boots: Debian's, as ELF files in the cache."""

from __future__ import annotations

import re
import struct
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.lab.packages import Tools, Unavailable, open_apt

KERNELS: Final = ("6.19.14", "7.3.4")
"""The lab's own, oldest first; where one is gone from the mirror, the newest there is taken."""

_PACKAGE: Final = re.compile(
    r"^(linux-(?:binary|image)-([0-9]+\.[0-9]+\.[0-9]+)\+deb13-cloud-amd64)( |$)", re.M
)


def prepare(cache: Path, tools: Tools, versions: Sequence[str], *, exact: bool) -> dict[str, Path]:
    """Return kernels by version, from the cache or else the mirror.

    Args:
        cache: where they are kept.
        tools: what unpacks them.
        versions: which.
        exact: false: the newest in the place of one that is gone from the mirror.

    Raises:
        Unavailable: the mirror does not have one, or cannot be reached.
    """
    directory = cache / "kernels"
    found = {version: directory / f"vmlinux-{version}" for version in versions}
    if all(path.exists() for path in found.values()):
        return found
    directory.mkdir(parents=True, exist_ok=True)
    apt = open_apt(cache)
    listing = apt.run("apt-cache", "search", "--names-only", "^linux-(binary|image)-[0-9]")
    found = {}
    for version, package in choose(listing, versions, exact=exact).items():
        found[version] = directory / f"vmlinux-{version}"
        if not found[version].exists():
            apt.run("apt-get", "download", package)
            (archive,) = apt.archives.glob(f"{package}_*.deb")
            image = _image(archive)
            archive.unlink()
            unpack(tools, image, found[version])
    return found


def choose(listing: str, versions: Sequence[str], *, exact: bool) -> dict[str, str]:
    """Return the package of each kernel, by version.

    The packages named binary are the images alone, and what newer versions have.

    Args:
        listing: packages, as ``apt-cache search`` prints them.
        versions: which.
        exact: false: the newest in the place of one that is not among them.

    Raises:
        Unavailable: there is none, or not the very one.
    """
    there: dict[str, str] = {}
    for package, version, _ in _PACKAGE.findall(listing):
        there[version] = min(package, there.get(version, package))
    for version in versions:
        if exact and version not in there:
            known = ", ".join(sorted(there, key=_order))
            raise Unavailable(f"the mirror has no kernel {version}; it has {known or 'none'}")
    if not there:
        raise Unavailable("the mirror has no kernel with sched_ext")
    newest = max(there, key=_order)
    chosen = {version if version in there else newest for version in versions}
    return {version: there[version] for version in sorted(chosen, key=_order)}


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _image(package: Path) -> bytes:
    """Return the kernel in a package, as it is there."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive,
    ):
        for member in archive:
            if re.search(r"/vmlinuz[^/]*$", member.name) and member.isfile():
                image = archive.extractfile(member)
                data = image.read() if image else b""
                unpacked.terminate()
                return data
    raise Unavailable(f"{package.name} holds no kernel")


def unpack(tools: Tools, image: bytes, target: Path) -> None:
    """Write the kernel that a bzImage holds: QEMU starts it seconds sooner than it unpacks itself.

    Where it lies, and how long it is, stands in the header of the boot protocol
    (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).  The last four
    bytes are its size.

    Raises:
        Unavailable: it is compressed in another way.
    """
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (image[0x1F1] + 1) * 512 + offset
    payload = image[start : start + length - 4]
    if image[0x202:0x206] != b"HdrS" or not payload.startswith(b"\x28\xb5\x2f\xfd"):
        raise Unavailable(f"{target.name}: no bzImage compressed with zstd")
    partial = target.with_suffix(".partial")
    with partial.open("wb") as out:
        subprocess.run(
            [tools.zstd, "-dcq"], input=payload, stdout=out, env=tools.environment(), check=True
        )
    partial.rename(target)
