"""What one version of a table is made of, down to the files.

A part is a data file with its blob files, a list of deleted rows, a segment of an index, the file
of the version with that of its transaction, or the ref of the branch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import lance
from lance.fragment import FragmentMetadata

from omnigraph.storage.tables.checksums import Checksum, ChecksumLog, note_files
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation, is_flat_name
from omnigraph.storage.tables.probes import name_branch_file, name_version_file

_DATA_SUFFIX = ".lance"
_SHOWN_FRAGMENTS = 8


class PartKind(StrEnum):
    DATA = "data"
    DELETIONS = "deletions"
    INDEX = "index"
    VERSION = "version"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Part:
    """One file with those that go with it; of an index `name` is its folder."""

    kind: PartKind
    folder: str
    """The folder of the branch it is in, which may be the parent of the one that names it."""
    name: str
    fragments: tuple[int, ...] = ()
    rows: int = 0
    version: int = 0

    @property
    def place(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def holds(self) -> str:
        """What is in it, for people."""
        match self.kind:
            case PartKind.DATA:
                return f"the {self.rows} rows of fragment {self.fragments[0]}"
            case PartKind.DELETIONS:
                return f"which rows of fragment {self.fragments[0]} are deleted"
            case PartKind.INDEX:
                return f"an index of the {self.rows} rows of fragments {_join_ids(self.fragments)}"
            case PartKind.VERSION:
                return f"what version {self.version} with its {self.rows} rows is made of"
            case PartKind.BRANCH:
                return "where a branch of the table starts"

    def list_checksums(self, log: ChecksumLog) -> Sequence[Checksum]:
        """The checksums of its files; empty if there are none."""
        if self.kind is PartKind.VERSION:
            return log.about(self.version)
        if self.kind is PartKind.INDEX:
            return log.below(self.name)
        own = log.files.get(self.name)
        if own is None or self.kind is not PartKind.DATA:
            return [] if own is None else [own]
        return [own, *log.below(self.name.removesuffix(_DATA_SUFFIX))]


def name_owner(file: str) -> str:
    """The name of the part that a file below the folder of a branch belongs to."""
    folder, *rest = file.split("/")
    if folder == "_indices":
        return f"{folder}/{rest[0]}"
    return f"{folder}/{rest[0]}{_DATA_SUFFIX}" if folder == "data" and len(rest) > 1 else file


def version_parts(location: TableLocation, native: lance.LanceDataset) -> list[Part]:
    """Everything this version is made of."""
    folder = _folder(location)
    with translate_errors(f"listing the files of version {native.version} of {location}"):
        return list(_parts(location, native, folder))


def _parts(location: TableLocation, native: lance.LanceDataset, folder: str) -> Iterator[Part]:
    fragments = [fragment.metadata for fragment in native.get_fragments()]
    rows_of = {fragment.id: fragment.num_rows for fragment in fragments}
    version, rows = int(native.version), sum(rows_of.values())
    yield Part(PartKind.VERSION, folder, name_version_file(version), rows=rows, version=version)
    if location.branch is not None:
        yield _branch_part(location, location.branch)
    bases: dict[int | None, str] = {
        id: _base_folder(location, base.path) for id, base in native.base_paths().items()
    }
    for fragment in fragments:
        yield from _data_parts(folder, fragment, bases)
        yield from _deletion_parts(folder, fragment, bases)
    for index in native.describe_indices():
        for segment in index.segments:
            covered = tuple(sorted(set(segment.fragment_ids) & rows_of.keys()))
            base = bases.get(segment.base_id, folder)
            indexed = sum(rows_of[id] for id in covered)
            yield Part(PartKind.INDEX, base, f"_indices/{segment.uuid}", covered, indexed)


def _data_parts(
    folder: str, fragment: FragmentMetadata, bases: Mapping[int | None, str]
) -> Iterator[Part]:
    for file in fragment.files:
        base, rows = bases.get(file.base_id, folder), fragment.num_rows
        yield Part(PartKind.DATA, base, f"data/{file.path}", (fragment.id,), rows)


def _deletion_parts(
    folder: str, fragment: FragmentMetadata, bases: Mapping[int | None, str]
) -> Iterator[Part]:
    file = fragment.deletion_file
    if file is not None:
        base = bases.get(file.base_id, folder)
        yield Part(PartKind.DELETIONS, base, file.path(fragment.id), (fragment.id,))


def _branch_part(location: TableLocation, branch: str) -> Part:
    return Part(PartKind.BRANCH, _folder(location.on_branch(None)), name_branch_file(branch))


def _folder(location: TableLocation) -> str:
    return location.local_folder or location.native_uri


# --- noting checksums -----------------------------------------------------------------------------


def note_rows(
    location: TableLocation, written: Iterable[FragmentMetadata], *, may_have_blobs: bool = True
) -> None:
    """Note the data files of fragments that were just written, with their blob files."""
    folder = location.local_folder
    if folder is None:
        return
    files = [f"data/{file.path}" for one in written for file in one.files if file.base_id is None]
    if may_have_blobs:
        folders = [name.removesuffix(_DATA_SUFFIX) for name in files]
        files += [blob for name in folders for blob in _files_in(folder, name)]
    note_files(folder, files)


def note_deletions(location: TableLocation, summed: Iterable[Checksum]) -> None:
    """Note lists of deleted rows that were just written and read."""
    folder = location.local_folder
    if folder is not None:
        note_files(folder, (), known=summed)


def note_indices(location: TableLocation, uuids: Iterable[str]) -> None:
    folder = location.local_folder
    if folder is not None:
        note_files(folder, [f for uuid in uuids for f in _files_in(folder, f"_indices/{uuid}")])


def note_version(
    location: TableLocation,
    version: int,
    read_version: int,
    transaction: str,
    summed: Checksum | None = None,
) -> None:
    """Note the file of a version that was just committed, and that of its transaction.

    `summed` is the file of the version, if it was read already.
    """
    folder = location.local_folder
    if folder is None:
        return
    transaction_file = f"_transactions/{read_version}-{transaction}.txn"
    if summed is None:
        note_files(folder, (name_version_file(version), transaction_file), version)
    else:
        note_files(folder, (transaction_file,), version, known=(summed,))


def note_version_file(location: TableLocation, version: int) -> None:
    """Note the file of a version that was copied here, without its transaction."""
    folder = location.local_folder
    if folder is not None:
        note_files(folder, (name_version_file(version),), version)


def note_branch(location: TableLocation, branch: str, version: int) -> None:
    """Note the ref of a branch that was just made, and the version it starts at."""
    folder = location.on_branch(branch).local_folder
    if folder is not None:
        note_files(
            folder, [name_version_file(version), *_files_in(folder, "_transactions")], version
        )
        note_branch_ref(location, branch)


def note_branch_ref(location: TableLocation, branch: str) -> None:
    root = location.on_branch(None).local_folder
    if root is not None:
        note_files(root, [name_branch_file(branch)])


def _files_in(folder: str, name: str) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(f"{name}/{file}" for file in os.listdir(f"{folder}/{name}"))
    return []


def _base_folder(location: TableLocation, path: str) -> str:
    """The folder a base path leads to: the root of the same table, or another of its branches."""
    parent, _, name = path.rstrip("/").rpartition("/")
    branch = name if parent.endswith("/tree") and is_flat_name(name) else None
    return _folder(location.on_branch(branch))


def _join_ids(fragments: tuple[int, ...]) -> str:
    shown = ", ".join(str(id) for id in fragments[:_SHOWN_FRAGMENTS])
    more = len(fragments) - _SHOWN_FRAGMENTS
    return f"{shown} and {more} more" if more > 0 else shown
