"""Authorization of verbs: checked at the start of every verb, and for every view that is read.

Without a policy everything is allowed. With one, readers get a view whose catalog is restricted to
what the actor may read, so that they need not check the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError, MergeConflict, OmniError, PolicyDenied
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.plan_nodes import DeleteEntities, MutationPlan, Plan, UpdateEntities
from omnigraph.plan.walk import list_property_reads
from omnigraph.policy.decision import Action, Authority, Decision, decide
from omnigraph.policy.restricted_catalog import (
    ResolvedNames,
    find_hidden,
    list_hidden,
    restrict_catalog,
)
from omnigraph.storage.layout import check_actor, normalize_branch
from omnigraph.writer.change import CatalogSnapshot


@dataclass(frozen=True)
class Guard:
    """The actor of a handle, and the policy that authorizes it, if any."""

    authority: Authority | None = None
    actor: str | None = None
    observe: Callable[[Decision], None] | None = field(default=None, repr=False, compare=False)
    """Called with every decision on which a verb goes on or fails, from the thread of the verb."""
    _known: ResolvedNames = field(default_factory=ResolvedNames, repr=False)

    def __post_init__(self) -> None:
        check_actor(self.actor)

    @classmethod
    def make(
        cls, authority: Authority | None, actor: str | None, read_catalog: Callable[[], Catalog]
    ) -> Guard:
        """Build a guard for a graph; reads the schema of `main`.

        Raises:
            BadRequest: the policy names something that the schema does not have.
        """
        if authority is None:
            return cls(None, actor)
        return cls(authority, actor, _known=ResolvedNames.find(authority, read_catalog()))

    def with_actor(
        self, actor: str | None, observe: Callable[[Decision], None] | None = None
    ) -> Guard:
        """Return the guard of another actor under the same policy."""
        return replace(self, actor=actor, observe=observe)

    def allow(
        self,
        action: Action,
        *,
        branch: str | None = None,
        target_branch: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Raise unless the policy allows an action; `actor` overrides that of the guard.

        Raises:
            BadOptions: the name is not a valid actor.
            PolicyDenied: the action is denied.
        """
        check_actor(actor)
        if self.authority is None:
            return
        decision = decide(
            self.authority,
            actor or self.actor,
            action,
            branch=None if branch is None else normalize_branch(branch),
            target_branch=None if target_branch is None else normalize_branch(target_branch),
        )
        if self.observe is not None:
            self.observe(decision)
        decision.require()

    @contextmanager
    def hide_missing(self, branch: str) -> Iterator[None]:
        """Raise the errors of a lookup only to actors who may read or export the branch.

        To others a state that is missing is as one that they may not read.
        """
        try:
            yield
        except OmniError:
            may_export = self.authority is None or (
                decide(self.authority, self.actor, Action.EXPORT, branch=branch).allowed
            )
            if not may_export:
                self.allow(Action.READ, branch=branch)
            raise

    def may_invoke(self, query: str, actor: str | None = None) -> bool:
        """Return whether the actor may run a stored query."""
        if self.authority is None:
            return True
        who = actor or self.actor
        return decide(self.authority, who, Action.INVOKE_QUERY, query=query).allowed

    def see(
        self, view: CatalogSnapshot, action: Action = Action.READ, branch: str | None = None
    ) -> CatalogSnapshot:
        """Return the view as the actor may read it: authorized, with a restricted catalog.

        `branch` is the branch being read, if it is not that of the view: the history of a branch
        starts on the one it was created from.
        """
        if self.authority is None:
            return view
        read = normalize_branch(branch or view.snapshot.branch)
        self.allow(action, branch=read)
        catalog = self._restrict_catalog(view, action, self.actor, read)
        return view if catalog is view.catalog else replace(view, catalog=catalog)

    def _restrict_catalog(
        self, view: CatalogSnapshot, action: Action, actor: str | None, branch: str | None = None
    ) -> Catalog:
        assert self.authority is not None, "without a policy nothing is hidden"
        names = find_hidden(self.authority, actor, action, branch or str(view.snapshot.branch))
        return restrict_catalog(view.catalog, names, self._known)

    # --- saying what is hidden -------------------------------------------------------------------

    def require_visible(
        self, view: CatalogSnapshot, names: Iterable[str], action: Action = Action.READ
    ) -> None:
        """Raise if one of these types and properties is hidden; unknown names are ignored."""
        if self.authority is None:
            return
        hidden = list_hidden(view.catalog, self._restrict_catalog(view, action, self.actor))
        found = [name for name in names if name in hidden or name.partition(".")[0] in hidden]
        if found:
            raise self._make_denial(view, action, found, self.actor)

    @contextmanager
    def name_hidden(
        self, view: CatalogSnapshot, source: SourceText, name: str | None
    ) -> Iterator[None]:
        """Raise a denial instead of the errors of a query that only refers to hidden names."""
        try:
            yield
        except CompileError:
            seen = self.see(view)
            if seen.catalog is view.catalog:
                raise
            plan = compile_plan(source, view.catalog, name)
            hidden = list_hidden(view.catalog, seen.catalog)
            raise self._make_denial(
                view, Action.READ, _list_hidden_reads(plan, hidden), self.actor
            ) from None

    def check_mutation(self, plan: MutationPlan, view: CatalogSnapshot, actor: str | None) -> None:
        """Raise if a hidden property decides which rows a mutation changes.

        Writing a hidden property is allowed; selecting rows by it is not.
        """
        if self.authority is None:
            return
        catalog = self._restrict_catalog(view, Action.CHANGE, actor)
        if catalog is view.catalog:
            return
        hidden = list_hidden(view.catalog, catalog)
        found = [f"{a}.{b}" for a, b in list_property_reads(plan) if {a, f"{a}.{b}"} & hidden]
        for one in plan.statements:
            type_name = one.table_key.partition(":")[2]
            if isinstance(one, UpdateEntities | DeleteEntities) and type_name in hidden:
                found.append(type_name)
        if found:
            raise self._make_denial(view, Action.CHANGE, found, actor)

    def hide_conflicts(
        self, conflicts: Sequence[MergeConflict], view: CatalogSnapshot, actor: str | None
    ) -> tuple[MergeConflict, ...]:
        """Remove the values that the actor may not read from merge conflicts."""
        if self.authority is None:
            return tuple(conflicts)
        catalog = self._restrict_catalog(view, Action.READ, actor or self.actor)
        if catalog is view.catalog:
            return tuple(conflicts)
        return tuple(_hide_values(one, view.catalog, catalog) for one in conflicts)

    def _make_denial(
        self, view: CatalogSnapshot, action: Action, names: Iterable[str], actor: str | None
    ) -> PolicyDenied:
        found, branch = sorted(set(names)), str(view.snapshot.branch)
        who = "no actor" if actor is None else f"actor '{actor}'"
        return PolicyDenied(
            f"policy denied action '{action}' on branch '{branch}' to {who}: "
            f"{', '.join(found)} may not be read",
            actor=actor,
            action=action,
            branch=branch,
            hidden=found,
        )


NO_GUARD = Guard()
"""The guard of a graph without a policy."""


def _hide_values(conflict: MergeConflict, whole: Catalog, seen: Catalog) -> MergeConflict:
    key = TableKey(conflict.type_key)
    type_, rest = whole.by_table_key.get(key), seen.by_table_key.get(key)
    if type_ is None or rest is None:
        message = "entities of a type that may not be read contradict each other"
        return MergeConflict.of(conflict.kind, conflict.type_key, message)
    gone = {p.name for p in type_.properties} - {p.name for p in rest.properties}
    if not gone:
        return conflict
    return msgspec.structs.replace(
        conflict,
        message=f"{type_.name} '{conflict.id}' is in conflict",
        base=_drop_names(conflict.base, gone),
        source=_drop_names(conflict.source, gone),
        target=_drop_names(conflict.target, gone),
        properties=tuple(name for name in conflict.properties if name not in gone),
    )


def _drop_names(row: Mapping[str, object] | None, names: set[str]) -> Mapping[str, object] | None:
    return None if row is None else {n: value for n, value in row.items() if n not in names}


def _list_hidden_reads(plan: Plan, hidden: frozenset[str]) -> list[str]:
    """List the hidden properties and types that a plan reads."""
    properties = {f"{one}.{name}" for one, name in list_property_reads(plan)}
    return [*(properties & hidden), *({fact.type_name for fact in plan.reads} & hidden)]
