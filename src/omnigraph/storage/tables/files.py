"""Which files a version of a table consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from lance.blob import BlobType

from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.table import Table


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Files by their paths below the root of the table, whatever branch they belong to."""

    files: frozenset[str]
    folders: frozenset[str]
    """Folders of which every file belongs to the version."""


def list_referred_files(table: Table) -> TableFiles:
    """What the version refers to, apart from the file of the version itself."""
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
    """What stands before a path in the folder each file may be in: its own, or one it shares."""
    location = table.location
    own = "" if location.branch is None else f"tree/{location.branch}/"
    homes: dict[int | None, str] = {None: own}
    for number, base in table.native.base_paths().items():
        below = base.path.removeprefix(location.uri).strip("/")
        homes[number] = f"{below}/" if below else ""
    return homes


def _has_blobs(schema: pa.Schema) -> bool:
    return any(isinstance(field.type, BlobType) for field in schema)
