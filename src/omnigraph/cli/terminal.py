"""One line at the bottom of a terminal that says how far a command has come."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

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
    """Whether a line that draws over itself makes sense there."""
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
