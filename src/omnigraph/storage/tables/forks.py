"""How far the histories of two versions of a table are one and the same."""

from __future__ import annotations

import msgspec

from omnigraph.errors import ManifestCorrupt, StorageFailure, StorageKind
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import name_branch_file, read_file
from omnigraph.storage.tables.table import Table
from omnigraph.typed_reading import decode_into


def find_common_version(one: Table, other: Table) -> int:
    """The newest version that is in the history of both; 0 where they have none in common.

    A fork goes on counting where it was made, so up to this number a version means the same on
    both sides.
    """
    if one.location.branch == other.location.branch:
        return min(one.version, other.version)
    theirs = _list_ancestry(other)
    for branch, version in _list_ancestry(one).items():
        if branch in theirs:
            return min(version, theirs[branch])
    return 0


def _list_ancestry(table: Table) -> dict[str | None, int]:
    """The branches the table came from, its own first, with the newest version it has of each."""
    branch, version = table.location.branch, table.version
    found: dict[str | None, int] = {branch: version}
    while branch is not None:
        parent = read_fork_point(table.location, branch)
        if parent is None:
            break
        branch, forked_at = parent
        version = min(version, forked_at)
        found[branch] = version
    return found


def read_fork_point(location: TableLocation, branch: str) -> tuple[str | None, int] | None:
    """Which branch at which version this one was made from; None if it is gone.

    The substrate would read the records of all branches for it.
    """
    file = name_branch_file(branch)
    try:
        record = decode_into(read_file(location.on_branch(None), file), _BranchRecord)
    except StorageFailure as failure:
        if failure.kind is StorageKind.NOT_FOUND:
            return None
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestCorrupt(
            f"{location.uri}/{file} is not the record of a branch: {error}"
        ) from error
    return record.parent_branch, record.parent_version


class _BranchRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What is needed of the record that the substrate keeps of a branch."""

    parent_branch: str | None
    parent_version: int
