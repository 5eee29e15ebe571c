"""Read files for Neo4j's import tool, whose headers declare the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.identity import EntityKind
from omnigraph.interchange.source_tables import Delimited, SourceGraph, SourceTable
from omnigraph.types.property import PropertyType, Scalar

_FIELD = re.compile(r"([^:]*)(?::([A-Za-z_]+)(\[\])?)?(?:\(([^)]*)\))?(?:\{.*\})?")
_ROLES = frozenset({"ID", "START_ID", "END_ID", "LABEL", "TYPE"})
_TYPES: Mapping[str, Scalar] = {
    "int": Scalar.I64,
    "long": Scalar.I64,
    "short": Scalar.I64,
    "byte": Scalar.I64,
    "float": Scalar.F64,
    "double": Scalar.F64,
    "boolean": Scalar.BOOL,
    "string": Scalar.STRING,
    "char": Scalar.STRING,
    "date": Scalar.DATE,
    "datetime": Scalar.DATETIME,
    "localdatetime": Scalar.DATETIME,
}
_LISTED = ";"
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
LABELS = "labels"
"""The property that keeps the labels of nodes with more than one."""


@dataclass(frozen=True, slots=True)
class _HeaderField:
    """One column, as its header describes it."""

    column: str
    name: str
    role: str | None = None
    declared: str | None = None
    is_list: bool = False
    group: str | None = None


def is_neo4j_header(names: Sequence[str]) -> bool:
    """Return whether these are headers of Neo4j's."""
    if "_id" in names and "_labels" in names and "_type" in names:
        return True
    return any(_parse_field(name).role is not None for name in names)


def read_neo4j_csv(file: Delimited, names: Sequence[str], stem: str) -> SourceGraph:
    """The tables of one file: one for each label or type of relationship."""
    is_apoc = "_labels" in names
    fields = [_read_apoc_field(one) if is_apoc else _parse_field(one) for one in names]
    by_role = {one.role: one for one in fields if one.role is not None}
    lost = [
        f"{one.name} of {file.path.name}: the type {one.declared} of Neo4j; values are kept as text"
        for one in fields
        if one.declared is not None and one.declared not in {*_TYPES, "ignore"}
    ]
    tables: list[SourceTable] = []
    if "ID" in by_role:
        tables += _split(_Part(file, tuple(fields), "LABEL", stem, is_apoc))
    if "START_ID" in by_role:
        tables += _split(_Part(file, tuple(fields), "TYPE", stem, is_apoc))
    return SourceGraph(tuple(tables), tuple(lost))


def _parse_field(header: str) -> _HeaderField:
    found = _FIELD.fullmatch(header.strip())
    if found is None:
        return _HeaderField(header, header)
    name, declared, listed, group = found.groups()
    if declared is not None and declared.upper() in _ROLES:
        return _HeaderField(header, name, declared.upper(), group=group)
    if declared is None:
        return _HeaderField(header, name or header)
    return _HeaderField(header, name, None, declared.lower(), listed is not None)


def _read_apoc_field(header: str) -> _HeaderField:
    return _HeaderField(
        header, header, _APOC.get(header), group="apoc" if header in _APOC else None
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """The nodes or the relationships of a file."""

    file: Delimited
    fields: tuple[_HeaderField, ...]
    role: str
    """Of the column that names the type."""
    stem: str
    is_apoc: bool

    @property
    def is_node(self) -> bool:
        return self.role == "LABEL"

    def find(self, role: str) -> _HeaderField | None:
        return next((one for one in self.fields if one.role == role), None)

    def list_names(self, batch: pa.RecordBatch) -> pa.Array:
        """The label or the type of each row."""
        named = self.find(self.role)
        if named is None:
            return pa.array([self.stem] * batch.num_rows, pa.string())
        texts = batch.column(named.column)
        if not self.is_node:
            return texts
        first = pc.list_element(self._split_labels(texts), 0)
        is_missing = pc.or_kleene(pc.is_null(first), pc.equal(first, ""))
        if self.is_apoc:  # rows without labels are relationships, or nodes that have none
            has_id = pc.is_valid(batch.column("_id"))
            return pc.if_else(is_missing, pc.if_else(has_id, self.stem, None), first)
        return pc.if_else(is_missing, self.stem, first)

    def _split_labels(self, texts: pa.Array) -> pa.Array:
        sign = ":" if self.is_apoc else _LISTED
        return pc.split_pattern(pc.utf8_trim(texts, characters=f": {_LISTED}"), sign)

    def read_rows(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of one type, with the columns that describe them."""
        labels = self.find("LABEL")
        for batch in self.file.read():
            rows = batch.filter(pc.equal(self.list_names(batch), name))
            columns: dict[str, pa.Array] = {}
            for one in self.fields:
                column = rows.column(one.column)
                if one.role is None and one.declared != "ignore":
                    columns[one.name] = _split_lists(column, one)
                elif one.role is not None and one.role in self._structure:
                    columns[self._structure[one.role]] = column
            if self.is_node and labels is not None:
                several = self._split_labels(rows.column(labels.column))
                count = pc.list_value_length(several)
                columns[LABELS] = pc.if_else(pc.greater(count, 1), several, None)
            if rows.num_rows or not columns:
                yield pa.record_batch(columns)

    @property
    def _structure(self) -> Mapping[str, str]:
        if self.is_node:
            id_field = self.find("ID")
            assert id_field is not None, "nodes have ids"
            has_name = bool(id_field.name) and not self.is_apoc
            return {"ID": id_field.name if has_name else ":id"}
        return {"START_ID": ":from", "END_ID": ":to"}


def _split_lists(column: pa.Array, field: _HeaderField) -> pa.Array:
    if not field.is_list:
        return column
    lists = pc.split_pattern(column, _LISTED)
    scalar = _TYPES.get(field.declared or "string", Scalar.STRING)
    kinds = {Scalar.I64: pa.int64(), Scalar.F64: pa.float64(), Scalar.BOOL: pa.bool_()}
    return lists.cast(pa.list_(kinds.get(scalar, pa.string())))


def _split(part: _Part) -> list[SourceTable]:
    """One table for each name that is in the column of labels or types."""
    names: dict[str, None] = {}
    has_labels = False
    for batch in part.file.read():
        found = part.list_names(batch)
        names |= dict.fromkeys(one for one in found.unique().to_pylist() if one)
        has_labels = has_labels or _has_several(part, batch)
    return [_make_table(part, name, has_labels=has_labels) for name in names]


def _has_several(part: _Part, batch: pa.RecordBatch) -> bool:
    labels = part.find("LABEL")
    if not part.is_node or labels is None:
        return False
    counts = pc.list_value_length(part._split_labels(batch.column(labels.column)))
    return (pc.max(counts).as_py() or 0) > 1


def _make_table(part: _Part, name: str, *, has_labels: bool) -> SourceTable:
    named = part.find(part.role) is not None
    types = {
        one.name: PropertyType(_TYPES.get(one.declared, Scalar.STRING), is_list=one.is_list)
        for one in part.fields
        if one.role is None and one.declared is not None and one.declared != "ignore"
    }
    read = partial(part.read_rows, name)
    table = SourceTable(
        name=name,
        origin=str(part.file.path),
        read=read if has_labels else partial(_leave_out, read, LABELS),
        has_text_values=part.is_apoc,
        kind=EntityKind.NODE if part.is_node else EntityKind.EDGE,
        types=types,
        is_sparse=named,
        is_named_exactly=named,
    )
    if part.is_node:
        id_field = part.find("ID")
        assert id_field is not None, "nodes have ids"
        return replace(table, key=part._structure["ID"], group=id_field.group or "")
    start, end = part.find("START_ID"), part.find("END_ID")
    groups = tuple("" if one is None else one.group or "" for one in (start, end))
    return replace(table, ends=(":from", ":to"), end_groups=(groups[0], groups[1]))


def _leave_out(read: partial[Iterator[pa.RecordBatch]], name: str) -> Iterator[pa.RecordBatch]:
    for batch in read():
        yield batch.drop_columns([name]) if name in batch.schema.names else batch
