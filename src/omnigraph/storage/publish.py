"""Publish: the one write that makes a change visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph.errors import OmniError, RetryableCommitConflict, RowLevelCasContention
from omnigraph.identity import CommitId
from omnigraph.storage.concurrent_calls import read_boot_clock
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.commit_records import CommitRecord, encode_audit, encode_commit
from omnigraph.storage.manifest.manifest_changes import (
    Publication,
    apply_publication,
    check_expectations,
)
from omnigraph.storage.manifest.manifest_reader import (
    History,
    ManifestSnapshot,
    make_published_manifest,
    read_newest,
)
from omnigraph.storage.manifest.manifest_state import ManifestState, encode_rows
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.tables.manifest_table import (
    ManifestTableState,
    StateFile,
    compact_lineage,
    make_state_file,
    make_written_state,
    stage_manifest,
)
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table_commit import SUSPEND_THRESHOLD_S, commit_exact

RETRIES = 5

COMMIT_PROPERTY = "omnigraph.graph_commit_id"


@dataclass(frozen=True, slots=True)
class Published:
    """The manifest after a publish, and the commit it records."""

    manifest: ManifestSnapshot
    commit: CommitRecord | None


@dataclass(frozen=True, slots=True)
class PreparedPublish:
    """A publish whose file is written and not referenced yet."""

    base: ManifestSnapshot
    publication: Publication
    commit: CommitRecord | None
    state: ManifestState
    file: StateFile
    staged: StagedTransaction

    def is_for(self, base: ManifestSnapshot, publication: Publication) -> bool:
        """Return whether it was prepared for this publication on this manifest."""
        is_same = self.publication is publication or self.publication == publication
        return self.base is base and is_same


def prepare_publish(
    base: ManifestSnapshot, ref: BranchRef, publication: Publication
) -> PreparedPublish:
    """Write the file of a publish on the manifest at `base`, without making it visible.

    Raises:
        ExpectedVersionMismatch, ReadSetChanged: a requirement is not satisfied.
    """
    check_expectations(base.state, publication, ref.name, ref.incarnation)
    commit = _commit(base, ref, publication)
    parent = commit.parent_commit_id if commit else None
    state = apply_publication(base.state, publication, ref.name, ref.incarnation, parent)
    added = [encode_audit(audit) for audit in publication.audits]
    added += [encode_commit(one) for one in publication.history]
    if commit is not None:
        added.append(encode_commit(commit))
    rows, lineage = encode_rows(state, added)
    file = make_state_file(base.table_state, rows, lineage)
    staged = stage_manifest(
        base.table_state,
        file,
        lineage,
        properties={COMMIT_PROPERTY: commit.commit_id} if commit else {},
    )
    return PreparedPublish(base, publication, commit, state, file, staged)


def publish(
    root: GraphRoot,
    ref: BranchRef,
    publication: Publication,
    *,
    base: ManifestSnapshot | None = None,
    prepared: PreparedPublish | None = None,
    before_commit: Callable[[], None] = lambda: None,
) -> Published:
    """Make every change of the publication visible in one step, or none.

    A strict compare-and-swap on the next manifest version. All requirements are checked again on
    each attempt; the commit keeps its id and time over all of them.
    `before_commit` runs right before each attempt's visible effect and may raise. A caller
    that has just read the newest manifest passes it as `base`, and what it staged on it as
    `prepared`; if that is outdated, the first attempt fails and the next one reads
    again. A `prepared` for another publication is not used.

    Raises:
        ExpectedVersionMismatch, ReadSetChanged: an assumption no longer holds.
        RowLevelCasContention: others published first on every attempt.
        OutcomeUnknown: the publish may or may not have taken effect; look for the commit id.
    """
    for attempt in range(RETRIES + 1):
        if base is None or attempt:
            base = read_newest(root.manifest(ref.incarnation), base)
        if publication.is_empty:
            check_expectations(base.state, publication, ref.name, ref.incarnation)
            return Published(base, None)
        if prepared is None or not prepared.is_for(base, publication):
            prepared = prepare_publish(base, ref, publication)
        before_commit()
        began_s = read_boot_clock()
        try:
            published = _replace_state(prepared)
            if read_boot_clock() - began_s > SUSPEND_THRESHOLD_S:
                _require_shown(root, prepared, published.version)
        except RetryableCommitConflict:
            continue
        return Published(published, prepared.commit)
    raise RowLevelCasContention(RETRIES + 1)


def _require_shown(root: GraphRoot, prepared: PreparedPublish, reached: int) -> None:
    """Raise if a slow publish is not part of the newest manifest.

    A writer suspended in it may resume after others published and cleanup removed the
    version that it would have conflicted with. Its version then exists beside theirs, and is not
    an ancestor of the newest one. It is removed, so that no reader opens it. `reached` is the
    version committed, one more if the history was compacted.
    """
    location, commit = prepared.base.location, prepared.commit
    newest = read_newest(location)
    if newest.version == reached:
        return
    if commit is not None:
        if History().find_commit(newest, commit.commit_id) is not None:
            return
        root.store.delete(root.version_path(location, prepared.staged.target_version))
    raise RetryableCommitConflict(
        f"{location} moved from version {prepared.base.version} to {newest.version}; retry"
    )


def _commit(
    base: ManifestSnapshot, ref: BranchRef, publication: Publication
) -> CommitRecord | None:
    if publication.commit is None:
        return None
    head = base.state.head_of(ref.name, ref.incarnation)
    parent: CommitId | None = head.commit_id if head else ref.fork_head
    return CommitRecord.publish(
        publication.commit,
        branch=ref.name,
        manifest_version=base.version + 1,
        parent_commit_id=parent,
        incarnation=ref.incarnation,
    )


def _replace_state(prepared: PreparedPublish) -> ManifestSnapshot:
    committed = commit_exact(prepared.staged)
    table_state = make_written_state(prepared.base.table_state, committed.table, prepared.file)
    table_state = table_state if prepared.file.has_recent else _compact_history(table_state)
    return make_published_manifest(table_state, prepared.state, prepared.base)


def _compact_history(table_state: ManifestTableState) -> ManifestTableState:
    """Merge the small pieces of history of a manifest once there are many.

    Each piece slows down every later publish. Merging changes no row, so a failure to merge does
    not fail the publish.
    """
    try:
        merged = compact_lineage(table_state.table, properties={})
    except OmniError:
        return table_state
    return table_state if merged is None else replace(table_state, table=merged.table)
