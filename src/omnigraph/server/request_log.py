"""What the server writes about itself: a line for each request, each under the request's id.

Nothing that came in a body or in a token is ever logged.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from structlog.typing import Processor

from omnigraph.identity import UlidSource
from omnigraph.settings import LogFormat, ServerSettings
from omnigraph.wire.http_names import LONGEST_REQUEST_ID

_ids = UlidSource()
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:/+=-]{{1,{LONGEST_REQUEST_ID}}}")
_TRACE = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def choose_request_id(headers: Mapping[str, str]) -> str:
    """The id of a request: the client's, that of its trace, or a fresh one."""
    given = headers.get("x-request-id", "")
    if _REQUEST_ID.fullmatch(given):
        return given
    trace = _TRACE.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else _ids.next()


@dataclass(slots=True)
class RequestLog:
    """What is known of a request, said in one line when it is over."""

    request_id: str
    facts: dict[str, object] = field(default_factory=dict)

    def add(self, **facts: object) -> None:
        self.facts.update(facts)

    def add_decision(self, *, allowed: bool, **facts: object) -> None:
        """Log a decision of the policy; the line of the request repeats the last one."""
        known = {name: value for name, value in facts.items() if value is not None}
        self.add(**known)
        _log.info("policy decision", request_id=self.request_id, allowed=allowed, **known)

    def finish(self, status: int, seconds: float) -> None:
        level = logging.ERROR if status >= 500 else logging.INFO
        _log.log(
            level,
            "request",
            request_id=self.request_id,
            status=status,
            milliseconds=round(seconds * 1000, 2),
            **{name: value for name, value in self.facts.items() if value is not None},
        )

    def fail(self, message: str, error: BaseException) -> None:
        """Log what a client is not told."""
        _log.error(message, request_id=self.request_id, exc_info=error)


def set_up_logging(settings: ServerSettings) -> None:
    """Send everything to stderr, in the format that was asked for."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.log_format is LogFormat.JSON:
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    known, levels = logging.getLevelNamesMapping(), settings.log_levels
    root.setLevel(known[levels.level.upper()])
    for name, level in (("uvicorn", "warning"), *levels.of_modules):
        logging.getLogger(name).setLevel(known[level.upper()])


_log: structlog.stdlib.BoundLogger = structlog.get_logger("omnigraph.request")
