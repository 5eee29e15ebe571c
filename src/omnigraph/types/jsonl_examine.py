"""One line of input read slowly and exactly, to say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
from msgspec import UNSET

from omnigraph.errors import RowProblem
from omnigraph.identity import EntityKind
from omnigraph.types.json_value import convert_value
from omnigraph.types.jsonl_types import PropertySpec, RecordType, RecordTypes, TypeSpec
from omnigraph.types.problems import (
    ProblemCode,
    ValueRefused,
    json_kind,
    quoted,
    required_reason,
)
from omnigraph.types.reserved import STORAGE_FIELDS, STRUCTURAL_FIELDS
from omnigraph.types.strict_json import parse_json

_ENVELOPE_FIELDS = {
    EntityKind.NODE: frozenset({"type", "data"}),
    EntityKind.EDGE: frozenset({"edge", "from", "to", "data"}),
}


@dataclass(frozen=True, slots=True)
class Examined:
    """A line that is right after all: its type, its ends if it is an edge, and its data."""

    type: RecordType
    src: str | None
    dst: str | None
    record: msgspec.Struct


class LineRefused(Exception):
    """Everything found wrong with one line; the problems do not say yet where it stands."""

    def __init__(self, problems: Iterable[RowProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def examine(line: bytes, types: RecordTypes, *, partial: bool) -> Examined:
    """What the line holds; raises `LineRefused`.

    Args:
        line: One line, not blank.
        types: The types it may be of.
        partial: Whether any property may be left out.
    """
    envelope = _object(line)
    kind = _kind(envelope)
    _check_fields(envelope, _ENVELOPE_FIELDS[kind])
    found = _type(envelope, kind, types)
    data = envelope.get("data", {})
    id = data.get("id", UNSET) if isinstance(data, dict) else UNSET
    try:
        src, dst = _ends(envelope) if kind is EntityKind.EDGE else (None, None)
        record = _record(data, id, found, partial=partial)
    except LineRefused as refused:
        known = id if isinstance(id, str) else None
        raise LineRefused(
            replace(p, type_key=found.spec.table_key, id=known) for p in refused.problems
        ) from None
    return Examined(found, src, dst, record)


def bad_value(reason: str, wanted: PropertySpec) -> RowProblem:
    """The problem of a value that does not fit its property."""
    reason = f"property '{wanted.name}': {reason}"
    return RowProblem(reason, ProblemCode.BAD_VALUE, property=wanted.name)


def missing_value(wanted: PropertySpec) -> RowProblem:
    """The problem of a null, or of nothing, where the property needs a value."""
    return RowProblem(required_reason(wanted.name), ProblemCode.REQUIRED, property=wanted.name)


def _refused(reason: str, code: ProblemCode) -> LineRefused:
    return LineRefused([RowProblem(reason, code)])


def _object(line: bytes) -> dict[str, object]:
    try:
        value = parse_json(line)
    except ValueRefused as refused:
        raise _refused(refused.reason, refused.problem) from None
    if not isinstance(value, dict):
        raise _refused(f"expects a JSON object, got {json_kind(value)}", ProblemCode.MALFORMED)
    return value


def _kind(envelope: Mapping[str, object]) -> EntityKind:
    if ("type" in envelope) == ("edge" in envelope):
        raise _refused("a record has exactly one of 'type' or 'edge'", ProblemCode.ENVELOPE)
    return EntityKind.NODE if "type" in envelope else EntityKind.EDGE


def _check_fields(
    members: Mapping[str, object],
    allowed: frozenset[str],
    *,
    structural: frozenset[str] = frozenset(),
) -> None:
    """Refuse members nobody asked for, each with its own problem."""
    problems = []
    for name in members:
        if name in STORAGE_FIELDS:
            reason, code = f"'{name}' is reserved physical state", ProblemCode.RESERVED_FIELD
        elif name in structural:
            reason, code = f"'{name}' is reserved structural state", ProblemCode.RESERVED_FIELD
        elif name not in allowed:
            reason, code = f"unknown input field {quoted(name)}", ProblemCode.UNKNOWN_FIELD
        else:
            continue
        problems.append(RowProblem(reason, code))
    if problems:
        raise LineRefused(problems)


def _type(envelope: Mapping[str, object], kind: EntityKind, types: RecordTypes) -> RecordType:
    name = _text(envelope, "type" if kind is EntityKind.NODE else "edge")
    try:
        return (types.nodes if kind is EntityKind.NODE else types.edges)[name]
    except KeyError:
        reason = f"unknown {kind} type {quoted(name)}"
        raise _refused(reason, ProblemCode.UNKNOWN_TYPE) from None


def _ends(envelope: Mapping[str, object]) -> tuple[str, str]:
    for member in ("from", "to"):
        if member not in envelope:
            raise _refused(f"an edge record needs '{member}'", ProblemCode.ENVELOPE)
    return _text(envelope, "from"), _text(envelope, "to")


def _text(members: Mapping[str, object], name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        reason = f"'{name}' must be a string, got {json_kind(value)}"
        raise _refused(reason, ProblemCode.ENVELOPE)
    return value


def _record(data: object, id: object, type: RecordType, *, partial: bool) -> msgspec.Struct:
    """The record of the data, its values as they were given."""
    if not isinstance(data, dict):
        reason = f"'data' must be a JSON object, got {json_kind(data)}"
        raise _refused(reason, ProblemCode.ENVELOPE)
    spec = type.spec
    structural = STRUCTURAL_FIELDS if spec.kind is EntityKind.EDGE else frozenset()
    _check_fields(data, _allowed(spec), structural=structural)
    if id is not UNSET:
        _text(data, "id")
    values = [data.get(p.name, UNSET) for p in spec.properties]
    checked = [
        _value_problem(value, wanted, partial=partial)
        for value, wanted in zip(values, spec.properties, strict=True)
    ]
    problems = [problem for problem in checked if problem]
    if problems:
        raise LineRefused(problems)
    return type.record(id, *values)


def _allowed(spec: TypeSpec) -> frozenset[str]:
    return frozenset(p.name for p in spec.properties) | {"id"}


def _value_problem(value: object, wanted: PropertySpec, *, partial: bool) -> RowProblem | None:
    if value is UNSET and (partial or wanted.has_default):
        return None
    if value is UNSET or value is None:
        return None if wanted.type.nullable else missing_value(wanted)
    try:
        convert_value(value, wanted.type)
    except ValueRefused as refused:
        return bad_value(refused.reason, wanted)
    return None
