"""Branches of one table: a folder of its own below the root, sharing the parent's files.

A branch exists when its ref does. Creating and deleting touch ref and folder one after the
other, so a crash may leave a folder without a ref: not listed, not deletable, and in the way of
the same name. Names are fresh ULIDs, hence such leftovers are mere garbage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance import LanceDataset

from omnigraph.errors import AlreadyExists, ConflictError, StorageFailure
from omnigraph.storage.tables import probes
from omnigraph.storage.tables.effects import report_native_write
from omnigraph.storage.tables.forks import read_fork_point
from omnigraph.storage.tables.lance_errors import translate, translate_errors
from omnigraph.storage.tables.location import TableLocation, require_flat_name
from omnigraph.storage.tables.parts import note_branch
from omnigraph.storage.tables.table import Table, open_newest, open_table

_LOOKS = 5


@dataclass(frozen=True, slots=True)
class LanceBranch:
    """A branch as its table knows it."""

    name: str
    parent_branch: str | None
    parent_version: int


def create_branch(
    location: TableLocation, name: str, source_branch: str | None, version: int
) -> Table:
    """A branch starting at this version of the source, opened at it.

    `AlreadyExists` if the name is taken, which is decided by looking, before and after.
    """
    require_flat_name(name)
    if probes.is_lance_branch(location, name):
        raise AlreadyExists(f"{location.uri} already has a branch {name}")
    drop_zombie_tree(location, name)
    source = open_table(location.on_branch(source_branch), version)
    try:
        with report_native_write("create_branch", location.on_branch(name)):
            source.native.create_branch(name, version, location.native_options)
    except Exception as error:
        if probes.is_lance_branch(location, name):
            raise AlreadyExists(f"{location.uri} already has a branch {name}") from error
        raise translate(error, f"creating branch {name} of {location.uri}") from error
    note_branch(location, name, version)
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
    """The substrate lists names and then reads each; one deleted in between makes it fail."""
    main = open_newest(location.on_branch(None))
    for attempt in range(_LOOKS):
        try:
            with translate_errors(f"listing branches of {location.uri}"):
                return main.native.branches.list()
        except StorageFailure as failure:
            if not failure.is_file_missing or attempt + 1 == _LOOKS:
                raise
    raise AssertionError("the last look returns or raises")


def has_own_versions(location: TableLocation) -> bool:
    """Whether anything was committed to a branch since it was made.

    Nothing was to a ref without a folder, which a creator leaves that slept while its folder was
    taken for that of a dead one.
    """
    if location.branch is None:
        return True
    start = read_fork_point(location, location.branch)
    return start is not None and max(probes.list_version_numbers(location), default=0) > start[1]


def delete_branch(location: TableLocation, name: str, *, is_alone: bool = False) -> None:
    """Remove the branch and its folder; one that is gone already is fine.

    One that `is_alone`, without branches or tags of its own, is removed without a look at all
    others, which is what the substrate takes to find that out.
    """
    require_flat_name(name)
    if is_alone:
        with (
            translate_errors(f"deleting branch {name} of {location.uri}"),
            report_native_write("delete_branch", location.on_branch(name)),
        ):
            probes.remove_files(location, [probes.name_branch_file(name)])
        _remove_tree(location, name)
        return
    if probes.is_lance_branch(location, name):
        main = open_newest(location.on_branch(None))
        try:
            with report_native_write("delete_branch", location.on_branch(name)):
                main.native.branches.delete(name)
        except Exception as error:
            if probes.is_lance_branch(location, name):
                _refuse_parent(location, name)
                raise translate(error, f"deleting branch {name} of {location.uri}") from error
    drop_zombie_tree(location, name)


def drop_zombie_tree(location: TableLocation, name: str) -> bool:
    """Remove the folder of a branch that has no ref; tells whether there was one."""
    require_flat_name(name)
    if not probes.list_branch_files(location, name):
        if not probes.is_lance_branch(location, name):
            probes.remove_empty_folders(location, name)
        return False
    if probes.is_lance_branch(location, name):
        raise ConflictError(f"branch {name} of {location.uri} is alive")
    _refuse_parent(location, name)
    _remove_tree(location, name)
    return True


def _remove_tree(location: TableLocation, name: str) -> None:
    tree = location.on_branch(name)
    with translate_errors(f"removing {tree}"):
        if probes.has_versions(tree):
            with report_native_write("drop_tree", tree):
                LanceDataset.drop(tree.native_uri, tree.native_options, ignore_not_found=True)
    # What a crash left before the first version was written is no table for `drop`.
    probes.remove_files(location, probes.list_branch_files(location, name))
    probes.remove_empty_folders(location, name)


def _refuse_parent(location: TableLocation, name: str) -> None:
    """Branches made from this one read its files."""
    children = sorted(b.name for b in list_branches(location).values() if b.parent_branch == name)
    if children:
        raise ConflictError(
            f"branch {name} of {location.uri} has branches of its own: {', '.join(children)}"
        )
