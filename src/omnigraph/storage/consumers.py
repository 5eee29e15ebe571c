"""Consumers of the change feed: named positions that retain the commits after them.

Until it expires, a consumer keeps cleanup from removing the last commit it has read and all later
ones of its branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.errors import ConflictError, ConsumerNotFound
from omnigraph.identity import BranchName, CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import CONSUMERS, normalize_name
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.orphans import require_retained_manifest, require_retained_versions
from omnigraph.storage.refs import BranchRef, find_branch
from omnigraph.storage.sealed_records import RecordKind
from omnigraph.storage.writer_fence import is_valid
from omnigraph.wire import commit_results


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """The position of a reader in the feed of a branch: the last commit it has read.

    `expires_at` is microseconds since the Unix epoch.
    """

    name: str
    branch: str
    incarnation: str | None
    commit_id: CommitId
    expires_at: int
    updated_at: int
    nonce: str = field(default="", compare=False)
    """Fresh on every write, so that no two states have the same tag."""

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


CONSUMER_RECORDS = RecordKind(
    what="the record of a consumer", type=ConsumerRecord, base_path=CONSUMERS, is_logged=True
)


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
    """Move a consumer to a commit of a branch, forward or back; `unread` are the later commits.

    Raises:
        HistoricalVersionReclaimed: cleanup has removed versions of one of these commits.
        ConflictError: another process moved the consumer at the same time.
    """
    wanted = normalize_consumer(name)
    with root.acquire_fence() as guard:
        # Cleanup removes nothing under the fence, but may have done so before.
        _require_retained(root, commit, unread)
        # Read before the fence is checked: later writes of others are not replaced.
        known = CONSUMER_RECORDS.find_stored(root.store, wanted)
        now = root.now_us()
        consumer = ConsumerRecord(
            name=wanted,
            branch=str(ref.name),
            incarnation=ref.incarnation,
            commit_id=commit.commit_id,
            expires_at=now + lasts_us,
            updated_at=now,
            nonce=root.ids.next(),
        )
        guard.check()
        if not CONSUMER_RECORDS.swap(root.store, consumer, known):
            raise ConflictError(
                f"consumer '{wanted}' was changed by another process; read it again"
            )
        is_in_time = is_valid(guard)
    if not is_in_time:
        with root.acquire_fence():
            # A cleanup between may have removed what the consumer was to retain.
            _require_retained(root, commit, unread)
    return consumer


def _require_retained(
    root: GraphRoot, commit: CommitRecord, unread: Sequence[CommitRecord]
) -> None:
    require_retained_manifest(root, commit.branch, commit.incarnation, commit.manifest_version)
    versions: dict[str | None, list[int]] = {}
    for one in unread:
        versions.setdefault(one.incarnation, []).append(one.manifest_version)
    for incarnation, numbers in versions.items():
        require_retained_versions(root, root.manifest(incarnation), numbers)


def list_consumers(store: ObjectStore) -> list[ConsumerRecord]:
    """List all consumers by name, without those that are deleted meanwhile."""
    return [_name_branch(store, consumer) for consumer in CONSUMER_RECORDS.list_all(store)]


def _name_branch(store: ObjectStore, consumer: ConsumerRecord) -> ConsumerRecord:
    """Return the consumer with the present name of its branch."""
    ref = find_branch(store, BranchName(consumer.branch), consumer.incarnation)
    return consumer if ref is None else replace(consumer, branch=str(ref.name))


def delete_consumer(root: GraphRoot, name: str) -> ConsumerRecord:
    """Remove a consumer; cleanup may remove what only it retained."""
    wanted = normalize_consumer(name)
    with root.acquire_fence() as guard:
        consumer = CONSUMER_RECORDS.find(root.store, wanted)
        if consumer is None:
            raise ConsumerNotFound(wanted)
        guard.check()
        CONSUMER_RECORDS.remove(root.store, wanted)
    return consumer


def list_needed_commits(
    consumer: ConsumerRecord, head: CommitId | None, commits: Mapping[CommitId, CommitRecord]
) -> Iterator[CommitRecord]:
    """Yield the commits a consumer retains: the last one it has read, and those after it.

    `commits` are those reachable from its branch, `head` the newest of them.
    """
    needed = []
    at = head
    while at is not None and (commit := commits.get(at)) is not None:
        needed.append(commit)
        if commit.commit_id == consumer.commit_id:
            yield from needed
            return
        at = commit.parent_commit_id
