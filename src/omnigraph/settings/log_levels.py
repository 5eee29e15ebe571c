"""How much of its log the server writes."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.environment import Kind
from omnigraph.settings.choices import LogLevel


@dataclass(frozen=True, slots=True)
class LogLevels:
    """What of the server's log is written, and of which of its parts more or less."""

    level: LogLevel = LogLevel.INFO
    of_modules: tuple[tuple[str, LogLevel], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LogLevels:
        """A level, and after it any number of `module=level`.

        >>> LogLevels.parse("warning,omnigraph.request=info").of_modules
        (('omnigraph.request', <LogLevel.INFO: 'info'>),)
        """
        first, *rest = (part.strip() for part in text.split(","))
        modules = []
        for part in rest:
            name, _, level = part.partition("=")
            if not name.strip():
                raise ValueError
            modules.append((name.strip(), LogLevel(level.strip().lower())))
        return cls(LogLevel(first.lower()), tuple(modules))

    def __str__(self) -> str:
        return ",".join([self.level, *(f"{name}={level}" for name, level in self.of_modules)])


LOG_LEVELS: Kind[LogLevels] = Kind(
    "`debug`, `info`, `warning`, `error`",
    "debug, info, warning or error, and after it any number of ,MODULE=LEVEL",
    LogLevels.parse,
)
