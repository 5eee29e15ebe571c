"""Ctrl-C: one notice and one exit code, wherever it meets the program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import NoReturn

EXIT_INTERRUPTED = 130

_SECONDS_UNTIL_AGAIN = 0.001
_has_come = False


def raise_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on, and never print a trace of itself."""
    sys.unraisablehook = _on_unraisable
    sys.excepthook = _on_printed
    signal.signal(signal.SIGINT, _interrupt)


def ignore_interrupts() -> None:
    """Let Ctrl-C do nothing any more; one that came just now is forgotten."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is there because of an interrupt that something else had to answer.

    Code that meets an interrupt where it cannot pass it on fails in its own way: with a part that
    did not load, or with rows that did not come. What became of a write is news even so.
    """
    from omnigraph.errors import OutcomeUnknown, RecoveryRequired

    if isinstance(error, OutcomeUnknown | RecoveryRequired):
        return False
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None or _has_come


def forget_interrupt() -> None:
    """Go on after an interrupt: what fails from now on fails for a reason of its own."""
    global _has_come
    _has_come = False


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    global _has_come
    _has_come = True
    raise KeyboardInterrupt


def _on_unraisable(trouble: sys.UnraisableHookArgs) -> None:
    """While an object is removed, Python prints a trace, forgets the interrupt and goes on."""
    if isinstance(trouble.exc_value, KeyboardInterrupt):
        _repeat_interrupt()
    else:
        sys.__unraisablehook__(trouble)


def _on_printed(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Native code prints an error that it cannot pass on before it goes on or fails."""
    if isinstance(error, KeyboardInterrupt):
        _repeat_interrupt()
    else:
        sys.__excepthook__(kind, error, trace)


def _repeat_interrupt() -> None:
    """Interrupt once more, right after the place where nothing can be raised."""
    again = threading.Timer(_SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()
