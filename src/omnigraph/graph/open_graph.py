"""The state of an open graph, and the base of the verbs; creating, opening and recovering."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import SchemaState, encode_ir, encode_state
from omnigraph.errors import (
    BadRequest,
    GraphNotFound,
    MergeConflict,
    MergeConflicts,
    StorageError,
    StorageFailure,
)
from omnigraph.execution.read import Embedder, Topology
from omnigraph.execution.search import SearchCache
from omnigraph.execution.stored_rows import build_table_schema
from omnigraph.graph import revisions
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot, RecentKeys
from omnigraph.graph.graph_view import GraphView
from omnigraph.graph.guard import Guard
from omnigraph.graph.queries import QuerySettings
from omnigraph.graph.results import PendingWrite, RecoveredWrite
from omnigraph.graph.revisions import RevisionLike, format_revision, is_full_id
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.policy.decision import Action, Authority
from omnigraph.settings import Settings
from omnigraph.storage.graph_lifecycle import (
    NewTable,
    initialize,
    is_initialized,
    list_mirror_files,
    rebase_address,
    require_finished,
)
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import RecoveryAudit, SchemaContract
from omnigraph.storage.objects import require_create_if_absent
from omnigraph.storage.recovery import (
    ExaminedIntent,
    ResolvedIntent,
    examine,
    list_operations,
    list_pending_intents,
    resolve_all,
)
from omnigraph.stored_queries import QueryRegistry
from omnigraph.writer.change import WriteOptions

if TYPE_CHECKING:
    from omnigraph.maintenance.autopilot import Autopilot
    from omnigraph.writer.driver import Writer


log = logging.getLogger(__name__)


def create_graph(
    root: GraphRoot, schema: SourceText, *, force: bool = False, actor: str | None = None
) -> None:
    """Create a graph with this schema; a schema with mistakes writes nothing."""
    # A graph that is opened has its schema compiled.
    from omnigraph.catalog.assign_identities import derive_first_identity, identify_first
    from omnigraph.catalog.build import compile_schema

    domain = root.ids.next()
    catalog = identify_first(compile_schema(schema), domain, derive_first_identity(domain))
    contract = make_contract(catalog, schema.text)
    initialize(root, list_new_tables(catalog), contract, force=force, actor=actor)


def make_contract(catalog: Catalog, source: str) -> SchemaContract:
    state = encode_state(SchemaState.of(catalog, source))
    return SchemaContract(source, encode_ir(catalog), state)


def list_new_tables(catalog: Catalog) -> list[NewTable]:
    return [
        NewTable(type_.identity, key, build_table_schema(type_))
        for key, type_ in sorted(catalog.by_table_key.items())
    ]


def require_graph(root: GraphRoot) -> None:
    if not is_initialized(root.store):
        raise GraphNotFound(root.uri)


def require_whole(root: GraphRoot) -> None:
    """Raise `CloneUnfinished` for the target of an unfinished clone."""
    require_finished(root.store)


def make_ready(root: GraphRoot) -> list[ResolvedIntent]:
    """Prepare a graph for writing, and return the interrupted writes that were recovered.

    Checks the store, rebases a moved graph, and recovers. On a full disk this is left to the
    next writer: `cleanup` must be able to open the graph to free space, and any other write
    recovers pending ones first, or fails.
    """
    recovered_writes: list[ResolvedIntent] = []
    try:
        require_create_if_absent(root.store, root.ids)
        rebase_address(root)
        if list_operations(root.store):
            with root.acquire_fence() as guard:
                recovered_writes = resolve_all(root, guard)
    except StorageFailure as failure:
        if not failure.is_disk_full:
            raise
        log.warning("%s: %s", root.uri, failure.message)
    return recovered_writes


def is_mirror_current(root: GraphRoot, contract: SchemaContract) -> bool:
    """Return whether the schema files match the manifest; false if one cannot be read."""
    try:
        return all(
            root.store.find(path) == text.encode() for path, text in list_mirror_files(contract)
        )
    except StorageError:
        return False


def rewrite_mirror(root: GraphRoot, contract: SchemaContract) -> None:
    """Rewrite the schema files that differ from the manifest.

    They are informative; the manifest is authoritative, so a failure to write them does not fail
    the open.
    """
    for path, text in list_mirror_files(contract):
        try:
            if root.store.find(path) != text.encode():
                # The next open rewrites files that a power cut removed.
                root.store.put(path, text.encode(), durably=False)
        except StorageError:
            return


def list_pending(root: GraphRoot) -> list[PendingWrite]:
    """List the interrupted writes with the decision of recovery; change nothing."""
    return [_describe(examine(root, plan)) for plan in list_pending_intents(root.store)]


def _describe(found: ExaminedIntent) -> PendingWrite:
    plan = found.plan
    classes = zip(found.tables, found.classes, strict=True)
    return PendingWrite(
        operation_id=plan.operation_id,
        branch=plan.requires.branch,
        writer_kind=plan.writer_kind,
        table_keys=tuple(one.table_key for one in plan.changes.moved),
        tables={table.move.table_key: str(kind) for table, kind in classes},
        decision=str(found.verdict.decision),
        reason=found.verdict.reason,
    )


def recover_writes(root: GraphRoot) -> list[RecoveredWrite]:
    """Recover every interrupted write."""
    with root.acquire_fence() as guard:
        recovered_writes = resolve_all(root, guard)
    return [describe_recovered(one) for one in recovered_writes]


def describe_recovered(one: ResolvedIntent) -> RecoveredWrite:
    return RecoveredWrite(one.operation_id, str(one.decision), one.commit_id)


def list_recoveries(views: BranchSnapshots, branch: str = MAIN) -> tuple[RecoveryAudit, ...]:
    """Return the recoveries recorded on a branch, oldest first."""
    history, manifest = views.history(normalize_branch(branch))
    return history.audits(manifest)


class OpenGraph:
    """An open graph: its snapshots, writer, autopilot and query caches.

    Members that few verbs need are created, and their modules imported, on first use.
    """

    def __init__(self, root: GraphRoot, *, read_only: bool) -> None:
        require_whole(root)
        self.views = BranchSnapshots(root)
        self.read_only = read_only
        settings = root.settings
        self.query_settings = QuerySettings(
            Topology(search=SearchCache(settings.text_cache_bytes, settings.vector_cache_bytes)),
            self._embed_text,
            settings.traversal,
        )
        self._making = threading.RLock()
        self.recent_keys = RecentKeys()
        self._embedder: Embedder | None = None
        self._autopilot: Autopilot | None = None
        self._writer: Writer | None = None
        self.recovered: list[RecoveredWrite] = []
        found = self.views.read_newest(MAIN)  # a graph that cannot be read cannot be opened
        if not read_only:
            recovered_writes = make_ready(root)
            # A recovered write may have changed the schema.
            if recovered_writes or not is_mirror_current(root, found.snapshot.contract):
                rewrite_mirror(root, self.views.read_newest(MAIN).snapshot.contract)
            self.recovered = [describe_recovered(one) for one in recovered_writes]

    def _embed_text(self, text: str, dimension: int, recorded_model: str | None) -> Sequence[float]:
        """Embed the text of a query."""
        from omnigraph.embedding.embedder import make_query_embedder
        from omnigraph.embedding.embedder_choice import LazyEmbedder

        with self._making:
            if self._embedder is None:
                embedder = LazyEmbedder(self.views.root.settings.embed)
                self._embedder = make_query_embedder(embedder)
        return self._embedder(text, dimension, recorded_model)

    @cached_property
    def embeds_writes(self) -> bool:
        """Return whether writes compute the vectors of `@embed` properties."""
        from omnigraph.embedding.row_vectors import is_configured

        return is_configured(self.views.root.settings.embed)

    @property
    def autopilot(self) -> Autopilot:
        from omnigraph.maintenance.autopilot import Autopilot

        with self._making:
            if self._autopilot is None:
                self._autopilot = Autopilot(self.views, self.views.root.settings.autopilot)
            return self._autopilot

    @property
    def writer(self) -> Writer:
        from omnigraph.writer.driver import Writer

        with self._making:
            if self._writer is None:
                is_enabled = self.views.root.settings.autopilot.enabled
                wrote = self.autopilot.wrote if is_enabled else None
                self._writer = Writer(self.views, wrote)
            return self._writer

    def close(self) -> None:
        """Wait for background maintenance to finish."""
        if self._autopilot is not None:
            self._autopilot.wait()

    def require_writable(self) -> None:
        if self.read_only:
            raise BadRequest("the graph is open read-only; open it again without read_only")


class GraphHandle:
    """An open graph with a default branch and a guard: the base of the verbs.

    The guard has the actor and the policy.
    """

    def __init__(
        self, opened: OpenGraph, branch: str, guard: Guard, registry: QueryRegistry
    ) -> None:
        self._open, self._default_branch = opened, branch
        self._guard, self._registry = guard, registry

    @property
    def uri(self) -> str:
        return self._open.views.root.uri

    @property
    def settings(self) -> Settings:
        """The settings the graph was opened with."""
        return self._open.views.root.settings

    @property
    def actor(self) -> str | None:
        """The default actor of commits."""
        return self._guard.actor

    @property
    def policy(self) -> Authority | None:
        """The policy of this handle; None if everything is allowed."""
        return self._guard.authority

    @property
    def read_only(self) -> bool:
        return self._open.read_only

    def _choose(self, branch: str | None) -> str:
        return self._default_branch if branch is None else branch

    def _find_commit_id(self, commit: RevisionLike | None, branch: str) -> str | None:
        """Resolve a revision to a commit id; a full id is not looked up."""
        if commit is None:
            return None
        wanted = format_revision(commit).strip()
        if is_full_id(wanted):
            return wanted
        return revisions.find_commit(self._open.views, wanted, branch).commit_id

    def _make_write_options(
        self,
        branch: str | None,
        actor: str | None,
        message: str | None = None,
        expected_head: RevisionLike | None = None,
        idempotency_key: str | None = None,
    ) -> WriteOptions:
        """Build the options of a write from the arguments of a verb."""
        where = self._choose(branch)
        return WriteOptions(
            branch=where,
            actor_id=actor or self.actor,
            message=message,
            expected_head=self._find_commit_id(expected_head, where),
            idempotency_key=idempotency_key,
        )

    def _pin(self, view: CatalogSnapshot, snapshot: str | None = None) -> GraphView:
        return GraphView(view, self._open.query_settings, snapshot, self._guard)

    def _restrict_views(self, branch: str, action: Action = Action.READ) -> BranchSnapshots:
        """Return the snapshots of the graph, restricted to what the actor may read."""
        self._guard.allow(action, branch=branch)
        if self.policy is None:
            return self._open.views
        return self._open.views.with_filter(partial(self._guard.see, action=action, branch=branch))

    def _hide_values(
        self, conflicts: tuple[MergeConflict, ...], branch: str, actor: str | None
    ) -> tuple[MergeConflict, ...]:
        """Remove the values that the actor may not read from merge conflicts."""
        if self.policy is None or not conflicts:
            return conflicts
        return self._guard.hide_conflicts(conflicts, self._open.views.read_newest(branch), actor)

    @contextmanager
    def _hiding_conflicts(self, branch: str, actor: str | None) -> Iterator[None]:
        """Remove such values from MergeConflicts raised in the block."""
        try:
            yield
        except MergeConflicts as found:
            shown = self._hide_values(found.conflicts, branch, actor)
            raise MergeConflicts(found.doing, shown) from None

    def _require_visible(
        self, types: Sequence[str], branch: str, action: Action = Action.READ
    ) -> None:
        """Raise if one of the types is hidden from the actor."""
        if self.policy is not None and types:
            self._guard.require_visible(self._open.views.read_newest(branch), types, action)
