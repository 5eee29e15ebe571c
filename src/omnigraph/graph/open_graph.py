"""What an open graph keeps between calls, and an object whose verbs work on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest, MergeConflict, MergeConflicts
from omnigraph.execution.read import Embedder, Topology
from omnigraph.execution.search import SearchMemory
from omnigraph.graph import opening, place_lookup, recovering
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.graph.graph_view import GraphView
from omnigraph.graph.guard import Guard
from omnigraph.graph.place_names import PlaceLike, is_whole_id, name_place
from omnigraph.graph.querying import QuerySettings
from omnigraph.graph.results import RecoveredWrite
from omnigraph.identity import MAIN
from omnigraph.policy.actions import Action
from omnigraph.policy.bundle import Authority
from omnigraph.settings import Settings
from omnigraph.storage.root import GraphRoot
from omnigraph.stored_queries.registry import QueryRegistry

if TYPE_CHECKING:
    from omnigraph.graph.changing import RecentKeys
    from omnigraph.maintenance.autopilot import Autopilot
    from omnigraph.writer.driver import Writer


class OpenGraph:
    """A graph opened once: its views, its writer, its autopilot and what queries keep in memory.

    What only some verbs need is made, and its modules are loaded, when the first of them is called.
    """

    def __init__(self, root: GraphRoot, *, read_only: bool) -> None:
        opening.require_whole(root)
        self.views = BranchSnapshots(root)
        self.read_only = read_only
        settings = root.settings
        self.query_settings = QuerySettings(
            Topology(search=SearchMemory(settings.text_cache_bytes, settings.vector_cache_bytes)),
            self._embed_text,
            settings.traversal,
        )
        self._making = threading.RLock()
        self._keys: RecentKeys | None = None
        self._embedder: Embedder | None = None
        self._autopilot: Autopilot | None = None
        self._writer: Writer | None = None
        self.recovered: list[RecoveredWrite] = []
        found = self.views.read_newest(MAIN)  # a graph that cannot be read cannot be opened
        if not read_only:
            settled = opening.make_ready(root)
            # What was settled may have been a change of the schema.
            if settled or not opening.is_mirror_current(root, found.snapshot.contract):
                opening.rewrite_mirror(root, self.views.read_newest(MAIN).snapshot.contract)
            self.recovered = [recovering.describe_settled(one) for one in settled]

    def _embed_text(self, text: str, dimension: int, recorded_model: str | None) -> Sequence[float]:
        """The vector of a text of a query."""
        from omnigraph.execution.embed import LazyEmbedder, make_query_embedder

        with self._making:
            if self._embedder is None:
                embedder = LazyEmbedder(self.views.root.settings.embed)
                self._embedder = make_query_embedder(embedder)
        return self._embedder(text, dimension, recorded_model)

    @property
    def keys(self) -> RecentKeys:
        from omnigraph.graph.changing import RecentKeys

        with self._making:
            if self._keys is None:
                self._keys = RecentKeys()
            return self._keys

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
                self._writer = Writer(self.views, self.autopilot.wrote)
            return self._writer

    def close(self) -> None:
        """Wait for background maintenance to finish."""
        if self._autopilot is not None:
            self._autopilot.wait()

    def require_writable(self) -> None:
        if self.read_only:
            raise BadRequest("the graph is open read-only; open it again without read_only")


class BranchVerbs:
    """An open graph and the branch its verbs work on unless they are given another one.

    The guard says for whom it works, and asks whether they may.
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
        """What this graph was opened with."""
        return self._open.views.root.settings

    @property
    def actor(self) -> str | None:
        """The actor commits are recorded for unless a verb names another."""
        return self._guard.actor

    @property
    def policy(self) -> Authority | None:
        """What decides who may do what with this handle; None if nothing does."""
        return self._guard.authority

    @property
    def read_only(self) -> bool:
        return self._open.read_only

    def _choose(self, branch: str | None) -> str:
        return self._default_branch if branch is None else branch

    def _find_commit_id(self, commit: PlaceLike | None, branch: str) -> str | None:
        """The id of a commit, however it is named; a whole id is not looked up."""
        if commit is None:
            return None
        wanted = name_place(commit).strip()
        if is_whole_id(wanted):
            return wanted
        return place_lookup.find_commit(self._open.views, wanted, branch).commit_id

    def _pin(self, view: CatalogSnapshot, snapshot: str | None = None) -> GraphView:
        return GraphView(view, self._open.query_settings, snapshot, self._guard)

    def _restrict_views(self, branch: str, action: Action = Action.READ) -> BranchSnapshots:
        """The views of the graph as the actor may read them on behalf of a branch."""
        self._guard.allow(action, branch=branch)
        if self.policy is None:
            return self._open.views
        return self._open.views.see_through(partial(self._guard.see, action=action, branch=branch))

    def _hide_values(
        self, conflicts: tuple[MergeConflict, ...], branch: str, actor: str | None
    ) -> tuple[MergeConflict, ...]:
        """Conflicts of a merge without what the actor may not see."""
        if self.policy is None or not conflicts:
            return conflicts
        return self._guard.hide_conflicts(conflicts, self._open.views.read_newest(branch), actor)

    @contextmanager
    def _hiding_conflicts(self, branch: str, actor: str | None) -> Iterator[None]:
        """The same for conflicts that are raised."""
        try:
            yield
        except MergeConflicts as found:
            shown = self._hide_values(found.conflicts, branch, actor)
            raise MergeConflicts(found.doing, shown) from None

    def _require_visible(
        self, types: Sequence[str], branch: str, action: Action = Action.READ
    ) -> None:
        """Raise if types are named that are hidden from the actor."""
        if self.policy is not None and types:
            self._guard.require_visible(self._open.views.read_newest(branch), types, action)
