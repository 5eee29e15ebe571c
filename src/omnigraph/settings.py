"""What the environment says, as values that are handed down.

Nothing below the edge looks at the environment: a command, a server or a Spark driver builds one
`Settings` with `Settings.from_environment(os.environ)` and hands it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph import environment as variables
from omnigraph.environment import BEARER_TOKEN as BEARER_TOKEN
from omnigraph.environment import ENGINES as ENGINES
from omnigraph.environment import GEMINI_API_KEY as GEMINI_API_KEY
from omnigraph.environment import LOAD_ENGINE as LOAD_ENGINE
from omnigraph.environment import OPENAI_API_KEY as OPENAI_API_KEY
from omnigraph.environment import OPENROUTER_API_KEY as OPENROUTER_API_KEY
from omnigraph.environment import SETTINGS as SETTINGS
from omnigraph.environment import TRACEBACK as TRACEBACK
from omnigraph.environment import EmbedProvider as EmbedProvider
from omnigraph.environment import FenceMode as FenceMode
from omnigraph.environment import TraversalMode as TraversalMode


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """Where an S3 bucket is reached, and as whom. Secrets never show in its text form."""

    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    is_path_style: bool = True
    is_http_allowed: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AwsSettings:
        endpoint = variables.AWS_ENDPOINT_URL_S3.read(
            environment
        ) or variables.AWS_ENDPOINT_URL.read(environment)
        is_plain = endpoint is not None and endpoint.lower().startswith("http://")
        return cls(
            region=variables.AWS_REGION.read(environment),
            access_key_id=variables.AWS_ACCESS_KEY_ID.read(environment),
            secret_access_key=variables.AWS_SECRET_ACCESS_KEY.read(environment),
            session_token=variables.AWS_SESSION_TOKEN.read(environment),
            endpoint=endpoint,
            is_path_style=variables.AWS_S3_FORCE_PATH_STYLE.read(environment),
            is_http_allowed=is_plain or variables.AWS_ALLOW_HTTP.read(environment),
        )


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Who turns texts into vectors, and how long it may take. Keys never show in its text form."""

    provider: EmbedProvider = EmbedProvider.OPENAI_COMPATIBLE
    base_url: str | None = None
    model: str | None = None
    timeout_s: float = 30.0
    deadline_s: float = 60.0
    """For one text with all attempts; 0 sets no limit."""
    attempts: int = 4
    backoff_s: float = 0.2
    is_mock: bool = False
    """Made-up vectors, whoever the provider is."""
    openrouter_api_key: str | None = field(default=None, repr=False)
    openai_api_key: str | None = field(default=None, repr=False)
    gemini_api_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> EmbedSettings:
        return cls(
            provider=variables.EMBED_PROVIDER.read(environment),
            base_url=variables.EMBED_BASE_URL.read(environment),
            model=variables.EMBED_MODEL.read(environment),
            timeout_s=variables.EMBED_TIMEOUT_MS.read(environment),
            deadline_s=variables.EMBED_DEADLINE_MS.read(environment),
            attempts=variables.EMBED_RETRY_ATTEMPTS.read(environment),
            backoff_s=variables.EMBED_RETRY_BACKOFF_MS.read(environment),
            is_mock=variables.EMBEDDINGS_MOCK.read(environment),
            openrouter_api_key=variables.OPENROUTER_API_KEY.read(environment),
            openai_api_key=variables.OPENAI_API_KEY.read(environment),
            gemini_api_key=variables.GEMINI_API_KEY.read(environment),
        )


@dataclass(frozen=True, slots=True)
class TraversalSettings:
    """How traversals find neighbours; the limits are those of look-ups, None for none."""

    mode: TraversalMode = TraversalMode.AUTO
    indexed_max_frontier: int | None = None
    indexed_max_hops: int | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TraversalSettings:
        return cls(
            mode=variables.TRAVERSAL_MODE.read(environment),
            indexed_max_frontier=variables.EXPAND_INDEXED_MAX_FRONTIER.read(environment),
            indexed_max_hops=variables.EXPAND_INDEXED_MAX_HOPS.read(environment),
        )


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where bulk work runs."""

    remote: str | None = None
    master: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> SparkSettings:
        return cls(
            variables.SPARK_REMOTE.read(environment), variables.SPARK_MASTER.read(environment)
        )


@dataclass(frozen=True, slots=True)
class AutopilotSettings:
    """When a graph maintains itself: thresholds, of which 0 never is reached."""

    enabled: bool = False
    interval_s: float = 60.0
    fragments: int = 64
    unindexed_rows: int = 100_000
    versions: int = 1_000
    bytes: int = 0
    keep: int = 10
    age_s: float = 604_800.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AutopilotSettings:
        return cls(
            enabled=variables.AUTOPILOT.read(environment),
            interval_s=variables.AUTOPILOT_INTERVAL.read(environment),
            fragments=variables.AUTOPILOT_FRAGMENTS.read(environment),
            unindexed_rows=variables.AUTOPILOT_UNINDEXED_ROWS.read(environment),
            versions=variables.AUTOPILOT_VERSIONS.read(environment),
            bytes=variables.AUTOPILOT_MIB.read(environment),
            keep=variables.AUTOPILOT_KEEP.read(environment),
            age_s=variables.AUTOPILOT_AGE.read(environment),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for, parsed and checked."""

    writer_fence: FenceMode = FenceMode.AUTO
    writer_wait_s: float = 30.0
    lease_term_s: float = 30.0
    write_concurrency: int = 8
    maintenance_concurrency: int = 8
    fold_after: int = 64
    cleanup_grace_s: float = 86_400.0
    autopilot: AutopilotSettings = AutopilotSettings()
    aws: AwsSettings = AwsSettings()
    embed: EmbedSettings = EmbedSettings()
    text_cache_bytes: int = 1 << 30
    vector_cache_bytes: int = 1 << 29
    traversal: TraversalSettings = TraversalSettings()
    spark: SparkSettings = SparkSettings()
    load_engine: str = "spark"
    """Where the command line loads by default; the library loads in its own process."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings of one process.

        Raises:
            BadRequest: a variable holds something it must not.
        """
        return cls(
            writer_fence=variables.WRITER_FENCE.read(environment),
            writer_wait_s=variables.WRITER_WAIT.read(environment),
            lease_term_s=variables.LEASE_TERM.read(environment),
            write_concurrency=variables.WRITE_CONCURRENCY.read(environment),
            maintenance_concurrency=variables.MAINTENANCE_CONCURRENCY.read(environment),
            fold_after=variables.FOLD_AFTER.read(environment),
            cleanup_grace_s=variables.CLEANUP_GRACE.read(environment),
            autopilot=AutopilotSettings.from_environment(environment),
            aws=AwsSettings.from_environment(environment),
            embed=EmbedSettings.from_environment(environment),
            text_cache_bytes=variables.TEXT_CACHE_MIB.read(environment),
            vector_cache_bytes=variables.VECTOR_CACHE_MIB.read(environment),
            traversal=TraversalSettings.from_environment(environment),
            spark=SparkSettings.from_environment(environment),
            load_engine=variables.LOAD_ENGINE.read(environment),
        )
