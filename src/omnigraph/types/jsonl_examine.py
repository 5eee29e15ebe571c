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
    describe_closest,
    explain_required,
    name_json_kind,
    quote_for_message,
)
from omnigraph.types.reserved import STORAGE_FIELDS, STRUCTURAL_FIELDS
from omnigraph.types.strict_json import parse_json

_ENVELOPE_FIELDS = {
    EntityKind.NODE: frozenset({"type", "data"}),
    EntityKind.EDGE: frozenset({"edge", "from", "to", "data"}),
}


@dataclass(frozen=True, slots=True)
class ExaminedLine:
    """A line that is right after all: its type, its ends if it is an edge, and its data."""

    type: RecordType
    src: str | None
    dst: str | None
    record: msgspec.Struct


class LineRefused(Exception):
    """Everything found wrong with one line; the problems do not say yet where it is."""

    def __init__(self, problems: Iterable[RowProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def examine_line(line: bytes, types: RecordTypes, *, partial: bool) -> ExaminedLine:
    """What the line holds; raises `LineRefused`.

    Args:
        line: One line, not blank.
        types: The types it may be of.
        partial: Whether any property may be left out.
    """
    envelope = _examine_object(line)
    kind = _examine_kind(envelope)
    _check_fields(envelope, _ENVELOPE_FIELDS[kind])
    found = _examine_type(envelope, kind, types)
    data = envelope.get("data", {})
    id = data.get("id", UNSET) if isinstance(data, dict) else UNSET
    try:
        src, dst = _examine_ends(envelope) if kind is EntityKind.EDGE else (None, None)
        record = _examine_record(data, id, found, partial=partial)
    except LineRefused as refused:
        known = id if isinstance(id, str) else None
        raise LineRefused(
            replace(p, type_key=found.spec.table_key, id=known) for p in refused.problems
        ) from None
    return ExaminedLine(found, src, dst, record)


def make_bad_value(reason: str, wanted: PropertySpec) -> RowProblem:
    """The problem of a value that does not fit its property."""
    reason = f"property '{wanted.name}': {reason}"
    return RowProblem(reason, ProblemCode.BAD_VALUE, property=wanted.name)


def make_missing_value(wanted: PropertySpec) -> RowProblem:
    """The problem of a null, or of nothing, where the property needs a value."""
    return RowProblem(explain_required(wanted.name), ProblemCode.REQUIRED, property=wanted.name)


def _make_refused_error(reason: str, code: ProblemCode) -> LineRefused:
    return LineRefused([RowProblem(reason, code)])


def _examine_object(line: bytes) -> dict[str, object]:
    try:
        value = parse_json(line)
    except ValueRefused as refused:
        raise _make_refused_error(refused.reason, refused.problem) from None
    if not isinstance(value, dict):
        raise _make_refused_error(
            f"expects a JSON object, got {name_json_kind(value)}", ProblemCode.MALFORMED
        )
    return value


def _examine_kind(envelope: Mapping[str, object]) -> EntityKind:
    if ("type" in envelope) == ("edge" in envelope):
        raise _make_refused_error(
            "a record has exactly one of 'type' or 'edge'", ProblemCode.ENVELOPE
        )
    return EntityKind.NODE if "type" in envelope else EntityKind.EDGE


def _check_fields(
    members: Mapping[str, object],
    allowed: frozenset[str],
    *,
    structural: frozenset[str] = frozenset(),
) -> None:
    """Refuse unknown members, each with its own problem."""
    problems = []
    for name in members:
        if name in STORAGE_FIELDS:
            reason, code = f"'{name}' is reserved physical state", ProblemCode.RESERVED_FIELD
        elif name in structural:
            reason, code = f"'{name}' is reserved structural state", ProblemCode.RESERVED_FIELD
        elif name not in allowed:
            reason, code = (
                f"unknown input field {quote_for_message(name)}{describe_closest(name, allowed)}",
                ProblemCode.UNKNOWN_FIELD,
            )
        else:
            continue
        problems.append(RowProblem(reason, code))
    if problems:
        raise LineRefused(problems)


def _examine_type(
    envelope: Mapping[str, object], kind: EntityKind, types: RecordTypes
) -> RecordType:
    name = _examine_text(envelope, "type" if kind is EntityKind.NODE else "edge")
    try:
        return (types.nodes if kind is EntityKind.NODE else types.edges)[name]
    except KeyError:
        types_of_kind = types.nodes if kind is EntityKind.NODE else types.edges
        known = frozenset(one.spec.name for one in types_of_kind.values())
        reason = f"unknown {kind} type {quote_for_message(name)}{describe_closest(name, known)}"
        raise _make_refused_error(reason, ProblemCode.UNKNOWN_TYPE) from None


def _examine_ends(envelope: Mapping[str, object]) -> tuple[str, str]:
    for member in ("from", "to"):
        if member not in envelope:
            raise _make_refused_error(f"an edge record needs '{member}'", ProblemCode.ENVELOPE)
    return _examine_text(envelope, "from"), _examine_text(envelope, "to")


def _examine_text(members: Mapping[str, object], name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        reason = f"'{name}' must be a string, got {name_json_kind(value)}"
        raise _make_refused_error(reason, ProblemCode.ENVELOPE)
    return value


def _examine_record(data: object, id: object, type: RecordType, *, partial: bool) -> msgspec.Struct:
    """The record of the data, its values as they were given."""
    if not isinstance(data, dict):
        reason = f"'data' must be a JSON object, got {name_json_kind(data)}"
        raise _make_refused_error(reason, ProblemCode.ENVELOPE)
    spec = type.spec
    structural = STRUCTURAL_FIELDS if spec.kind is EntityKind.EDGE else frozenset()
    _check_fields(data, _list_allowed(spec), structural=structural)
    if id is not UNSET:
        _examine_text(data, "id")
    values = [data.get(p.name, UNSET) for p in spec.properties]
    checked = [
        _find_value_problem(value, wanted, partial=partial)
        for value, wanted in zip(values, spec.properties, strict=True)
    ]
    problems = [problem for problem in checked if problem]
    if problems:
        raise LineRefused(problems)
    return type.record(id, *values)


def _list_allowed(spec: TypeSpec) -> frozenset[str]:
    return frozenset(p.name for p in spec.properties) | {"id"}


def _find_value_problem(value: object, wanted: PropertySpec, *, partial: bool) -> RowProblem | None:
    if value is UNSET and (partial or wanted.has_default):
        return None
    if value is UNSET or value is None:
        return None if wanted.type.nullable else make_missing_value(wanted)
    try:
        convert_value(value, wanted.type)
    except ValueRefused as refused:
        return make_bad_value(refused.reason, wanted)
    return None
