"""Consumers of the change feed that said how far they have read.

Until it expires, a consumer keeps cleanup from removing the commit it has read up to and all that
follow on its branch. Each is a small object, replaced by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.errors import ConflictError, ConsumerNotFound, StorageError
from omnigraph.identity import BranchName, CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import CONSUMERS, make_consumer_path, normalize_name
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.objects.object_store import ObjectStore, Versioned
from omnigraph.storage.orphans import require_retained_manifest, require_retained_versions
from omnigraph.storage.refs import BranchRef, find_branch
from omnigraph.storage.sealed_records import NamedRecords, create_logged, remove_logged
from omnigraph.storage.writer_fence import is_valid
from omnigraph.wire import commit_results


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
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

    @property
    def shown(self) -> commit_results.Consumer:
        """The consumer as every surface shows it."""
        return commit_results.Consumer(
            name=self.name,
            branch=self.branch,
            commit_id=self.commit_id,
            expires_at=self.expires_at,
            updated_at=self.updated_at,
        )


CONSUMER_RECORDS = NamedRecords(
    "consumer", CONSUMERS, make_consumer_path, ConsumerRecord, unread=("nonce",)
)
"""The nonce makes every state of a consumer another one."""


def normalize_consumer(name: str) -> str:
    return normalize_name(name, "consumer")


def set_consumer(
    root: GraphRoot,
    name: str,
    ref: BranchRef,
    commit: CommitRecord,
    lasts_us: int,
    unread: Sequence[CommitRecord] = (),
) -> ConsumerRecord:
    """Note that a consumer has read a branch up to this commit, whatever was noted before.

    `unread` are the commits that came after it.

    Raises:
        HistoricalVersionReclaimed: cleanup has removed what one of these commits shows.
        ConflictError: somebody else moved the consumer at the same time.
    """
    wanted = normalize_consumer(name)
    with root.acquire_fence() as guard:
        # Under the fence nothing more is cleaned away; before, what it shows may have been.
        _require_lasting(root, commit, unread)
        # Read before the look at the fence: what others note from then on is not replaced.
        known = root.store.find_versioned(make_consumer_path(wanted))
        now = root.now_us()
        consumer = ConsumerRecord(
            name=wanted,
            branch=str(ref.name),
            incarnation=ref.incarnation,
            commit_id=commit.commit_id,
            expires_at=now + lasts_us,
            updated_at=now,
        )
        guard.check()
        _put(root, consumer, known)
        is_in_time = is_valid(guard)
    if not is_in_time:
        with (
            root.acquire_fence()
        ):  # a cleanup that came before the note may have removed what it is about
            _require_lasting(root, commit, unread)
    return consumer


def _require_lasting(root: GraphRoot, commit: CommitRecord, unread: Sequence[CommitRecord]) -> None:
    require_retained_manifest(root, commit.branch, commit.incarnation, commit.manifest_version)
    versions: dict[str | None, list[int]] = {}
    for one in unread:
        versions.setdefault(one.incarnation, []).append(one.manifest_version)
    for incarnation, numbers in versions.items():
        require_retained_versions(root, root.manifest(incarnation), numbers)


def _put(root: GraphRoot, consumer: ConsumerRecord, known: Versioned | None) -> None:
    path = make_consumer_path(consumer.name)
    body = CONSUMER_RECORDS.encode(consumer, nonce=root.ids.next())
    try:
        if known is None:
            is_done = create_logged(root.store, path, body)
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


def find_consumer(store: ObjectStore, name: str) -> ConsumerRecord | None:
    return CONSUMER_RECORDS.find(store, name)


def list_consumers(store: ObjectStore) -> list[ConsumerRecord]:
    """Every consumer in the order of names; one deleted while we look is left out."""
    return [_name_branch(store, consumer) for consumer in CONSUMER_RECORDS.list_all(store)]


def _name_branch(store: ObjectStore, consumer: ConsumerRecord) -> ConsumerRecord:
    """The consumer with the name that its branch has now."""
    ref = find_branch(store, BranchName(consumer.branch), consumer.incarnation)
    return consumer if ref is None else replace(consumer, branch=str(ref.name))


def delete_consumer(root: GraphRoot, name: str) -> ConsumerRecord:
    """Forget a consumer; what only it kept may be cleaned away from now on."""
    wanted = normalize_consumer(name)
    with root.acquire_fence() as guard:
        consumer = find_consumer(root.store, wanted)
        if consumer is None:
            raise ConsumerNotFound(wanted)
        guard.check()
        remove_logged(root.store, make_consumer_path(wanted))
    return consumer


def list_needed_commits(
    consumer: ConsumerRecord, head: CommitId | None, commits: Mapping[CommitId, CommitRecord]
) -> Iterator[CommitRecord]:
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
