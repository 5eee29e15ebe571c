"""Parse the options of the data source, as given with `.option(...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.execution.load_options import LoadMode
from omnigraph.identity import MAIN
from omnigraph.pipeline.table_scan import ROWS_PER_PARTITION
from omnigraph.policy import Policy, load_bundle
from omnigraph.struct_decoding import decode_into
from omnigraph.types.temporal import parse_duration

_FALSE = frozenset({"false", "0", "no", "off"})
_TRUE = frozenset({"true", "1", "yes", "on"})

_TARGET = ("path", "uri", "type", "branch", "actor", "policy")
_TIME_TRAVEL = ("commit", "snapshot", "versionAsOf", "timestampAsOf")
_READ = (
    *_TARGET,
    *_TIME_TRAVEL,
    "where",
    "columns",
    "query",
    "name",
    "params",
    "rowsPerPartition",
    "changes",
)
_CHANGES = (
    "changes",
    *_TARGET,
    "types",
    "kinds",
    "ops",
    "columns",
    "startingAfter",
    "endingAt",
    "maxCommitsPerTrigger",
    "consumer",
    "consumerExpires",
    "rowsPerPartition",
)
_WRITE = (*_TARGET, "mode", "partial", "message", "streamId")
_OF_STREAMS = ("checkpointLocation", "queryName")
"""Options of a streaming query that Spark passes along with those of the source."""

MAX_COMMITS = 1_000
"""Default number of commits in a batch of a stream."""
CONSUMER_LASTS = "7d"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of a graph to read: the head of a branch, or one of the following."""

    uri: str
    branch: str = MAIN
    snapshot: str | None = None
    """A commit id or a snapshot id."""
    version: int | None = None
    """A manifest version."""
    at_us: int | None = None
    """A time in microseconds since 1970: the newest commit at or before it."""
    actor: str | None = None
    """Actor that reads."""
    policy: Policy | None = None
    """The policy of the read; loaded on the driver, and sent to the tasks."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query whose result is read, with its parameters."""

    text: str
    name: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceReadOptions:
    """The options of a read, checked."""

    type_name: str | None
    query: QueryText | None
    where: str | None
    columns: tuple[str, ...] | None
    rows_per_partition: int

    def need_type(self) -> str:
        return _require_type(self.type_name)


@dataclass(frozen=True, slots=True)
class SourceWriteOptions:
    """The options of a write, checked."""

    uri: str
    branch: str
    type_name: str
    mode: LoadMode | None
    partial: bool
    actor: str | None
    policy: Policy | None
    message: str | None
    stream_id: str | None


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of a read of changes, checked."""

    uri: str
    branch: str
    type_name: str | None
    """The one type whose rows are columns of the images."""
    types: frozenset[str]
    kinds: frozenset[str]
    ops: frozenset[str]
    columns: tuple[str, ...] | None
    starting_after: str | None
    ending_at: str | None
    most_commits: int
    consumer: str | None
    consumer_lasts_s: float
    rows_per_partition: int
    actor: str | None = None
    policy: Policy | None = None


def pin_option(given: Mapping[str, str]) -> Pin:
    """Parse the graph and its state; an unknown option is refused."""
    if "provider" in _lower_names(given):
        raise BadRequest(
            "CREATE TABLE cannot use this format: Spark keeps a table without its options; use "
            "CREATE TEMPORARY VIEW, or load and createOrReplaceTempView"
        )
    known = tuple(dict.fromkeys((*_READ, *_WRITE, *_OF_STREAMS)))
    for name in given:
        if _is_among(name, _CHANGES) and not _is_among(name, known):
            raise BadRequest(f"option '{name}' is for changes; set option 'changes' to 'true' too")
    options = _check_names(given, known)
    travels = [name for name in _TIME_TRAVEL if name.lower() in options]
    if len(travels) > 1:
        raise BadRequest(f"give only one of the options {', '.join(travels)}")
    return Pin(
        _parse_uri(options),
        options.get("branch", MAIN),
        options.get("commit") or options.get("snapshot"),
        _parse_version(options.get("versionasof")),
        _parse_moment(options.get("timestampasof")),
        options.get("actor"),
        _load_policy(options.get("policy")),
    )


def read_options(given: Mapping[str, str]) -> SourceReadOptions:
    """Parse the options of a read; names are case-insensitive."""
    _refuse(given, _WRITE, _READ, "writes")
    options = _check_names(given, (*_READ, *_OF_STREAMS))
    query = _parse_query(options)
    for name in ("type", "where"):
        if query is not None and name in options:
            raise BadRequest(f"give option '{name}' or option 'query', not both")
    return SourceReadOptions(
        type_name=options.get("type"),
        query=query,
        where=options.get("where"),
        columns=_parse_names(options, "columns"),
        rows_per_partition=_count(options, "rowsPerPartition", ROWS_PER_PARTITION),
    )


def asks_for_changes(given: Mapping[str, str]) -> bool:
    """Return whether changes are read instead of rows."""
    return _parse_flag(_lower_names(given), "changes", default=False)


def change_options(given: Mapping[str, str]) -> ChangeOptions:
    """Parse the options of a read of changes; names are case-insensitive."""
    for name in given:
        if _is_among(name, (*_READ, *_WRITE)) and not _is_among(name, _CHANGES):
            raise BadRequest(f"option '{name}' cannot be used with option 'changes'")
    options = _check_names(given, (*_CHANGES, *_OF_STREAMS))
    for name in ("types", "kinds"):
        if name in options and "type" in options:
            raise BadRequest(f"give option 'type' or option '{name}', not both")
    if "consumerexpires" in options and "consumer" not in options:
        raise BadRequest("option 'consumerExpires' belongs to option 'consumer', which is missing")
    return ChangeOptions(
        uri=_parse_uri(options),
        branch=options.get("branch", MAIN),
        type_name=options.get("type"),
        types=frozenset(_parse_names(options, "types") or ()),
        kinds=frozenset(_parse_names(options, "kinds") or ()),
        ops=frozenset(_parse_names(options, "ops") or ()),
        columns=_parse_names(options, "columns"),
        starting_after=options.get("startingafter"),
        ending_at=options.get("endingat"),
        most_commits=_count(options, "maxCommitsPerTrigger", MAX_COMMITS),
        consumer=options.get("consumer"),
        consumer_lasts_s=parse_duration(options.get("consumerexpires", CONSUMER_LASTS)),
        rows_per_partition=_count(options, "rowsPerPartition", ROWS_PER_PARTITION),
        actor=options.get("actor"),
        policy=_load_policy(options.get("policy")),
    )


def write_options(given: Mapping[str, str]) -> SourceWriteOptions:
    """Parse the options of a write; names are case-insensitive."""
    _refuse(given, _READ, _WRITE, "reads")
    options = _check_names(given, (*_WRITE, *_OF_STREAMS))
    return SourceWriteOptions(
        uri=_parse_uri(options),
        branch=options.get("branch", MAIN),
        type_name=_require_type(options.get("type")),
        mode=_parse_mode(options.get("mode")),
        partial=_parse_flag(options, "partial", default=False),
        actor=options.get("actor"),
        policy=_load_policy(options.get("policy")),
        message=options.get("message"),
        stream_id=options.get("streamid"),
    )


# --- names ---------------------------------------------------------------------------------------


def _is_among(name: str, names: tuple[str, ...]) -> bool:
    return name.lower() in {one.lower() for one in names}


def _lower_names(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def _check_names(given: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """Return the options by lower-case name; raise for an unknown one."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names:
            close = get_close_matches(name.lower(), names, n=1)
            hint = f"did you mean '{names[close[0]]}'?" if close else f"use {', '.join(known)}"
            raise BadRequest(f"no such option '{name}'; {hint}")
    return _lower_names(given)


def _refuse(
    given: Mapping[str, str], theirs: tuple[str, ...], ours: tuple[str, ...], what: str
) -> None:
    """Raise for options of the other direction, rather than ignore them."""
    options = _lower_names(given)
    for name in theirs:
        if name not in ours and name.lower() in options:
            raise BadRequest(f"option '{name}' is for {what} only")


# --- values --------------------------------------------------------------------------------------


def _parse_uri(options: Mapping[str, str]) -> str:
    uri = options.get("path") or options.get("uri")
    if not uri:
        raise BadRequest("say where the graph is: load(path), save(path) or option 'path'")
    return uri


def _load_policy(path: str | None) -> Policy | None:
    return None if path is None else load_bundle(path)


def _require_type(name: str | None) -> str:
    if name is None:
        raise BadRequest("say which type the rows are of: option 'type'")
    return name


def _parse_version(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise BadRequest(
            f"option 'versionAsOf' must be the number of a manifest version, not '{text}'"
        )
    return int(text)


def _parse_moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadRequest(
            "option 'timestampAsOf' must be a time with a zone, as in '2024-06-01T12:00:00Z', "
            f"not '{text}'"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _parse_query(options: Mapping[str, str]) -> QueryText | None:
    text = options.get("query")
    if text is None:
        for name in ("name", "params"):
            if name in options:
                raise BadRequest(f"option '{name}' belongs to option 'query', which is missing")
        return None
    try:
        params = decode_into(options.get("params") or "{}", dict[str, object])
    except msgspec.DecodeError as error:
        raise BadRequest(f"option 'params' must be a JSON object: {error}") from error
    return QueryText(text, options.get("name"), params)


def _parse_names(options: Mapping[str, str], option: str) -> tuple[str, ...] | None:
    text = options.get(option)
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise BadRequest(f"option '{option}' must name at least one")
    return tuple(dict.fromkeys(names))


def _parse_mode(text: str | None) -> LoadMode | None:
    if text is None:
        return None
    try:
        return LoadMode(text.lower())
    except ValueError:
        raise BadRequest(f"mode '{text}' is not one of {', '.join(LoadMode)}") from None


def _parse_flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    word = options.get(name, str(default)).lower()
    if word not in _TRUE | _FALSE:
        raise BadRequest(f"option '{name}' must be true or false, not '{word}'")
    return word in _TRUE


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise BadRequest(f"option '{name}' must be a positive integer, not '{text}'")
    return int(text)
