"""Giving a branch another schema, as a change like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError
from omnigraph.evolution.apply_result import (
    AppliedMutation,
    ChangedTable,
    KeptPlan,
    SchemaApplyResult,
)
from omnigraph.evolution.column_writers import ColumnWriters, Threads
from omnigraph.evolution.schema_apply import SchemaApply, Wanted
from omnigraph.graph.guard import Guard
from omnigraph.graph.keyed_writes import KeptWrite, WriteKey, write_once
from omnigraph.graph.mutating import Mutation, MutationRequest
from omnigraph.graph.opening import rewrite_mirror
from omnigraph.graph.purging import purge_dropped
from omnigraph.identity import MAIN
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.storage.manifest import Commit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.snapshot import Snapshot
from omnigraph.typed_reading import convert_into
from omnigraph.writer.change import CatalogSnapshot
from omnigraph.writer.driver import Writer

_OLD_SCHEMA = (
    "a mutation runs before the change, under the schema that is there; "
    "new properties get their values by an expression"
)


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A change of the schema, as a caller asks for it."""

    schema: SourceText
    branch: str
    actor: str | None
    allow_data_loss: bool = False
    allow_drop_all: bool = False
    expected_head: str | None = None
    dry_run: bool = False
    expressions: Mapping[str, str] = field(default_factory=dict)
    mutations: Sequence[SourceText] = ()
    """Texts whose queries are run first, all of them in order."""
    check: Callable[[Catalog, Catalog], None] | None = None
    guard: Guard = field(default_factory=Guard)
    key: WriteKey | None = None
    message: str | None = None


def apply_schema(
    writer: Writer, request: SchemaRequest, writers: ColumnWriters | None = None
) -> SchemaApplyResult:
    """Give a branch another schema as one commit, or leave everything as it is.

    Raises:
        CompileError: mistakes in the schema.
        UnsupportedSchemaChange: a step cannot be taken.
        BadExpression: what shall give rows their values does not.
        SchemaDropsEverything: none of the types that are there would be left.
        SchemaChangeBlocked: other branches could not follow.
        ConstraintViolated: rows break what the schema demands from now on.
        ReadSetChanged: somebody else gave the branch another schema meanwhile.
    """
    mutations = tuple(_list_mutations(request))
    wanted = Wanted(
        compile_schema(request.schema),
        request.allow_data_loss,
        request.allow_drop_all,
        request.expressions,
        mutations=mutations,
        check=request.check,
    )
    change = SchemaApply(wanted, writers or Threads())
    with _advise_on_mutations(request.mutations):
        if request.dry_run:
            change.rehearse(writer.branches.read_newest(request.branch))
            return _make_result(writer, request, change, mutations, None)
        written = write_once(
            writer,
            change,
            lambda: _describe(change, mutations),
            request.key,
            branch=request.branch,
            actor=request.actor,
            expected_head=request.expected_head,
            message=request.message,
        )
    if written.kept is not None:
        return _make_replayed_result(request, written.kept)
    return _make_result(writer, request, change, mutations, written.commit)


def _list_mutations(request: SchemaRequest) -> Iterator[Mutation]:
    for source in request.mutations:
        for query in parse_query_file(source).queries:
            yield Mutation(
                MutationRequest(
                    source,
                    query.name,
                    None,
                    request.branch,
                    request.actor,
                    None,
                    None,
                    request.guard,
                )
            )


@contextmanager
def _advise_on_mutations(mutations: Sequence[SourceText]) -> Iterator[None]:
    """Say which schema mutations know where one has a mistake: the new one is the likely one."""
    try:
        yield
    except CompileError as error:
        names = {source.name for source in mutations}
        said = [
            replace(one, hint=one.hint or _OLD_SCHEMA) if one.source in names else one
            for one in error.diagnostics
        ]
        raise CompileError(said) from error


def _describe(change: SchemaApply, mutations: Sequence[Mutation]) -> dict[str, object]:
    """What an apply does, as it is kept with its commit."""
    assert change.outline is not None, "what is written was planned"
    plan = change.outline.plan
    return {
        "steps": [{"body": step.wire(), "text": step.describe()} for step in plan.steps],
        "notes": plan.wire()["notes"],
        "tables": [msgspec.to_builtins(table) for table in change.outline.tables],
        "mutations": [run.wire() for run in _list_runs(mutations)],
    }


def _make_replayed_result(request: SchemaRequest, kept: KeptWrite) -> SchemaApplyResult:
    """The same as the first time, from what was kept with the commit."""
    assert kept.commit is not None, "another schema is a commit"
    answer = dict(kept.answer)
    tables = convert_into(answer.pop("tables"), tuple[ChangedTable, ...])
    mutations = convert_into(answer.pop("mutations"), tuple[AppliedMutation, ...])
    return SchemaApplyResult(
        branch=normalize_branch(request.branch),
        plan=convert_into(answer, KeptPlan),
        tables=tables,
        dry_run=False,
        manifest_version=kept.commit.manifest_version,
        actor_id=request.actor,
        commit=kept.commit,
        mutations=mutations,
        is_replayed=True,
    )


def adopt_schema(writer: Writer, other: CatalogSnapshot, branch: str, actor: str | None) -> None:
    """Give a branch the schema of another one, which has the same with additions."""
    schema = compile_schema(SourceText(other.snapshot.contract.source, SCHEMA_SOURCE))
    change = SchemaApply(Wanted(schema, other=other), Threads())
    if writer.write(change, branch=branch, actor=actor) is not None:
        _mirror(writer.branches.read_newest(branch).snapshot)


def _make_result(
    writer: Writer,
    request: SchemaRequest,
    change: SchemaApply,
    mutations: Sequence[Mutation],
    commit: Commit | None,
) -> SchemaApplyResult:
    assert change.outline is not None, "what was written or tried was planned"
    snapshot = writer.branches.read_newest(request.branch).snapshot
    if commit is not None:
        _mirror(snapshot)
    if request.allow_data_loss and not request.dry_run:
        purge_dropped(writer, snapshot, request.actor)
    return SchemaApplyResult(
        branch=normalize_branch(request.branch),
        plan=change.outline.plan,
        tables=change.outline.tables,
        dry_run=request.dry_run,
        manifest_version=snapshot.manifest_version,
        actor_id=request.actor,
        commit=commit,
        mutations=_list_runs(mutations),
    )


def _list_runs(mutations: Sequence[Mutation]) -> tuple[AppliedMutation, ...]:
    """What mutations did; those that were not run did nothing."""
    done = [one.done for one in mutations if one.done is not None]
    return tuple(
        AppliedMutation(plan.name, run.affected_nodes, run.affected_edges) for plan, run in done
    )


def _mirror(snapshot: Snapshot) -> None:
    """Repeat the schema of `main` in the files beside the graph."""
    if snapshot.branch == MAIN:
        rewrite_mirror(snapshot.root, snapshot.contract)
