"""Every setting: its environment variable, default, type, meaning and the work it applies to.

Nothing below the edge looks at the environment: a command, a server or a Spark driver builds one
`Settings` with `Settings.from_environment(os.environ)` and hands it down. `SETTINGS` lists the
declarations; the reference page and `omnigraph config settings` are written from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.environment import (
    FLAG,
    MEBIBYTES,
    TEXT,
    Kind,
    Setting,
    SettingGroup,
    count,
    declare_setting,
    list_settings,
    one_of_words,
    parse_milliseconds,
    parse_seconds,
)

_WRITES = "writes"
_MAINTENANCE = "maintenance"
_AUTOPILOT = "autopilot"
_TRAVERSALS = "traversals"
_READS = "reads"
_SEARCH = "search"
_EMBEDDING = "embedding"
_S3 = "graphs on S3"
_SPARK = "work on Spark"
_LOADS = "loads"
_COMMAND_LINE = "command line"
_SERVER = "server"


class FenceMode(StrEnum):
    """How writers in different processes are kept apart."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class LogFormat(StrEnum):
    """How the server writes its log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What of the server's log is written: this and what is more serious."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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


class TraversalMode(StrEnum):
    """How traversals find neighbours."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


class EmbedProvider(StrEnum):
    """Who turns texts into vectors."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    LOCAL = "local"
    MOCK = "mock"


class Engine(StrEnum):
    """Where bulk work, queries and maintenance may run."""

    SPARK = "spark"
    LOCAL = "local"


ENGINES = tuple(str(engine) for engine in Engine)
MERGE_ENGINES = (*ENGINES, "auto")
"""A merge may also choose by how much changed."""


@dataclass(frozen=True, slots=True)
class AutopilotSettings(SettingGroup):
    """When a graph maintains itself: thresholds, of which 0 never is reached."""

    enabled: bool = declare_setting(
        "OMNIGRAPH_AUTOPILOT",
        False,
        FLAG,
        "`true` lets a graph that is open for writing maintain itself in the background.",
        applies=_AUTOPILOT,
    )
    interval_s: float = declare_setting(
        "OMNIGRAPH_AUTOPILOT_INTERVAL",
        60.0,
        parse_seconds(),
        "How long to wait between two checks of whether maintenance is due.",
        applies=_AUTOPILOT,
    )
    fragments: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_FRAGMENTS",
        64,
        count(),
        "Optimize when a table has this many fragments that could be merged; `0` never.",
        applies=_AUTOPILOT,
    )
    unindexed_rows: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_UNINDEXED_ROWS",
        100_000,
        count(),
        "Optimize when an index of a table does not cover this many rows; `0` never.",
        applies=_AUTOPILOT,
    )
    versions: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_VERSIONS",
        1_000,
        count(),
        "Clean up when this many versions of a table could be removed; `0` never.",
        applies=_AUTOPILOT,
    )
    bytes: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_MIB",
        0,
        MEBIBYTES,
        "Clean up when so much could be removed; `0` never.",
        applies=_AUTOPILOT,
    )
    keep: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_KEEP",
        10,
        count(least=1),
        "How many commits of every branch such a cleanup leaves readable, at least.",
        applies=_AUTOPILOT,
    )
    age_s: float = declare_setting(
        "OMNIGRAPH_AUTOPILOT_AGE",
        604_800.0,
        parse_seconds(),
        "For how long such a cleanup leaves every commit readable.",
        applies=_AUTOPILOT,
    )


@dataclass(frozen=True, slots=True)
class TraversalSettings(SettingGroup):
    """How traversals find neighbours; the limits are those of look-ups, None for none."""

    mode: TraversalMode = declare_setting(
        "OMNIGRAPH_TRAVERSAL_MODE",
        TraversalMode.AUTO,
        one_of_words(TraversalMode),
        "How traversals find neighbours: `indexed` looks them up hop by hop, `csr` reads them off "
        "an adjacency kept in memory, `auto` takes what costs less. The rows are the same.",
        applies=_TRAVERSALS,
    )
    indexed_max_frontier: int | None = declare_setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER",
        None,
        count(),
        "With `auto`, look-ups start from at most this many nodes; unset, only their cost decides.",
        applies=_TRAVERSALS,
    )
    indexed_max_hops: int | None = declare_setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS",
        None,
        count(),
        "With `auto`, look-ups go at most this many hops; unset, only their cost decides.",
        applies=_TRAVERSALS,
    )


@dataclass(frozen=True, slots=True)
class EmbedSettings(SettingGroup):
    """Who turns texts into vectors, and how long it may take. Keys never show in its text form."""

    provider: EmbedProvider = declare_setting(
        "OMNIGRAPH_EMBED_PROVIDER",
        EmbedProvider.OPENAI_COMPATIBLE,
        one_of_words(EmbedProvider),
        "Who turns texts into vectors.",
        applies=_EMBEDDING,
    )
    base_url: str | None = declare_setting(
        "OMNIGRAPH_EMBED_BASE_URL",
        None,
        TEXT,
        "Address the paths of the embedding provider are appended to; the provider's own by "
        "default.",
        applies=_EMBEDDING,
    )
    model: str | None = declare_setting(
        "OMNIGRAPH_EMBED_MODEL",
        None,
        TEXT,
        "Embedding model; the provider's usual one by default.",
        applies=_EMBEDDING,
    )
    timeout_s: float = declare_setting(
        "OMNIGRAPH_EMBED_TIMEOUT_MS",
        30.0,
        parse_milliseconds(least=1),
        "How long one request to the embedding provider may take.",
        applies=_EMBEDDING,
    )
    deadline_s: float = declare_setting(
        "OMNIGRAPH_EMBED_DEADLINE_MS",
        60.0,
        parse_milliseconds(),
        "How long one text may take, with all attempts and the pauses between them; `0` sets no "
        "limit.",
        applies=_EMBEDDING,
    )
    attempts: int = declare_setting(
        "OMNIGRAPH_EMBED_RETRY_ATTEMPTS",
        4,
        count(least=1),
        "How often a request is tried in all, if the provider is not reached, is busy or fails.",
        applies=_EMBEDDING,
    )
    backoff_s: float = declare_setting(
        "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS",
        0.2,
        parse_milliseconds(),
        "How long to wait before the second attempt; each further pause is twice as long.",
        applies=_EMBEDDING,
    )
    is_mock: bool = declare_setting(
        "OMNIGRAPH_EMBEDDINGS_MOCK",
        False,
        FLAG,
        "`true` replaces any provider with made-up vectors, for tests.",
        applies=_EMBEDDING,
    )
    openrouter_api_key: str | None = declare_setting(
        "OPENROUTER_API_KEY",
        None,
        TEXT,
        "Key for the provider `openai-compatible`.",
        applies=_EMBEDDING,
        is_secret=True,
    )
    openai_api_key: str | None = declare_setting(
        "OPENAI_API_KEY",
        None,
        TEXT,
        "Key for the provider `openai`, and for `openai-compatible` without `OPENROUTER_API_KEY`.",
        applies=_EMBEDDING,
        is_secret=True,
    )
    gemini_api_key: str | None = declare_setting(
        "GEMINI_API_KEY",
        None,
        TEXT,
        "Key for the provider `gemini`.",
        applies=_EMBEDDING,
        is_secret=True,
    )


@dataclass(frozen=True, slots=True)
class AwsSettings(SettingGroup):
    """Where an S3 bucket is reached, and as whom. Secrets never show in its text form."""

    region: str | None = declare_setting(
        "AWS_REGION",
        None,
        TEXT,
        "Region of the bucket; `us-east-1` where the store has none.",
        applies=_S3,
    )
    access_key_id: str | None = declare_setting(
        "AWS_ACCESS_KEY_ID",
        None,
        TEXT,
        "Access key. Without one, the credentials of the container or machine are used.",
        applies=_S3,
        is_secret=True,
    )
    secret_access_key: str | None = declare_setting(
        "AWS_SECRET_ACCESS_KEY",
        None,
        TEXT,
        "Secret that belongs to the access key.",
        applies=_S3,
        is_secret=True,
    )
    session_token: str | None = declare_setting(
        "AWS_SESSION_TOKEN",
        None,
        TEXT,
        "Session token of temporary credentials.",
        applies=_S3,
        is_secret=True,
    )
    endpoint: str | None = declare_setting(
        "AWS_ENDPOINT_URL_S3",
        None,
        TEXT,
        "Address of an S3-compatible server. An `http://` address allows plain HTTP.",
        applies=_S3,
        fallback=("AWS_ENDPOINT_URL", "Used where `AWS_ENDPOINT_URL_S3` is not set."),
    )
    is_path_style: bool = declare_setting(
        "AWS_S3_FORCE_PATH_STYLE",
        True,
        FLAG,
        "Bucket in the path of the address, as most S3-compatible servers need it. `false` puts it "
        "in the host name.",
        applies=_S3,
    )
    is_http_allowed: bool = declare_setting(
        "AWS_ALLOW_HTTP",
        False,
        FLAG,
        "Allows plain HTTP whatever the endpoint says.",
        applies=_S3,
    )

    @property
    def allows_http(self) -> bool:
        """Whether plain HTTP may be spoken: it was allowed, or the endpoint asks for it."""
        is_plain = self.endpoint is not None and self.endpoint.lower().startswith("http://")
        return is_plain or self.is_http_allowed


@dataclass(frozen=True, slots=True)
class SparkSettings(SettingGroup):
    """Where bulk work runs."""

    remote: str | None = declare_setting(
        "SPARK_REMOTE",
        None,
        TEXT,
        "Address of a Spark Connect server (`sc://…`) that bulk work runs on; needs the extra "
        "`connect`.",
        applies=_SPARK,
    )
    master: str | None = declare_setting(
        "OMNIGRAPH_SPARK_MASTER",
        None,
        TEXT,
        "Spark master that bulk work runs on, such as `spark://host:7077`; all cores of this "
        "machine by default.",
        applies=_SPARK,
    )


@dataclass(frozen=True, slots=True)
class InputSettings(SettingGroup):
    """What a compressed file, or one of Parquet, may expand to."""

    expanded_bytes: int = declare_setting(
        "OMNIGRAPH_INPUT_EXPANDED_MIB",
        1 << 38,
        MEBIBYTES,
        "How large a compressed file may be once it is decompressed; `0` sets no limit.",
        applies=_LOADS,
    )
    expansion_ratio: int = declare_setting(
        "OMNIGRAPH_INPUT_EXPANSION",
        200,
        count(),
        "How many times its size a compressed file may expand to; the first 64 MiB are always "
        "read, and `0` sets no limit.",
        applies=_LOADS,
    )


@dataclass(frozen=True, slots=True)
class Settings(SettingGroup):
    """What the environment asks for, parsed and checked."""

    writer_fence: FenceMode = declare_setting(
        "OMNIGRAPH_WRITER_FENCE",
        FenceMode.AUTO,
        one_of_words(FenceMode),
        "How writers in different processes are kept apart. `auto` uses the fence and warns once "
        "where the storage cannot offer one; `required` refuses to write there instead; `off` "
        "keeps apart only the threads of this process.",
        applies=_WRITES,
    )
    writer_wait_s: float = declare_setting(
        "OMNIGRAPH_WRITER_WAIT",
        30.0,
        parse_seconds(),
        "How long a writer waits for another one to finish before it gives up.",
        applies=_WRITES,
    )
    lease_term_s: float = declare_setting(
        "OMNIGRAPH_LEASE_TERM",
        30.0,
        parse_seconds(least=1),
        "On an object store, how long a writer may show no sign of life before another one takes "
        "over. The lease is renewed every third of that; all writers of a graph should be given "
        "the same.",
        applies=_WRITES,
    )
    write_concurrency: int = declare_setting(
        "OMNIGRAPH_WRITE_CONCURRENCY",
        8,
        count(least=1),
        "How many tables of one commit move at a time, while its publish is prepared; `1` does "
        "everything in turn.",
        applies=_WRITES,
        is_lenient=True,
    )
    fold_after: int = declare_setting(
        "OMNIGRAPH_FOLD_AFTER",
        64,
        count(),
        "A writer merges the small fragments of a table each time its version is a multiple of "
        "this; `0` leaves them to `optimize`.",
        applies=_WRITES,
    )
    cleanup_grace_s: float = declare_setting(
        "OMNIGRAPH_CLEANUP_GRACE",
        86_400.0,
        parse_seconds(),
        "How long cleanup leaves files and forks alone that nothing refers to, at least a minute. "
        "A small write that takes longer to prepare may have to start over. `0` says that nobody "
        "else writes. Bulk loads and `optimize` may take days.",
        applies=f"{_WRITES}, {_MAINTENANCE}",
    )
    maintenance_concurrency: int = declare_setting(
        "OMNIGRAPH_MAINTENANCE_CONCURRENCY",
        8,
        count(least=1),
        "How many tables maintenance works on at a time.",
        applies=_MAINTENANCE,
        is_lenient=True,
    )
    verify_reads: bool = declare_setting(
        "OMNIGRAPH_VERIFY_READS",
        False,
        FLAG,
        "`true` compares every file of a table with the checksum noted when it was written, before "
        "the file is first read in a process. On local disks; a file without a checksum is read.",
        applies=_READS,
    )
    autopilot: AutopilotSettings = AutopilotSettings()
    traversal: TraversalSettings = TraversalSettings()
    text_cache_bytes: int = declare_setting(
        "OMNIGRAPH_TEXT_CACHE_MIB",
        1 << 30,
        MEBIBYTES,
        "Memory of each open graph for the words of searched text columns. A column that needs "
        "more is read again for each search.",
        applies=_SEARCH,
    )
    vector_cache_bytes: int = declare_setting(
        "OMNIGRAPH_VECTOR_CACHE_MIB",
        1 << 29,
        MEBIBYTES,
        "Memory of each open graph for searched vector columns. A column that needs more is "
        "searched by its index, and without one read again for each search.",
        applies=_SEARCH,
    )
    embed: EmbedSettings = EmbedSettings()
    aws: AwsSettings = AwsSettings()
    spark: SparkSettings = SparkSettings()
    input: InputSettings = InputSettings()
    load_engine: Engine = declare_setting(
        "OMNIGRAPH_LOAD_ENGINE",
        Engine.SPARK,
        one_of_words(Engine),
        "Where `omnigraph load` runs when it is not given `--engine`: on Spark, or in the process "
        "itself. The library loads in its own process unless told otherwise.",
        applies=_COMMAND_LINE,
    )


@dataclass(frozen=True, slots=True)
class CommandLineSettings(SettingGroup):
    """What only the command line reads."""

    home: str = declare_setting(
        "OMNIGRAPH_HOME",
        "~/.omnigraph",
        TEXT,
        "Folder of the operator's `config.yaml`.",
        applies=_COMMAND_LINE,
    )
    profile: str | None = declare_setting(
        "OMNIGRAPH_PROFILE",
        None,
        TEXT,
        "Profile a command takes when it is given neither a graph nor `--profile`.",
        applies=_COMMAND_LINE,
    )
    bearer_token: str | None = declare_setting(
        "OMNIGRAPH_BEARER_TOKEN",
        None,
        TEXT,
        "Token for a server that has none of its own. A server declared as `lab` has its own in "
        "`OMNIGRAPH_TOKEN_LAB` or by `omnigraph login lab`.",
        applies=_COMMAND_LINE,
        is_secret=True,
    )
    traceback: bool = declare_setting(
        "OMNIGRAPH_TRACEBACK",
        False,
        FLAG,
        "`true` shows where in the code a command failed that should not have.",
        applies=_COMMAND_LINE,
    )


@dataclass(frozen=True, slots=True)
class ServerSettings(SettingGroup):
    """What only `omnigraph serve` reads."""

    bind: str = declare_setting(
        "OMNIGRAPH_BIND",
        "127.0.0.1:8080",
        TEXT,
        "Where the server listens, as `HOST:PORT`; port `0` lets the system choose.",
        applies=_SERVER,
    )
    is_unauthenticated: bool = declare_setting(
        "OMNIGRAPH_UNAUTHENTICATED",
        False,
        FLAG,
        "Serve without tokens and without a policy: anybody who reaches the port may do anything.",
        applies=_SERVER,
    )
    requires_all_graphs: bool = declare_setting(
        "OMNIGRAPH_REQUIRE_ALL_GRAPHS",
        False,
        FLAG,
        "Do not start unless every graph can be served.",
        applies=_SERVER,
    )
    grace_s: float = declare_setting(
        "OMNIGRAPH_SHUTDOWN_GRACE_SECONDS",
        25.0,
        parse_seconds(),
        "How long requests under way may take to finish when the server is told to stop.",
        applies=_SERVER,
    )
    token: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKEN",
        None,
        TEXT,
        "A token, of the actor `default`; added to those of the file or the JSON text.",
        applies=_SERVER,
        is_secret=True,
    )
    tokens_json: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
        None,
        TEXT,
        'Tokens by actor, as JSON: `{"maria": "…"}`.',
        applies=_SERVER,
        is_secret=True,
    )
    tokens_file: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
        None,
        TEXT,
        "A file of the same; it is used instead of the JSON text, and read again on SIGHUP.",
        applies=_SERVER,
    )
    tokens_aws_secret: str | None = declare_setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET",
        None,
        TEXT,
        "Refused: this release cannot read tokens from AWS Secrets Manager.",
        applies=_SERVER,
    )
    inflight_per_actor: int = declare_setting(
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
        16,
        count(least=1),
        "How many writes of one actor a worker carries out or keeps waiting at once.",
        applies=_SERVER,
        is_lenient=True,
    )
    bytes_per_actor: int = declare_setting(
        "OMNIGRAPH_PER_ACTOR_BYTES_MAX",
        4 << 30,
        count(least=1),
        "How many bytes the bodies of those writes may have together.",
        applies=_SERVER,
        is_lenient=True,
    )
    read_threads: int = declare_setting(
        "OMNIGRAPH_SERVER_READ_THREADS",
        8,
        count(least=1),
        "How many reads a worker carries out at once; further ones wait.",
        applies=_SERVER,
    )
    write_threads: int = declare_setting(
        "OMNIGRAPH_SERVER_WRITE_THREADS",
        8,
        count(least=1),
        "How many writes a worker prepares at once; further ones wait.",
        applies=_SERVER,
    )
    streams: int = declare_setting(
        "OMNIGRAPH_SERVER_STREAMS",
        8,
        count(least=1),
        "How many exports and baselines a worker sends at once; further ones are refused.",
        applies=_SERVER,
    )
    query_timeout_s: float = declare_setting(
        "OMNIGRAPH_QUERY_TIMEOUT",
        60.0,
        parse_seconds(),
        "How long a query may take until its first rows; `0` sets no limit.",
        applies=_SERVER,
    )
    query_rows: int = declare_setting(
        "OMNIGRAPH_QUERY_MAX_ROWS",
        1_000_000,
        count(),
        "How many rows an answer in one JSON document may have; `0` sets no limit. Streams have "
        "none.",
        applies=_SERVER,
    )
    query_bytes: int = declare_setting(
        "OMNIGRAPH_QUERY_RESULT_MIB",
        1 << 28,
        MEBIBYTES,
        "How much memory the rows of such an answer may take; `0` sets no limit.",
        applies=_SERVER,
    )
    load_bytes: int = declare_setting(
        "OMNIGRAPH_SERVER_LOAD_MIB",
        32 << 20,
        MEBIBYTES,
        "How large the body of a load, or a blob that is written, may be.",
        applies=_SERVER,
    )
    idle_s: float = declare_setting(
        "OMNIGRAPH_SERVER_IDLE_SECONDS",
        60.0,
        parse_seconds(least=1),
        "How long a client may let the server wait for the rest of a body, or for room to send "
        "more.",
        applies=_SERVER,
    )
    metrics_bind: str | None = declare_setting(
        "OMNIGRAPH_METRICS_BIND",
        None,
        TEXT,
        "Where metrics can be read, as `HOST:PORT`; they are not served otherwise.",
        applies=_SERVER,
    )
    metrics_interval_s: float = declare_setting(
        "OMNIGRAPH_METRICS_INTERVAL_SECONDS",
        30.0,
        parse_seconds(least=1),
        "How often what no request measures is looked at: reads of storage, interrupted writes.",
        applies=_SERVER,
    )
    audit_file: str | None = declare_setting(
        "OMNIGRAPH_AUDIT_FILE",
        None,
        TEXT,
        "A file to which one line of JSON is added for each write and each denial.",
        applies=_SERVER,
    )
    log_levels: LogLevels = declare_setting(
        "OMNIGRAPH_LOG",
        LogLevels(),
        LOG_LEVELS,
        "What the server writes to its log, on stderr; `info,omnigraph.request=warning` gives a "
        "part of it another level.",
        applies=_SERVER,
    )
    log_format: LogFormat = declare_setting(
        "OMNIGRAPH_LOG_FORMAT",
        LogFormat.TEXT,
        one_of_words(LogFormat),
        "How the log is written: for people, or as a line of JSON for each event.",
        applies=_SERVER,
    )
    source_version: str | None = declare_setting(
        "OMNIGRAPH_SOURCE_VERSION",
        None,
        TEXT,
        "The build, as `/healthz` shows it.",
        applies=_SERVER,
    )


SETTINGS: tuple[Setting[Any], ...] = (
    *list_settings(Settings),
    *list_settings(CommandLineSettings),
    *list_settings(ServerSettings),
)
