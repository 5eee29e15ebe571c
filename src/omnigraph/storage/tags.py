"""Tags: names for commits that are to stay, a small object each, made by put-if-absent.

A tag never moves: it is made, read and deleted. Cleanup keeps what its commit shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    OmniError,
    StorageError,
    TagNotFound,
)
from omnigraph.identity import MAIN, CommitId
from omnigraph.storage.fence.hold import is_held
from omnigraph.storage.lasting_versions import require_lasting_manifest
from omnigraph.storage.layout import TAGS, tag_ref
from omnigraph.storage.lost_branches import is_marked
from omnigraph.storage.manifest.commits import Commit
from omnigraph.storage.named_records import NamedRecords
from omnigraph.storage.names import normalize_name
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.record_log import create_logged, remove_logged
from omnigraph.storage.root import GraphRoot


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit, with where that commit was made."""

    name: str
    commit_id: CommitId
    branch: str
    incarnation: str | None
    manifest_version: int
    created_at: int
    actor_id: str | None = None

    @property
    def place(self) -> str:
        """What names its commit wherever a commit is taken."""
        return self.commit_id

    def wire(self) -> dict[str, object]:
        return {
            "name": self.name,
            "graph_commit_id": self.commit_id,
            "graph_branch": self.branch,
            "actor_id": self.actor_id,
            "created_at": self.created_at,
        }


TAG_RECORDS = NamedRecords("tag", TAGS, tag_ref, Tag)


def normalize_tag(name: str) -> str:
    """The name of a tag as it is used from here on; `main` always is the branch."""
    tag = normalize_name(name, "tag")
    if tag == MAIN:
        raise BadRequest("a tag cannot be called 'main'")
    return tag


def create_tag(root: GraphRoot, name: str, commit: Commit, actor_id: str | None = None) -> Tag:
    """Name a commit for good.

    Raises:
        AlreadyExists: the name is taken.
        HistoricalVersionReclaimed: cleanup has removed what the commit shows.
        BranchNotFound: the branch it was made on is being deleted.
    """
    tag = Tag(
        name=normalize_tag(name),
        commit_id=commit.commit_id,
        branch=commit.branch,
        incarnation=commit.incarnation,
        manifest_version=commit.manifest_version,
        created_at=root.now_us(),
        actor_id=actor_id,
    )
    with root.hold() as hold:
        # Under the fence nothing more is cleaned away; before, what it shows may have been.
        require_lasting_manifest(root, commit.branch, commit.incarnation, commit.manifest_version)
        hold.check()
        _put(root.store, tag)
        is_in_time = is_held(hold)
    if not is_in_time:
        _require_kept(root, tag)
    return tag


def _require_kept(root: GraphRoot, tag: Tag) -> None:
    """Raise, and take the tag back, if what it names is gone or going.

    Where the fence is a lease, whoever makes a tag may have slept before that. Neither a cleanup
    that came meanwhile nor somebody who deleted the branch knew of it.
    """
    with root.hold() as hold:
        try:
            require_lasting_manifest(root, tag.branch, tag.incarnation, tag.manifest_version)
            if tag.incarnation is not None and is_marked(root.store, tag.incarnation):
                raise BranchNotFound(tag.branch)
        except OmniError:
            if find_tag(root.store, tag.name) == tag:
                hold.check()
                remove_logged(root.store, tag_ref(tag.name))
            raise


def _put(store: ObjectStore, tag: Tag) -> None:
    body = TAG_RECORDS.encode(tag)
    try:
        is_made = create_logged(store, tag_ref(tag.name), body)
    except StorageError:
        if find_tag(store, tag.name) != tag:
            raise
        return
    if not is_made:
        raise AlreadyExists(f"tag '{tag.name}' already exists; tags do not move")


def find_tag(store: ObjectStore, name: str) -> Tag | None:
    return TAG_RECORDS.find(store, name)


def read_tag(store: ObjectStore, name: str) -> Tag:
    found = find_tag(store, name)
    if found is None:
        raise TagNotFound(name)
    return found


def list_tags(store: ObjectStore) -> list[Tag]:
    """Every tag in the order of names; one deleted while we look is left out."""
    return TAG_RECORDS.list_all(store)


def delete_tag(root: GraphRoot, name: str) -> Tag:
    """Remove a tag; its commit stays as long as anything else keeps it."""
    with root.hold() as hold:
        tag = read_tag(root.store, normalize_tag(name))
        hold.check()
        try:
            remove_logged(root.store, tag_ref(tag.name))
        except StorageError:
            if find_tag(root.store, tag.name) is not None:
                raise
    return tag
