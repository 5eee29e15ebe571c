"""Consumers of the change feed that said how far they have read.

Until it expires, a consumer keeps cleanup from removing the commit it has read up to and all that
follow on its branch. Each is a small object, replaced by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from omnigraph.errors import ConflictError, ConsumerNotFound, ManifestCorrupt, StorageError
from omnigraph.identity import CommitId
from omnigraph.storage.layout import CONSUMERS, find_name, make_consumer_path
from omnigraph.storage.manifest.commits import Commit
from omnigraph.storage.manifest.read import read_manifest
from omnigraph.storage.names import normalize_name
from omnigraph.storage.objects.store import ObjectStore, Versioned
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.root import GraphRoot

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of the feed of a branch: up to which commit it has read, and until when it counts.

    `expires_at` is microseconds since the Unix epoch.
    """

    name: str
    branch: str
    incarnation: str | None
    commit_id: CommitId
    expires_at: int
    updated_at: int

    def is_expired(self, now_us: int) -> bool:
        return now_us >= self.expires_at

    def wire(self) -> dict[str, object]:
        return {
            "name": self.name,
            "graph_branch": self.branch,
            "graph_commit_id": self.commit_id,
            "expires_at": self.expires_at,
            "updated_at": self.updated_at,
        }


class _ConsumerRecord(msgspec.Struct, frozen=True):
    """The object of a consumer as it is kept; the nonce makes every state another one."""

    version: int
    nonce: str
    name: str
    branch: str
    incarnation: str | None
    commit_id: str
    expires_at: int
    updated_at: int


def normalize_consumer(name: str) -> str:
    return normalize_name(name, "consumer")


def set_consumer(
    root: GraphRoot, name: str, ref: BranchRef, commit: Commit, lasts_us: int
) -> Consumer:
    """Note that a consumer has read a branch up to this commit, whatever was noted before.

    Raises:
        HistoricalVersionReclaimed: cleanup has removed what the commit shows.
        ConflictError: somebody else moved the consumer at the same time.
    """
    now = root.now_us()
    consumer = Consumer(
        name=normalize_consumer(name),
        branch=str(ref.name),
        incarnation=ref.incarnation,
        commit_id=commit.commit_id,
        expires_at=now + lasts_us,
        updated_at=now,
    )
    with root.hold() as hold:
        # Under the fence nothing more is cleaned away; before, what it shows may have been.
        read_manifest(root.manifest(commit.incarnation), commit.manifest_version)
        hold.check()
        known = root.store.find_versioned(make_consumer_path(consumer.name))
        _put(root, consumer, known)
    return consumer


def _put(root: GraphRoot, consumer: Consumer, known: Versioned | None) -> None:
    path = make_consumer_path(consumer.name)
    record = _ConsumerRecord(
        version=_FORMAT,
        nonce=root.ids.next(),
        name=consumer.name,
        branch=consumer.branch,
        incarnation=consumer.incarnation,
        commit_id=consumer.commit_id,
        expires_at=consumer.expires_at,
        updated_at=consumer.updated_at,
    )
    body = msgspec.json.format(msgspec.json.encode(record))
    try:
        if known is None:
            is_done = root.store.put_if_absent(path, body)
        else:
            is_done = root.store.put_if_match(path, body, known.tag)
    except StorageError:
        if root.store.find(path) != body:
            raise
        return
    if not is_done:
        raise ConflictError(
            f"consumer '{consumer.name}' was changed by another process; read it again"
        )


def find_consumer(store: ObjectStore, name: str) -> Consumer | None:
    path = make_consumer_path(name)
    data = store.find(path)
    return None if data is None else _decode(data, path)


def list_consumers(store: ObjectStore) -> list[Consumer]:
    """Every consumer in the order of names; one deleted while we look is left out."""
    names = sorted(name for file in store.list(CONSUMERS) if (name := find_name(file)) is not None)
    found = (find_consumer(store, name) for name in names)
    return [consumer for consumer in found if consumer is not None]


def delete_consumer(root: GraphRoot, name: str) -> Consumer:
    """Forget a consumer; what only it kept may be cleaned away from now on."""
    wanted = normalize_consumer(name)
    consumer = find_consumer(root.store, wanted)
    if consumer is None:
        raise ConsumerNotFound(wanted)
    root.store.delete(make_consumer_path(wanted))
    return consumer


def list_needed_commits(
    consumer: Consumer, head: CommitId | None, commits: Mapping[CommitId, Commit]
) -> Iterator[Commit]:
    """The commits a consumer still needs: the one it has read up to, and those after it.

    `commits` are all that its branch can see, `head` the newest of them.
    """
    needed = []
    at = head
    while at is not None and (commit := commits.get(at)) is not None:
        needed.append(commit)
        if commit.commit_id == consumer.commit_id:
            yield from needed
            return
        at = commit.parent_commit_id


def _decode(data: bytes, path: str) -> Consumer:
    try:
        record = msgspec.json.decode(data, type=_ConsumerRecord)
    except msgspec.DecodeError as error:
        raise ManifestCorrupt(f"{path} is not the record of a consumer: {error}") from error
    if record.version != _FORMAT:
        raise ManifestCorrupt(f"{path} has format {record.version}, not {_FORMAT}")
    return Consumer(
        record.name,
        record.branch,
        record.incarnation,
        CommitId(record.commit_id),
        record.expires_at,
        record.updated_at,
    )
