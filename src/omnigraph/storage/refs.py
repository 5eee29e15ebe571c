"""Branches and tags by name, and branches whose record was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    ManifestCorrupt,
    OmniError,
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
    normalize_name,
)
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.orphans import require_retained_manifest
from omnigraph.storage.sealed_records import RecordKind
from omnigraph.storage.tables.checksums import add_remark, read_log
from omnigraph.storage.tables.file_probes import is_lance_branch, name_branch_file, tag_file
from omnigraph.storage.tables.location import TableLocation, is_flat_name
from omnigraph.storage.tables.table_branches import has_own_versions
from omnigraph.storage.writer_fence import is_valid
from omnigraph.wire import commit_results


@dataclass(frozen=True, slots=True)
class BranchRef:
    """The record of a branch.

    `incarnation` is None only for `main`. The fork members are those of its source; its head is the
    fork's head until its own first commit.
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
    """Its former name, until that is certainly removed."""
    leaves_marks: bool = field(default=False, compare=False)
    """True if a relation mark is created before another record refers to it."""

    @property
    def is_main(self) -> bool:
        return self.incarnation is None

    @property
    def revision(self) -> str:
        """The revision of its newest commit."""
        return f"branch:{self.name}"


MAIN_REF = BranchRef(MAIN)


def _find_ref_problem(ref: BranchRef) -> str | None:
    """Compare the members, which become paths and versions that are opened."""
    for incarnation in (ref.incarnation or "", ref.parent_incarnation):
        if incarnation is not None and not is_flat_name(incarnation):
            return f"the incarnation '{incarnation}' is not a ULID"
    if ref.parent is None or (ref.parent == MAIN) != (ref.parent_incarnation is None):
        return "its parent does not fit the incarnation of that"
    if ref.fork_version < 1:
        return f"it starts at manifest version {ref.fork_version}"
    return None


REF_RECORDS = RecordKind(
    what="the record of a branch",
    type=BranchRef,
    base_path=BRANCHES,
    find_problem=_find_ref_problem,
)


def find_ref(store: ObjectStore, name: BranchName) -> BranchRef | None:
    return MAIN_REF if name == MAIN else REF_RECORDS.find(store, name)


def find_branch(store: ObjectStore, name: BranchName, incarnation: str | None) -> BranchRef | None:
    """Find a branch by its incarnation, under the given name or the one it has now."""
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
    """List the names of all branches, `main` first and the others sorted."""
    return [MAIN, *map(BranchName, REF_RECORDS.list_names(store))]


def list_refs(store: ObjectStore) -> list[BranchRef]:
    """List the records of all branches, without those that are deleted meanwhile."""
    return [MAIN_REF, *REF_RECORDS.list_all(store)]


def create_ref(store: ObjectStore, ref: BranchRef) -> None:
    if not REF_RECORDS.create(store, ref):
        raise AlreadyExists(f"branch '{ref.name}' already exists")


def forget_old_name(store: ObjectStore, ref: BranchRef) -> None:
    """Record that the former name of a branch is removed."""
    _rewrite(store, ref, lambda stored: replace(stored, renamed_from=None))


def _rewrite(store: ObjectStore, ref: BranchRef, change: Callable[[BranchRef], BranchRef]) -> None:
    """Change the record of a branch, if it still exists."""
    found = REF_RECORDS.find_stored(store, ref.name)
    if found is not None and found.record == ref:
        REF_RECORDS.swap(store, change(found.record), found)


def delete_ref(store: ObjectStore, name: BranchName) -> None:
    REF_RECORDS.remove(store, name)


_JSON = ".json"
_TABLE_TAGS = f"{MANIFEST}/{tag_file('x').rpartition('/')[0]}"


@dataclass(frozen=True, slots=True)
class RelationMark:
    """The mark of a branch to which other records may refer."""

    incarnation: str


RELATION_MARKS = RecordKind(
    what="the mark of a related branch",
    type=RelationMark,
    base_path=RELATED,
    key="incarnation",
    is_logged=True,
    advice="",
)


def mark_related(store: ObjectStore, ref: BranchRef) -> None:
    """Mark a branch as related, before one is created from it or it is renamed."""
    if ref.incarnation is not None:
        RELATION_MARKS.create(store, RelationMark(ref.incarnation))
        if ref.leaves_marks:
            # From now on the record itself tells, should the mark be lost.
            _rewrite(store, ref, lambda stored: replace(stored, leaves_marks=False))


def is_unrelated(root: GraphRoot, ref: BranchRef) -> bool:
    """Return whether no other record can refer to a branch, nor a Lance tag to a manifest version.

    False is inconclusive.
    """
    return (
        ref.leaves_marks
        and ref.incarnation is not None
        and ref.renamed_from is None
        and not root.store.exists(RELATION_MARKS.path(ref.incarnation))
        and not root.store.list(_TABLE_TAGS)
    )


_NAMED = b"named"
"""The remark in the checksum log of a manifest branch that has been named."""


@dataclass(frozen=True, slots=True)
class LostBranch:
    """A branch of the manifest whose record is lost, with its last known name."""

    incarnation: str
    name: BranchName | None

    def __str__(self) -> str:
        record = REF_RECORDS.path(self.name) if self.name else "its record"
        called = f"'{self.name}'" if self.name else "a branch"
        return (
            f"the record of {called} is missing, but it was not deleted: restore {record} from "
            f"a backup, or delete the branch with `omnigraph branch delete {self.incarnation}`"
        )


@dataclass(frozen=True, slots=True)
class DeletionMark:
    """The mark of a branch that is deleted: its missing record is not lost."""

    name: BranchName
    incarnation: str


DELETION_MARKS = RecordKind(
    what="the mark of a deleted branch",
    type=DeletionMark,
    base_path=DELETED,
    key="incarnation",
    advice="",
)


def mark_deleted(store: ObjectStore, ref: BranchRef) -> None:
    """Mark a branch as deleted, before its record is removed."""
    assert ref.incarnation is not None, "main is never deleted"
    DELETION_MARKS.put(store, DeletionMark(ref.name, ref.incarnation))


def is_marked(store: ObjectStore, incarnation: str) -> bool:
    """Return whether the branch was deleted, or is being deleted; a damaged mark counts."""
    return store.exists(DELETION_MARKS.path(incarnation))


def list_marked(store: ObjectStore) -> frozenset[str]:
    """List the incarnations of deleted branches that may have left files."""
    return frozenset(filter(is_flat_name, DELETION_MARKS.list_names(store)))


def note_named(root: GraphRoot, incarnation: str) -> None:
    """Record, on a local disk, that a branch has been named."""
    folder = root.manifest(incarnation).local_folder
    if folder is not None:
        add_remark(folder, _NAMED)


def _was_named(location: TableLocation) -> bool:
    if has_own_versions(location):
        return True
    folder = location.local_folder
    return folder is not None and _NAMED in read_log(folder).remarks


def is_lost(root: GraphRoot, incarnation: str) -> bool:
    """Return whether a branch lost its record without being deleted."""
    return (
        is_lance_branch(root.manifest(), incarnation)
        and _was_named(root.manifest(incarnation))
        and not is_marked(root.store, incarnation)
        # Read last: a deletion removes the branch and then its mark.
        and is_lance_branch(root.manifest(), incarnation)
    )


def find_lost(root: GraphRoot, refs: Iterable[BranchRef]) -> list[LostBranch]:
    """Find the branches that lost their record, given all existing records."""
    unnamed = _list_unnamed(root, refs)
    return [LostBranch(one, _name_of(root, one)) for one in unnamed if is_lost(root, one)]


def find_unnamed(root: GraphRoot, refs: Iterable[BranchRef]) -> list[str]:
    """Find the branches without a record or a mark that were possibly never named.

    An interrupted creation leaves such a branch. On an object store, so does a record that is lost
    before the first commit; only a name is lost with it.
    """
    known = list_marked(root.store)
    unnamed = [one for one in _list_unnamed(root, refs) if one not in known]
    return [one for one in unnamed if not is_lost(root, one)]


def _list_unnamed(root: GraphRoot, refs: Iterable[BranchRef]) -> list[str]:
    """List the branches of the manifest that no record names."""
    files = root.store.list(f"{MANIFEST}/{name_branch_file('x').rpartition('/')[0]}")
    names = {file.removesuffix(_JSON) for file in files if file.endswith(_JSON)}
    return sorted(set(filter(is_flat_name, names)) - {ref.incarnation for ref in refs})


def require_none_lost(root: GraphRoot, refs: Iterable[BranchRef]) -> None:
    """Raise if a branch has lost its record: its files would pass for orphans."""
    lost = find_lost(root, refs)
    if lost:
        raise ManifestCorrupt("; ".join(str(one) for one in lost))


def _name_of(root: GraphRoot, incarnation: str) -> BranchName | None:
    """Find the last name of the branch in its own manifest."""
    try:
        heads = read_newest(root.manifest(incarnation)).state.heads.values()
    except OmniError:
        return None
    return next((BranchName(one.branch) for one in heads if one.incarnation == incarnation), None)


@dataclass(frozen=True, slots=True)
class TagRecord:
    """A permanent name of a commit, with the branch it was made on."""

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


TAG_RECORDS = RecordKind(what="the record of a tag", type=TagRecord, base_path=TAGS, is_logged=True)


def normalize_tag(name: str) -> str:
    """Normalize the name of a tag; `main` is reserved for the branch."""
    tag = normalize_name(name, "tag")
    if tag == MAIN:
        raise BadRequest("a tag cannot be called 'main'")
    return tag


def create_tag(
    root: GraphRoot, name: str, commit: CommitRecord, actor_id: str | None = None
) -> TagRecord:
    """Create a tag, which never moves.

    Raises:
        AlreadyExists: the name is taken.
        HistoricalVersionReclaimed: cleanup has removed versions of the commit.
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
        # Cleanup removes nothing under the fence, but may have done so before.
        require_retained_manifest(root, commit.branch, commit.incarnation, commit.manifest_version)
        guard.check()
        if not TAG_RECORDS.create(root.store, tag):
            raise AlreadyExists(f"tag '{tag.name}' already exists; tags do not move")
        is_in_time = is_valid(guard)
    if not is_in_time:
        _require_retained(root, tag)
    return tag


def _require_retained(root: GraphRoot, tag: TagRecord) -> None:
    """Raise, and remove the tag, if its manifest version is removed or about to be.

    With an expired lease, a cleanup or a deletion of the branch may have run before the tag was
    created, without regard to it.
    """
    with root.acquire_fence() as guard:
        try:
            require_retained_manifest(root, tag.branch, tag.incarnation, tag.manifest_version)
            if tag.incarnation is not None and is_marked(root.store, tag.incarnation):
                raise BranchNotFound(tag.branch)
        except OmniError:
            if TAG_RECORDS.find(root.store, tag.name) == tag:
                guard.check()
                TAG_RECORDS.remove(root.store, tag.name)
            raise


def read_tag(store: ObjectStore, name: str) -> TagRecord:
    found = TAG_RECORDS.find(store, name)
    if found is None:
        raise TagNotFound(name)
    return found


def list_tags(store: ObjectStore) -> list[TagRecord]:
    """List all tags by name, without those that are deleted meanwhile."""
    return TAG_RECORDS.list_all(store)


def delete_tag(root: GraphRoot, name: str) -> TagRecord:
    """Remove a tag; its commit is no longer retained by it."""
    with root.acquire_fence() as guard:
        tag = read_tag(root.store, normalize_tag(name))
        guard.check()
        TAG_RECORDS.remove(root.store, tag.name)
    return tag
