"""A plan, a snapshot and an input to a result: one match over the plan's nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import assert_never

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.execution.read.aggregate import aggregated, demand_of
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import Demand, below, row_order
from omnigraph.execution.read.expand import expand
from omnigraph.execution.read.input import ReadInput
from omnigraph.execution.read.join import equality, join
from omnigraph.execution.read.nested import anti_join, optional_join
from omnigraph.execution.read.project import (
    distinct_table,
    operands_in,
    output_schema,
    projected,
)
from omnigraph.execution.read.rank import rank
from omnigraph.execution.read.result import ReadResult
from omnigraph.execution.read.rows import Rows, joined, merge_blocks
from omnigraph.execution.read.scan import scan
from omnigraph.execution.read.scores import fuse_over
from omnigraph.execution.read.sort import sorted_rows
from omnigraph.execution.read.tail import cut, sorted_table, window
from omnigraph.execution.read.values import rows_kept
from omnigraph.plan.expressions import FusedScore, Operand, Predicate
from omnigraph.plan.nodes import (
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
from omnigraph.plan.walk import fused_scores, variables_of
from omnigraph.storage.snapshot import Snapshot


def execute(plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput) -> ReadResult:
    """Run a read on one snapshot.

    Rows come in the order the plan asks for, and without one in the order of the ids of the
    bound variables. They are made while they are read; what an order or a group needs to see
    first is held as integer codes.
    """
    context = Context(plan, snapshot, catalog, given)
    schema = output_schema(plan.columns)
    return ReadResult(schema, _Run(context, schema).output(plan.root, None), context.profile)


class _Run:
    """One execution: `output` makes result batches, `rows` the rows below them."""

    def __init__(self, context: Context, schema: pa.Schema) -> None:
        self._context, self._schema = context, schema

    # --- output ----------------------------------------------------------------------------------

    def output(self, node: Node, keep: int | None) -> Iterator[pa.RecordBatch]:
        """The batches of a node above the projection; at least the first `keep` rows."""
        batches = self._output(node, keep)
        return self._context.profile.measured(node, batches, lambda batch: int(batch.num_rows))

    def _output(self, node: Node, keep: int | None) -> Iterator[pa.RecordBatch]:
        match node:
            case Slice():
                skipped, given = window(self._context, node)
                wanted = None if given is None else skipped + given
                return cut(self.output(node.child, wanted), skipped, given)
            case Project():
                return self._distinct(node) if node.distinct else self._project(node, keep)
            case Aggregate():
                return self._aggregate(node)
            case Sort():
                return self._sort_output(node, keep)
            case _:
                raise AssertionError(f"{type(node).__name__} gives rows, not output")

    def _aggregate(self, node: Aggregate) -> Iterator[pa.RecordBatch]:
        blocks = self._ready(node, self.rows(node.child, demand_of(node), None))
        yield from self._batches(aggregated(self._context, node, blocks, self._schema))

    def _sort_output(self, node: Sort, keep: int | None) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(self.output(node.child, None), self._schema)
        yield from self._batches(sorted_table(table, node, keep))

    def _batches(self, table: pa.Table) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = table.to_batches(self._context.input.batch_rows)
        return found

    def _project(self, node: Project, keep: int | None) -> Iterator[pa.RecordBatch]:
        values = tuple(operands_in(node.columns))
        for block in self._ordered(node.child, Demand(_variables(values)), values, keep):
            for piece in block.pieces(self._context.input.batch_rows):
                yield projected(self._context, piece, node.columns, self._schema)

    def _distinct(self, node: Project) -> Iterator[pa.RecordBatch]:
        demand = Demand(_variables(operands_in(node.columns)), merge=True)
        blocks = self._ready(node, self.rows(node.child, demand, None))
        batches = [projected(self._context, b, node.columns, self._schema) for b in blocks]
        yield from self._batches(distinct_table(pa.Table.from_batches(batches, self._schema)))

    def _ready(self, node: Project | Aggregate, blocks: Iterator[Rows]) -> Iterator[Rows]:
        return self._fused(fused_scores(operands_in(node.columns)), blocks)

    def _fused(self, scores: frozenset[FusedScore], blocks: Iterator[Rows]) -> Iterator[Rows]:
        """The blocks of a whole match, passed on once all of them are ranked by the scores."""
        if not scores:
            return blocks
        found = list(blocks)
        if found:
            fuse_over(self._context, scores, joined(found))
        return iter(found)

    # --- rows ------------------------------------------------------------------------------------

    def rows(self, node: Node, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        """The rows of a node, with the columns asked for; none of the blocks is empty."""
        return self._measured(node, demand, self._rows(node, demand, outer))

    def _measured(self, node: Node, demand: Demand, blocks: Iterator[Rows]) -> Iterator[Rows]:
        shaped = (demand.shaped(block) for block in blocks if block.size)
        return self._counted(node, merge_blocks(shaped) if demand.merge else shaped)

    def _counted(self, node: Node, blocks: Iterator[Rows]) -> Iterator[Rows]:
        return self._context.profile.measured(node, blocks, lambda block: block.count)

    def _ordered(
        self, node: Node, demand: Demand, values: Iterable[Operand], keep: int | None
    ) -> Iterator[Rows]:
        """Rows below a projection of these values: in order, at least the first `keep` of them."""
        match node:
            case Sort(child, keys, tie_break):
                by = [key.value for key in keys]
                asked = demand.also(*tie_break, *_variables(by))
                blocks = self._fused(fused_scores([*values, *by]), self.rows(child, asked, None))
                order = row_order(child, asked)
                found = sorted_rows(self._context, blocks, keys, tie_break, order, keep)
            case Rank(child, ranking, keys, tie_break):
                by = [key.value for key in keys]
                asked = demand.also(*tie_break, *_variables([ranking, *by]))
                # The ranking itself is fused where it orders the rows.
                scores = fused_scores([*values, *by]) - {ranking}
                blocks = self._fused(scores, self.rows(child, asked, None))
                found = rank(node, self._context, blocks, keep)
            case _:
                return self._fused(fused_scores(values), self.rows(node, demand, None))
        return self._measured(node, demand, found)

    def _rows(self, node: Node, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        asked, context = below(node, demand), self._context
        match node:
            case NodeScan():
                return scan(node, context, demand)
            case OuterRows():
                assert outer is not None, "only a nested block has rows around it"
                return iter([outer])
            case Expand():
                return expand(node, context, demand, self.rows(node.child, asked, outer))
            case CrossJoin():
                return self._joined(node, [], asked, outer)
            case FilterRows():
                return self._filtered(node, asked, outer)
            case AntiJoin():
                inner = partial(self._inner, node.inner)
                return anti_join(node, self.rows(node.child, asked, outer), inner)
            case OptionalJoin():
                inner = partial(self._inner, node.inner)
                child = self.rows(node.child, asked, outer)
                return optional_join(node, context, demand, child, inner)
            case Match() | Rank() | Project() | Aggregate() | Sort() | Slice():
                raise AssertionError(f"{type(node).__name__} does not stand among rows")
            case _:
                assert_never(node)

    def _inner(self, inner: Node, demand: Demand, outer: Rows) -> Iterator[Rows]:
        return self.rows(inner, demand, outer)

    def _filtered(self, node: FilterRows, demand: Demand, outer: Rows | None) -> Iterator[Rows]:
        """Filters in a row; those that connect two parts of the match decide what is joined."""
        filters, child = [node], node.child
        while isinstance(child, FilterRows):
            demand = below(child, demand)
            filters.insert(0, child)
            child = child.child
        joining: list[Predicate] = []
        if isinstance(child, CrossJoin):
            left, right = child.left, child.right
            joining = [f.predicate for f in filters if equality(f.predicate, left, right)]
            blocks = self._measured(child, demand, self._joined(child, joining, demand, outer))
        else:
            blocks = self.rows(child, demand, outer)
        for filter_ in filters:
            if filter_.predicate not in joining:
                blocks = self._kept(filter_.predicate, blocks)
            if filter_ is not node:
                blocks = self._counted(filter_, blocks)
        return blocks

    def _kept(self, predicate: Predicate, blocks: Iterator[Rows]) -> Iterator[Rows]:
        for block in blocks:
            yield rows_kept(self._context, block, predicate)

    def _joined(
        self, node: CrossJoin, joining: list[Predicate], demand: Demand, outer: Rows | None
    ) -> Iterator[Rows]:
        found = (equality(predicate, node.left, node.right) for predicate in joining)
        equalities = [pair for pair in found if pair is not None]
        left = self.rows(node.left, demand, outer)
        return join(self._context, left, lambda: self.rows(node.right, demand, outer), equalities)


def _variables(operands: Iterable[Operand]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for operand in operands:
        found |= variables_of(operand)
    return found
