"""Every environment variable the system reads: its name, default, meaning, and what it accepts.

`SETTINGS` lists them; the reference page is written from it. Long because it is that list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from omnigraph.errors import BadRequest

T_co = TypeVar("T_co", covariant=True)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})

ENGINES = ("spark", "local")


class FenceMode(StrEnum):
    """How writers in different processes are kept apart."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


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


def _parse_text(value: str) -> str | None:
    return value or None


def _parse_flag(value: str) -> bool:
    word = value.lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError("true or false")


def _parse_seconds(value: str, least: int = 0) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= least):
        raise ValueError(f"a number of seconds, {least} or more")
    return seconds


def _parse_term(value: str) -> float:
    return _parse_seconds(value, least=1)


def _parse_milliseconds(value: str) -> float:
    """The number of seconds."""
    return _whole_number(value, 0, "a whole number of milliseconds, 0 or more") / 1000


def _parse_timeout(value: str) -> float:
    """The number of seconds."""
    return _whole_number(value, 1, "a whole number of milliseconds, 1 or more") / 1000


def _parse_attempts(value: str) -> int:
    return _whole_number(value, 1, "a whole number, 1 or more")


def _parse_limit(value: str) -> int | None:
    return _whole_number(value, 0, "a whole number, 0 or more") if value else None


def _parse_count(value: str) -> int:
    return _whole_number(value, 0, "a whole number, 0 or more")


def _parse_concurrency(value: str) -> int:
    return int(value) if value.isascii() and value.isdigit() and int(value) else 8


def _parse_mebibytes(value: str) -> int:
    """The number of bytes."""
    return _whole_number(value, 0, "a whole number of mebibytes, 0 or more") << 20


def _whole_number(value: str, least: int, accepted: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 15 and int(value) >= least):
        raise ValueError(accepted)
    return int(value)


def _parse_load_engine(value: str) -> str:
    word = value.lower()
    if word not in ENGINES:
        raise ValueError(" or ".join(ENGINES))
    return word


def _parse_provider(value: str) -> EmbedProvider:
    try:
        return EmbedProvider(value.lower())
    except ValueError:
        raise ValueError(", ".join(EmbedProvider)) from None


def _parse_traversal_mode(value: str) -> TraversalMode:
    try:
        return TraversalMode(value.lower())
    except ValueError:
        raise ValueError(", ".join(TraversalMode)) from None


def _parse_fence_mode(value: str) -> FenceMode:
    try:
        return FenceMode(value.lower())
    except ValueError:
        raise ValueError(", ".join(FenceMode)) from None


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """One environment variable: its name, its default as text, and what it means.

    `parse` raises `ValueError` naming what it would have accepted.
    """

    name: str
    default: str
    meaning: str
    parse: Callable[[str], T_co]

    def read(self, environment: Mapping[str, str]) -> T_co:
        """The parsed value; an unset or blank variable gives the default.

        Raises:
            BadRequest: the value cannot be understood. The value itself is not repeated, since
                some variables hold secrets.
        """
        text = environment.get(self.name, "").strip() or self.default
        try:
            return self.parse(text)
        except ValueError as problem:
            raise BadRequest(f"{self.name} must be {problem}") from None


WRITER_FENCE = Setting(
    "OMNIGRAPH_WRITER_FENCE",
    "auto",
    "How writers in different processes are kept apart. `auto` uses the fence and warns once "
    "where the storage cannot offer one; `required` refuses to write there instead; `off` keeps "
    "apart only the threads of this process.",
    _parse_fence_mode,
)
WRITER_WAIT = Setting(
    "OMNIGRAPH_WRITER_WAIT",
    "30",
    "Seconds a writer waits for another one to finish before it gives up.",
    _parse_seconds,
)
LEASE_TERM = Setting(
    "OMNIGRAPH_LEASE_TERM",
    "30",
    "On an object store, seconds without a sign of life after which another writer takes over. It "
    "is renewed every third of that; all writers of a graph should be given the same.",
    _parse_term,
)
MAINTENANCE_CONCURRENCY = Setting(
    "OMNIGRAPH_MAINTENANCE_CONCURRENCY",
    "8",
    "How many tables maintenance works on at a time; anything but a positive number means `8`.",
    _parse_concurrency,
)
WRITE_CONCURRENCY = Setting(
    "OMNIGRAPH_WRITE_CONCURRENCY",
    "8",
    "How many tables of one commit move at a time, while its publish is prepared; `1` does "
    "everything in turn, anything but a positive number means `8`.",
    _parse_concurrency,
)
FOLD_AFTER = Setting(
    "OMNIGRAPH_FOLD_AFTER",
    "64",
    "A writer merges the small fragments of a table each time its version is a multiple of this; "
    "`0` leaves them to `optimize`.",
    _parse_count,
)
CLEANUP_GRACE = Setting(
    "OMNIGRAPH_CLEANUP_GRACE",
    "86400",
    "Seconds a small write may take to prepare, the same for all processes. Cleanup leaves files "
    "and forks alone that nothing refers to for so long, at least a minute, and a write that took "
    "longer is refused. `0` says that nobody else writes. Bulk loads and `optimize` may take days.",
    _parse_seconds,
)
AUTOPILOT = Setting(
    "OMNIGRAPH_AUTOPILOT",
    "false",
    "`true` lets a graph that is open for writing maintain itself in the background.",
    _parse_flag,
)
AUTOPILOT_INTERVAL = Setting(
    "OMNIGRAPH_AUTOPILOT_INTERVAL",
    "60",
    "Seconds between two looks at whether maintenance is due.",
    _parse_seconds,
)
AUTOPILOT_FRAGMENTS = Setting(
    "OMNIGRAPH_AUTOPILOT_FRAGMENTS",
    "64",
    "Optimize when a table has so many fragments that could be merged; `0` never.",
    _parse_count,
)
AUTOPILOT_UNINDEXED_ROWS = Setting(
    "OMNIGRAPH_AUTOPILOT_UNINDEXED_ROWS",
    "100000",
    "Optimize when an index of a table does not cover so many rows; `0` never.",
    _parse_count,
)
AUTOPILOT_VERSIONS = Setting(
    "OMNIGRAPH_AUTOPILOT_VERSIONS",
    "1000",
    "Clean up when so many versions of a table could be removed; `0` never.",
    _parse_count,
)
AUTOPILOT_MIB = Setting(
    "OMNIGRAPH_AUTOPILOT_MIB",
    "0",
    "Clean up when so many mebibytes could be removed; `0` never.",
    _parse_mebibytes,
)
AUTOPILOT_KEEP = Setting(
    "OMNIGRAPH_AUTOPILOT_KEEP",
    "10",
    "How many commits of every branch such a cleanup leaves readable, at least.",
    _parse_attempts,
)
AUTOPILOT_AGE = Setting(
    "OMNIGRAPH_AUTOPILOT_AGE",
    "604800",
    "Seconds for which such a cleanup leaves every commit readable.",
    _parse_seconds,
)
TEXT_CACHE_MIB = Setting(
    "OMNIGRAPH_TEXT_CACHE_MIB",
    "1024",
    "Memory for the words of searched text columns, in mebibytes. A column that needs more is read "
    "again for each search.",
    _parse_mebibytes,
)
VECTOR_CACHE_MIB = Setting(
    "OMNIGRAPH_VECTOR_CACHE_MIB",
    "512",
    "Memory for searched vector columns, in mebibytes. A column that needs more is searched by its "
    "index, and without one read again for each search.",
    _parse_mebibytes,
)
TRAVERSAL_MODE = Setting(
    "OMNIGRAPH_TRAVERSAL_MODE",
    "auto",
    "How traversals find neighbours: `indexed` looks them up hop by hop, `csr` reads them off an "
    "adjacency kept in memory, `auto` takes what costs less. The rows are the same.",
    _parse_traversal_mode,
)
EXPAND_INDEXED_MAX_FRONTIER = Setting(
    "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER",
    "",
    "With `auto`, look-ups start from at most so many nodes; unset, their cost alone decides.",
    _parse_limit,
)
EXPAND_INDEXED_MAX_HOPS = Setting(
    "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS",
    "",
    "With `auto`, look-ups go at most so many hops; unset, their cost alone decides.",
    _parse_limit,
)
EMBED_PROVIDER = Setting(
    "OMNIGRAPH_EMBED_PROVIDER",
    "openai-compatible",
    "Who turns texts into vectors: `openai-compatible`, `openai`, `gemini`, `local` or `mock`.",
    _parse_provider,
)
EMBED_BASE_URL = Setting(
    "OMNIGRAPH_EMBED_BASE_URL",
    "",
    "Address the paths of the embedding provider are appended to; the provider's own by default.",
    _parse_text,
)
EMBED_MODEL = Setting(
    "OMNIGRAPH_EMBED_MODEL",
    "",
    "Embedding model; the provider's usual one by default.",
    _parse_text,
)
EMBED_TIMEOUT_MS = Setting(
    "OMNIGRAPH_EMBED_TIMEOUT_MS",
    "30000",
    "Milliseconds one request to the embedding provider may take.",
    _parse_timeout,
)
EMBED_DEADLINE_MS = Setting(
    "OMNIGRAPH_EMBED_DEADLINE_MS",
    "60000",
    "Milliseconds one text may take, with all attempts and the pauses between them; `0` sets no "
    "limit.",
    _parse_milliseconds,
)
EMBED_RETRY_ATTEMPTS = Setting(
    "OMNIGRAPH_EMBED_RETRY_ATTEMPTS",
    "4",
    "How often a request is tried in all, if the provider is not reached, is busy or fails.",
    _parse_attempts,
)
EMBED_RETRY_BACKOFF_MS = Setting(
    "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS",
    "200",
    "Milliseconds before the second attempt; each further pause is twice as long.",
    _parse_milliseconds,
)
EMBEDDINGS_MOCK = Setting(
    "OMNIGRAPH_EMBEDDINGS_MOCK",
    "false",
    "`true` replaces any provider with made-up vectors, for tests.",
    _parse_flag,
)
OPENROUTER_API_KEY = Setting(
    "OPENROUTER_API_KEY", "", "Key for the provider `openai-compatible`.", _parse_text
)
OPENAI_API_KEY = Setting(
    "OPENAI_API_KEY",
    "",
    "Key for the provider `openai`, and for `openai-compatible` without `OPENROUTER_API_KEY`.",
    _parse_text,
)
GEMINI_API_KEY = Setting("GEMINI_API_KEY", "", "Key for the provider `gemini`.", _parse_text)
AWS_REGION = Setting(
    "AWS_REGION", "", "Region of the bucket; `us-east-1` where the store has none.", _parse_text
)
AWS_ACCESS_KEY_ID = Setting(
    "AWS_ACCESS_KEY_ID",
    "",
    "Access key. Without one, the credentials of the container or machine are used.",
    _parse_text,
)
AWS_SECRET_ACCESS_KEY = Setting(
    "AWS_SECRET_ACCESS_KEY", "", "Secret that belongs to the access key.", _parse_text
)
AWS_SESSION_TOKEN = Setting(
    "AWS_SESSION_TOKEN", "", "Session token of temporary credentials.", _parse_text
)
AWS_ENDPOINT_URL_S3 = Setting(
    "AWS_ENDPOINT_URL_S3",
    "",
    "Address of an S3-compatible server. An `http://` address allows plain HTTP.",
    _parse_text,
)
AWS_ENDPOINT_URL = Setting(
    "AWS_ENDPOINT_URL", "", "Used where `AWS_ENDPOINT_URL_S3` is not set.", _parse_text
)
AWS_S3_FORCE_PATH_STYLE = Setting(
    "AWS_S3_FORCE_PATH_STYLE",
    "true",
    "Bucket in the path of the address, as most S3-compatible servers need it. `false` puts it "
    "in the host name.",
    _parse_flag,
)
AWS_ALLOW_HTTP = Setting(
    "AWS_ALLOW_HTTP", "false", "Allows plain HTTP whatever the endpoint says.", _parse_flag
)

HOME = Setting(
    "OMNIGRAPH_HOME",
    "~/.omnigraph",
    "Folder of the operator's `config.yaml`; only the command line reads it.",
    _parse_text,
)
PROFILE = Setting(
    "OMNIGRAPH_PROFILE",
    "",
    "Profile a command takes when it is given neither a graph nor `--profile`.",
    _parse_text,
)
BEARER_TOKEN = Setting(
    "OMNIGRAPH_BEARER_TOKEN",
    "",
    "Token for a server that has none of its own; only the command line reads it. A server "
    "declared as `lab` has its own in `OMNIGRAPH_TOKEN_LAB` or by `omnigraph login lab`.",
    _parse_text,
)
TRACEBACK = Setting(
    "OMNIGRAPH_TRACEBACK",
    "false",
    "`true` shows where in the code a command failed that should not have.",
    _parse_flag,
)

SPARK_REMOTE = Setting(
    "SPARK_REMOTE",
    "",
    "Address of a Spark Connect server (`sc://…`) that bulk work runs on; needs the extra "
    "`connect`.",
    _parse_text,
)
SPARK_MASTER = Setting(
    "OMNIGRAPH_SPARK_MASTER",
    "",
    "Spark master that bulk work runs on, such as `spark://host:7077`; all cores of this machine "
    "by default.",
    _parse_text,
)
LOAD_ENGINE = Setting(
    "OMNIGRAPH_LOAD_ENGINE",
    "spark",
    "Where `omnigraph load` runs when it is not given `--engine`: on `spark`, or `local`, in the "
    "process itself.",
    _parse_load_engine,
)

SETTINGS: tuple[Setting[object], ...] = (
    WRITER_FENCE,
    WRITER_WAIT,
    LEASE_TERM,
    WRITE_CONCURRENCY,
    MAINTENANCE_CONCURRENCY,
    FOLD_AFTER,
    CLEANUP_GRACE,
    AUTOPILOT,
    AUTOPILOT_INTERVAL,
    AUTOPILOT_FRAGMENTS,
    AUTOPILOT_UNINDEXED_ROWS,
    AUTOPILOT_VERSIONS,
    AUTOPILOT_MIB,
    AUTOPILOT_KEEP,
    AUTOPILOT_AGE,
    TRAVERSAL_MODE,
    EXPAND_INDEXED_MAX_FRONTIER,
    EXPAND_INDEXED_MAX_HOPS,
    TEXT_CACHE_MIB,
    VECTOR_CACHE_MIB,
    EMBED_PROVIDER,
    EMBED_BASE_URL,
    EMBED_MODEL,
    EMBED_TIMEOUT_MS,
    EMBED_DEADLINE_MS,
    EMBED_RETRY_ATTEMPTS,
    EMBED_RETRY_BACKOFF_MS,
    EMBEDDINGS_MOCK,
    OPENROUTER_API_KEY,
    OPENAI_API_KEY,
    GEMINI_API_KEY,
    AWS_REGION,
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN,
    AWS_ENDPOINT_URL_S3,
    AWS_ENDPOINT_URL,
    AWS_S3_FORCE_PATH_STYLE,
    AWS_ALLOW_HTTP,
    SPARK_REMOTE,
    SPARK_MASTER,
    LOAD_ENGINE,
    HOME,
    PROFILE,
    BEARER_TOKEN,
    TRACEBACK,
)
