"""The terminal: payloads on stdout, notes and progress on stderr, and Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import NoReturn, Protocol, TextIO

import click

from omnigraph.progress import Progress, listening

REDRAW_INTERVAL_S = 0.1
IDLE_REDRAW_AFTER_S = 1.0


class ProgressLine:
    """A line of progress, redrawn at most ten times a second and cleared at the end.

    Without reports it still counts the seconds, so that waiting does not look like hanging.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._width, self._drawn_at, self._began = 0, 0.0, time.monotonic()
        self._report: Progress | None = None

    def __call__(self, report: Progress) -> None:
        with self._lock:
            self._report = report
            if report.is_over:
                self._draw("")
            elif time.monotonic() - self._drawn_at >= REDRAW_INTERVAL_S:
                self._draw(describe(report, time.monotonic() - self._began))

    def count_on(self) -> None:
        """Redraw the last report with the current seconds, if it is still shown."""
        with self._lock:
            is_old = time.monotonic() - self._drawn_at >= IDLE_REDRAW_AFTER_S
            if self._width and is_old and self._report is not None:
                self._draw(describe(self._report, time.monotonic() - self._began))

    def clear(self) -> None:
        """Clear the line, for output that stays."""
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


def describe(report: Progress, seconds: float) -> str:
    """Render one progress report, such as `loading: 5,000 of 20,000 rows (25 %), 3 s`."""
    parts = [f"{report.done:,}"] if report.done or report.total else []
    if report.total:
        parts.append(f"of {report.total:,}")
    if parts and report.unit:
        parts.append(report.unit)
    if report.total:
        parts.append(f"({min(100, 100 * report.done // report.total)} %)")
    details = f": {' '.join(parts)}" if parts else ""
    return f"{report.what}{details}, {seconds:.0f} s"


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
    with suppress(OSError, ValueError):  # the terminal was closed
        while not is_over.wait(IDLE_REDRAW_AFTER_S):
            line.count_on()


def clear_progress_line() -> None:
    """Erase the progress line before other output is printed."""
    if _line is not None:
        _line.clear()


json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")


def print_json(document: object) -> None:
    """Print a JSON document: two-space indent, UTF-8 unescaped, one newline at the end."""
    click.echo(encode_json(document))


class Shown(Protocol):
    """A result that has a JSON document."""

    def wire(self) -> dict[str, object]: ...


def print_result(
    result: Shown | Mapping[str, object] | Sequence[object],
    lines: str | Iterable[object],
    *,
    as_json: bool,
    uri: str | None = None,
) -> None:
    """Print a result as its JSON document or as lines of text.

    With a `uri`, the document begins with the address of the graph. Lines are read only when they
    are printed.
    """
    if not as_json:
        for line in (lines,) if isinstance(lines, str) else lines:
            click.echo(line)
        return
    document = result if isinstance(result, Mapping | Sequence) else result.wire()
    if uri is not None:
        assert isinstance(document, Mapping), "a list of results has no members"
        document = {"uri": uri, **document}
    print_json(document)


def describe_members(document: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each member of a document."""
    for name, value in document.items():
        yield f"{name}: {'' if value is None else value}"


def encode_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def note(message: str) -> None:
    """Print a remark on stderr, never part of the payload."""
    clear_progress_line()
    click.echo(message, err=True)


EXIT_INTERRUPTED = 130

_REPEAT_AFTER_S = 0.001
_was_interrupted = False


def raise_interrupts() -> None:
    """Raise `KeyboardInterrupt` on Ctrl-C from now on, and never print its traceback."""
    sys.unraisablehook = _on_unraisable
    sys.excepthook = _on_exception
    signal.signal(signal.SIGINT, _interrupt)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on, including one that is being delivered."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is the consequence of an interrupt.

    Code that meets an interrupt where it cannot pass it on fails in its own way: with a part that
    did not load, or with rows that did not come. The outcome of a write is reported even so.
    """
    from omnigraph.errors import OutcomeUnknown, RecoveryRequired

    if isinstance(error, OutcomeUnknown | RecoveryRequired):
        return False
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None or _was_interrupted


def forget_interrupt() -> None:
    """Clear the interrupt: later errors are not its consequence."""
    global _was_interrupted
    _was_interrupted = False


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    global _was_interrupted
    _was_interrupted = True
    raise KeyboardInterrupt


def _on_unraisable(trouble: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that Python would print and drop while an object is removed."""
    if isinstance(trouble.exc_value, KeyboardInterrupt):
        _repeat_interrupt()
    else:
        sys.__unraisablehook__(trouble)


def _on_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Repeat an interrupt that native code prints because it cannot pass it on."""
    if isinstance(error, KeyboardInterrupt):
        _repeat_interrupt()
    else:
        sys.__excepthook__(kind, error, trace)


def _repeat_interrupt() -> None:
    """Interrupt again shortly after a place where nothing can be raised."""
    again = threading.Timer(_REPEAT_AFTER_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()
