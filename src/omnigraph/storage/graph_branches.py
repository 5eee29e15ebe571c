"""Create, rename and delete graph branches."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    ConflictError,
    OmniError,
)
from omnigraph.identity import MAIN, BranchName
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    normalize_branch,
    normalize_deletable_branch,
    normalize_new_branch,
)
from omnigraph.storage.orphans import require_retained_manifest
from omnigraph.storage.recovery.recover_writes import resolve_all, resolve_intent
from omnigraph.storage.refs import (
    DELETION_MARKS,
    REF_RECORDS,
    RELATION_MARKS,
    BranchRef,
    create_ref,
    delete_ref,
    find_lost,
    find_ref,
    forget_old_name,
    is_marked,
    is_unrelated,
    list_refs,
    list_tags,
    mark_deleted,
    mark_related,
    note_named,
)
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.file_probes import is_lance_branch
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.storage.tables.table_branches import create_branch as create_physical
from omnigraph.storage.tables.table_branches import delete_branch as delete_physical
from omnigraph.storage.write_plan import list_pending_intents
from omnigraph.storage.writer_fence import FenceGuard, is_valid


def create(
    source: Snapshot,
    name: str,
    actor_id: str | None = None,
    incarnation: str | None = None,
    given_up: Collection[str] = (),
) -> BranchRef:
    """Create a branch at a snapshot; `incarnation` is its id, a fresh one by default.

    The physical branch is created first and the name last, so a crash leaves only a physical branch
    without a name. Cleanup may be removing that, so the next attempt creates another one;
    `given_up` are the ids of earlier attempts.

    Raises:
        AlreadyExists: there is a branch of this name, or an earlier attempt has created it.
        HistoricalVersionReclaimed: cleanup removed a version of the snapshot.
        ConflictError: the lease expired, and cleanup removed the branch as an orphan.
    """
    branch, root = normalize_new_branch(name), source.root
    with root.acquire_fence() as guard:
        resolve_all(root, guard, source.ref)
        if find_ref(root.store, branch) is not None:
            raise AlreadyExists(f"branch '{branch}' already exists")
        _give_up(root, guard, branch, given_up)
        if find_ref(root.store, source.branch) != source.ref:
            raise BranchNotFound(source.branch)
        # Cleanup removes nothing under the fence, but may have done so before.
        require_retained_manifest(
            root, source.branch, source.ref.incarnation, source.manifest_version
        )
        ref = BranchRef(
            name=branch,
            incarnation=incarnation or root.ids.next(),
            parent=source.branch,
            parent_incarnation=source.ref.incarnation,
            fork_version=source.manifest_version,
            fork_head=source.head,
            created_at=root.now_us(),
            actor_id=actor_id,
            leaves_marks=True,
        )
        assert ref.incarnation is not None
        guard.check()
        mark_related(root.store, source.ref)
        guard.check()
        # The id is fresh: if it exists already, only the answer to this call was lost.
        with suppress(AlreadyExists):
            create_physical(
                root.manifest(), ref.incarnation, source.ref.incarnation, source.manifest_version
            )
        guard.check()
        create_ref(root.store, ref)
        note_named(root, ref.incarnation)
        is_in_time = is_valid(guard)
    if not is_in_time:
        _require_created(root, ref)
        _require_parent(root, ref)
    return ref


def _give_up(root: GraphRoot, guard: FenceGuard, branch: BranchName, ids: Collection[str]) -> None:
    """Mark earlier attempts as deleted: their creators may be suspended, and name them later."""
    if not ids:
        return
    for ref in list_refs(root.store):
        if ref.incarnation in ids:
            raise AlreadyExists(f"branch '{branch}' was created, and is called '{ref.name}' now")
    for one in ids:
        if is_lance_branch(root.manifest(), one):
            guard.check()
            mark_deleted(root.store, BranchRef(branch, one))


def _require_created(root: GraphRoot, ref: BranchRef) -> None:
    """Raise, and remove the name, if the branch is deleted or being deleted.

    With an expired lease, a cleanup may have removed the branch before it was named, as an orphan,
    and a branch to be renamed may have been deleted by its old name. A deletion may be suspended
    as well, before it removes files; it leaves a mark first.
    """
    assert ref.incarnation is not None
    with root.acquire_fence() as guard:
        is_there = is_lance_branch(root.manifest(), ref.incarnation)
        if is_there and not is_marked(root.store, ref.incarnation):
            return
        if find_ref(root.store, ref.name) == ref:
            guard.check()
            delete_ref(root.store, ref.name)
    raise ConflictError(
        f"branch '{ref.name}' was deleted while it was being renamed; list the branches "
        "and create it again if it is still wanted"
    )


def _require_parent(root: GraphRoot, ref: BranchRef) -> None:
    """Raise, and remove the branch, if its source was deleted meanwhile."""
    parent = ref.parent_incarnation
    if parent is None:
        return
    with root.acquire_fence() as guard:
        if is_lance_branch(root.manifest(), parent) and not is_marked(root.store, parent):
            return
        if find_ref(root.store, ref.name) == ref:
            guard.check()
            delete_ref(root.store, ref.name)
            _remove_files(root, guard, ref, is_unrelated=False)
    raise BranchNotFound(ref.parent or MAIN)


def delete(root: GraphRoot, name: str, incarnation: str | None = None) -> BranchName:
    """Delete a branch: its name, then as many of its files as possible.

    A deletion mark is written first, so that the record does not count as lost. A branch that did
    lose its record is deleted by its id. With an `incarnation`, another branch of the same name is
    not deleted.

    Raises:
        BranchNotFound: there is no such branch.
        ConflictError: another branch was created from it.
    """
    branch = normalize_deletable_branch(name)
    with root.acquire_fence() as guard:
        named = find_ref(root.store, branch)
        ref = named or _find_lost(root, branch)
        if ref is None or ref.incarnation is None or incarnation not in (None, ref.incarnation):
            raise BranchNotFound(branch)
        is_alone = is_unrelated(root, ref)
        children = [] if is_alone else _resolve_names(root, guard, ref)
        if named is not None and find_ref(root.store, branch) is None:
            raise BranchNotFound(branch)  # it was its former name
        tags = [tag.name for tag in list_tags(root.store) if tag.incarnation == ref.incarnation]
        if tags:
            raise ConflictError(
                f"branch '{branch}' has commits tagged {', '.join(tags)}; delete those tags first"
            )
        if children:
            raise ConflictError(
                f"branch '{branch}' is the source of {', '.join(children)}; delete those first"
            )
        guard.check()
        mark_deleted(root.store, ref)
        guard.check()
        delete_ref(root.store, branch)
        is_in_time = is_valid(guard)
        if is_in_time:
            _remove_files(root, guard, ref, is_unrelated=is_alone)
    if not is_in_time:
        _finish_late_deletion(root, ref)
    return branch


def _finish_late_deletion(root: GraphRoot, ref: BranchRef) -> None:
    """Remove the files of a deleted branch after the lease expired, unless it is used by now.

    Another writer may have renamed the branch before its name was removed, or created another one
    from it.
    """
    assert ref.incarnation is not None, "main is never deleted"
    with root.acquire_fence() as guard:
        related = REF_RECORDS.list_mentioning(root.store, ref.incarnation)
        names = [one.name for one in related if one.incarnation == ref.incarnation]
        if names:
            raise ConflictError(
                f"branch '{ref.name}' was renamed to '{names[0]}' while it was being deleted; "
                "delete it by that name"
            )
        if not related:
            _remove_files(root, guard, ref, is_unrelated=False)


def _find_lost(root: GraphRoot, name: BranchName) -> BranchRef | None:
    """Find a branch that has lost its record, and with it its name, by its id."""
    if not is_flat_name(name):
        return None
    ids = {one.incarnation for one in find_lost(root, list_refs(root.store))}
    return BranchRef(name, name) if name in ids else None


def rename(root: GraphRoot, name: str, new_name: str, incarnation: str | None = None) -> BranchRef:
    """Rename a branch, which retains its commits and its feed.

    With an `incarnation`, another branch of the same name is not renamed.

    The new record is created first and the old one removed last. A crash in between leaves one
    branch with two names. The next write by the new name removes the old one, and so does renaming
    or deleting the branch by either.

    Raises:
        BranchNotFound: there is no such branch.
        AlreadyExists: another branch has the new name.
    """
    old, new = normalize_branch(name), normalize_new_branch(new_name)
    if old == MAIN:
        raise BadRequest("branch 'main' cannot be renamed")
    with root.acquire_fence() as guard:
        ref, taken = find_ref(root.store, old), find_ref(root.store, new)
        for one in (ref, taken):
            if one is not None and not is_unrelated(root, one):
                _resolve_names(root, guard, one)
        is_meant = ref is not None and incarnation in (None, ref.incarnation)
        if ref is None or not is_meant or find_ref(root.store, old) is None:
            raise BranchNotFound(old)
        # Intents name the branch they are for, so none may be pending when its name changes.
        resolve_all(root, guard, ref)
        renamed = replace(ref, name=new, renamed_from=old, leaves_marks=False)
        guard.check()
        mark_related(root.store, ref)
        create_ref(root.store, renamed)
        is_in_time = is_valid(guard)
        if is_in_time:
            finish_rename(root, guard, renamed)
    if not is_in_time:
        _require_created(root, renamed)  # the next write by the new name removes the old one
    return replace(renamed, renamed_from=None)


def _resolve_names(root: GraphRoot, guard: FenceGuard, ref: BranchRef) -> list[BranchName]:
    """Remove the former name of a branch, if it still exists; return the branches created from it.

    Both need every record.
    """
    assert ref.incarnation is not None, "main has one name"
    related = REF_RECORDS.list_mentioning(root.store, ref.incarnation)
    for one in related:
        if one.incarnation == ref.incarnation:
            finish_rename(root, guard, one)
    return sorted(one.name for one in related if one.parent_incarnation == ref.incarnation)


def finish_rename(root: GraphRoot, guard: FenceGuard, ref: BranchRef) -> None:
    """Remove the former name of a branch, if renaming it was interrupted."""
    old = ref.renamed_from
    if old is None:
        return
    before = find_ref(root.store, old)
    if before is not None and before.incarnation == ref.incarnation:
        # A write by the old name may have been interrupted as well.
        resolve_all(root, guard, ref)
        guard.check()
        delete_ref(root.store, old)
    guard.check()
    forget_old_name(root.store, ref)


def _remove_files(
    root: GraphRoot, guard: FenceGuard, ref: BranchRef, *, is_unrelated: bool
) -> None:
    """Remove the files of a branch without a name, best effort.

    The next writer discards its interrupted writes, and cleanup removes the remaining files.
    """
    assert ref.incarnation is not None
    try:
        for plan in list_pending_intents(root.store):
            if plan.requires.incarnation == ref.incarnation:
                resolve_intent(root, guard, plan)
        delete_physical(root.manifest(), ref.incarnation, is_alone=is_unrelated)
        if not is_unrelated:
            RELATION_MARKS.remove(root.store, ref.incarnation)
        DELETION_MARKS.remove(root.store, ref.incarnation)
    except OmniError:
        return
