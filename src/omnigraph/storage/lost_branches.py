"""Branches that no name leads to, though nobody deleted them.

A branch of the manifest gets its name last and loses it first, so one without a name is mostly what
an interrupted creation or deletion left. But the record of a name may also be lost. So a deletion
leaves a mark before the record goes. A branch that had a name, and has neither a record nor a mark,
has lost its record, and what it shows must stay until somebody has decided. That it had one is told
by commits of its own, or on a local disk by its log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from omnigraph.errors import ManifestCorrupt, OmniError
from omnigraph.identity import BranchName
from omnigraph.storage.layout import DELETED, MANIFEST, deletion_mark, make_ref_path
from omnigraph.storage.manifest.read import read_newest
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.sealed_json import SEAL, is_sealed, seal
from omnigraph.storage.tables.checksums import add_remark, read_log
from omnigraph.storage.tables.lance_branches import has_own_versions
from omnigraph.storage.tables.location import TableLocation, is_flat_name
from omnigraph.storage.tables.probes import is_lance_branch, name_branch_file
from omnigraph.typed_reading import decode_into

_JSON = ".json"
_NAMED = b"named"
"""What the log of a branch of the manifest says once the branch has a name."""


@dataclass(frozen=True, slots=True)
class LostBranch:
    """A branch of the manifest that had a name, and what it was called as far as is known."""

    incarnation: str
    name: BranchName | None

    def __str__(self) -> str:
        record = make_ref_path(self.name) if self.name else "its record"
        called = f"'{self.name}'" if self.name else "a branch"
        return (
            f"the record of {called} is gone, and nobody deleted the branch: restore {record} from "
            f"a backup, or give the branch up with `omnigraph branch delete {self.incarnation}`"
        )


def mark_deleted(store: ObjectStore, ref: BranchRef) -> None:
    """Leave the mark of a branch that is about to lose its name."""
    assert ref.incarnation is not None
    body = seal({"version": 1, "name": ref.name, "incarnation": ref.incarnation})
    store.put(deletion_mark(ref.incarnation), json.dumps(body).encode())


def unmark_deleted(store: ObjectStore, incarnation: str) -> None:
    store.delete(deletion_mark(incarnation))


def is_marked(store: ObjectStore, incarnation: str) -> bool:
    """Whether somebody has deleted the branch, or is about to."""
    return store.exists(deletion_mark(incarnation))


def list_marked(store: ObjectStore) -> frozenset[str]:
    """The branches that somebody has deleted and of which something may be left."""
    return frozenset(_incarnations(store.list(DELETED)))


def find_damaged_marks(store: ObjectStore) -> list[str]:
    """The marks that are not what was written; each counts as long as it is there."""
    paths = {one: deletion_mark(one) for one in sorted(list_marked(store))}
    found = ((path, one, store.find(path)) for one, path in paths.items())
    return [path for path, one, data in found if data is not None and not _is_mark(data, one)]


def _is_mark(data: bytes, incarnation: str) -> bool:
    try:
        body = decode_into(data, dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    is_whole = body.keys() - {SEAL} == {"version", "name", "incarnation"} and is_sealed(body)
    return is_whole and (body["version"], body["incarnation"]) == (1, incarnation)


def note_named(root: GraphRoot, incarnation: str) -> None:
    """Remember, on a local disk, that the record of a branch was made."""
    folder = root.manifest(incarnation).local_folder
    if folder is not None:
        add_remark(folder, _NAMED)


def _was_named(location: TableLocation) -> bool:
    if has_own_versions(location):
        return True
    folder = location.local_folder
    return folder is not None and _NAMED in read_log(folder).remarks


def is_lost(root: GraphRoot, incarnation: str) -> bool:
    """Whether a branch that has no record was not deleted."""
    return (
        is_lance_branch(root.manifest(), incarnation)
        and _was_named(root.manifest(incarnation))
        and not is_marked(root.store, incarnation)
        # Looked at last: a deletion removes the branch and then its mark.
        and is_lance_branch(root.manifest(), incarnation)
    )


def find_lost(root: GraphRoot, refs: Iterable[BranchRef]) -> list[LostBranch]:
    """The branches that lost their record, given all records that are there."""
    unnamed = _list_unnamed(root, refs)
    return [LostBranch(one, _name_of(root, one)) for one in unnamed if is_lost(root, one)]


def find_unnamed(root: GraphRoot, refs: Iterable[BranchRef]) -> list[str]:
    """The ids of branches without a record or a mark of which nothing tells that they had a name.

    A creation that was interrupted leaves such a branch. On an object store, so does a record that
    is lost before the first commit; nothing but a name is lost with it.
    """
    known = list_marked(root.store)
    unnamed = [one for one in _list_unnamed(root, refs) if one not in known]
    return [one for one in unnamed if not is_lost(root, one)]


def _list_unnamed(root: GraphRoot, refs: Iterable[BranchRef]) -> list[str]:
    """The branches of the manifest that no record names."""
    files = root.store.list(f"{MANIFEST}/{name_branch_file('x').rpartition('/')[0]}")
    return sorted(_incarnations(files) - {ref.incarnation for ref in refs})


def require_none_lost(root: GraphRoot, refs: Iterable[BranchRef]) -> None:
    """Raise if a branch has lost its record: what it shows would pass for garbage."""
    lost = find_lost(root, refs)
    if lost:
        raise ManifestCorrupt("; ".join(str(one) for one in lost))


def _name_of(root: GraphRoot, incarnation: str) -> BranchName | None:
    """What the branch was called when it was last written."""
    try:
        heads = read_newest(root.manifest(incarnation)).state.heads.values()
    except OmniError:
        return None
    return next((BranchName(one.branch) for one in heads if one.incarnation == incarnation), None)


def _incarnations(files: Iterable[str]) -> set[str]:
    names = (file.removesuffix(_JSON) for file in files if file.endswith(_JSON))
    return {name for name in names if is_flat_name(name)}
