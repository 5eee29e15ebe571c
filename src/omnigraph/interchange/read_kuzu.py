"""Read Kuzu's `EXPORT DATABASE`: `schema.cypher`, `copy.cypher`, and a file for each table.

    CREATE NODE TABLE `User` (`name` STRING, `age` INT64, PRIMARY KEY(`name`));
    CREATE REL TABLE `Follows` (FROM `User` TO `User`, `since` INT64, MANY_MANY);
    COPY `User` (`name`,`age`) FROM "User.csv" (header=true);

A file of relationships has the keys of both ends first, then the properties. A database itself
is exported first, by the package `kuzu`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.identity import EntityKind
from omnigraph.interchange.source_tables import Delimited, SourceGraph, SourceTable, open_parquet
from omnigraph.types.property import PropertyType, Scalar

SCHEMA = "schema.cypher"
_COPY = "copy.cypher"
_NAME = r"(?:`([^`]+)`|(\w+))"
_CREATE = re.compile(
    rf"CREATE\s+(NODE|REL)\s+TABLE\s+(?:GROUP\s+)?(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*\((.*)\)"
    r"(?:\s*WITH\s*\(.*\))?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_COPIED = re.compile(
    rf'COPY\s+{_NAME}\s*(?:\((.*?)\))?\s*FROM\s+"([^"]+)"\s*(?:\((.*)\))?\s*$',
    re.IGNORECASE | re.DOTALL,
)
_ENDS = re.compile(rf"FROM\s+{_NAME}\s+TO\s+{_NAME}(?:\s+\w+_\w+)?$", re.IGNORECASE)
_KEY = re.compile(rf"PRIMARY\s+KEY\s*\(\s*{_NAME}\s*\)", re.IGNORECASE)
_COLUMN = re.compile(rf"{_NAME}\s+(.+?)(?:\s+DEFAULT\s+.*)?$", re.IGNORECASE | re.DOTALL)
_MULTIPLICITY = re.compile(r"(?:MANY|ONE)_(?:MANY|ONE)$", re.IGNORECASE)
_LIST = re.compile(r"(.+?)\[(\d*)\]$", re.DOTALL)
_SCALARS: Mapping[str, Scalar] = {
    "STRING": Scalar.STRING,
    "UUID": Scalar.STRING,
    "BOOL": Scalar.BOOL,
    "BOOLEAN": Scalar.BOOL,
    "INT8": Scalar.I32,
    "INT16": Scalar.I32,
    "INT32": Scalar.I32,
    "INT": Scalar.I32,
    "INT64": Scalar.I64,
    "SERIAL": Scalar.I64,
    "UINT8": Scalar.U32,
    "UINT16": Scalar.U32,
    "UINT32": Scalar.U32,
    "UINT64": Scalar.U64,
    "FLOAT": Scalar.F32,
    "DOUBLE": Scalar.F64,
    "DATE": Scalar.DATE,
    "TIMESTAMP": Scalar.DATETIME,
    "TIMESTAMP_MS": Scalar.DATETIME,
    "TIMESTAMP_SEC": Scalar.DATETIME,
    "TIMESTAMP_NS": Scalar.DATETIME,
    "TIMESTAMP_TZ": Scalar.DATETIME,
    "BLOB": Scalar.BLOB,
}
_ITEMS = {
    Scalar.I32: pa.int64(),
    Scalar.I64: pa.int64(),
    Scalar.F32: pa.float64(),
    Scalar.F64: pa.float64(),
    Scalar.VECTOR: pa.float32(),
}


@dataclass(frozen=True, slots=True)
class _KuzuTable:
    """A table as the schema declares it."""

    name: str
    is_node: bool
    columns: Mapping[str, str]
    key: str | None
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A `COPY` statement: the file and columns of a table."""

    table: str
    columns: tuple[str, ...]
    file: str
    options: Mapping[str, str]


def is_kuzu_export(folder: Path) -> bool:
    return (folder / SCHEMA).is_file() and (folder / _COPY).is_file()


def is_kuzu_database(path: Path) -> bool:
    """Return whether this is a database itself: a file with its mark, or a folder of its files."""
    if path.is_dir():
        return (path / "catalog.kz").is_file() or (path / "data.kz").is_file()
    try:
        with path.open("rb") as file:
            return file.read(4) == b"KUZU"
    except OSError:
        return False


@contextmanager
def export_kuzu_database(path: Path) -> Iterator[Path]:
    """A folder with the export of a database.

    Raises:
        MissingPackage: the package `kuzu` is not installed.
    """
    if find_spec("kuzu") is None:
        raise MissingPackage("kuzu", f"reading the Kuzu database {path}", "pip install kuzu")
    import kuzu  # noqa: PLC0415 - optional

    with tempfile.TemporaryDirectory(prefix="omnigraph-kuzu-") as folder:
        target = Path(folder) / "export"
        connection = kuzu.Connection(kuzu.Database(str(path), read_only=True))
        connection.execute(f"EXPORT DATABASE '{target}' (format=\"parquet\")")
        yield target


def read_kuzu_export(folder: Path) -> SourceGraph:
    """The tables of an export."""
    lost: list[str] = []
    tables = {one.name: one for one in _read_schema(folder / SCHEMA, lost)}
    found: list[SourceTable] = []
    for copy in _read_copies(folder / _COPY):
        table = tables.get(copy.table)
        if table is None:
            raise BadRequest(f"{folder / _COPY} copies '{copy.table}', which {SCHEMA} lacks")
        found.append(_open_copied(folder, table, copy, lost))
    return SourceGraph(tuple(found), tuple(lost))


def _read_statements(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {path}: {error}") from error
    parts = re.findall(r"""(?:[^;"'`]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)+""", text)
    return [part.strip() for part in parts if part.strip()]


def _read_schema(path: Path, lost: list[str]) -> Iterator[_KuzuTable]:
    for statement in _read_statements(path):
        found = _CREATE.match(statement)
        if found is None:
            lost.append(f"{path.name}: {' '.join(statement.split())[:100]}")
            continue
        kind, quoted, plain, body = found.groups()
        columns: dict[str, str] = {}
        key = None
        pairs: list[tuple[str, str]] = []
        for part in _split_list(body):
            if primary := _KEY.fullmatch(part):
                key = primary[1] or primary[2]
            elif ends := _ENDS.fullmatch(part):
                pairs.append((ends[1] or ends[2], ends[3] or ends[4]))
            elif _MULTIPLICITY.fullmatch(part):
                if not part.upper().endswith("MANY_MANY"):
                    name = quoted or plain
                    lost.append(f"{name}: the multiplicity {part.upper()} is not carried over")
            elif column := _COLUMN.fullmatch(part):
                columns[column[1] or column[2]] = column[3].strip()
        yield _KuzuTable(quoted or plain, kind.upper() == "NODE", columns, key, tuple(pairs))


def _split_list(text: str) -> list[str]:
    """The parts between commas that are in no brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for offset, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:offset].strip())
            start = offset + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _read_copies(path: Path) -> Iterator[_Copy]:
    for statement in _read_statements(path):
        found = _COPIED.match(statement)
        if found is None:
            continue
        quoted, plain, columns, file, options = found.groups()
        names = tuple(one.strip("` ") for one in _split_list(columns or ""))
        read = {}
        for option in _split_list(options or ""):
            name, _, value = option.partition("=")
            read[name.strip().lower()] = value.strip().strip("'\"")
        yield _Copy(quoted or plain, names, file, read)


def _open_copied(folder: Path, table: _KuzuTable, copy: _Copy, lost: list[str]) -> SourceTable:
    path = folder / Path(copy.file).name
    if not path.is_file():
        raise BadRequest(f"{folder / _COPY} names {copy.file}, which is not there")
    columns = copy.columns or tuple(table.columns)
    names = columns if table.is_node else (":from", ":to", *columns)
    kept = {}
    for name in columns:
        wanted = _find_type(table.columns.get(name, ""))
        if wanted is None:
            shown = table.columns.get(name, "unknown")
            lost.append(f"{table.name}.{name}: Kuzu's type {shown} has no counterpart")
        else:
            kept[name] = wanted
    taken = [*((":from", ":to") if not table.is_node else ()), *kept]
    pair = _find_pair(table, copy)
    return SourceTable(
        name=table.name,
        origin=str(path),
        read=lambda: _read_columns(path, copy, names, taken, kept),
        kind=EntityKind.NODE if table.is_node else EntityKind.EDGE,
        key=table.key,
        ends=None if table.is_node else (":from", ":to"),
        group=table.name if table.is_node else None,
        end_groups=pair,
        types=kept,
        is_named_exactly=True,
    )


def _find_pair(table: _KuzuTable, copy: _Copy) -> tuple[str | None, str | None]:
    if "from" in copy.options and "to" in copy.options:
        return copy.options["from"], copy.options["to"]
    if len(table.pairs) == 1:
        return table.pairs[0]
    for source, target in table.pairs:
        if Path(copy.file).stem == f"{table.name}_{source}_{target}":
            return source, target
    return None, None


def _find_type(text: str) -> PropertyType | None:
    """The type of a property that holds what a column of Kuzu's holds."""
    text = text.strip()
    listed = _LIST.fullmatch(text)
    if listed is None:
        scalar = _SCALARS.get(text.upper())
        return None if scalar is None else PropertyType(scalar)
    item, size = _find_type(listed[1]), listed[2]
    if item is None or item.is_list or item.is_vector or item.is_blob:
        return None
    if size and item.scalar in (Scalar.F32, Scalar.F64):
        return PropertyType(Scalar.VECTOR, dimension=int(size))
    return PropertyType(item.scalar, is_list=True)


def _read_columns(
    path: Path,
    copy: _Copy,
    names: tuple[str, ...],
    taken: list[str],
    types: Mapping[str, PropertyType],
) -> Iterator[pa.RecordBatch]:
    """The columns of a file by position, under the names of the schema."""
    if path.suffix.lower() == ".parquet":
        batches = iter(open_parquet(path, path.stem).read())
    else:
        escape = copy.options.get("escape", "\\").replace("\\\\", "\\")
        quote = copy.options.get("quote", '"').replace("\\", "") or '"'
        batches = Delimited(
            path,
            copy.options.get("delim", copy.options.get("delimiter", ",")).replace("\\t", "\t"),
            names=names,
            quote=quote,
            escape=None if escape in (quote, "") else escape,
            has_header=copy.options.get("header", "false").lower() == "true",
        ).read()
    for batch in batches:
        if batch.num_columns != len(names):
            raise BadRequest(f"{path} has {batch.num_columns} columns, expected {len(names)}")
        by_name = dict(zip(names, batch.columns, strict=True))
        yield pa.record_batch(
            {name: _split_array(by_name[name], types.get(name)) for name in taken}
        )


def _split_array(column: pa.Array, wanted: PropertyType | None) -> pa.Array:
    """Lists that are written as text: `[a,b]`, without quotes."""
    if wanted is None or not (wanted.is_list or wanted.is_vector):
        return column
    if not pa.types.is_string(column.type):
        return column
    inside = pc.utf8_trim(column, characters="[] ")
    lists = pc.if_else(pc.equal(inside, ""), pa.scalar([], pa.list_(pa.string())), _split(inside))
    return lists.cast(pa.list_(_ITEMS.get(wanted.scalar, pa.string())))


def _split(texts: pa.Array) -> pa.Array:
    parts = pc.split_pattern(texts, ",")
    flat = pc.utf8_trim_whitespace(parts.flatten())
    offsets = parts.offsets
    return pa.ListArray.from_arrays(offsets, flat, mask=parts.is_null())
