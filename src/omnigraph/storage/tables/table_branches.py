"""Versions and branches of one table: their history, their fork points, and their identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    ManifestCorrupt,
    StorageFailure,
    StorageKind,
)
from omnigraph.storage.tables import file_probes
from omnigraph.storage.tables.checksums import record_checksums
from omnigraph.storage.tables.file_probes import (
    is_version,
    list_files_in,
    name_branch_file,
    name_version_file,
    read_file,
    report_native_write,
)
from omnigraph.storage.tables.lance_errors import is_unreadable_rewrite, translate, translate_errors
from omnigraph.storage.tables.location import TableLocation, require_flat_name
from omnigraph.storage.tables.table import Table, open_newest, open_table
from omnigraph.struct_decoding import decode_into

RESERVE_FRAGMENTS = "ReserveFragments"

# The class requires arguments that the native side omits when it reads back a compaction that
# rewrote a B-tree; with defaults the transaction becomes readable.
LanceOperation.RewrittenIndex.__init__.__defaults__ = (None, None, None)


@dataclass(frozen=True, slots=True)
class TableVersionRecord:
    """The transaction of one version; without an operation it is unknown."""

    version: int
    operation: str | None
    uuid: str | None = None
    read_version: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    restored_version: int | None = None


def read_history(
    location: TableLocation, from_version: int, to_version: int | None = None
) -> list[TableVersionRecord]:
    """The records of these versions, both ends included, oldest first."""
    newest = open_newest(location)
    last = newest.version if to_version is None else min(to_version, newest.version)
    return [read_record(newest, version) for version in range(from_version, last + 1)]


def read_record(table: Table, version: int) -> TableVersionRecord:
    """Read the record of one version of a table.

    The handle must be used by no other thread: Lance borrows it exclusively.
    """
    try:
        transaction = table.native.read_transaction(version)
    except TypeError as error:
        if not is_unreadable_rewrite(error):
            raise
        return TableVersionRecord(version, "Rewrite")
    except Exception as error:
        if is_version(table.location, version):
            doing = f"reading the record of version {version} of {table.location}"
            raise translate(error, doing) from error
        return TableVersionRecord(version, None)
    if transaction is None:
        return TableVersionRecord(version, None)
    return _make_record(version, transaction)


def _make_record(version: int, transaction: Transaction) -> TableVersionRecord:
    operation = transaction.operation
    name = type(operation).__name__
    return TableVersionRecord(
        version=version,
        # Operations without a class of their own are read as the base class; the only one known is
        # the reservation of fragment ids by a compaction.
        operation=RESERVE_FRAGMENTS if name == "BaseOperation" else name,
        uuid=transaction.uuid,
        read_version=transaction.read_version,
        properties=dict(transaction.transaction_properties or {}),
        restored_version=(
            operation.version if isinstance(operation, LanceOperation.Restore) else None
        ),
    )


def find_common_version(one: Table, other: Table) -> int:
    """Return the newest version in the history of both; 0 if there is none.

    A branch continues the numbers of its fork point, so up to this number a version means the same
    on both sides.
    """
    if one.location.branch == other.location.branch:
        return min(one.version, other.version)
    theirs = _list_ancestry(other)
    for branch, version in _list_ancestry(one).items():
        if branch in theirs:
            return min(version, theirs[branch])
    return 0


def _list_ancestry(table: Table) -> dict[str | None, int]:
    """Map the branches a table descends from, its own first, to the newest version inherited."""
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
    """Read the branch and version that a branch was created from; None if it does not exist.

    Lance would read the records of all branches.
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
    """The needed part of the record that Lance keeps of a branch."""

    parent_branch: str | None
    parent_version: int


_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LanceBranch:
    """A branch in the records of its table."""

    name: str
    parent_branch: str | None
    parent_version: int


def create_branch(
    location: TableLocation, name: str, source_branch: str | None, version: int
) -> Table:
    """Create a branch at this version of the source, and open it.

    Raise `AlreadyExists` if the name is in use, which is checked before and after.
    """
    require_flat_name(name)
    if file_probes.is_lance_branch(location, name):
        raise AlreadyExists(f"{location.uri} already has a branch {name}")
    drop_unreferenced_tree(location, name)
    source = open_table(location.on_branch(source_branch), version)
    try:
        with report_native_write("create_branch", location.on_branch(name)):
            source.native.create_branch(name, version, location.native_options)
    except Exception as error:
        if file_probes.is_lance_branch(location, name):
            raise AlreadyExists(f"{location.uri} already has a branch {name}") from error
        raise translate(error, f"creating branch {name} of {location.uri}") from error
    record_branch(location, name, version)
    return open_table(location.on_branch(name), version)


def list_branches(location: TableLocation) -> Mapping[str, LanceBranch]:
    """Every branch of the table except main, by name."""
    found = _list_branches(location)
    return {
        name: LanceBranch(
            name=name,
            parent_branch=record["parent_branch"],
            parent_version=int(record["parent_version"]),
        )
        for name, record in found.items()
    }


def _list_branches(location: TableLocation) -> Mapping[str, Mapping[str, Any]]:
    """List branches, again if one is deleted while Lance reads them."""
    main = open_newest(location.on_branch(None))
    for attempt in range(_MAX_ATTEMPTS):
        try:
            with translate_errors(f"listing branches of {location.uri}"):
                return main.native.branches.list()
        except StorageFailure as failure:
            if not failure.is_file_missing or attempt + 1 == _MAX_ATTEMPTS:
                raise
    raise AssertionError("the last look returns or raises")


def has_own_versions(location: TableLocation) -> bool:
    """Return whether anything was committed to a branch since its creation.

    A ref without a folder has none: its creator was suspended while its folder was removed as that
    of a dead writer.
    """
    if location.branch is None:
        return True
    start = read_fork_point(location, location.branch)
    return (
        start is not None and max(file_probes.list_version_numbers(location), default=0) > start[1]
    )


def delete_branch(location: TableLocation, name: str, *, is_alone: bool = False) -> None:
    """Remove a branch with its folder; an absent one is ignored.

    With `is_alone`, for a branch without branches or tags of its own, the refs of all others are
    not read.
    """
    require_flat_name(name)
    if is_alone:
        with (
            translate_errors(f"deleting branch {name} of {location.uri}"),
            report_native_write("delete_branch", location.on_branch(name)),
        ):
            file_probes.remove_files(location, [file_probes.name_branch_file(name)])
        _remove_tree(location, name)
        return
    if file_probes.is_lance_branch(location, name):
        main = open_newest(location.on_branch(None))
        try:
            with report_native_write("delete_branch", location.on_branch(name)):
                main.native.branches.delete(name)
        except Exception as error:
            if file_probes.is_lance_branch(location, name):
                _refuse_parent(location, name)
                raise translate(error, f"deleting branch {name} of {location.uri}") from error
    drop_unreferenced_tree(location, name)


def drop_unreferenced_tree(location: TableLocation, name: str) -> bool:
    """Remove the folder of a branch that has no ref; return whether there was one."""
    require_flat_name(name)
    if not file_probes.list_branch_files(location, name):
        if not file_probes.is_lance_branch(location, name):
            file_probes.remove_empty_folders(location, name)
        return False
    if file_probes.is_lance_branch(location, name):
        raise ConflictError(f"branch {name} of {location.uri} is alive")
    _refuse_parent(location, name)
    _remove_tree(location, name)
    return True


def _remove_tree(location: TableLocation, name: str) -> None:
    tree = location.on_branch(name)
    with translate_errors(f"removing {tree}"):
        if file_probes.has_versions(tree):
            with report_native_write("drop_tree", tree):
                LanceDataset.drop(tree.native_uri, tree.native_options, ignore_not_found=True)
    # `drop` does not take the remains of a crash before the first version for a table.
    file_probes.remove_files(location, file_probes.list_branch_files(location, name))
    file_probes.remove_empty_folders(location, name)


def _refuse_parent(location: TableLocation, name: str) -> None:
    """Raise if other branches were created from this one: they read its files."""
    children = sorted(b.name for b in list_branches(location).values() if b.parent_branch == name)
    if children:
        raise ConflictError(
            f"branch {name} of {location.uri} has branches of its own: {', '.join(children)}"
        )


def record_branch(location: TableLocation, branch: str, version: int) -> None:
    """Record the checksum of a branch ref just created, and the version it starts at."""
    folder = location.on_branch(branch).local_folder
    if folder is not None:
        record_checksums(
            folder, [name_version_file(version), *list_files_in(folder, "_transactions")], version
        )
        record_branch_ref(location, branch)


def record_branch_ref(location: TableLocation, branch: str) -> None:
    root = location.on_branch(None).local_folder
    if root is not None:
        record_checksums(root, [name_branch_file(branch)])


def record_version_file(location: TableLocation, version: int) -> None:
    """Record the file of a version that was copied here, without its transaction."""
    folder = location.local_folder
    if folder is not None:
        record_checksums(folder, (name_version_file(version),), version)
