"""Branches by name: a small object each, made by put-if-absent.

A name stands for an incarnation, a ULID that is also the physical name of the manifest's branch.
Deleting a name and making it again gives another incarnation, so nothing old can be mistaken for
it. `main` has no object: it is the manifest itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import msgspec

from omnigraph.errors import AlreadyExists, BranchNotFound, ManifestCorrupt, StorageError
from omnigraph.identity import MAIN, BranchName, CommitId
from omnigraph.storage.layout import BRANCHES, find_branch, make_ref_path
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.sealed_json import require_seal, seal
from omnigraph.storage.tables.location import is_flat_name

_FORMAT = 1


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

    @property
    def is_main(self) -> bool:
        return self.incarnation is None

    def wire(self) -> dict[str, object]:
        """What creating it answers."""
        return {"from": self.parent, "name": self.name, "actor_id": self.actor_id}


MAIN_REF = BranchRef(MAIN)


def encode_ref(ref: BranchRef) -> bytes:
    body = {
        "version": _FORMAT,
        "name": ref.name,
        "incarnation": ref.incarnation,
        "parent": ref.parent,
        "parent_incarnation": ref.parent_incarnation,
        "fork_version": ref.fork_version,
        "fork_head": ref.fork_head,
        "created_at": ref.created_at,
        "actor_id": ref.actor_id,
    }
    if ref.renamed_from is not None:
        body["renamed_from"] = ref.renamed_from
    return json.dumps(seal(body), indent=2).encode()


def decode_ref(data: bytes, path: str) -> BranchRef:
    """The branch a record stands for; whatever is not a whole record of this name is refused."""
    try:
        body = json.loads(data)
        if body["version"] != _FORMAT:
            raise ManifestCorrupt(f"{path} has format {body['version']}, not {_FORMAT}")
        require_seal(body, path, ("version", *BranchRef.__slots__))
        members = {name: body[name] for name in BranchRef.__slots__ if name != "renamed_from"}
        members["renamed_from"] = body.get("renamed_from")
        ref = msgspec.convert(members, BranchRef)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ManifestCorrupt(f"{path} is not a branch record: {error}") from error
    _check_ref(ref, path)
    return ref


def _check_ref(ref: BranchRef, path: str) -> None:
    """Raise unless the members fit together: they become paths and versions that are opened."""
    if path != make_ref_path(ref.name):
        raise ManifestCorrupt(f"{path} is the record of another branch, {ref.name!r}")
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


def find_ref(store: ObjectStore, name: BranchName) -> BranchRef | None:
    if name == MAIN:
        return MAIN_REF
    path = make_ref_path(name)
    data = store.find(path)
    return None if data is None else decode_ref(data, path)


def read_ref(store: ObjectStore, name: BranchName) -> BranchRef:
    found = find_ref(store, name)
    if found is None:
        raise BranchNotFound(name)
    return found


def list_names(store: ObjectStore) -> list[BranchName]:
    """Every branch, `main` first and the others in name order."""
    found = (find_branch(file) for file in store.list(BRANCHES))
    return [MAIN, *sorted(name for name in found if name is not None)]


def list_refs(store: ObjectStore) -> list[BranchRef]:
    """Every branch with its record; one deleted while we look is left out."""
    refs = (find_ref(store, name) for name in list_names(store))
    return [ref for ref in refs if ref is not None]


def create_ref(store: ObjectStore, ref: BranchRef) -> None:
    """Make the name; after a lost answer, looking tells whether it was made."""
    try:
        is_made = store.put_if_absent(make_ref_path(ref.name), encode_ref(ref))
    except StorageError:
        if find_ref(store, ref.name) != ref:
            raise
        return
    if not is_made:
        raise AlreadyExists(f"branch '{ref.name}' already exists")


def forget_old_name(store: ObjectStore, ref: BranchRef) -> None:
    """Note that the name a branch had before is gone."""
    path = make_ref_path(ref.name)
    kept = store.find_versioned(path)
    if kept is not None and decode_ref(kept.data, path) == ref:
        store.put_if_match(path, encode_ref(replace(ref, renamed_from=None)), kept.tag)


def delete_ref(store: ObjectStore, name: BranchName) -> None:
    """Remove the name; after a lost answer, looking tells whether it is gone."""
    try:
        store.delete(make_ref_path(name))
    except StorageError:
        if find_ref(store, name) is not None:
            raise
