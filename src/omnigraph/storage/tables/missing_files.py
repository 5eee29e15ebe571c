"""List the files a version or a staged transaction refers to, and find those that are missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from lance import LanceOperation
from lance.blob import BlobType
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata

from omnigraph.storage.tables.file_probes import is_version
from omnigraph.storage.tables.fragments import get_blob_files
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table import Table


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Files by path below the root of the table, of any branch."""

    files: frozenset[str]
    folders: frozenset[str]
    """Folders of which every file belongs to the version."""


def list_referred_files(table: Table) -> TableFiles:
    """List the files that the version refers to, except its own."""
    homes = _map_homes(table)
    files: set[str] = set()
    folders: set[str] = set()
    has_blobs = _has_blobs(table.schema)
    with translate_errors(f"listing the files of {table!r}"):
        for fragment in (native.metadata for native in table.native.get_fragments()):
            for file in fragment.files:
                path = f"{homes[file.base_id]}data/{file.path}"
                files.add(path)
                if has_blobs:
                    folders.add(path.rpartition(".")[0])
            deletions = fragment.deletion_file
            if deletions is not None:
                files.add(f"{homes[deletions.base_id]}{deletions.path(fragment.id)}")
        for index in table.native.describe_indices():
            for segment in index.segments:
                folders.add(f"{homes[segment.base_id]}_indices/{segment.uuid}")
    return TableFiles(frozenset(files), frozenset(folders))


def _map_homes(table: Table) -> Mapping[int | None, str]:
    """Map base ids to path prefixes: of the branch itself, and of those it shares files with."""
    location = table.location
    own = "" if location.branch is None else f"tree/{location.branch}/"
    homes: dict[int | None, str] = {None: own}
    for number, base in table.native.base_paths().items():
        below = base.path.removeprefix(location.uri).strip("/")
        homes[number] = f"{below}/" if below else ""
    return homes


def _has_blobs(schema: pa.Schema) -> bool:
    return any(isinstance(field.type, BlobType) for field in schema)


_FEW = 8
"""Up to this many files are checked one by one on an object store; for more, folders are listed."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that a version of a table names and that is not there."""

    folder: str
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"


def find_missing_staged(staged: StagedTransaction) -> str | None:
    """Return the first missing file that a staged transaction needs; None if all exist."""
    location = staged.location
    if location.branch is not None and not is_version(location, staged.read_version):
        return f"version {staged.read_version} of branch {location.branch}"
    missing = _find_missing(location, list(list_staged_files(staged)))
    return missing[0] if missing else None


def list_staged_paths(staged: StagedTransaction, *, is_fork: bool) -> Iterator[str]:
    """List the files a transaction adds, relative to the root of the table.

    Includes the fork it is on, if that was created for it. A fork that the graph already shows is
    not staged: a cleanup that listed it during its creation may still hold it as a candidate.
    """
    home = "" if staged.location.branch is None else f"tree/{staged.location.branch}"
    if is_fork:
        yield home
    for name in list_staged_files(staged):
        yield f"{home}/{name}" if home else name


def list_staged_files(staged: StagedTransaction) -> Iterator[str]:
    """The files a transaction brings in, besides those its base has already."""
    match staged.native.operation:
        case LanceOperation.Update(new_fragments=added, updated_fragments=changed):
            yield from _list_own_files(added)
            yield from _list_own_deletions(changed)
        case LanceOperation.Overwrite(fragments=added):
            yield from _list_own_files(added)
        case LanceOperation.Rewrite(groups=groups):
            for group in groups:
                yield from _list_own_files(group.new_fragments)
        case LanceOperation.Merge(fragments=changed):
            yield from _list_added_files(staged, changed)
        case _:
            return  # settings and indexes: a missing index is rebuilt


def _list_added_files(
    staged: StagedTransaction, fragments: Iterable[FragmentMetadata]
) -> Iterator[str]:
    """The files of these fragments that the base does not have."""
    assert staged.base is not None, "columns are added to a table that is there"
    with translate_errors(f"listing the files of {staged.base!r}"):
        known = {
            file.path
            for fragment in staged.base.native.get_fragments()
            for file in fragment.metadata.files
        }
    for name in _list_own_files(fragments):
        if name.removeprefix("data/") not in known:
            yield name


def find_missing(tables: Iterable[Table]) -> list[MissingFile]:
    """Every file these versions name that is not there; each folder is listed once."""
    listed: dict[str, set[str]] = {}
    missing: dict[MissingFile, None] = {}
    for table in tables:
        for location, name in _list_named_files(table):
            folder = location.native_uri
            if folder not in listed:
                listed[folder] = _list_files(location)
            if name not in listed[folder]:
                missing[MissingFile(folder, name, table.version)] = None
    return list(missing)


def _list_named_files(table: Table) -> Iterator[tuple[TableLocation, str]]:
    with translate_errors(f"listing the files of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
        bases: dict[int | None, TableLocation] = {
            id: _find_base_location(table, base.path)
            for id, base in table.native.base_paths().items()
        }
    for fragment in fragments:
        for file in fragment.files:
            yield bases.get(file.base_id, table.location), f"data/{file.path}"
        deletions = fragment.deletion_file
        if deletions is not None:
            yield bases.get(deletions.base_id, table.location), deletions.path(fragment.id)


def _find_base_location(table: Table, path: str) -> TableLocation:
    """Return the branch that a base path names; it must be of the same table."""
    parent, _, name = path.rstrip("/").rpartition("/")
    return table.location.on_branch(name if parent.endswith("/tree") else None)


def _list_own_files(fragments: Iterable[FragmentMetadata]) -> Iterator[str]:
    for fragment in fragments:
        yield from (f"data/{file.path}" for file in fragment.files if file.base_id is None)
        yield from get_blob_files(fragment)


def _list_own_deletions(fragments: Iterable[FragmentMetadata]) -> Iterator[str]:
    for fragment in fragments:
        file = fragment.deletion_file
        if file is not None and file.base_id is None:
            yield file.path(fragment.id)


def _find_missing(location: TableLocation, names: list[str]) -> list[str]:
    folder = location.local_folder
    if folder is not None:
        return [name for name in names if not os.path.lexists(f"{folder}/{name}")]
    if len(names) > _FEW:
        there = _list_files(location)
        return [name for name in names if name not in there]
    files = LanceFileSession(location.native_uri, storage_options=location.native_options)
    with translate_errors(f"checking files of {location}"):
        return [name for name in names if not files.contains(name)]


def _list_files(location: TableLocation) -> set[str]:
    """The data and deletion files in the folder of a branch."""
    files = LanceFileSession(location.native_uri, storage_options=location.native_options)
    with translate_errors(f"listing the files of {location}"):
        return {str(name) for part in ("data", "_deletions") for name in files.list(part)}
