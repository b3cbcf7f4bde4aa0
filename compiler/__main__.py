"""The command ``tierc``, and ``python -m compiler``, which is the same.

It makes the process safe to run in a stranger's policy repository, runs the command line, and
turns whatever still goes wrong into one line and an exit code.
"""

# No `from __future__` here and in compiler/__init__.py: it imports a module, and these two files
# run before the working directory is off sys.path.  `os` and `sys` are part of the interpreter.
import os
import sys

_HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
WRONG_USAGE = 2
INTERRUPTED = 128 + 2  # as a shell reports SIGINT
BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE


def leave_working_directory() -> None:
    """Take the working directory off ``sys.path``.

    ``python -m`` puts it first, and so does an empty item in PYTHONPATH.  A policy repository may
    hold a ``targets/`` or ``json.py`` of its own, which must not run because somebody compiles
    it.  The directory stays when this very package was found there: a checkout of tierc.
    (A ``compiler/`` in the working directory was found first by ``python -m compiler`` and never
    came here; ``tierc`` and PYTHONSAFEPATH=1 do not look there.)
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed; then nothing can be imported from it
        here = ""
    if here != _HOME:
        sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: arguments without the program's name; those of the process when None.
    """
    leave_working_directory()
    _prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except Exception as error:
        return _report(error)
    return code


def _run(argv: list[str] | None) -> int:
    _prepare_interpreter()
    try:
        from compiler.cli import app  # noqa: PLC0415 - not before sys.path is safe
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("compiler", "targets")):
            raise
        _say(f"the Python package {error.name!r} is missing; install tierc with pip")
        return WRONG_USAGE

    try:
        app(args=argv, prog_name="tierc")
    except SystemExit as stop:
        # The framework turns a broken pipe into exit 1, which would read as "findings".
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        _say(str(stop.code))
        return WRONG_USAGE
    return 0


def _prepare_interpreter() -> None:
    """Make a short run short: it begins with some 500 modules."""
    import atexit  # noqa: PLC0415
    import gc  # noqa: PLC0415

    # A compiler makes many objects that all live to the end: looking for garbage among them every
    # 700 is a tenth of the start, and a sixth of the time that a large policy takes.
    gc.set_threshold(100_000, 20, 100)
    atexit.unregister(gc.disable)  # one is enough, where a process comes here again
    atexit.register(gc.disable)  # the kernel takes memory back whole, garbage or not
    # Looking for plugins reads the metadata of every installed package; and what watches models
    # has no business here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _prepare_streams() -> None:
    """Make output never fail for the sake of a character, in any locale."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `tierc >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            if name == "stdout":
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
            else:
                stream.reconfigure(errors="backslashreplace")


def _report(error: Exception) -> int:
    import errno  # noqa: PLC0415

    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
    if isinstance(error, OSError) and error.filename is None and error.errno in full:
        _drop_output()
        _say(f"cannot write to standard output: {(error.strerror or str(error)).lower()}")
        return WRONG_USAGE
    if os.environ.get("TIERC_DEBUG", "0") not in ("", "0"):
        import traceback  # noqa: PLC0415

        traceback.print_exception(error)
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(error))[:300]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    _say(
        f"internal error: {what}{_place(error)}; this is a bug in tierc, please report it "
        "(TIERC_DEBUG=1 shows the traceback)"
    )
    return INTERNAL_ERROR


def _place(error: Exception) -> str:
    """Where in tierc it happened, as `` at FILE:LINE``; empty when nowhere in it."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        path = os.path.realpath(trace.tb_frame.f_code.co_filename)
        relative = os.path.relpath(path, _HOME)
        if relative.startswith(("compiler" + os.sep, "targets" + os.sep)):
            place = f" at {relative}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _say(message: str) -> None:
    try:  # noqa: SIM105 - contextlib is not part of the interpreter
        print(f"tierc: {message}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody is left to tell


def _drop_output() -> None:
    """Send what is still buffered nowhere, or the interpreter would fail on it at exit."""
    try:  # noqa: SIM105
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    sys.exit(main())
