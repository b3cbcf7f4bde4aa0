"""What a bundle leaves out: everything that is in a file that was read, but is no fact."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from compiler.facts.files.memory import Link, MemoryFiles
from compiler.facts.kernel import CPU_OPTIONS, cmdline_words
from compiler.facts.secrets import SECRET, without_secrets, without_users

_PROCESS: Final = re.compile(r"/proc/([0-9]+)(?:/.*)?")
# Programs of a Kubernetes node: their processes tell which kubelet there is.
_OF_KUBERNETES: Final = re.compile(rb"kube|k3s|k0s|rke2|containerd|cri-?o|dockerd", re.IGNORECASE)
_PRIVATE: Final = re.compile(
    "<(serial|board_serial_number|board_part_number|chassis_serial_number|module_id|"
    "processes|accounted_processes)>"
)
_OF_GPU: Final = (b"Model", b"GPU UUID", b"Bus Location", b"Node")
_FILE_SYSTEMS: Final = frozenset({b"cgroup", b"cgroup2", b"cpuset"})


def redacted(files: MemoryFiles) -> MemoryFiles:
    """Return files without what is not needed to read the facts again.

    - of the kernel's command line only options that concern CPUs stay;
    - of the processes only those of Kubernetes, and the one that read;
    - of their command lines no values of options that look like secrets;
    - of the mounts only control groups; of ``cpuinfo`` no serial number;
    - of files that configure, no values that look like secrets, and nothing of a kubeconfig; see
      :func:`compiler.facts.secrets.without_secrets`.
    """
    kept = _processes(files)
    result = MemoryFiles()
    for path, names in files.directories():
        if _is_kept(path, kept):
            inside = [name for name in names if path != "/proc" or _is_kept(f"/proc/{name}", kept)]
            result.add_directory(path, inside)
    for path, node in files.nodes():
        if _is_kept(path, kept):
            result.add(path, _content(path, node) if isinstance(node, bytes) else node)
    for (act, path), number in files.errors().items():
        if _is_kept(path, kept):
            result.add_error(act, path, number)
    return result


def _processes(files: MemoryFiles) -> frozenset[str]:
    kept = set()
    for path, node in files.nodes():
        if path == "/proc/self" and isinstance(node, Link):
            kept.add(str(node))
        match = _PROCESS.fullmatch(path)
        if match and path.endswith("/comm") and isinstance(node, bytes):
            kept |= {match[1]} if _OF_KUBERNETES.search(node) else set()
    return frozenset(kept)


def _is_kept(path: str, processes: frozenset[str]) -> bool:
    match = _PROCESS.fullmatch(path)
    return match is None or match[1] in processes


def _content(path: str, data: bytes) -> bytes:
    if path.startswith("/sys/"):
        return data
    name = path.rpartition("/")[2]
    if path == "/proc/cmdline":
        words = cmdline_words(data.decode("utf-8", "replace"))
        kept = [word for word in words if word.partition("=")[0] in CPU_OPTIONS]
        return " ".join(kept).encode() + b"\n"
    if path == "/proc/cpuinfo":
        return _lines(data, lambda line: not line.lower().startswith(b"serial"))
    if path.startswith("/proc/"):
        if name == "mounts":
            return _lines(data, _is_cgroup)
        if path.startswith("/proc/driver/nvidia/"):
            return _lines(data, lambda line: line.startswith(_OF_GPU))
        return _arguments(data) if name == "cmdline" else data
    return without_secrets(data)


def redacted_output(text: str) -> str:
    """Return what a tool said without serial numbers and other users' processes.

    These are elements of ``nvidia-smi -q -x``; where one has no end the rest is left as it is.
    """
    kept: list[str] = []
    at = 0
    while (match := _PRIVATE.search(text, at)) is not None:
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            break
        kept.append(text[at : match.end()])
        # Lines are counted: a message may name one.
        kept.append("\n" * text.count("\n", match.end(), end))
        at = end
    return "".join((*kept, text[at:]))


def _lines(data: bytes, keep: Callable[[bytes], bool]) -> bytes:
    return b"".join(line for line in data.splitlines(keepends=True) if keep(line))


def _is_cgroup(mount: bytes) -> bool:
    words = mount.split()
    return len(words) > 2 and words[2] in _FILE_SYSTEMS


def _arguments(data: bytes) -> bytes:
    """Blank the values of options that look like secrets, in both forms: ``-o=v`` and ``-o v``."""
    kept = []
    hide = False
    for word in without_users(data).split(b"\0"):
        option, equals, _ = word.partition(b"=")
        secret = option.startswith(b"-") and SECRET.search(option) is not None
        if secret and equals:
            kept.append(option + b"=")
        else:
            kept.append(b"" if hide and not word.startswith(b"-") else word)
        hide = secret and not equals
    return b"\0".join(kept)
