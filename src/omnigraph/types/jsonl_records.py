"""Decode JSON lines as records: the types of lines, and the exact problems of refused ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec import UNSET, Raw, UnsetType

from omnigraph.errors import RowProblem
from omnigraph.identity import EntityKind, TableKey, make_table_key
from omnigraph.struct_decoding import make_decoder
from omnigraph.types.json_value import convert_value, parse_json
from omnigraph.types.property import (
    FLOATS,
    INTEGERS,
    STORAGE_FIELDS,
    STRUCTURAL_FIELDS,
    PropertyType,
    Scalar,
)
from omnigraph.types.row_problems import (
    ProblemCode,
    ValueRefused,
    describe_closest,
    explain_required,
    name_json_kind,
    quote_for_message,
)

NO_DATA = Raw(b"{}")
"""Data of a record without `data`: recognised by identity, since `{}` may be written out."""


@dataclass(frozen=True, slots=True)
class PropertySpec:
    """One property; with `has_default`, a line may omit it and it is filled in later.

    With `is_made` it may be null as well, for the same reason.
    """

    name: str
    type: PropertyType
    has_default: bool = False
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """One node or edge type, with its properties in column order."""

    name: str
    kind: EntityKind
    properties: tuple[PropertySpec, ...]

    @property
    def table_key(self) -> TableKey:
        return make_table_key(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class LineLimits:
    """Limits of one line: bytes, and structural characters outside strings."""

    line_bytes: int = 32 * 1024 * 1024
    structural_slots: int = 131_072


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Options for reading lines.

    With `partial`, any property may be omitted, for a merge that keeps stored values. With
    `with_presence`, the result tells which properties each line has, null or not. Problems beyond
    `max_problems` are only counted.
    """

    partial: bool = False
    with_presence: bool = False
    max_problems: int = 1000
    limits: LineLimits = LineLimits()


class NodeEnvelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`{"type": …, "data": {…}}`."""

    type: str
    data: Raw = NO_DATA


class EdgeEnvelope(
    msgspec.Struct, forbid_unknown_fields=True, gc=False, rename={"src": "from", "dst": "to"}
):
    """`{"edge": …, "from": …, "to": …, "data": {…}}`."""

    edge: str
    src: str
    dst: str
    data: Raw = NO_DATA


@dataclass(frozen=True, eq=False)
class RecordType:
    """Decoder of one type: `record` is the shape of `data`, absent members are `UNSET`."""

    spec: TypeSpec
    record: Callable[..., msgspec.Struct]
    decode: Callable[[Raw], msgspec.Struct]
    id: Callable[[msgspec.Struct], object]
    values: tuple[Callable[[msgspec.Struct], object], ...]
    """Getters of the properties of a record, in the order of the specification."""


class _EdgeNames(dict[str, RecordType]):
    """Edge types by name: exactly as declared, else ignoring case."""

    def __init__(self, types: list[RecordType]) -> None:
        super().__init__({t.spec.name: t for t in types})
        self._folded = {t.spec.name.lower(): t for t in types}

    def __missing__(self, name: str) -> RecordType:
        return self._folded[name.lower()]


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """The types of lines; an unknown name raises `KeyError`."""

    nodes: Mapping[str, RecordType]
    edges: Mapping[str, RecordType]


@lru_cache(maxsize=64)
def build_record_types(specs: tuple[TypeSpec, ...]) -> RecordTypes:
    """Build the decoders of these types, once per process."""
    types = [_build_record_type(spec) for spec in specs]
    nodes = {t.spec.name: t for t in types if t.spec.kind is EntityKind.NODE}
    return RecordTypes(nodes, _EdgeNames([t for t in types if t.spec.kind is EntityKind.EDGE]))


def _build_record_type(spec: TypeSpec) -> RecordType:
    # Fields are numbered: a property may be named like a Python keyword.
    names = [f"p{index}" for index in range(len(spec.properties))]
    fields: list[tuple[str, object, object]] = [("id", str | UnsetType, UNSET)]
    fields += [
        (name, _build_json_type(p.type) | None | UnsetType, UNSET)  # type: ignore[operator]
        for name, p in zip(names, spec.properties, strict=True)
    ]
    record = msgspec.defstruct(
        spec.name,
        fields,
        rename=dict(zip(names, (p.name for p in spec.properties), strict=True)),
        forbid_unknown_fields=True,
        gc=False,
    )
    getters = tuple(attrgetter(name) for name in names)
    return RecordType(spec, record, make_decoder(record).decode, attrgetter("id"), getters)


def _build_json_type(type: PropertyType) -> object:
    """Return the Python type of a property for the decoder: the kind of its JSON value."""
    if type.is_vector:
        return list[float]
    scalar = _SCALARS[type.scalar]
    return list[scalar] if type.is_list else scalar  # type: ignore[valid-type]


_SCALARS: Mapping[Scalar, object] = {
    Scalar.STRING: str,
    Scalar.BLOB: str,
    Scalar.BOOL: bool,
    Scalar.DATE: str | int,
    Scalar.DATETIME: str | int,
    **dict.fromkeys(INTEGERS, int),
    **dict.fromkeys(FLOATS, float),
}


_ENVELOPE_FIELDS = {
    EntityKind.NODE: frozenset({"type", "data"}),
    EntityKind.EDGE: frozenset({"edge", "from", "to", "data"}),
}


@dataclass(frozen=True, slots=True)
class ExaminedLine:
    """A valid line: its type, its ends if it is an edge, and its data."""

    type: RecordType
    src: str | None
    dst: str | None
    record: msgspec.Struct


class LineRefused(Exception):
    """The problems of one line, without its number."""

    def __init__(self, problems: Iterable[RowProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def examine_line(line: bytes, types: RecordTypes, *, partial: bool) -> ExaminedLine:
    """Decode the record of a line; raise `LineRefused`.

    Args:
        line: One line, not blank.
        types: The allowed types.
        partial: Whether properties may be omitted.
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
            msgspec.structs.replace(p, type_key=found.spec.table_key, id=known)
            for p in refused.problems
        ) from None
    return ExaminedLine(found, src, dst, record)


def make_bad_value(reason: str, property_: PropertySpec) -> RowProblem:
    """Build the problem of a value that does not fit its property."""
    reason = f"property '{property_.name}': {reason}"
    return RowProblem(reason, ProblemCode.BAD_VALUE, property=property_.name)


def make_missing_value(property_: PropertySpec) -> RowProblem:
    """Build the problem of a null or omitted value of a required property."""
    return RowProblem(
        explain_required(property_.name), ProblemCode.REQUIRED, property=property_.name
    )


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
    """Decode the members of a record one by one."""
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
        _find_value_problem(value, property_, partial=partial)
        for value, property_ in zip(values, spec.properties, strict=True)
    ]
    problems = [problem for problem in checked if problem]
    if problems:
        raise LineRefused(problems)
    return type.record(id, *values)


def _list_allowed(spec: TypeSpec) -> frozenset[str]:
    return frozenset(p.name for p in spec.properties) | {"id"}


def _find_value_problem(
    value: object, property_: PropertySpec, *, partial: bool
) -> RowProblem | None:
    if value is UNSET and (partial or property_.has_default):
        return None
    if property_.is_made and (value is UNSET or value is None):
        return None
    if value is UNSET or value is None:
        return None if property_.type.nullable else make_missing_value(property_)
    try:
        convert_value(value, property_.type)
    except ValueRefused as refused:
        return make_bad_value(refused.reason, property_)
    return None
