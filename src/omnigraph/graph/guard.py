"""Authorization of verbs: once at the head of every verb, and for every view that is read.

Without a policy nothing is asked. With one, whoever reads gets a view whose catalog has only what
they may see, so that no reader has to know about policies.
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
    """Who works with a graph, and the policy that decides what they may do; maybe none."""

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
        """A guard for a graph whose schema on `main` can be read.

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
        """Go on only if the actor may do this; `actor` is another one than the guard's.

        Raises:
            BadOptions: nobody can be called so.
            PolicyDenied: they may not.
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
        """Whether the actor may run a stored query."""
        if self.authority is None:
            return True
        who = actor or self.actor
        return decide(self.authority, who, Action.INVOKE_QUERY, query=query).allowed

    def see(
        self, view: CatalogSnapshot, action: Action = Action.READ, branch: str | None = None
    ) -> CatalogSnapshot:
        """The view as the actor may read it: the branch is allowed, the catalog restricted.

        `branch` is the one that is read where it is not that of the view: the history of a branch
        begins on the one it was made from.
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
        """Raise if one of these types and properties is hidden; what nobody has is let pass."""
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
        """Turn the mistakes of a query that only lacks what is hidden into a denial."""
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
        """Raise if what a mutation changes would be decided by something hidden.

        Writing what one may not see is allowed; finding rows by it is not.
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
        """The conflicts of a merge without the values that the actor may not see."""
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
"""Asks nobody."""


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
    """What a plan reads that is hidden: properties and, of types that are, the types."""
    properties = {f"{one}.{name}" for one, name in list_property_reads(plan)}
    return [*(properties & hidden), *({fact.type_name for fact in plan.reads} & hidden)]
