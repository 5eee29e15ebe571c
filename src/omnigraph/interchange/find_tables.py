"""Find tables in files, folders, buckets and data frames, and read each by its format."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path

from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.interchange.read_kuzu import (
    export_kuzu_database,
    is_kuzu_database,
    is_kuzu_export,
    read_kuzu_export,
)
from omnigraph.interchange.read_neo4j import is_neo4j_header, read_neo4j_csv
from omnigraph.interchange.read_records import read_graphml, read_json_lines
from omnigraph.interchange.source_tables import (
    Delimited,
    SourceGraph,
    SourceTable,
    find_delimiter,
    open_arrow,
    open_frame,
    open_parquet,
)
from omnigraph.pipeline.input_splits import list_bucket_files, open_filesystem, store_path
from omnigraph.settings import AwsSettings, Settings

BUCKETS = "s3://"


@dataclass(frozen=True, slots=True)
class Fetched:
    """Local copies of the files that an address of a bucket names."""

    paths: tuple[Path, ...]
    folder: str

    def rename(self, found: SourceGraph) -> SourceGraph:
        """Return the tables with the addresses they came from as origins."""
        tables = (replace(one, origin=self.name_address(one.origin)) for one in found.tables)
        return SourceGraph(tuple(tables), tuple(map(self.name_address, found.lost)))

    def name_address(self, text: str) -> str:
        return text.replace(f"{self.folder}/", BUCKETS)


@contextmanager
def fetch_files(uri: str, aws: AwsSettings) -> Iterator[Fetched]:
    """A file, a folder or a pattern of a bucket; mistakes in its files name their addresses.

    Raises:
        BadRequest: there is no such file, or it cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="omnigraph-fetch-") as name:
        folder = Path(name).resolve()
        try:
            addresses = list_bucket_files(uri, aws)
            local = [_fetch(address, folder, aws) for address in addresses]
        except OSError as error:
            raise BadRequest(f"cannot read {uri}: {error.strerror or error}") from error
        if not has_magic(uri):
            local = [folder / store_path(uri)]
        fetched = Fetched(tuple(local), str(folder))
        try:
            yield fetched
        except BadRequest as refused:
            told = fetched.name_address(refused.message)
            if told == refused.message:
                raise
            raise BadRequest(told) from refused


def _fetch(address: str, folder: Path, aws: AwsSettings) -> Path:
    import pyarrow.fs as fs  # noqa: PLC0415 - only for data in a bucket

    target = folder / store_path(address)
    if not target.resolve().is_relative_to(folder):
        raise BadRequest(f"{address}: a name with '..' cannot be fetched")
    target.parent.mkdir(parents=True, exist_ok=True)
    store = open_filesystem(address, aws)
    fs.copy_files(store_path(address), str(target), store, fs.LocalFileSystem())
    return target


Sources = str | Path | Sequence[str | Path] | Mapping[str, object]
"""Files and folders, or tables and data frames by the names of their types."""

_TEXT = (".csv", ".tsv", ".tab", ".txt")
_JSON = (".jsonl", ".ndjson", ".json")
_ARROW = (".arrow", ".ipc", ".feather")
_KNOWN = (*_TEXT, *_JSON, *_ARROW, ".parquet", ".graphml")
_COMPRESSED = (".gz", ".zst")
_HEADER = re.compile(r"[-_]?headers?$", re.IGNORECASE)
_PART = re.compile(r"([-_.]?(?:part)?[-_.]?\d+)+$", re.IGNORECASE)
_EXPORTED = {"nodes": EntityKind.NODE, "edges": EntityKind.EDGE}


@contextmanager
def open_sources(
    sources: Sources, delimiter: str | None = None, settings: Settings | None = None
) -> Iterator[SourceGraph]:
    """All tables of the sources, to be read until the end of the block.

    Those in buckets are fetched first, as the settings say; by default, as the environment says.

    Raises:
        BadRequest: there is no such file, or it cannot be read.
        MissingPackage: only a package that is not installed can read it.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise BadRequest(f"a delimiter is one character, not '{delimiter}'")
    if isinstance(sources, Mapping):
        tables = tuple(open_frame(str(name), frame) for name, frame in sources.items())
        yield SourceGraph(tuple(replace(one, is_named_exactly=True) for one in tables))
        return
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    with ExitStack() as open_exports:
        graph = SourceGraph(())
        for path in map(str, given):
            if path.startswith(BUCKETS):
                chosen = settings or Settings.from_environment(os.environ)
                fetched = open_exports.enter_context(fetch_files(path, chosen.aws))
                found = _read_paths(fetched.paths, delimiter, open_exports)
                graph = graph.join(fetched.rename(found))
            else:
                graph = graph.join(_read_paths(_expand(path), delimiter, open_exports))
        if not graph.tables:
            raise BadRequest(f"no data found in {', '.join(map(str, given))}")
        yield graph


def _expand(path: str) -> list[Path]:
    if "://" in path and not path.startswith("file://"):
        raise BadRequest(
            f"{path}: schemas are inferred, and graphs imported, from files and s3:// addresses; "
            "download it first"
        )
    file = Path(path.removeprefix("file://"))
    if file.exists():
        return [file]
    found = sorted(glob(path, recursive=True)) if has_magic(path) else []  # noqa: PTH207
    if not found:
        raise BadRequest(f"cannot read {path}: no such file or folder")
    return [Path(one) for one in found]


def _read_paths(
    paths: Iterable[Path], delimiter: str | None, open_exports: ExitStack
) -> SourceGraph:
    graph = SourceGraph(())
    for path in paths:
        graph = graph.join(_read_path(path, delimiter, open_exports))
    return graph


def _read_path(path: Path, delimiter: str | None, open_exports: ExitStack) -> SourceGraph:
    if is_kuzu_database(path):
        return read_kuzu_export(open_exports.enter_context(export_kuzu_database(path)))
    if not path.is_dir():
        return _read_file(path, delimiter, ())
    if is_kuzu_export(path):
        return read_kuzu_export(path)
    files = sorted(one for one in path.rglob("*") if _is_data(one, path))
    headers = [one for one in files if _HEADER.search(_find_stem(one))]
    graph = SourceGraph(())
    for file in files:
        if file not in headers or _count_lines(file) > 1:
            graph = graph.join(_read_file(file, delimiter, headers))
    return graph


def _is_data(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder).parts
    if not path.is_file() or any(part.startswith((".", "_")) for part in inside):
        return False
    return _find_suffix(path) in _KNOWN


def _find_suffix(path: Path) -> str:
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def _find_stem(path: Path) -> str:
    name = path.name
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return Path(name).stem


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in zip(file, range(2), strict=False))


def _read_file(path: Path, delimiter: str | None, headers: Iterable[Path]) -> SourceGraph:
    suffix, stem = _find_suffix(path), _find_name(path)
    if suffix == ".graphml" or (suffix == ".xml" and b"<graphml" in _read_start(path)):
        return read_graphml(path)
    if suffix in _JSON:
        return read_json_lines(path, stem)
    if suffix == ".parquet":
        return _recognize_export(open_parquet(path, stem), path)
    if suffix in _ARROW:
        return _recognize_export(open_arrow(path, stem), path)
    if suffix in _TEXT:
        return _read_delimited(path, stem, delimiter, headers)
    raise BadRequest(
        f"{path}: '{suffix or path.name}' is not a supported format; use one of "
        f"{', '.join(one.removeprefix('.') for one in _KNOWN)}"
    )


def _read_start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _find_name(path: Path) -> str:
    """The name of the type: that of the file, or of its folder where it is one part of many."""
    stem = _find_stem(path)
    if path.parent.parent.name in _EXPORTED or stem.lower().startswith("part-"):
        return path.parent.name
    shorter = _PART.sub("", stem)
    siblings = [one for one in path.parent.glob(f"{shorter}*") if one != path] if shorter else []
    is_part = any(_PART.sub("", _find_stem(one)) == shorter for one in siblings)
    return shorter if is_part and shorter != stem else stem


def _recognize_export(table: SourceTable, path: Path) -> SourceGraph:
    """A file in a folder as `omnigraph export` writes it: its kind and type are known."""
    kind = _EXPORTED.get(path.parent.parent.name)
    if kind is None:
        return SourceGraph((table,))
    ends = ("from", "to") if kind is EntityKind.EDGE else None
    return SourceGraph((replace(table, kind=kind, ends=ends, is_named_exactly=True),))


def _read_delimited(
    path: Path, stem: str, delimiter: str | None, headers: Iterable[Path]
) -> SourceGraph:
    file = Delimited(path, find_delimiter(path, delimiter))
    header = _find_header(path, headers)
    names = Delimited(header, file.delimiter).read_names() if header else file.read_names()
    if header is not None:
        file = replace(file, names=tuple(names), has_header=False)
    if is_neo4j_header(names):
        return read_neo4j_csv(file, names, stem)
    table = SourceTable(name=stem, origin=str(path), read=file.read, has_text_values=True)
    return _recognize_export(table, path)


def _find_header(path: Path, headers: Iterable[Path]) -> Path | None:
    """The file that holds the header of this one, as Neo4j's import tool has it."""
    for header in headers:
        prefix = _HEADER.sub("", _find_stem(header))
        if header.parent == path.parent and _find_stem(path).startswith(prefix):
            return header
    return None
