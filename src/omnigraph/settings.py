"""Every environment variable the system reads, read once at the edge.

Nothing below the edge looks at the environment: a command, a server or a Spark driver builds one
`Settings` with `Settings.from_environment(os.environ)` and hands it down. `SETTINGS` lists the
variables with their defaults and meanings; the reference page is written from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from omnigraph.errors import BadRequest

T_co = TypeVar("T_co", covariant=True)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class FenceMode(StrEnum):
    """How writers in different processes are kept apart."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


def _parse_text(value: str) -> str | None:
    return value or None


def _parse_flag(value: str) -> bool:
    word = value.lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError("true or false")


def _parse_seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError("a number of seconds, 0 or more")
    return seconds


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

SETTINGS: tuple[Setting[object], ...] = (
    WRITER_FENCE,
    WRITER_WAIT,
    AWS_REGION,
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN,
    AWS_ENDPOINT_URL_S3,
    AWS_ENDPOINT_URL,
    AWS_S3_FORCE_PATH_STYLE,
    AWS_ALLOW_HTTP,
)


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
        endpoint = AWS_ENDPOINT_URL_S3.read(environment) or AWS_ENDPOINT_URL.read(environment)
        is_plain = endpoint is not None and endpoint.lower().startswith("http://")
        return cls(
            region=AWS_REGION.read(environment),
            access_key_id=AWS_ACCESS_KEY_ID.read(environment),
            secret_access_key=AWS_SECRET_ACCESS_KEY.read(environment),
            session_token=AWS_SESSION_TOKEN.read(environment),
            endpoint=endpoint,
            is_path_style=AWS_S3_FORCE_PATH_STYLE.read(environment),
            is_http_allowed=is_plain or AWS_ALLOW_HTTP.read(environment),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for, parsed and checked."""

    writer_fence: FenceMode = FenceMode.AUTO
    writer_wait_s: float = 30.0
    aws: AwsSettings = AwsSettings()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings of one process.

        Raises:
            BadRequest: a variable holds something it must not.
        """
        return cls(
            writer_fence=WRITER_FENCE.read(environment),
            writer_wait_s=WRITER_WAIT.read(environment),
            aws=AwsSettings.from_environment(environment),
        )
