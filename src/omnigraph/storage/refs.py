"""Branches and tags by name, and branches whose name was lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import msgspec

from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    ManifestCorrupt,
    OmniError,
    StorageError,
    TagNotFound,
)
from omnigraph.identity import MAIN, BranchName, CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    BRANCHES,
    DELETED,
    MANIFEST,
    RELATED,
    TAGS,
    deletion_mark,
    make_ref_path,
    make_relation_mark_path,
    normalize_name,
    tag_ref,
)
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.orphans import require_retained_manifest
from omnigraph.storage.sealed_records import (
    SEAL,
    NamedRecords,
    create_logged,
    is_sealed,
    remove_logged,
    seal,
)
from omnigraph.storage.tables.checksums import add_remark, read_log
from omnigraph.storage.tables.file_probes import is_lance_branch, name_branch_file, tag_file
from omnigraph.storage.tables.location import TableLocation, is_flat_name
from omnigraph.storage.tables.table_branches import has_own_versions
from omnigraph.storage.writer_fence import is_valid
from omnigraph.struct_decoding import decode_into
from omnigraph.wire import commit_results


@dataclass(frozen=True, slots=True)
class BranchRef:
    """The branch a name refers to.

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
    """Whether it gets a mark as soon as another record refers to it; see `mark_related`."""

    @property
    def is_main(self) -> bool:
        return self.incarnation is None

    @property
    def place(self) -> str:
        """The revision that names its newest commit."""
        return f"branch:{self.name}"


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


def _clear_unrelated(store: ObjectStore, ref: BranchRef) -> None:
    """Record that a branch may have related ones, whether it has a mark or not."""
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


_JSON = ".json"
_TABLE_TAGS = f"{MANIFEST}/{tag_file('x').rpartition('/')[0]}"


def mark_related(store: ObjectStore, ref: BranchRef) -> None:
    """Mark a branch as related, before one is created from it and before it is renamed."""
    if ref.incarnation is not None:
        create_logged(
            store, make_relation_mark_path(ref.incarnation), _encode_mark(ref.incarnation)
        )
        if ref.leaves_marks:
            _clear_unrelated(store, ref)


def unmark_related(store: ObjectStore, incarnation: str) -> None:
    """Remove the mark of a branch of which nothing is left."""
    remove_logged(store, make_relation_mark_path(incarnation))


def list_related(store: ObjectStore) -> list[str]:
    """The branches with a mark."""
    return [name.removesuffix(_JSON) for name in store.list(RELATED) if name.endswith(_JSON)]


def find_damaged_relation_marks(store: ObjectStore) -> list[str]:
    """The marks that are not what was written; each counts as long as it is there."""
    paths = {one: make_relation_mark_path(one) for one in list_related(store)}
    found = ((path, store.find(path), _encode_mark(one)) for one, path in paths.items())
    return [path for path, data, written in found if data not in (None, written)]


def _encode_mark(incarnation: str) -> bytes:
    return json.dumps({"version": 1, "incarnation": incarnation}).encode()


def is_unrelated(root: GraphRoot, ref: BranchRef) -> bool:
    """Return whether no other record can refer to a branch; False is no answer.

    Nor may anybody have put a Lance tag on a version of the manifest.
    """
    return (
        ref.leaves_marks
        and ref.incarnation is not None
        and ref.renamed_from is None
        and not root.store.exists(make_relation_mark_path(ref.incarnation))
        and not root.store.list(_TABLE_TAGS)
    )


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
    """Return whether the branch was deleted, or is being deleted."""
    return store.exists(deletion_mark(incarnation))


def list_marked(store: ObjectStore) -> frozenset[str]:
    """The branches that somebody has deleted and of which something may be left."""
    return frozenset(_incarnations(store.list(DELETED)))


def find_damaged_deletion_marks(store: ObjectStore) -> list[str]:
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
    """Return whether a branch without a record was never deleted."""
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
    """Find the name the branch had when it was last written."""
    try:
        heads = read_newest(root.manifest(incarnation)).state.heads.values()
    except OmniError:
        return None
    return next((BranchName(one.branch) for one in heads if one.incarnation == incarnation), None)


def _incarnations(files: Iterable[str]) -> set[str]:
    names = (file.removesuffix(_JSON) for file in files if file.endswith(_JSON))
    return {name for name in names if is_flat_name(name)}


@dataclass(frozen=True, slots=True)
class TagRecord:
    """A name for a commit, with where that commit was made."""

    name: str
    commit_id: CommitId
    branch: str
    incarnation: str | None
    manifest_version: int
    created_at: int
    actor_id: str | None = None

    @property
    def shown(self) -> commit_results.Tag:
        """The tag as every surface shows it."""
        return commit_results.Tag(
            name=self.name,
            commit_id=self.commit_id,
            branch=self.branch,
            actor_id=self.actor_id,
            created_at=self.created_at,
        )


TAG_RECORDS = NamedRecords("tag", TAGS, tag_ref, TagRecord)


def normalize_tag(name: str) -> str:
    """The name of a tag as it is used from here on; `main` always is the branch."""
    tag = normalize_name(name, "tag")
    if tag == MAIN:
        raise BadRequest("a tag cannot be called 'main'")
    return tag


def create_tag(
    root: GraphRoot, name: str, commit: CommitRecord, actor_id: str | None = None
) -> TagRecord:
    """Name a commit for good.

    Raises:
        AlreadyExists: the name is taken.
        HistoricalVersionReclaimed: cleanup has removed what the commit shows.
        BranchNotFound: the branch it was made on is being deleted.
    """
    tag = TagRecord(
        name=normalize_tag(name),
        commit_id=commit.commit_id,
        branch=commit.branch,
        incarnation=commit.incarnation,
        manifest_version=commit.manifest_version,
        created_at=root.now_us(),
        actor_id=actor_id,
    )
    with root.acquire_fence() as guard:
        # Under the fence nothing more is cleaned away; before, what it shows may have been.
        require_retained_manifest(root, commit.branch, commit.incarnation, commit.manifest_version)
        guard.check()
        _put(root.store, tag)
        is_in_time = is_valid(guard)
    if not is_in_time:
        _require_kept(root, tag)
    return tag


def _require_kept(root: GraphRoot, tag: TagRecord) -> None:
    """Raise, and take the tag back, if what it names is gone or going.

    Where the fence is a lease, whoever makes a tag may have slept before that. Neither a cleanup
    that came meanwhile nor somebody who deleted the branch knew of it.
    """
    with root.acquire_fence() as guard:
        try:
            require_retained_manifest(root, tag.branch, tag.incarnation, tag.manifest_version)
            if tag.incarnation is not None and is_marked(root.store, tag.incarnation):
                raise BranchNotFound(tag.branch)
        except OmniError:
            if find_tag(root.store, tag.name) == tag:
                guard.check()
                remove_logged(root.store, tag_ref(tag.name))
            raise


def _put(store: ObjectStore, tag: TagRecord) -> None:
    body = TAG_RECORDS.encode(tag)
    try:
        is_made = create_logged(store, tag_ref(tag.name), body)
    except StorageError:
        if find_tag(store, tag.name) != tag:
            raise
        return
    if not is_made:
        raise AlreadyExists(f"tag '{tag.name}' already exists; tags do not move")


def find_tag(store: ObjectStore, name: str) -> TagRecord | None:
    return TAG_RECORDS.find(store, name)


def read_tag(store: ObjectStore, name: str) -> TagRecord:
    found = find_tag(store, name)
    if found is None:
        raise TagNotFound(name)
    return found


def list_tags(store: ObjectStore) -> list[TagRecord]:
    """Every tag in the order of names; one deleted while we look is left out."""
    return TAG_RECORDS.list_all(store)


def delete_tag(root: GraphRoot, name: str) -> TagRecord:
    """Remove a tag; its commit stays as long as anything else keeps it."""
    with root.acquire_fence() as guard:
        tag = read_tag(root.store, normalize_tag(name))
        guard.check()
        try:
            remove_logged(root.store, tag_ref(tag.name))
        except StorageError:
            if find_tag(root.store, tag.name) is not None:
                raise
    return tag
