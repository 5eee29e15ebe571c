"""The one door by which anything becomes visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from omnigraph.errors import OmniError, RetryableCommitConflict, RowLevelCasContention
from omnigraph.identity import CommitId
from omnigraph.storage.manifest.changes import (
    Publication,
    apply_publication,
    check_expectations,
)
from omnigraph.storage.manifest.commits import Commit, encode_audit, encode_commit
from omnigraph.storage.manifest.read import ManifestVersion, read_newest
from omnigraph.storage.manifest.rows import Row, to_arrow
from omnigraph.storage.manifest.state import ManifestState, encode_state
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.commit import commit_exact
from omnigraph.storage.tables.ledger import compact_lineage, stage_manifest, written_state

RETRIES = 5

COMMIT_PROPERTY = "omnigraph.graph_commit_id"


@dataclass(frozen=True, slots=True)
class Published:
    """The manifest after a publish, and the commit it recorded."""

    manifest: ManifestVersion
    commit: Commit | None


def publish(
    root: GraphRoot,
    ref: BranchRef,
    publication: Publication,
    *,
    warm: ManifestVersion | None = None,
    before_commit: Callable[[], None] = lambda: None,
) -> Published:
    """Make every change of the publication visible in one step, or none.

    A strict compare-and-swap on the manifest's next version. Everything the publication assumes
    is checked again on each attempt; the commit keeps its id and time over all of them.
    `before_commit` runs right before each attempt's visible effect and may refuse it.

    Raises:
        ExpectedVersionMismatch, ReadSetChanged: an assumption no longer holds.
        RowLevelCasContention: others published first on every attempt.
        OutcomeUnknown: it may or may not have happened; look for the commit id.
    """
    location = root.manifest(ref.incarnation)
    for _ in range(RETRIES + 1):
        base = read_newest(location, warm)
        warm = base
        check_expectations(base.state, publication, ref.name, ref.incarnation)
        if publication.is_empty:
            return Published(base, None)
        commit = _commit(base, ref, publication)
        parent = commit.parent_commit_id if commit else None
        state = apply_publication(base.state, publication, ref.name, ref.incarnation, parent)
        before_commit()
        try:
            published = _swap(base, state, publication, commit)
        except RetryableCommitConflict:
            continue
        return Published(_tidied(published), commit)
    raise RowLevelCasContention(RETRIES + 1)


def _commit(base: ManifestVersion, ref: BranchRef, publication: Publication) -> Commit | None:
    if publication.commit is None:
        return None
    head = base.state.head_of(ref.name, ref.incarnation)
    parent: CommitId | None = head.commit_id if head else ref.fork_head
    return Commit(
        commit_id=publication.commit.commit_id,
        branch=ref.name,
        manifest_version=base.version + 1,
        parent_commit_id=parent,
        merged_parent_commit_id=publication.commit.merged_parent_commit_id,
        actor_id=publication.commit.actor_id,
        created_at=publication.commit.created_at,
        incarnation=ref.incarnation,
    )


def _swap(
    base: ManifestVersion, state: ManifestState, publication: Publication, commit: Commit | None
) -> ManifestVersion:
    lineage: list[Row] = [encode_audit(audit) for audit in publication.audits]
    if commit is not None:
        lineage.append(encode_commit(commit))
    rows = to_arrow(encode_state(state))
    staged = stage_manifest(
        base.ledger,
        rows,
        to_arrow(lineage),
        uuid=str(uuid4()),
        properties={COMMIT_PROPERTY: commit.commit_id} if commit else {},
    )
    committed = commit_exact(staged)
    return ManifestVersion(written_state(committed.table, rows), state, base.stamp)


def _tidied(manifest: ManifestVersion) -> ManifestVersion:
    """The manifest with its many small pieces of history merged, when there are many.

    Every publish adds one, and each costs every later one a little. Merging changes no row, so
    failing to merge is no failure of the publish.
    """
    try:
        merged = compact_lineage(manifest.table, uuid=str(uuid4()), properties={})
    except OmniError:
        return manifest
    if merged is None:
        return manifest
    return replace(manifest, ledger=written_state(merged.table, manifest.ledger.rows))
