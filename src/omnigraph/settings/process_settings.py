"""The settings that only the server or only the command line reads."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from omnigraph.settings.environment import (
    FLAG,
    MEBIBYTES,
    TEXT,
    Kind,
    SettingGroup,
    count,
    declare_setting,
    one_of_words,
    parse_seconds,
)
from omnigraph.settings.graph_settings import LogFormat, LogLevel


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The log level of the server, and the levels of single modules."""

    level: LogLevel = LogLevel.INFO
    of_modules: tuple[tuple[str, LogLevel], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LogLevels:
        """Parse a level, followed by any number of `module=level`.

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


_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_origins(text: str) -> tuple[str, ...]:
    """Parse origins as browsers send them.

    >>> parse_origins("https://App.example.org, http://localhost:3000")
    ('https://app.example.org', 'http://localhost:3000')
    """
    if not text.strip():
        return ()
    return tuple(dict.fromkeys(_parse_origin(part.strip()) for part in text.split(",")))


def _parse_origin(text: str) -> str:
    """Parse one origin; patterns such as `*` are rejected."""
    parts = urlsplit(text)
    port = parts.port  # a ValueError where it is none
    host = parts.hostname or ""
    plain = f"{parts.scheme}://{parts.netloc}".lower()
    if plain != text.lower() or parts.scheme not in _DEFAULT_PORTS or parts.username is not None:
        raise ValueError
    if not host or not all(one.isascii() and (one.isalnum() or one in "-.:") for one in host):
        raise ValueError
    shown = f"[{host}]" if ":" in host else host
    is_default = port is None or port == _DEFAULT_PORTS[parts.scheme]
    return f"{parts.scheme}://{shown}" if is_default else f"{parts.scheme}://{shown}:{port}"


WEB_ORIGINS: Kind[tuple[str, ...]] = Kind(
    "origins",
    "origins such as https://app.example.org, separated by commas",
    parse_origins,
    ",".join,
)


@dataclass(frozen=True, slots=True)
class ServerSettings(SettingGroup, applies="server"):
    """Settings of `omnigraph serve`."""

    bind: str = declare_setting(
        "OMNIGRAPH_BIND",
        "127.0.0.1:8080",
        TEXT,
        "Where the server listens, as `HOST:PORT`; port `0` lets the system choose.",
    )
    is_unauthenticated: bool = declare_setting(
        "OMNIGRAPH_UNAUTHENTICATED",
        False,
        FLAG,
        "Serve without tokens and without a policy: anyone who can reach the port may do anything.",
    )
    requires_all_graphs: bool = declare_setting(
        "OMNIGRAPH_REQUIRE_ALL_GRAPHS",
        False,
        FLAG,
        "Do not start unless every graph can be served.",
    )
    cluster_poll_s: float = declare_setting(
        "OMNIGRAPH_CLUSTER_POLL_SECONDS",
        10.0,
        parse_seconds(),
        "Interval at which each worker of `serve --cluster` checks for a newly applied state, and "
        "retries what it could not serve; `0` leaves that to SIGHUP.",
    )
    grace_s: float = declare_setting(
        "OMNIGRAPH_SHUTDOWN_GRACE_SECONDS",
        25.0,
        parse_seconds(),
        "Time for running requests to finish when the server is stopped.",
    )
    token: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKEN",
        None,
        TEXT,
        "A token, of the actor `default`; added to those of the file or the JSON text.",
        is_secret=True,
    )
    tokens_json: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
        None,
        TEXT,
        'Tokens by actor, as JSON: `{"maria": "…"}`.',
        is_secret=True,
    )
    tokens_file: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
        None,
        TEXT,
        "A file with that JSON; it replaces the JSON text, and is read again on SIGHUP.",
    )
    tokens_aws_secret: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET",
        None,
        TEXT,
        "Refused: this release cannot read tokens from AWS Secrets Manager.",
    )
    cors_origins: tuple[str, ...] = declare_setting(
        "OMNIGRAPH_CORS_ORIGINS",
        (),
        WEB_ORIGINS,
        "Origins, separated by commas, allowed by CORS; none by default.",
    )
    max_requests: int = declare_setting(
        "OMNIGRAPH_SERVER_MAX_REQUESTS",
        1_024,
        count(),
        "Requests in progress per worker, streams included; further ones are refused with 503. "
        "`0` sets no limit.",
    )
    inflight_per_actor: int = declare_setting(
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
        16,
        count(least=1),
        "Writes of one actor that a worker executes or queues.",
        is_lenient=True,
    )
    bytes_per_actor: int = declare_setting(
        "OMNIGRAPH_PER_ACTOR_BYTES_MAX",
        4 << 30,
        count(least=1),
        "Total size of the bodies of those writes.",
        is_lenient=True,
    )
    read_threads: int = declare_setting(
        "OMNIGRAPH_SERVER_READ_THREADS",
        8,
        count(least=1),
        "Reads that a worker executes in parallel; further ones wait.",
    )
    write_threads: int = declare_setting(
        "OMNIGRAPH_SERVER_WRITE_THREADS",
        8,
        count(least=1),
        "Writes that a worker prepares in parallel; further ones wait.",
    )
    streams: int = declare_setting(
        "OMNIGRAPH_SERVER_STREAMS",
        8,
        count(least=1),
        "Exports and baselines that a worker sends in parallel; further ones are refused.",
    )
    query_timeout_s: float = declare_setting(
        "OMNIGRAPH_QUERY_TIMEOUT",
        60.0,
        parse_seconds(),
        "Timeout of a query until its first rows; `0` sets no limit.",
    )
    query_rows: int = declare_setting(
        "OMNIGRAPH_QUERY_MAX_ROWS",
        1_000_000,
        count(),
        "Most rows of a response in one JSON document; `0` sets no limit. Streams have none.",
    )
    query_bytes: int = declare_setting(
        "OMNIGRAPH_QUERY_RESULT_MIB",
        1 << 28,
        MEBIBYTES,
        "Most memory for the rows of such a response; `0` sets no limit.",
    )
    load_bytes: int = declare_setting(
        "OMNIGRAPH_SERVER_LOAD_MIB",
        32 << 20,
        MEBIBYTES,
        "Largest body of a load, or blob of a write.",
    )
    idle_s: float = declare_setting(
        "OMNIGRAPH_SERVER_IDLE_SECONDS",
        60.0,
        parse_seconds(least=1),
        "Timeout of waiting for the rest of a body, or for the client to receive more.",
    )
    metrics_bind: str | None = declare_setting(
        "OMNIGRAPH_METRICS_BIND",
        None,
        TEXT,
        "Address of the metrics, as `HOST:PORT`; by default they are not served.",
    )
    metrics_interval_s: float = declare_setting(
        "OMNIGRAPH_METRICS_INTERVAL_SECONDS",
        30.0,
        parse_seconds(least=1),
        "Interval of gauges that no request updates: reads of storage, interrupted writes.",
    )
    audit_file: str | None = declare_setting(
        "OMNIGRAPH_AUDIT_FILE",
        None,
        TEXT,
        "A file to which one line of JSON is added for each write and each denial.",
    )
    log_levels: LogLevels = declare_setting(
        "OMNIGRAPH_LOG",
        LogLevels(),
        LOG_LEVELS,
        "Log level of the server, on stderr; `info,omnigraph.request=warning` sets another one for "
        "a part.",
    )
    log_format: LogFormat = declare_setting(
        "OMNIGRAPH_LOG_FORMAT",
        LogFormat.TEXT,
        one_of_words(LogFormat),
        "Log format: text, or a line of JSON for each event.",
    )
    source_version: str | None = declare_setting(
        "OMNIGRAPH_SOURCE_VERSION",
        None,
        TEXT,
        "The build, as `/healthz` shows it.",
    )


@dataclass(frozen=True, slots=True)
class CommandLineSettings(SettingGroup, applies="command line"):
    """Settings of the command line."""

    home: str = declare_setting(
        "OMNIGRAPH_HOME",
        "~/.omnigraph",
        TEXT,
        "Folder of the operator's `config.yaml`.",
    )
    profile: str | None = declare_setting(
        "OMNIGRAPH_PROFILE",
        None,
        TEXT,
        "Default profile of a command without a graph or `--profile`.",
    )
    bearer_token: str | None = declare_setting(
        "OMNIGRAPH_BEARER_TOKEN",
        None,
        TEXT,
        "Token for a server that has none of its own. A server declared as `lab` has its own in "
        "`OMNIGRAPH_TOKEN_LAB` or by `omnigraph login lab`.",
        is_secret=True,
    )
    traceback: bool = declare_setting(
        "OMNIGRAPH_TRACEBACK",
        False,
        FLAG,
        "`true` prints the traceback of an internal error.",
    )
