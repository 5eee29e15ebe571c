"""The settings of an open graph, with their groups and the words they may be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.settings.environment import (
    FLAG,
    MEBIBYTES,
    TEXT,
    SettingGroup,
    count,
    declare_setting,
    one_of_words,
    parse_milliseconds,
    parse_seconds,
)


class FenceMode(StrEnum):
    """The mutual exclusion of writers in different processes."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class LogFormat(StrEnum):
    """The format of the server's log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severity of messages written to the server's log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TraversalMode(StrEnum):
    """The access path of traversals."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


class EmbedProvider(StrEnum):
    """The provider that turns texts into vectors."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    LOCAL = "local"
    MOCK = "mock"


class Engine(StrEnum):
    """The engines of bulk work, queries and maintenance."""

    SPARK = "spark"
    LOCAL = "local"


class LoadEngine(StrEnum):
    """The engine of a load; `auto` chooses by the amount of input."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


ENGINES = tuple(str(engine) for engine in Engine)
LOAD_ENGINES = tuple(str(engine) for engine in LoadEngine)
MERGE_ENGINES = (*ENGINES, "auto")
"""A merge may also choose by how much changed."""


_SPARK = "work on Spark"
_LOADS = "loads"


@dataclass(frozen=True, slots=True)
class AutopilotSettings(SettingGroup, applies="autopilot"):
    """Thresholds at which a graph maintains itself; 0 disables one."""

    enabled: bool = declare_setting(
        "OMNIGRAPH_AUTOPILOT",
        False,
        FLAG,
        "`true` lets a graph that is open for writing maintain itself in the background.",
    )
    interval_s: float = declare_setting(
        "OMNIGRAPH_AUTOPILOT_INTERVAL",
        60.0,
        parse_seconds(),
        "Interval between two checks whether maintenance is due.",
    )
    fragments: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_FRAGMENTS",
        64,
        count(),
        "Optimize when a table has this many fragments that could be merged; `0` never.",
    )
    unindexed_rows: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_UNINDEXED_ROWS",
        100_000,
        count(),
        "Optimize when an index of a table does not cover this many rows; `0` never.",
    )
    versions: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_VERSIONS",
        1_000,
        count(),
        "Clean up when this many versions of a table could be removed; `0` never.",
    )
    bytes: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_MIB",
        0,
        MEBIBYTES,
        "Clean up when this much could be removed; `0` never.",
    )
    keep: int = declare_setting(
        "OMNIGRAPH_AUTOPILOT_KEEP",
        10,
        count(least=1),
        "Least number of commits of every branch that such a cleanup retains.",
    )
    age_s: float = declare_setting(
        "OMNIGRAPH_AUTOPILOT_AGE",
        604_800.0,
        parse_seconds(),
        "Age up to which such a cleanup retains every commit.",
    )


@dataclass(frozen=True, slots=True)
class TraversalSettings(SettingGroup, applies="traversals"):
    """The access path of traversals; the limits apply to look-ups, None for no limit."""

    mode: TraversalMode = declare_setting(
        "OMNIGRAPH_TRAVERSAL_MODE",
        TraversalMode.AUTO,
        one_of_words(TraversalMode),
        "Method of traversals: `indexed` looks up neighbours hop by hop, `csr` uses an adjacency "
        "in memory, `auto` chooses by estimated cost. The rows are the same.",
    )
    indexed_max_frontier: int | None = declare_setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER",
        None,
        count(),
        "With `auto`, the most nodes that lookups start from; unset, only their cost decides.",
    )
    indexed_max_hops: int | None = declare_setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS",
        None,
        count(),
        "With `auto`, the most hops of lookups; unset, only their cost decides.",
    )


@dataclass(frozen=True, slots=True)
class EmbedSettings(SettingGroup, applies="embedding"):
    """The embedding provider and its timeouts. Keys are left out of the text form."""

    provider: EmbedProvider = declare_setting(
        "OMNIGRAPH_EMBED_PROVIDER",
        EmbedProvider.OPENAI_COMPATIBLE,
        one_of_words(EmbedProvider),
        "The provider that turns texts into vectors.",
    )
    base_url: str | None = declare_setting(
        "OMNIGRAPH_EMBED_BASE_URL",
        None,
        TEXT,
        "Address the paths of the embedding provider are appended to; the provider's own by "
        "default.",
    )
    model: str | None = declare_setting(
        "OMNIGRAPH_EMBED_MODEL",
        None,
        TEXT,
        "Embedding model; the provider's usual one by default.",
    )
    timeout_s: float = declare_setting(
        "OMNIGRAPH_EMBED_TIMEOUT_MS",
        30.0,
        parse_milliseconds(least=1),
        "Timeout of one request to the embedding provider.",
    )
    deadline_s: float = declare_setting(
        "OMNIGRAPH_EMBED_DEADLINE_MS",
        60.0,
        parse_milliseconds(),
        "Timeout of one text, with all attempts and the pauses between them; `0` sets no limit.",
    )
    attempts: int = declare_setting(
        "OMNIGRAPH_EMBED_RETRY_ATTEMPTS",
        4,
        count(least=1),
        "Attempts of a request in all, if the provider is unreachable, busy or fails.",
    )
    backoff_s: float = declare_setting(
        "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS",
        0.2,
        parse_milliseconds(),
        "Pause before the second attempt; each further pause is twice as long.",
    )
    is_mock: bool = declare_setting(
        "OMNIGRAPH_EMBEDDINGS_MOCK",
        False,
        FLAG,
        "`true` replaces any provider by generated vectors, for tests.",
    )
    embeds_writes: bool = declare_setting(
        "OMNIGRAPH_EMBED_WRITES",
        True,
        FLAG,
        "Whether inserts, updates and loads compute `@embed` vectors, where a provider is "
        "configured; `false` leaves them to `embed`.",
    )
    openrouter_api_key: str | None = declare_setting(
        "OPENROUTER_API_KEY",
        None,
        TEXT,
        "Key for the provider `openai-compatible`.",
        is_secret=True,
    )
    openai_api_key: str | None = declare_setting(
        "OPENAI_API_KEY",
        None,
        TEXT,
        "Key for the provider `openai`, and for `openai-compatible` without `OPENROUTER_API_KEY`.",
        is_secret=True,
    )
    gemini_api_key: str | None = declare_setting(
        "GEMINI_API_KEY",
        None,
        TEXT,
        "Key for the provider `gemini`.",
        is_secret=True,
    )


@dataclass(frozen=True, slots=True)
class AwsSettings(SettingGroup, applies="graphs on S3"):
    """Endpoint and credentials of S3. Secrets are left out of the text form."""

    region: str | None = declare_setting(
        "AWS_REGION",
        None,
        TEXT,
        "Region of the bucket; `us-east-1` where the store has none.",
    )
    access_key_id: str | None = declare_setting(
        "AWS_ACCESS_KEY_ID",
        None,
        TEXT,
        "Access key. Without one, the credentials of the container or machine are used.",
        is_secret=True,
    )
    secret_access_key: str | None = declare_setting(
        "AWS_SECRET_ACCESS_KEY",
        None,
        TEXT,
        "Secret that belongs to the access key.",
        is_secret=True,
    )
    session_token: str | None = declare_setting(
        "AWS_SESSION_TOKEN",
        None,
        TEXT,
        "Session token of temporary credentials.",
        is_secret=True,
    )
    endpoint: str | None = declare_setting(
        "AWS_ENDPOINT_URL_S3",
        None,
        TEXT,
        "Address of an S3-compatible server. An `http://` address allows plain HTTP.",
        fallback=("AWS_ENDPOINT_URL", "Used where `AWS_ENDPOINT_URL_S3` is not set."),
    )
    is_path_style: bool = declare_setting(
        "AWS_S3_FORCE_PATH_STYLE",
        True,
        FLAG,
        "Bucket in the path of the address, as most S3-compatible servers need it. `false` puts it "
        "in the host name.",
    )
    is_http_allowed: bool = declare_setting(
        "AWS_ALLOW_HTTP",
        False,
        FLAG,
        "Allows plain HTTP for any endpoint.",
    )

    @property
    def allows_http(self) -> bool:
        """Return whether plain HTTP is allowed, by setting or by the endpoint."""
        is_plain = self.endpoint is not None and self.endpoint.lower().startswith("http://")
        return is_plain or self.is_http_allowed


@dataclass(frozen=True, slots=True)
class SparkSettings(SettingGroup):
    """The Spark master, and the input size from which loads run on Spark."""

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
    load_bytes: int = declare_setting(
        "OMNIGRAPH_SPARK_LOAD_MIB",
        128 << 20,
        MEBIBYTES,
        "From how much input on a load with the engine `auto` runs on Spark, where a session is up "
        "or a cluster is named; eight times as much where Spark must be started for it. Compressed "
        "and Parquet files count four times.",
        applies=_LOADS,
    )


@dataclass(frozen=True, slots=True)
class InputSettings(SettingGroup, applies=_LOADS):
    """Limits on the expansion of compressed files and Parquet."""

    expanded_bytes: int = declare_setting(
        "OMNIGRAPH_INPUT_EXPANDED_MIB",
        1 << 38,
        MEBIBYTES,
        "How large a compressed file may be once it is decompressed; `0` sets no limit.",
    )
    expansion_ratio: int = declare_setting(
        "OMNIGRAPH_INPUT_EXPANSION",
        200,
        count(),
        "How many times its size a compressed file may expand to; the first 64 MiB are always "
        "read, and `0` sets no limit.",
    )


_WRITES = "writes"
_MAINTENANCE = "maintenance"
_READS = "reads"
_SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Settings(SettingGroup):
    """Settings of an open graph, parsed and checked."""

    writer_fence: FenceMode = declare_setting(
        "OMNIGRAPH_WRITER_FENCE",
        FenceMode.AUTO,
        one_of_words(FenceMode),
        "Mutual exclusion of writers in different processes. `auto` uses the fence and warns once "
        "where the storage has none; `required` refuses to write there; `off` excludes only "
        "threads of this process.",
        applies=_WRITES,
    )
    writer_wait_s: float = declare_setting(
        "OMNIGRAPH_WRITER_WAIT",
        30.0,
        parse_seconds(),
        "Timeout of waiting for another writer.",
        applies=_WRITES,
    )
    lease_term_s: float = declare_setting(
        "OMNIGRAPH_LEASE_TERM",
        30.0,
        parse_seconds(least=1),
        "On an object store, the time without renewal after which another writer takes over. The "
        "lease is renewed every third of it; use the same value for all writers of a graph.",
        applies=_WRITES,
    )
    write_concurrency: int = declare_setting(
        "OMNIGRAPH_WRITE_CONCURRENCY",
        8,
        count(least=1),
        "Tables of one write that are committed in parallel, while its publish is prepared; `1` "
        "commits them in sequence.",
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
        "Grace period of cleanup for unreferenced files and forks, at least a minute. A small "
        "write that takes longer to prepare may have to start over. `0` means that there are no "
        "other writers. Bulk loads and `optimize` may take days.",
        applies=f"{_WRITES}, {_MAINTENANCE}",
    )
    maintenance_concurrency: int = declare_setting(
        "OMNIGRAPH_MAINTENANCE_CONCURRENCY",
        8,
        count(least=1),
        "Tables that maintenance works on in parallel.",
        applies=_MAINTENANCE,
        is_lenient=True,
    )
    verify_reads: bool = declare_setting(
        "OMNIGRAPH_VERIFY_READS",
        False,
        FLAG,
        "`true` compares every file of a table with its recorded checksum before the file is first "
        "read in a process. On local disks; a file without a checksum is read unchecked.",
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
    load_engine: LoadEngine = declare_setting(
        "OMNIGRAPH_LOAD_ENGINE",
        LoadEngine.AUTO,
        one_of_words(LoadEngine),
        "Default engine of loads: Spark, the process itself, or `auto`, which chooses by the "
        "amount of input.",
        applies=_LOADS,
    )
