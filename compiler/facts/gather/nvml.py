"""Ask NVML, through nvidia-ml-py (the extra ``nvidia``), if that is installed.

The answers are written down as JSON, which :mod:`compiler.facts.formats.nvml` reads, so that a
bundle can repeat the reading elsewhere.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from compiler.cpuset import MAX_CPUS, CpuListError, CpuSet
from compiler.facts.formats.nvml import MARK

MAX_GPUS: Final = 256
MAX_INSTANCES: Final = 64
_WORD_BITS: Final = 8 * ctypes.sizeof(ctypes.c_ulong)
"""NVML's masks are of ``unsigned long``."""
_CPU_WORDS: Final = MAX_CPUS // _WORD_BITS
_NODE_WORDS: Final = 1024 // _WORD_BITS
"""Linux has at most 1,024 NUMA nodes (NODES_SHIFT 10)."""
_NODE_SCOPE: Final = 0
"""NVML_AFFINITY_SCOPE_NODE."""


def ask_nvml(*, timeout_s: float = 10.0) -> str | None:
    """Return what NVML says of each GPU, as JSON; None without nvidia-ml-py, NVML or a GPU.

    A question that this driver or GPU does not answer is left out.  A driver that hangs costs
    ``timeout_s`` seconds.
    """
    try:
        # By name: the package is an extra, and nothing may depend on its being there.
        library = importlib.import_module("pynvml")
    except Exception:
        return None
    answer: list[str] = []

    def ask() -> None:
        text = _try(_ask, library)
        if text is not None:
            answer.append(text)

    # A thread, since a call into a stuck driver cannot be interrupted; daemon, so that it does not
    # keep the program from ending.
    thread = threading.Thread(target=ask, name="nvml", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return answer[0] if answer else None


def _try(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns; None if it fails in any way.

    NVMLError has a class for every error, old versions lack functions (AttributeError), and
    packages of the same name mimic others' GPUs.
    """
    try:
        return call(*arguments)
    except Exception:
        return None


def _ask(nvml: Any) -> str | None:
    nvml.nvmlInit()
    try:
        count = min(int(nvml.nvmlDeviceGetCount()), MAX_GPUS)
        gpus = [_gpu(nvml, index) for index in range(count)]
    finally:
        _try(nvml.nvmlShutdown)
    found = [gpu for gpu in gpus if gpu is not None]
    if not found:
        return None
    said = {MARK: 1, "limited": _is_limited(), "gpus": found}
    return json.dumps(said, indent=1, ensure_ascii=True) + "\n"


def _is_limited() -> bool:
    """Return whether this process may not use every CPU that is online."""
    return len(os.sched_getaffinity(0)) < (os.cpu_count() or 0)


def _gpu(nvml: Any, index: int) -> dict[str, Any] | None:
    def ask(name: str, *arguments: Any) -> Any:
        return _try(lambda: getattr(nvml, name)(*arguments))

    gpu = ask("nvmlDeviceGetHandleByIndex", index)
    if gpu is None:
        return None
    answers: dict[str, Any] = {
        "pciBusId": _text(getattr(ask("nvmlDeviceGetPciInfo", gpu), "busId", None)),
        "uuid": _text(ask("nvmlDeviceGetUUID", gpu)),
        "name": _text(ask("nvmlDeviceGetName", gpu)),
        "cpus": _list(ask("nvmlDeviceGetCpuAffinity", gpu, _CPU_WORDS)),
        "numa": _list(ask("nvmlDeviceGetMemoryAffinity", gpu, _NODE_WORDS, _NODE_SCOPE)),
        "memoryNode": _number(ask("nvmlDeviceGetNumaNodeId", gpu)),
    }
    # Slots of MIG instances may have gaps.
    slots = min(_number(ask("nvmlDeviceGetMaxMigDeviceCount", gpu)) or 0, MAX_INSTANCES)
    handles = (ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slot) for slot in range(slots))
    uuids = [_text(ask("nvmlDeviceGetUUID", one)) for one in handles if one is not None]
    answers["mig"] = [uuid for uuid in uuids if uuid] or None
    return {"index": index} | {key: value for key, value in answers.items() if value is not None}


def _text(value: Any) -> str | None:
    """Return a text; older packages return bytes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.strip("\0 ") or None if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    """Return a number; -1 is what some calls give for none."""
    return value if isinstance(value, int) and value >= 0 else None


def _list(words: Sequence[int] | None) -> str | None:
    """Return the list of a mask of words, lowest first; None for an empty one."""
    if words is None:
        return None
    try:
        mask = sum(
            (int(word) & (1 << _WORD_BITS) - 1) << _WORD_BITS * i for i, word in enumerate(words)
        )
        return str(CpuSet.from_mask(mask)) or None
    except (CpuListError, TypeError, ValueError):
        return None
