"""The terminal: payloads on stdout, notes and progress on stderr, and Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import NoReturn, TextIO

import click

from omnigraph.progress import Progress, listening

SECONDS_BETWEEN = 0.1
SECONDS_WITHOUT_NEWS = 1.0


class ProgressLine:
    """Draws progress over itself, at most ten times a second, and leaves nothing behind.

    Without news it goes on counting the seconds, so that waiting does not look like hanging.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._width, self._drawn_at, self._began = 0, 0.0, time.monotonic()
        self._news: Progress | None = None

    def __call__(self, news: Progress) -> None:
        with self._lock:
            self._news = news
            if news.is_over:
                self._draw("")
            elif time.monotonic() - self._drawn_at >= SECONDS_BETWEEN:
                self._draw(describe(news, time.monotonic() - self._began))

    def count_on(self) -> None:
        """Draw the last news with the seconds of now, if it is still to be seen."""
        with self._lock:
            is_old = time.monotonic() - self._drawn_at >= SECONDS_WITHOUT_NEWS
            if self._width and is_old and self._news is not None:
                self._draw(describe(self._news, time.monotonic() - self._began))

    def clear(self) -> None:
        """Make room for something that stays."""
        with self._lock:
            self._draw("")

    def _draw(self, text: str) -> None:
        if not text and not self._width:
            return
        room = max(20, shutil.get_terminal_size().columns - 1)
        shown = text[:room]
        blank = " " * max(0, self._width - len(shown))
        self._stream.write(f"\r{shown}{blank}\r{shown}")
        self._stream.flush()
        self._width, self._drawn_at = len(shown), time.monotonic()


_line: ProgressLine | None = None


def describe(news: Progress, seconds: float) -> str:
    """The line for one piece of news, such as `loading: 5,000 of 20,000 rows (25 %), 3 s`."""
    parts = [f"{news.done:,}"] if news.done or news.total else []
    if news.total:
        parts.append(f"of {news.total:,}")
    if parts and news.unit:
        parts.append(news.unit)
    if news.total:
        parts.append(f"({min(100, 100 * news.done // news.total)} %)")
    told = f": {' '.join(parts)}" if parts else ""
    return f"{news.what}{told}, {seconds:.0f} s"


def should_show_progress(
    stream: TextIO | None, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether a stream is a terminal that can show a progress line."""
    if stream is None or not stream.isatty():
        return False
    return environment.get("TERM", "") not in ("", "dumb")


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[None]:
    """Draw progress on stderr within the block, if it is a terminal that should show it."""
    global _line
    if quiet or not should_show_progress(sys.stderr):
        yield
        return
    _line = ProgressLine(sys.stderr)
    is_over = threading.Event()
    threading.Thread(target=_keep_counting, args=(_line, is_over), daemon=True).start()
    try:
        with listening(_line):
            yield
    finally:
        is_over.set()
        _line.clear()
        _line = None


def _keep_counting(line: ProgressLine, is_over: threading.Event) -> None:
    with suppress(OSError, ValueError):  # the terminal is gone, and so is whoever watched it
        while not is_over.wait(SECONDS_WITHOUT_NEWS):
            line.count_on()


def make_room() -> None:
    """Take the progress line away before something else is printed."""
    if _line is not None:
        _line.clear()


def print_json(document: object) -> None:
    """One JSON document: two-space indent, UTF-8 as it is, one newline at the end."""
    click.echo(encode_json(document))


def encode_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def note(message: str) -> None:
    """A remark for the person at the terminal, never part of the payload."""
    make_room()
    click.echo(message, err=True)


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
    """Return whether an error is the consequence of an interrupt.

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
