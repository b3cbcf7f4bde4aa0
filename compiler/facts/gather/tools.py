"""Ask nvidia-smi and rocm-smi, if they are there, and read what they answer.

A tool that is missing, hangs, fails or prints nonsense costs its facts and a note, no more.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from compiler.facts.formats import nvml, rocm_smi, smi_query, smi_topo
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.tree import clean

MAX_OUTPUT: Final = 8 << 20
"""Bytes of standard output; what is longer is not used."""
MAX_ERRORS: Final = 64 << 10
"""Bytes of standard error that are kept; the rest is read and dropped."""

_CHUNK: Final = 64 << 10
_GRACE_S: Final = 0.5
"""How long a pipe may stay open after the tool has ended: something it started may hold it."""

TOOLS: Final[tuple[tuple[str, ...], ...]] = (
    ("nvidia-smi", "-q", "-x"),
    ("nvidia-smi", "topo", "-m"),
    ("rocm-smi", "--showtoponuma"),
)
NVML: Final = "nvml"
"""Name of what :func:`compiler.facts.gather.nvml.ask_nvml` returned."""

_FORMATS: Final[dict[str, tuple[Format, str]]] = {
    "nvidia-smi -q -x": (smi_query.FORMAT, smi_query.READER),
    "nvidia-smi topo -m": (smi_topo.FORMAT, smi_topo.READER),
    "rocm-smi --showtoponuma": (rocm_smi.FORMAT, rocm_smi.READER),
    NVML: (nvml.FORMAT, nvml.READER),
}


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool said.

    Attributes:
        name: the command as messages name it, such as ``nvidia-smi topo -m``.
        argv: what was run; the program by its absolute path.
        text: its standard output; None if it failed.
        error: why it failed; None if it did not.
    """

    name: str
    argv: tuple[str, ...]
    text: str | None
    error: str | None = None


def ask_tools(
    *,
    timeout_s: float,
    which: Callable[..., str | None] = shutil.which,
    tools: Sequence[tuple[str, ...]] = TOOLS,
) -> tuple[ToolOutput, ...]:
    """Run the tools that are installed and return what they said, in the order of ``tools``.

    A program counts only in a directory of ``PATH`` that nobody else can write to and that is not
    the working directory or below it; see :func:`trusted_path`.  It is run in ``/`` with
    ``LC_ALL=C`` and nothing to read, in a process group of its own that is killed after
    ``timeout_s`` seconds, also if the tool has ended and left something behind.
    """
    path = trusted_path(os.environ.get("PATH", os.defpath), _cwd())
    results: list[ToolOutput] = []
    hung: set[str] = set()
    for argv in tools:
        program = which(argv[0], path=path) if path else None
        if program is None or not os.path.isabs(program) or not _is_private(program):
            continue
        name = " ".join(argv)
        if program in hung:  # its driver will not answer the next question either
            results.append(
                ToolOutput(name, (program, *argv[1:]), None, "not asked: it hung before")
            )
            continue
        started = time.monotonic()
        results.append(_run(name, (program, *argv[1:]), path, timeout_s))
        if results[-1].text is None and time.monotonic() - started >= timeout_s:
            hung.add(program)
    return tuple(results)


def _cwd() -> str:
    """Return the working directory; the root, which hides no ``bin``, where it is deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def trusted_path(path: str, cwd: str) -> str:
    """Return the directories of ``path`` that programs are taken from.

    Left out are relative and empty entries, the working directory and what is below it (a
    repository's own ``bin``), and directories that others may write to.
    """
    here = os.path.realpath(cwd)
    kept = []
    for entry in path.split(os.pathsep):
        if not os.path.isabs(entry):
            continue
        real = os.path.realpath(entry)
        inside = here != "/" and os.path.commonpath((real, here)) == here
        if not inside and _is_private(real):
            kept.append(entry)
    return os.pathsep.join(kept)


def _is_private(path: str) -> bool:
    """Return whether only root and this user can change what is at ``path``."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


def read_outputs(outputs: Sequence[ToolOutput]) -> tuple[Partial, ...]:
    """Return the facts of each output in order; a failure is a partial with only a note."""
    partials: list[Partial] = []
    for output in outputs:
        format_, reader = _FORMATS[output.name]
        try:
            if output.text is None:
                raise ReadError(output.error or "failed")
            partials += format_.read(Text(output.name, output.text))
        except ReadError as error:
            note = Note(f"not used: {error.message}", error.line)
            partials.append(Partial(reader=reader, file=output.name, notes=(note,)))
    return tuple(partials)


# --- running -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Heard:
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    failure: str | None = None


def _run(name: str, argv: tuple[str, ...], path: str, timeout_s: float) -> ToolOutput:
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={**os.environ, "PATH": path, "LC_ALL": "C", "LANGUAGE": "C"},
            start_new_session=True,
        )
    except OSError as error:
        why = f"cannot be run: {os.strerror(error.errno or 0).lower()}"
        return ToolOutput(name, argv, None, why)
    deadline = time.monotonic() + timeout_s
    try:
        heard = _listen(process, deadline, timeout_s)
        if heard.failure is None:
            # It closed its output, which does not mean that it ends.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                heard.failure = f"did not end within {timeout_s:g} s"
    finally:
        _end(process)
    status = process.returncode
    if heard.failure is None and status != 0:
        ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
        heard.failure = ended
        if first := _first_line(heard.err) or _first_line(heard.out):
            heard.failure = f"{ended}: {first}"
    if heard.failure is not None:
        return ToolOutput(name, argv, None, heard.failure)
    return ToolOutput(name, argv, heard.out.decode("utf-8", "replace"))


def _listen(process: subprocess.Popen[bytes], deadline: float, timeout_s: float) -> _Heard:
    """Read both pipes until they are closed, the time is over or there is too much."""
    heard = _Heard()
    with selectors.DefaultSelector() as selector:
        for pipe, kept, limit in (
            (process.stdout, heard.out, MAX_OUTPUT + 1),
            (process.stderr, heard.err, MAX_ERRORS),
        ):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, (kept, limit))
        ended_at: float | None = None
        while selector.get_map():
            now = time.monotonic()
            if ended_at is None and process.poll() is not None:
                ended_at = now
            if ended_at is not None and now - ended_at > _GRACE_S:
                break
            if now >= deadline:
                heard.failure = f"no answer within {timeout_s:g} s"
                break
            for key, _ in selector.select(min(0.1, deadline - now)):
                pipe_: IO[bytes] = key.fileobj  # type: ignore[assignment]
                if not _drain(pipe_, *key.data):
                    selector.unregister(pipe_)
            if len(heard.out) > MAX_OUTPUT:
                heard.failure = f"more than {MAX_OUTPUT} bytes of output"
                break
    return heard


def _drain(pipe: IO[bytes], kept: bytearray, limit: int) -> bool:
    """Read what is there; return whether the pipe is still open."""
    try:
        data = os.read(pipe.fileno(), _CHUNK)
    except BlockingIOError:
        return True
    kept += data[: limit - len(kept)]
    return bool(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, and wait for the tool if it can be killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that waits inside a driver does not die; it is left behind.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _first_line(data: bytearray) -> str:
    text = data.decode("utf-8", "replace").strip()
    return clean(text.splitlines()[0], 120) if text else ""
