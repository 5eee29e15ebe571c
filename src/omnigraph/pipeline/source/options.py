"""What a caller says with `.option(...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.execution.load import LoadMode
from omnigraph.identity import MAIN
from omnigraph.pipeline.source.scan import ROWS_PER_PARTITION

_FALSE = frozenset({"false", "0", "no", "off"})
_TRUE = frozenset({"true", "1", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Pin:
    """Which state of a graph is read: a branch now, a commit or a snapshot."""

    uri: str
    branch: str = MAIN
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query whose result is read, with its parameters."""

    text: str
    name: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read or a write, checked."""

    pin: Pin
    type_name: str | None
    query: QueryText | None
    columns: tuple[str, ...] | None
    pushdown: bool
    rows_per_partition: int
    mode: LoadMode | None
    partial: bool
    actor: str | None
    stream_id: str | None

    def need_type(self) -> str:
        if self.type_name is None:
            raise BadRequest("say which type the rows are of: option 'type'")
        return self.type_name


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """The options a reader or writer was made with; their names have no case."""
    options = {name.lower(): value for name, value in given.items()}
    query = _query(options)
    if query is not None and "type" in options:
        raise BadRequest("give a type or a query, not both")
    return SourceOptions(
        pin=Pin(_uri(options), options.get("branch", MAIN), _snapshot(options)),
        type_name=options.get("type"),
        query=query,
        columns=_columns(options.get("columns")),
        pushdown=_flag(options, "pushdown", default=True),
        rows_per_partition=_count(options, "rowsperpartition", ROWS_PER_PARTITION),
        mode=_mode(options.get("mode")),
        partial=_flag(options, "partial", default=False),
        actor=options.get("actor"),
        stream_id=options.get("streamid"),
    )


def _uri(options: Mapping[str, str]) -> str:
    uri = options.get("path") or options.get("uri")
    if not uri:
        raise BadRequest("say where the graph is: load(path), save(path) or option 'path'")
    return uri


def _snapshot(options: Mapping[str, str]) -> str | None:
    named = [options[name] for name in ("commit", "snapshot") if options.get(name)]
    if len(named) > 1:
        raise BadRequest("give one of commit and snapshot")
    return named[0] if named else None


def _query(options: Mapping[str, str]) -> QueryText | None:
    text = options.get("query")
    if text is None:
        return None
    try:
        params = msgspec.json.decode(options.get("params") or "{}", type=dict[str, object])
    except msgspec.DecodeError as error:
        raise BadRequest(f"option 'params' is a JSON object: {error}") from error
    return QueryText(text, options.get("name"), params)


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise BadRequest("option 'columns' names at least one column")
    return tuple(dict.fromkeys(names))


def _mode(text: str | None) -> LoadMode | None:
    if text is None:
        return None
    try:
        return LoadMode(text.lower())
    except ValueError:
        raise BadRequest(f"mode '{text}' is not one of {', '.join(LoadMode)}") from None


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    word = options.get(name, str(default)).lower()
    if word not in _TRUE | _FALSE:
        raise BadRequest(f"option '{name}' is true or false, not '{word}'")
    return word in _TRUE


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) < 1:
        raise BadRequest(f"option '{name}' is a positive whole number, not '{text}'")
    return int(text)
