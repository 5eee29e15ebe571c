"""Plan the input of a load: its files, their formats, and the splits that tasks read alone.

A file of JSON lines is cut every few mebibytes; a line belongs to the piece it starts in. A
Parquet file is cut between row groups. Compressed files and CSV are read from the start to the
end by one task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadOptions, BadRequest, TypeNotFound
from omnigraph.execution.load_options import LoadOptions
from omnigraph.settings import AwsSettings
from omnigraph.types.row_problems import describe_closest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

SPLIT_BYTES = 32 << 20
_S3 = "s3://"
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_PACKED = 4
_PACKED_ENDS = (*_COMPRESSIONS, ".parquet")
"""Suffixes of files about a quarter of the size of their rows as plain records."""
_TYPE = "--type (in Python: type=…)"
_GIVE_TYPE = f"give {_TYPE}"
_ENDS = {"from": "src", "to": "dst", "src": "src", "dst": "dst"}


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files, folders and patterns."""

    paths: tuple[str | Path, ...]
    name: str | None = ""
    """Name of the input in reports; empty if its files have names."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table in memory."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A Spark data frame."""

    frame: DataFrame


class Format(StrEnum):
    JSONL = "jsonl"
    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"


_FORMATS = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
}
_DELIMITED = frozenset({Format.CSV, Format.TSV})


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Type of the rows of a table, and the columns that hold its properties.

    `columns` maps `id`, `src`, `dst` and property names to column names.
    """

    table_key: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """Other columns are matched to the property of their own name."""
    selected: tuple[str, ...] = ()
    """Read only these and the named columns; without any, every column must be known."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file: its name in reports, its location, and its format."""

    name: str
    path: str
    size: int
    format: Format
    compression: str | None = None
    mapping: ColumnMapping | None = None


@dataclass(frozen=True, slots=True)
class InputSplit:
    """A piece of a file; for Parquet `start` and `end` count row groups, else bytes."""

    number: int
    file: InputFile
    start: int
    end: int


def plan_inputs(
    paths: Iterable[str | Path],
    options: LoadOptions,
    catalog: Catalog,
    aws: AwsSettings,
    split_bytes: int = SPLIT_BYTES,
) -> list[InputSplit]:
    """Return the pieces of the files that paths, folders and patterns name, in their order."""
    files: list[InputFile] = []
    for path in paths:
        for found in _expand_path(str(path), aws):
            files.append(_describe_input_file(found, str(path), options, catalog, aws))
    if not files:
        raise BadRequest("no input was given")
    splits: list[InputSplit] = []
    for file in files:
        for start, end in _split_pieces(file, split_bytes, aws):
            splits.append(InputSplit(len(splits), file, start, end))
    return splits


def build_table_mapping(
    catalog: Catalog,
    type_name: str | None,
    columns: Mapping[str, str],
    selected: Sequence[str] = (),
) -> ColumnMapping | None:
    """Map the columns of a table to a type; None for records, which name their types."""
    if type_name is None:
        if columns or selected:
            raise BadOptions(f"columns can only be named with the type of the rows; {_GIVE_TYPE}")
        return None
    type_ = find_type(catalog, type_name)
    named = {_ENDS.get(name, name): column for name, column in columns.items()}
    allowed = {p.name for p in type_.properties} | {"id"}
    if isinstance(type_, EdgeType):
        allowed |= {"src", "dst"}
    for name in named:
        if name not in allowed:
            hint = describe_closest(name, frozenset(allowed))
            raise BadRequest(f"{type_.name} has no property '{name}'{hint}")
    return ColumnMapping(type_.table_key, named, tuple(selected))


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """Find a type by name, or by table key where a node and an edge share the name."""
    found = catalog.by_table_key.get(name) if ":" in name else None  # type: ignore[call-overload]
    type_: NodeType | EdgeType | None = found or catalog.nodes.get(name) or catalog.find_edge(name)
    if type_ is None:
        known = frozenset(one.name for one in catalog.by_table_key.values())
        hint = describe_closest(name, known)
        raise TypeNotFound(name, f"the schema has no type '{name}'{hint}")
    return type_


def _describe_input_file(
    found: str, given: str, options: LoadOptions, catalog: Catalog, aws: AwsSettings
) -> InputFile:
    stem, compression = found, None
    for suffix, name in _COMPRESSIONS.items():
        if found.endswith(suffix):
            stem, compression = found.removesuffix(suffix), name
    format = _find_format(stem, options.format)
    type_name = options.type or _find_folder_type(found, catalog, format)
    mapping = build_table_mapping(catalog, type_name, options.columns, options.select)
    if format is not Format.JSONL and mapping is None:
        raise BadOptions(f"{given} holds columns; say which type its rows are of: {_GIVE_TYPE}")
    if format is Format.JSONL and options.type is not None:
        raise BadOptions(f"{given} holds records, which say their types; leave out {_TYPE}")
    size = get_file_size(found, aws)
    return InputFile(found, found, size, format, compression, mapping)


def _find_format(stem: str, given: str | None) -> Format:
    if given is not None:
        try:
            return Format(given)
        except ValueError:
            raise BadRequest(f"format '{given}' is not one of {', '.join(Format)}") from None
    return _FORMATS.get(Path(stem).suffix.lower(), Format.JSONL)


def _find_folder_type(found: str, catalog: Catalog, format: Format) -> str | None:
    """Find the type of a file by its folder, as in the layout of an export."""
    if format is Format.JSONL:
        return None
    folder, kind = Path(found).parent.name, Path(found).parent.parent.name
    known = catalog.nodes if kind == "nodes" else catalog.edges if kind == "edges" else {}
    return f"{kind[:-1]}:{folder}" if folder in known else None


def _expand_path(path: str, aws: AwsSettings) -> list[str]:
    if path.startswith(_S3):
        return list_bucket_files(path, aws)
    local = path.removeprefix("file://")
    if has_magic(local) and not Path(local).exists():
        names = glob(local, recursive=True)  # noqa: PTH207 - a pattern may start at the root
        found = sorted(name for name in names if Path(name).is_file())
        if not found:
            raise BadRequest(f"no file matches {path}")
        return found
    if Path(local).is_dir():
        inside = sorted(str(p) for p in Path(local).rglob("*") if _is_data(p))
        if not inside:
            raise BadRequest(f"no files in {path}")
        return inside
    return [local]


def _is_data(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((".", "_"))


def list_bucket_files(uri: str, aws: AwsSettings) -> list[str]:
    """List the files that an address or a pattern of a bucket names.

    Raises:
        BadRequest: there is none.
    """
    import pyarrow.fs as fs  # noqa: PLC0415 - only for input on an object store

    path, store = uri.removeprefix(_S3), open_filesystem(uri, aws)
    pattern = has_magic(path)
    base = path.split("*")[0].rpartition("/")[0] if pattern else path
    if not pattern and store.get_file_info(path).type is fs.FileType.File:
        return [uri]
    listed = store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = [info.path for info in listed if info.type is fs.FileType.File]
    names = [name for name in files if not name.rpartition("/")[2].startswith((".", "_"))]
    chosen = [name for name in names if not pattern or Path(name).match(path)]
    if not chosen:
        raise BadRequest(f"no file matches {uri}")
    return [_S3 + name for name in sorted(chosen)]


def measure_files(paths: Iterable[str | Path], aws: AwsSettings) -> int:
    """Estimate the bytes of plain records in files."""
    found = [name for path in paths for name in _expand_path(str(path), aws)]
    return sum(
        get_file_size(name, aws) * (_PACKED if name.endswith(_PACKED_ENDS) else 1) for name in found
    )


def identify_files(paths: Iterable[str | Path], aws: AwsSettings) -> list[tuple[str, str]]:
    """List the files that paths name, each with an identity of its content.

    That is a digest on the local disk; on an object store, where reading costs, its size and time.
    """
    found = [name for path in paths for name in _expand_path(str(path), aws)]
    return [(name, _identify_file(name, aws)) for name in found]


def _identify_file(name: str, aws: AwsSettings) -> str:
    if name.startswith(_S3):
        info = open_filesystem(name, aws).get_file_info(name.removeprefix(_S3))
        return f"{info.size}:{info.mtime_ns}"
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadRequest(f"cannot read {name}: {error.strerror or error}") from error


def open_filesystem(path: str, aws: AwsSettings) -> FileSystem:
    """Return the file system of an address: the local disk, or an object store."""
    import pyarrow.fs as fs  # noqa: PLC0415 - the driver may never read a file itself

    if not path.startswith(_S3):
        return fs.LocalFileSystem()
    endpoint = aws.endpoint or ""
    scheme, _, host = endpoint.rpartition("://")
    return fs.S3FileSystem(
        access_key=aws.access_key_id,
        secret_key=aws.secret_access_key,
        session_token=aws.session_token,
        region=aws.region or "us-east-1",
        endpoint_override=host or None,
        scheme=scheme or "https",
        force_virtual_addressing=not aws.is_path_style if host else False,
    )


def store_path(path: str) -> str:
    return path.removeprefix(_S3)


def get_file_size(path: str, aws: AwsSettings) -> int:
    try:
        if not path.startswith(_S3):
            return Path(path).stat().st_size
        return int(open_filesystem(path, aws).get_file_info(store_path(path)).size or 0)
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error


def _split_pieces(file: InputFile, split_bytes: int, aws: AwsSettings) -> Iterator[tuple[int, int]]:
    if file.format is Format.PARQUET:
        yield from _list_row_groups(file, split_bytes, aws)
    elif file.compression is not None or file.format in _DELIMITED:
        yield 0, file.size
    else:
        for start in range(0, max(file.size, 1), split_bytes):
            yield start, min(start + split_bytes, file.size)


def _list_row_groups(
    file: InputFile, split_bytes: int, aws: AwsSettings
) -> Iterator[tuple[int, int]]:
    import pyarrow as pa  # noqa: PLC0415 - only where a Parquet file is given
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with open_filesystem(file.path, aws).open_input_file(store_path(file.path)) as stream:
            metadata = pq.ParquetFile(stream).metadata
            sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {file.name} as Parquet: {error}") from error
    yield from group_by_size(sizes, split_bytes)


def group_by_size(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Group neighbours into runs as large as allowed, each of at least one item."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > most:
            yield start, index
            start, total = index, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)
