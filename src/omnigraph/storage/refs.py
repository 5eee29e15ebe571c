"""Branches by name: a small object each, made by put-if-absent.

A name stands for an incarnation, a ULID that is also the physical name of the manifest's branch.
Deleting a name and making it again gives another incarnation, so nothing old can be mistaken for
it. `main` has no object: it is the manifest itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from omnigraph.errors import AlreadyExists, BranchNotFound, ManifestCorrupt, StorageError
from omnigraph.identity import MAIN, BranchName, CommitId
from omnigraph.storage.layout import BRANCHES, make_ref_path
from omnigraph.storage.named_records import NamedRecords
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.tables.location import is_flat_name


@dataclass(frozen=True, slots=True)
class BranchRef:
    """What a branch name stands for.

    `incarnation` is None only for `main`. The fork members say where the branch came from; its
    head is the fork's head until its own first commit.
    """

    name: BranchName
    incarnation: str | None = None
    parent: BranchName | None = None
    parent_incarnation: str | None = None
    fork_version: int = 0
    fork_head: CommitId | None = None
    created_at: int = 0
    actor_id: str | None = None
    renamed_from: BranchName | None = field(default=None, compare=False)
    """The name it had, until it is certain that this name is gone."""
    leaves_marks: bool = field(default=False, compare=False)
    """Whether it has a mark if others have to do with it; see `related_branches`."""

    @property
    def is_main(self) -> bool:
        return self.incarnation is None

    @property
    def place(self) -> str:
        """What names its newest commit wherever a commit is taken."""
        return f"branch:{self.name}"

    def wire(self) -> dict[str, object]:
        """What creating it answers."""
        return {"from": self.parent, "name": self.name, "actor_id": self.actor_id}


MAIN_REF = BranchRef(MAIN)


def _check_ref(ref: BranchRef, path: str) -> None:
    """Raise unless the members fit together: they become paths and versions that are opened."""
    for member in ("incarnation", "parent_incarnation"):
        value = getattr(ref, member)
        if value is None and member == "parent_incarnation":
            continue
        if value is None or not is_flat_name(value):
            raise ManifestCorrupt(f"{path} has the {member} {value!r}, which is not a ULID")
    if ref.parent is None or (ref.parent == MAIN) != (ref.parent_incarnation is None):
        raise ManifestCorrupt(f"{path} has a parent that does not fit its incarnation")
    if ref.fork_version < 1:
        raise ManifestCorrupt(f"{path} starts at manifest version {ref.fork_version}")


REF_RECORDS = NamedRecords("branch", BRANCHES, make_ref_path, BranchRef, check=_check_ref)


def find_ref(store: ObjectStore, name: BranchName) -> BranchRef | None:
    return MAIN_REF if name == MAIN else REF_RECORDS.find(store, name)


def find_branch(store: ObjectStore, name: BranchName, incarnation: str | None) -> BranchRef | None:
    """This very branch, by the name it had or by whatever name it has now."""
    ref = find_ref(store, name)
    if ref is not None and ref.incarnation == incarnation:
        return ref
    if incarnation is None:
        return None
    related = REF_RECORDS.list_mentioning(store, incarnation)
    return next((one for one in related if one.incarnation == incarnation), None)


def read_ref(store: ObjectStore, name: BranchName) -> BranchRef:
    found = find_ref(store, name)
    if found is None:
        raise BranchNotFound(name)
    return found


def list_names(store: ObjectStore) -> list[BranchName]:
    """Every branch, `main` first and the others in name order."""
    return [MAIN, *map(BranchName, REF_RECORDS.list_names(store))]


def list_refs(store: ObjectStore) -> list[BranchRef]:
    """Every branch with its record; one deleted while we look is left out."""
    return [MAIN_REF, *REF_RECORDS.list_all(store)]


def create_ref(store: ObjectStore, ref: BranchRef) -> None:
    """Make the name; after a lost answer, looking tells whether it was made."""
    try:
        is_made = store.put_if_absent(make_ref_path(ref.name), REF_RECORDS.encode(ref))
    except StorageError:
        if find_ref(store, ref.name) != ref:
            raise
        return
    if not is_made:
        raise AlreadyExists(f"branch '{ref.name}' already exists")


def forget_old_name(store: ObjectStore, ref: BranchRef) -> None:
    """Note that the name a branch had before is gone."""
    _rewrite(store, ref, lambda kept: replace(kept, renamed_from=None))


def forget_standing_alone(store: ObjectStore, ref: BranchRef) -> None:
    """Note that others have to do with a branch, whether it has a mark or not."""
    _rewrite(store, ref, lambda kept: replace(kept, leaves_marks=False))


def _rewrite(store: ObjectStore, ref: BranchRef, change: Callable[[BranchRef], BranchRef]) -> None:
    """Change the record of a branch, if it is still there."""
    path = make_ref_path(ref.name)
    found = store.find_versioned(path)
    if found is None:
        return
    kept = REF_RECORDS.decode(found.data, ref.name)
    if kept == ref:
        store.put_if_match(path, REF_RECORDS.encode(change(kept)), found.tag)


def delete_ref(store: ObjectStore, name: BranchName) -> None:
    """Remove the name; after a lost answer, looking tells whether it is gone."""
    try:
        store.delete(make_ref_path(name))
    except StorageError:
        if find_ref(store, name) is not None:
            raise
