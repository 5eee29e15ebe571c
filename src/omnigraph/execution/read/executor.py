"""Execute a read plan on a snapshot: one match over the nodes of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import assert_never

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read.aggregate import aggregate_rows, find_aggregate_requirements
from omnigraph.execution.read.expand import expand
from omnigraph.execution.read.expression_values import filter_rows
from omnigraph.execution.read.join import (
    find_join_condition,
    join,
    run_anti_join,
    run_optional_join,
)
from omnigraph.execution.read.node_scan import scan
from omnigraph.execution.read.project import (
    build_output_schema,
    drop_duplicate_rows,
    evaluate_limits,
    list_operands,
    project_rows,
    slice_batches,
    sort_table,
)
from omnigraph.execution.read.read_context import ReadContext, ReadInput, ReadLimits, ReadResult
from omnigraph.execution.read.row_blocks import (
    Demand,
    Rows,
    derive_child_requirements,
    find_row_order,
    join_blocks,
    merge_blocks,
)
from omnigraph.execution.read.scores import fuse_rows
from omnigraph.execution.read.sort import rank, sort_rows
from omnigraph.plan.expressions import FusedScore, Operand, Predicate
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
)
from omnigraph.plan.walk import list_fused_scores, list_variables
from omnigraph.storage.snapshot import Snapshot


def execute(plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput) -> ReadResult:
    """Run a read on one snapshot.

    Rows are in the order of the plan, by default that of the ids of the bound variables. They are
    streamed; input of a sort or an aggregation is held as integer codes.
    """
    context = ReadContext(plan, snapshot, catalog, given)
    schema = build_output_schema(plan.columns)
    batches = _ReadRun(context, schema).output(plan.root, None)
    if given.limits is not None:
        batches = _admit_batches(batches, given.limits)
    return ReadResult(schema, batches, context.profile)


def _admit_batches(
    batches: Iterator[pa.RecordBatch], limits: ReadLimits
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        limits.admit(batch)
        yield batch


class _ReadRun:
    """One execution: `output` yields result batches, `rows` the rows below them."""

    def __init__(self, context: ReadContext, schema: pa.Schema) -> None:
        self._context, self._schema = context, schema

    # --- output ----------------------------------------------------------------------------------

    def output(self, node: Node, keep: int | None) -> Iterator[pa.RecordBatch]:
        """The batches of a node above the projection; at least the first `keep` rows."""
        batches = self._run_output(node, keep)
        return self._context.profile.measure(node, batches, lambda batch: int(batch.num_rows))

    def _run_output(self, node: Node, keep: int | None) -> Iterator[pa.RecordBatch]:
        match node:
            case Slice():
                skipped, given = evaluate_limits(self._context, node)
                wanted = None if given is None else skipped + given
                return slice_batches(self.output(node.child, wanted), skipped, given)
            case Project():
                return self._drop_duplicates(node) if node.distinct else self._project(node, keep)
            case Aggregate():
                return self._aggregate(node)
            case Sort():
                return self._sort_output(node, keep)
            case _:
                raise AssertionError(f"{type(node).__name__} returns rows, not output")

    def _aggregate(self, node: Aggregate) -> Iterator[pa.RecordBatch]:
        blocks = self._prepare(node, self.rows(node.child, find_aggregate_requirements(node), None))
        yield from self._iterate_batches(aggregate_rows(self._context, node, blocks, self._schema))

    def _sort_output(self, node: Sort, keep: int | None) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(self.output(node.child, None), self._schema)
        yield from self._iterate_batches(sort_table(table, node, keep))

    def _iterate_batches(self, table: pa.Table) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = table.to_batches(self._context.input.batch_rows)
        return found

    def _project(self, node: Project, keep: int | None) -> Iterator[pa.RecordBatch]:
        values = tuple(list_operands(node.columns))
        for block in self._order(node.child, Demand(_list_variables(values)), values, keep):
            for piece in block.pieces(self._context.input.batch_rows):
                yield project_rows(self._context, piece, node.columns, self._schema)

    def _drop_duplicates(self, node: Project) -> Iterator[pa.RecordBatch]:
        demand = Demand(_list_variables(list_operands(node.columns)), merge=True)
        blocks = self._prepare(node, self.rows(node.child, demand, None))
        batches = [project_rows(self._context, b, node.columns, self._schema) for b in blocks]
        yield from self._iterate_batches(
            drop_duplicate_rows(pa.Table.from_batches(batches, self._schema))
        )

    def _prepare(self, node: Project | Aggregate, blocks: Iterator[Rows]) -> Iterator[Rows]:
        return self._fuse(list_fused_scores(list_operands(node.columns)), blocks)

    def _fuse(self, scores: frozenset[FusedScore], blocks: Iterator[Rows]) -> Iterator[Rows]:
        """Yield the blocks of a match, ranked as a whole by the scores."""
        if not scores:
            return blocks
        found = list(blocks)
        if found:
            fuse_rows(self._context, scores, join_blocks(found))
        return iter(found)

    # --- rows ------------------------------------------------------------------------------------

    def rows(self, node: Node, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        """Yield the rows of a node, with the required columns; no block is empty."""
        return self._measure(node, demand, self._run_rows(node, demand, outer))

    def _measure(self, node: Node, demand: Demand, blocks: Iterator[Rows]) -> Iterator[Rows]:
        shaped = (demand.with_shape(block) for block in blocks if block.size)
        return self._count(node, merge_blocks(shaped) if demand.merge else shaped)

    def _count(self, node: Node, blocks: Iterator[Rows]) -> Iterator[Rows]:
        return self._context.profile.measure(node, blocks, lambda block: block.count)

    def _order(
        self, node: Node, demand: Demand, values: Iterable[Operand], keep: int | None
    ) -> Iterator[Rows]:
        """Rows below a projection of these values: in order, at least the first `keep` of them."""
        match node:
            case Sort(child, keys, tie_break):
                by = [key.value for key in keys]
                asked = demand.also(*tie_break, *_list_variables(by))
                blocks = self._fuse(
                    list_fused_scores([*values, *by]), self.rows(child, asked, None)
                )
                order = find_row_order(child, asked)
                found = sort_rows(self._context, blocks, keys, tie_break, order, keep)
            case Rank(child, ranking, keys, tie_break):
                by = [key.value for key in keys]
                asked = demand.also(*tie_break, *_list_variables([ranking, *by]))
                # The ranking itself is fused where it orders the rows.
                scores = list_fused_scores([*values, *by]) - {ranking}
                blocks = self._fuse(scores, self.rows(child, asked, None))
                found = rank(node, self._context, blocks, keep)
            case _:
                return self._fuse(list_fused_scores(values), self.rows(node, demand, None))
        return self._measure(node, demand, found)

    def _run_rows(self, node: Node, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        asked, context = derive_child_requirements(node, demand), self._context
        match node:
            case NodeScan():
                return scan(node, context, demand)
            case OuterRows():
                assert outer is not None, "only a nested block has rows around it"
                return iter([outer])
            case Expand():
                return expand(node, context, demand, self.rows(node.child, asked, outer))
            case CrossJoin():
                return self._join(node, [], asked, outer)
            case FilterRows():
                return self._filter(node, asked, outer)
            case AntiJoin():
                inner = partial(self._run_inner, node.inner)
                return run_anti_join(node, self.rows(node.child, asked, outer), inner)
            case OptionalJoin():
                inner = partial(self._run_inner, node.inner)
                child = self.rows(node.child, asked, outer)
                return run_optional_join(node, context, demand, child, inner)
            case Match() | Rank() | Project() | Aggregate() | Sort() | Slice():
                raise AssertionError(f"{type(node).__name__} is not an operator on rows")
            case _:
                assert_never(node)

    def _run_inner(self, inner: Node, demand: Demand, outer: Rows) -> Iterator[Rows]:
        return self.rows(inner, demand, outer)

    def _filter(self, node: FilterRows, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        """Consecutive filters; those that connect two parts of the match are join conditions."""
        filters, child = [node], node.child
        while isinstance(child, FilterRows):
            demand = derive_child_requirements(child, demand)
            filters.insert(0, child)
            child = child.child
        joining: list[Predicate] = []
        if isinstance(child, CrossJoin):
            left, right = child.left, child.right
            joining = [
                f.predicate for f in filters if find_join_condition(f.predicate, left, right)
            ]
            blocks = self._measure(child, demand, self._join(child, joining, demand, outer))
        else:
            blocks = self.rows(child, demand, outer)
        for filter_ in filters:
            if filter_.predicate not in joining:
                blocks = self._keep(filter_.predicate, blocks)
            if filter_ is not node:
                blocks = self._count(filter_, blocks)
        return blocks

    def _keep(self, predicate: Predicate, blocks: Iterator[Rows]) -> Iterator[Rows]:
        for block in blocks:
            yield filter_rows(self._context, block, predicate)

    def _join(
        self, node: CrossJoin, joining: list[Predicate], demand: Demand, outer: Rows | None
    ) -> Iterator[Rows]:
        found = (find_join_condition(predicate, node.left, node.right) for predicate in joining)
        equalities = [pair for pair in found if pair is not None]
        left = self.rows(node.left, demand, outer)
        return join(self._context, left, lambda: self.rows(node.right, demand, outer), equalities)


def _list_variables(operands: Iterable[Operand]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for operand in operands:
        found |= list_variables(operand)
    return found
