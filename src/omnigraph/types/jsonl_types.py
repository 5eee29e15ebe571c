"""What a line of input may hold: the types, their properties, and how each is decoded.

Everything a reader needs to know of a schema is plain data here (`TypeSpec`), so that it can be
sent to another process. Decoders are made from it there, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec import UNSET, Raw, UnsetType

from omnigraph.identity import EntityKind, TableKey, make_table_key
from omnigraph.typed_reading import make_decoder
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar

NO_DATA = Raw(b"{}")
"""What a record without `data` holds: recognised by identity, since `{}` may be written out."""


@dataclass(frozen=True, slots=True)
class PropertySpec:
    """One property; with `has_default`, a line may leave it out and something later fills it."""

    name: str
    type: PropertyType
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """One node or edge type, with its properties in the order of the columns wanted."""

    name: str
    kind: EntityKind
    properties: tuple[PropertySpec, ...]

    @property
    def table_key(self) -> TableKey:
        return make_table_key(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class LineLimits:
    """How large one line may be: in bytes, and in structural characters outside strings."""

    line_bytes: int = 32 * 1024 * 1024
    structural_slots: int = 131_072


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How lines are read.

    With `partial`, any property may be left out, for a merge that keeps what is stored. With
    `with_presence`, the result says which properties each line gave, null or not. Problems
    beyond `max_problems` are counted, not kept.
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
    """One type ready to be read: `record` is the shape of `data`, absent members `UNSET`."""

    spec: TypeSpec
    record: Callable[..., msgspec.Struct]
    decode: Callable[[Raw], msgspec.Struct]
    id: Callable[[msgspec.Struct], object]
    values: tuple[Callable[[msgspec.Struct], object], ...]
    """How to take each property out of a record, in the order of the specification."""


class _EdgeNames(dict[str, RecordType]):
    """Edge types by name: exactly as declared, else ignoring case."""

    def __init__(self, types: list[RecordType]) -> None:
        super().__init__({t.spec.name: t for t in types})
        self._folded = {t.spec.name.lower(): t for t in types}

    def __missing__(self, name: str) -> RecordType:
        return self._folded[name.lower()]


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """All types that lines may be of; looking up an unknown name raises `KeyError`."""

    nodes: Mapping[str, RecordType]
    edges: Mapping[str, RecordType]


@lru_cache(maxsize=64)
def build_record_types(specs: tuple[TypeSpec, ...]) -> RecordTypes:
    """The decoders of these types, made once per process."""
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
    """The Python type the decoder must find: only the kind of JSON value, ranges come later."""
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
