"""The files in which long values of blob columns are, beside the data file of their rows.

Nothing the substrate gives tells which they are, not even how many, and they are written before the
data file: a cleanup may take one while the data file is still being written. So they are listed as
soon as they are written, and go with their fragment until it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata

from omnigraph.storage.tables.location import TableLocation

INLINE_BLOB_BYTES = 1 << 16
"""Longer values go to files of their own, whose sizes no metadata records."""
SHARED_BLOB_BYTES = 4 << 20
"""Values up to this length share a file; each that is longer has one to itself."""
BLOB_FILES = "blob_files"

_DATA_SUFFIX, _BLOB_SUFFIX = ".lance", ".blob"


@dataclass(slots=True)
class LongBlobs:
    """What of some rows goes to blob files."""

    bytes: int = 0
    alone: int = 0
    """How many values have a file to themselves."""
    shared: int = 0
    """How many values share files."""

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        for at, kind in enumerate(rows.schema.types):
            if not isinstance(kind, BlobType):
                continue
            column = rows.column(at)
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                lengths = pc.binary_length(pc.struct_field(chunk.storage, 0))
                long = lengths.filter(pc.greater(lengths, INLINE_BLOB_BYTES))
                alone = long.filter(pc.greater(long, SHARED_BLOB_BYTES))
                self.bytes += pc.sum(long).as_py() or 0
                self.shared += len(long) - len(alone)
                self.alone += len(alone)

    @property
    def fewest_files(self) -> int:
        """So many files they are in; more if they are a lot, or in several data files."""
        return self.alone + (1 if self.shared else 0)


@dataclass
class FragmentWithBlobs(FragmentMetadata):
    """A fragment that was just written, and its blob files below the folder of its branch."""

    blob_files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), BLOB_FILES: list(self.blob_files)}


def add_blob_files(
    location: TableLocation, written: Iterable[FragmentMetadata]
) -> list[FragmentMetadata]:
    """Fragments that were just written, with the blob files that are there."""
    return [attach_blob_files(one, _list_blob_files(location, one)) for one in written]


def attach_blob_files(fragment: FragmentMetadata, names: Iterable[str]) -> FragmentMetadata:
    blob_files = tuple(names)
    if not blob_files:
        return fragment
    given = {field.name: getattr(fragment, field.name) for field in fields(FragmentMetadata)}
    return FragmentWithBlobs(**given, blob_files=blob_files)


def get_blob_files(fragment: FragmentMetadata) -> tuple[str, ...]:
    """Those of a fragment that is staged; of one that a version shows they are not known."""
    return fragment.blob_files if isinstance(fragment, FragmentWithBlobs) else ()


def has_blob_columns(schema: pa.Schema) -> bool:
    return any(isinstance(kind, BlobType) for kind in schema.types)


def _list_blob_files(location: TableLocation, fragment: FragmentMetadata) -> list[str]:
    own = [str(file.path) for file in fragment.files if file.base_id is None]
    folders = [f"data/{name.removesuffix(_DATA_SUFFIX)}" for name in own]
    listed = [name for folder in folders for name in _list_folder(location, folder)]
    return sorted(name for name in listed if name.endswith(_BLOB_SUFFIX))


def _list_folder(location: TableLocation, folder: str) -> list[str]:
    root = location.local_folder
    if root is None:
        files = LanceFileSession(location.native_uri, storage_options=location.native_options)
        return [str(name) for name in files.list(folder)]
    missing = suppress(FileNotFoundError, NotADirectoryError)
    with missing, os.scandir(f"{root}/{folder}") as entries:
        return [f"{folder}/{entry.name}" for entry in entries]
    return []
