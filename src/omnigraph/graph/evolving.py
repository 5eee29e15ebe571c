"""Giving a branch another schema, as a change like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from omnigraph.catalog.build import compile_schema
from omnigraph.evolution.apply_result import ChangedTable, KeptPlan, SchemaApplyResult
from omnigraph.evolution.column_writers import ColumnWriters, Threads
from omnigraph.evolution.schema_apply import SchemaApply, Wanted, require_rules
from omnigraph.graph.keyed_writes import KeptWrite, WriteKey, find_kept, write_once
from omnigraph.graph.opening import rewrite_mirror
from omnigraph.graph.purging import purge_dropped
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.storage.manifest import Commit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.snapshot import Snapshot
from omnigraph.writer.change import CatalogSnapshot
from omnigraph.writer.driver import Writer


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    schema: SourceText
    branch: str
    actor: str | None
    allow_data_loss: bool = False
    expected_head: str | None = None
    dry_run: bool = False
    expressions: Mapping[str, str] = field(default_factory=dict)
    key: WriteKey | None = None


def apply_schema(
    writer: Writer, request: SchemaRequest, writers: ColumnWriters | None = None
) -> SchemaApplyResult:
    """Give a branch another schema as one commit, or leave everything as it is.

    Raises:
        CompileError: mistakes in the schema.
        UnsupportedSchemaChange: a step cannot be taken.
        SchemaChangeBlocked: other branches could not follow.
        ConstraintViolated: rows break what the schema demands from now on.
        ReadSetChanged: somebody else gave the branch another schema meanwhile.
    """
    root = writer.branches.root
    wanted = Wanted(compile_schema(request.schema), request.allow_data_loss, request.expressions)
    change = SchemaApply(wanted, writers or Threads(root.settings.maintenance_concurrency))
    if request.dry_run:
        view = writer.branches.read_newest(request.branch)
        require_rules(view.snapshot, change.outline_on(view))
        return _result(writer, request, change, None)
    written = write_once(
        writer,
        change,
        lambda: _describe(change),
        request.key,
        branch=request.branch,
        actor=request.actor,
        expected_head=request.expected_head,
    )
    if written.kept is not None:
        return _replayed_result(request, written.kept)
    return _result(writer, request, change, written.commit)


def find_applied(writer: Writer, request: SchemaRequest) -> SchemaApplyResult | None:
    """What the same request came to before, under its key; None if it was not made yet."""
    kept = find_kept(writer.branches, request.branch, request.key)
    return None if kept is None else _replayed_result(request, kept)


def _describe(change: SchemaApply) -> dict[str, object]:
    """What an apply does, as it is kept with its commit."""
    assert change.outline is not None, "what is written was planned"
    plan = change.outline.plan
    return {
        "steps": [{"body": step.wire(), "text": step.describe()} for step in plan.steps],
        "notes": plan.wire()["notes"],
        "tables": [msgspec.to_builtins(table) for table in change.outline.tables],
    }


def _replayed_result(request: SchemaRequest, kept: KeptWrite) -> SchemaApplyResult:
    """The same as the first time, from what was kept with the commit."""
    assert kept.commit is not None, "another schema is a commit"
    answer = dict(kept.answer)
    tables = msgspec.convert(answer.pop("tables"), tuple[ChangedTable, ...])
    return SchemaApplyResult(
        branch=normalize_branch(request.branch),
        plan=msgspec.convert(answer, KeptPlan),
        tables=tables,
        dry_run=False,
        manifest_version=kept.commit.manifest_version,
        actor_id=request.actor,
        commit=kept.commit,
        is_replayed=True,
    )


def adopt_schema(writer: Writer, other: CatalogSnapshot, branch: str, actor: str | None) -> None:
    """Give a branch the schema of another one, which has the same with additions."""
    schema = compile_schema(SourceText(other.snapshot.contract.source, SCHEMA_SOURCE))
    change = SchemaApply(
        Wanted(schema, other=other), Threads(writer.branches.root.settings.maintenance_concurrency)
    )
    if writer.write(change, branch=branch, actor=actor) is not None:
        _mirror(writer.branches.read_newest(branch).snapshot)


def _result(
    writer: Writer, request: SchemaRequest, change: SchemaApply, commit: Commit | None
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
    )


def _mirror(snapshot: Snapshot) -> None:
    """Repeat the schema of `main` in the files beside the graph."""
    if snapshot.branch == MAIN:
        rewrite_mirror(snapshot.root, snapshot.contract)
