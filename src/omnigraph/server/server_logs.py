"""Logs of a server: a line for each request under its id, and the append-only audit log."""

from __future__ import annotations

import datetime
import logging
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from omnigraph.errors import BadRequest
from omnigraph.identity import UlidSource
from omnigraph.settings import LogFormat, ServerSettings
from omnigraph.wire.http_protocol import MAX_REQUEST_ID_LENGTH

_ids = UlidSource()
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:/+=-]{{1,{MAX_REQUEST_ID_LENGTH}}}")
_PLAIN = re.compile('[^ "=]+')
_TRACE = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def choose_request_id(headers: Mapping[str, str]) -> str:
    """Return the id of a request: the client's, that of its trace, or a new one."""
    given = headers.get("x-request-id", "")
    if _REQUEST_ID.fullmatch(given):
        return given
    trace = _TRACE.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else _ids.next()


@dataclass(slots=True)
class RequestLog:
    """The log record of a request, written as one line when it completes."""

    request_id: str
    facts: dict[str, object] = field(default_factory=dict)

    def add(self, **facts: object) -> None:
        self.facts.update(facts)

    def add_decision(self, *, allowed: bool, **facts: object) -> None:
        """Log a policy decision; the line of the request repeats the last one."""
        known = {name: value for name, value in facts.items() if value is not None}
        self.add(**known)
        _log.info("policy decision", request_id=self.request_id, allowed=allowed, **known)

    def finish(self, status: int, seconds: float) -> None:
        write = _log.error if status >= 500 else _log.info
        write(
            "request",
            request_id=self.request_id,
            status=status,
            milliseconds=round(seconds * 1000, 2),
            **{name: value for name, value in self.facts.items() if value is not None},
        )

    def fail(self, message: str, error: BaseException) -> None:
        """Log an error whose details the client does not get."""
        _log.error(message, request_id=self.request_id, exc_info=error)


class LineLogger:
    """Logger of one component; each line is one write to stderr."""

    def __init__(self, name: str = "omnigraph") -> None:
        self.name = name

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    debug = info = warning = error = critical = msg


def set_up_logging(settings: ServerSettings) -> None:
    """Configure structlog and logging to write to stderr in the configured format.

    Records of the server go through structlog, those of libraries through `logging`.
    """
    known, levels = logging.getLevelNamesMapping(), settings.log_levels
    of_modules = {name: known[level.upper()] for name, level in levels.of_modules}
    least = known[levels.level.upper()]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    last: list[Processor] = [structlog.processors.format_exc_info]
    is_json = settings.log_format is LogFormat.JSON
    last.append(structlog.processors.JSONRenderer() if is_json else render_text)
    structlog.configure(
        processors=[
            _LevelFilter(least, of_modules),
            structlog.processors.add_log_level,
            stamp,
            *last,
        ],
        logger_factory=LineLogger,
        wrapper_class=structlog.make_filtering_bound_logger(min([least, *of_modules.values()])),
        cache_logger_on_first_use=True,
    )
    foreign: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        stamp,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=foreign,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    for name, level in {"uvicorn": logging.WARNING, **of_modules}.items():
        logging.getLogger(name).setLevel(level)


class _LevelFilter:
    """Drops records below the level of their logger, and adds the logger's name."""

    def __init__(self, least: int, of_modules: Mapping[str, int]) -> None:
        self._least, self._of_modules = least, of_modules

    def __call__(
        self, logger: LineLogger, method: str, facts: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if self._of_modules:
            known = logging.getLevelNamesMapping()
            if known[method.upper()] < self._find_level(logger.name):
                raise structlog.DropEvent
        facts["logger"] = logger.name
        return facts

    def _find_level(self, name: str) -> int:
        """Return the level of a logger, or that of its nearest configured ancestor."""
        while name:
            if name in self._of_modules:
                return self._of_modules[name]
            name = name.rpartition(".")[0]
        return self._least


def render_text(_: object, __: str, facts: MutableMapping[str, Any]) -> str:
    """Render a log record as text: time, level, event and fields.

    >>> render_text(None, "info", {"timestamp": "T", "level": "info", "event": "e", "a": "x y"})
    'T info    e a="x y"'
    """
    failure = facts.pop("exception", None)
    start = f"{facts.pop('timestamp')} {facts.pop('level'):7} {facts.pop('event')}"
    line = " ".join([start, *(f"{name}={_quote(value)}" for name, value in facts.items())])
    return line if failure is None else f"{line}\n{failure}"


def _quote(value: object) -> str:
    """Quote a value with spaces, control characters or quotes, as JSON does."""
    text = str(value)
    if text.isalnum():  # most are names, numbers and ids
        return text
    if text.isprintable() and _PLAIN.fullmatch(text):
        return text
    return msgspec.json.encode(text).decode()


_log: FilteringBoundLogger = structlog.get_logger("omnigraph.request")


class AuditLog:
    """Append-only file of JSON lines; processes may share it, since each line is one write."""

    def __init__(self, path: str | None) -> None:
        self._file: int | None = None
        if path is None:
            return
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(Path(path), flags, 0o600)
        except OSError as error:
            raise BadRequest(f"cannot write the audit file: {error.strerror}") from error

    def record(self, event: str, **facts: object) -> None:
        """Append one line; fields without a value are omitted."""
        if self._file is None:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in facts.items() if value is not None}
        os.write(self._file, msgspec.json.encode({"at": now, "event": event, **known}) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
