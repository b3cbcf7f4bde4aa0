"""Signals as a process finds them that nobody has told to ignore any."""

from __future__ import annotations

import signal


def default_signals() -> None:
    """Undo what nohup, or a shell's ``&``, leaves to its children.

    A shell cannot trap what it finds ignored.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
