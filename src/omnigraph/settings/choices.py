"""The words that settings may be, where they are one of a few."""

from __future__ import annotations

from enum import StrEnum


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


class TraversalMode(StrEnum):
    """How traversals find neighbours."""

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
    """Where bulk work, queries and maintenance may run."""

    SPARK = "spark"
    LOCAL = "local"


class LoadEngine(StrEnum):
    """Where a load runs; `auto` chooses by how much there is to load."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


ENGINES = tuple(str(engine) for engine in Engine)
LOAD_ENGINES = tuple(str(engine) for engine in LoadEngine)
MERGE_ENGINES = (*ENGINES, "auto")
"""A merge may also choose by how much changed."""
