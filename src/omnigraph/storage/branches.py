"""Creating, listing and deleting graph branches.

A branch is a name that points to a branch of the manifest. Creating one copies nothing: tables
are inherited and forked when they are first written.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph.errors import AlreadyExists, BranchNotFound, ConflictError, OmniError
from omnigraph.identity import BranchName
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.manifest.read import read_manifest
from omnigraph.storage.names import normalize_deletable_branch, normalize_new_branch
from omnigraph.storage.recovery.intent import pending_intents
from omnigraph.storage.recovery.settle import settle, settle_all
from omnigraph.storage.refs import (
    BranchRef,
    create_ref,
    delete_ref,
    find_ref,
    list_refs,
)
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.branches import create_branch as create_physical
from omnigraph.storage.tables.branches import delete_branch as delete_physical


def create(source: Snapshot, name: str, actor_id: str | None = None) -> BranchRef:
    """A branch that starts as the snapshot is.

    The physical branch comes first and the name last, so a crash leaves no half branch: only a
    physical one that no name refers to.

    Raises:
        HistoricalVersionReclaimed: cleanup removed what the snapshot shows.
    """
    branch, root = normalize_new_branch(name), source.root
    with root.hold() as hold:
        settle_all(root, hold, source.ref)
        if find_ref(root.store, branch) is not None:
            raise AlreadyExists(f"branch '{branch}' already exists")
        if find_ref(root.store, source.branch) != source.ref:
            raise BranchNotFound(source.branch)
        # Under the fence nothing more is cleaned away; before, what it shows may have been.
        read_manifest(root.manifest(source.ref.incarnation), source.manifest_version)
        ref = BranchRef(
            name=branch,
            incarnation=root.ids.next(),
            parent=source.branch,
            parent_incarnation=source.ref.incarnation,
            fork_version=source.manifest_version,
            fork_head=source.head,
            created_at=root.now_us(),
            actor_id=actor_id,
        )
        assert ref.incarnation is not None
        hold.check()
        # The name is fresh: if it is there already, we made it and only the answer was lost.
        with suppress(AlreadyExists):
            create_physical(
                root.manifest(), ref.incarnation, source.ref.incarnation, source.manifest_version
            )
        hold.check()
        create_ref(root.store, ref)
    return ref


def delete(root: GraphRoot, name: str) -> BranchName:
    """Remove the name, then as much of what it stood for as can go now.

    Raises:
        BranchNotFound: there is no such branch.
        ConflictError: another branch was created from it and still needs it.
    """
    branch = normalize_deletable_branch(name)
    with root.hold() as hold:
        refs = list_refs(root.store)
        ref = next((r for r in refs if r.name == branch), None)
        if ref is None or ref.incarnation is None:
            raise BranchNotFound(branch)
        children = sorted(r.name for r in refs if r.parent_incarnation == ref.incarnation)
        if children:
            raise ConflictError(
                f"branch '{branch}' is the source of {', '.join(children)}; delete those first"
            )
        hold.check()
        delete_ref(root.store, branch)
        _drop_leftovers(root, hold, ref)
    return branch


def _drop_leftovers(root: GraphRoot, hold: Hold, ref: BranchRef) -> None:
    """Best effort: without its name nothing reaches it.

    The next writer discards its interrupted writes, and cleanup removes what else stays.
    """
    assert ref.incarnation is not None
    try:
        for intent in pending_intents(root.store):
            if intent.incarnation == ref.incarnation:
                settle(root, hold, intent)
        delete_physical(root.manifest(), ref.incarnation)
    except OmniError:
        return
