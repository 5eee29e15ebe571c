"""Telling whether a version of a table is still the one that was read, or another of its number."""

from __future__ import annotations

import os
from collections.abc import Hashable
from contextlib import suppress

from omnigraph.errors import HistoricalVersionReclaimed, StorageFailure
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import name_version_file
from omnigraph.storage.tables.table import Table, open_table


def mark_of(table: Table) -> Hashable:
    """What no other version of the same number has: its file, or the name of its newest data."""
    folder = table.location.local_folder
    if folder is not None:
        return _read_file_mark(folder, table.version)
    newest = table.newest_fragment()
    return None if newest is None else tuple(file.path for file in newest.files)


def find_mark(location: TableLocation, version: int) -> Hashable:
    """The mark of the version that is there now; None if there is none."""
    folder = location.local_folder
    if folder is not None:
        return _read_file_mark(folder, version)
    with suppress(HistoricalVersionReclaimed, StorageFailure):
        return mark_of(open_table(location, version))
    return None


def _read_file_mark(folder: str, version: int) -> Hashable:
    try:
        file = os.stat(f"{folder}/{name_version_file(version)}")
    except OSError:
        return None
    return file.st_dev, file.st_ino, file.st_mtime_ns, file.st_size
