"""Find the neighbours of nodes: links between entities, target filters, and edge lookups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.adjacency import Adjacency, Reached, build_adjacency, walk
from omnigraph.execution.read.code_arrays import (
    MISSING,
    Codes,
    Flags,
    Longs,
    encode_values,
    expand_ranges,
    find_distinct,
    find_positions,
    mask_found,
)
from omnigraph.execution.read.entities import Entities, sort_by_id
from omnigraph.execution.read.node_scan import (
    filter_codes,
    find_passing_codes,
    restrict_filters,
    select_rows,
)
from omnigraph.execution.read.read_context import ReadContext
from omnigraph.execution.read.row_blocks import Demand, Rows, split_portions
from omnigraph.execution.read.table_reader import DST, ID, SRC
from omnigraph.execution.read.traversal_choice import (
    ExpansionPath,
    LookupBudget,
    is_encoding_worthwhile,
)
from omnigraph.plan.expressions import Predicate
from omnigraph.plan.plan_nodes import Direction, EdgeStep, Expand

_TABLE_CELLS = 1 << 22
"""A table of this many cells fits the caches of a processor."""
_PAIRS_PER_TABLE = 1_000
"""Filling a table costs as much as searching for this many pairs."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links from `sources`, ascending codes, to `targets[starts[i]:starts[i + 1]]`.

    Targets ascend within a source. `extra` holds further columns: hop counts and edges, by
    variable. `is_set` tells that no link occurs twice.
    """

    sources: Codes
    starts: Longs
    targets: Codes
    extra: Mapping[str, Codes]
    is_set: bool = True

    @property
    def counts(self) -> Longs:
        return np.diff(self.starts)

    def keep(self, mask: Flags) -> Links:
        """Only the links the mask marks."""
        kept_before: Longs = np.zeros(len(mask) + 1, dtype=np.int64)
        np.cumsum(mask, out=kept_before[1:])
        extra = {name: column[mask] for name, column in self.extra.items()}
        targets = self.targets[mask]
        return replace(self, starts=kept_before[self.starts], targets=targets, extra=extra)

    def retarget(self, mapping: Codes) -> Links:
        """Return the links with targets renumbered; those renumbered to -1 are dropped.

        The mapping preserves the order of targets.
        """
        renamed = replace(self, targets=mapping[self.targets])
        mask: Flags = renamed.targets >= 0
        return renamed if mask.all() else renamed.keep(mask)


def find_starts(owners: Longs | Codes, count: int) -> Longs:
    """Return the start of each owner's run in an ascending array of owners."""
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=starts[1:])
    return starts


def follow(
    rows: Rows,
    source: str,
    links: Links,
    target: str,
    entities: Mapping[str, Entities],
    demand: Demand,
) -> Iterator[Rows]:
    """Join each row with every link of its source, in the order of rows, then of links.

    Unused columns are dropped. If no column is added and equal rows may be merged, links are only
    counted.
    """
    starts, counts = _find_runs(rows, source, links)
    old, keep = rows.only(demand.variables), demand.variables
    new = {n: column for n, column in {target: links.targets, **links.extra}.items() if n in keep}
    found = {name: e for name, e in entities.items() if name in keep}
    if demand.merge and not new:
        some = np.flatnonzero(counts)
        yield old.take(some).add_weights(counts[some])
        return
    for first, last in split_portions(counts):
        some = counts[first:last]
        which = _find_positions(starts[first:last], some)
        columns = {name: column[which] for name, column in new.items()}
        yield old.slice(first, last).repeat(some).with_columns(columns, found)


def _find_runs(rows: Rows, source: str, links: Links) -> tuple[Longs, Longs]:
    """Return the start and the number of each row's links."""
    codes = rows.codes[source]
    if len(codes) == len(links.sources) and np.array_equal(codes, links.sources):
        return links.starts[:-1], links.counts
    if not len(links.sources):
        return np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size, dtype=np.int64)
    at = find_positions(codes, links.sources, rows.entities[source].size)
    return links.starts[at], np.where(at >= 0, links.counts[at], 0)


def _find_positions(starts: Longs, counts: Longs) -> Longs | slice:
    """Return the positions of all links of some rows, as one slice if contiguous."""
    ends = starts + counts
    if np.array_equal(starts[1:], ends[:-1]):
        return slice(int(starts[0]), int(ends[-1]))
    return expand_ranges(starts, counts)


def close(
    rows: Rows,
    source: str,
    links: Links,
    target: str,
    entities: Mapping[str, Entities],
    demand: Demand,
) -> Iterator[Rows]:
    """Keep the rows whose target, already bound, is linked to their source; once per link."""
    at = find_positions(rows.codes[source], links.sources, rows.entities[source].size)
    asked = _LinkRequest(at, rows.codes[target], rows.entities[target].size)
    old = rows.only(demand.variables)
    if links.is_set and not links.extra and (linked := _look_in_tables(asked, links)) is not None:
        yield old if linked.all() else old.take(np.flatnonzero(linked))
        return
    first, counts = _search(asked, links)
    which = expand_ranges(first, counts)
    keep = demand.variables
    columns = {name: column[which] for name, column in links.extra.items() if name in keep}
    found = {name: e for name, e in entities.items() if name in keep}
    yield old.take(np.repeat(np.arange(rows.size), counts)).with_columns(columns, found)


@dataclass(frozen=True, slots=True)
class _LinkRequest:
    """Pairs to test: a position among the sources and a target, -1 for a missing one."""

    at: Codes
    targets: Codes
    size: int
    """Number of targets."""


def _search(asked: _LinkRequest, links: Links) -> tuple[Longs, Longs]:
    """Return the start among all links and the number of each pair's links."""
    keys = np.repeat(np.arange(len(links.sources)), links.counts) * asked.size + links.targets
    known = (asked.at >= 0) & (asked.targets >= 0)
    wanted = np.where(known, asked.at.astype(np.int64) * asked.size + asked.targets, -1)
    first = np.searchsorted(keys, wanted, side="left").astype(np.int64)
    if links.is_set:
        return first, mask_found(keys, wanted, first).astype(np.int64)
    return first, (np.searchsorted(keys, wanted, side="right") - first).astype(np.int64)


def _look_in_tables(asked: _LinkRequest, links: Links) -> Flags | None:
    """Mask the linked pairs, with tables of all targets of a few sources at a time.

    None if the pairs are too few for that, or not sorted by source.
    """
    at, sources_at_once = asked.at, _TABLE_CELLS // asked.size if asked.size else 0
    if not sources_at_once or len(links.sources) * _PAIRS_PER_TABLE > len(at) * sources_at_once:
        return None
    if not bool((at[1:] >= at[:-1]).all()):
        return None
    found: Flags = np.zeros(len(at), dtype=np.bool_)
    table = np.zeros(min(sources_at_once, len(links.sources)) * asked.size, dtype=np.bool_)
    owners = np.repeat(np.arange(len(links.sources)), links.counts)
    firsts = np.arange(0, len(links.sources), sources_at_once, dtype=at.dtype)
    bounds = [*np.searchsorted(at, firsts), len(at)]
    for first, start, stop in zip(firsts.tolist(), bounds[:-1], bounds[1:], strict=True):
        last = min(first + sources_at_once, len(links.sources))
        own = slice(links.starts[first], links.starts[last])
        cells = (owners[own] - first) * asked.size + links.targets[own]
        targets = asked.targets[start:stop]
        table[cells] = True
        requested_positions = (at[start:stop].astype(np.int64) - first) * asked.size + targets
        found[start:stop] = table[requested_positions] & (targets >= 0)
        table[cells] = False
    return found


_FEW_TARGETS = 1_000
"""Fewer targets than this are filtered by code; for more the table is scanned once."""

NeighbourRows = tuple[Links, dict[str, Entities]]
"""Links, and the entities that their targets and edges are codes of."""


def find_sources(node: Expand, path: ExpansionPath, rows: Rows) -> Codes:
    """Return the distinct sources of the type that has such edges."""
    entities = rows.entities[node.source]
    codes = find_distinct(rows.codes[node.source], entities.size)
    return codes[entities.are_of(codes, path.source_type)]


def find_targets_by_id(
    node: Expand,
    path: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    ids: pa.Array,
) -> tuple[Entities, Codes]:
    """The target nodes among some distinct ids, and the code of each id or -1."""
    if node.closes:
        bound = rows.entities[node.target]
        return bound, bound.find(ids, path.target_type)
    budget.fetch(len(ids))
    filters = restrict_filters(node.target_filters, path.target_type)
    if is_encoding_worthwhile(context, path.target_type, len(ids)):
        return _find_encoded_targets(node, path, context, filters, ids)
    reader = context.tables.node(path.target_type)
    found = select_rows(context, reader, node.target, filters, node.target_columns, (ID, ids))
    entities = sort_by_id(reader, found)
    return entities, entities.find(ids, path.target_type)


def _find_encoded_targets(
    node: Expand,
    path: ExpansionPath,
    context: ReadContext,
    filters: Sequence[Predicate],
    ids: pa.Array,
) -> tuple[Entities, Codes]:
    """Restrict targets without a search: ids are found in memory, properties read on demand."""
    type_name = path.target_type
    codes = context.nodes(type_name).find(ids)
    if filters:
        some = np.sort(codes[codes >= 0])
        passing = filter_codes(context, type_name, node.target, filters, some)
        codes = np.where(np.isin(codes, passing), codes, MISSING).astype(np.int32)
    return context.list_entities(type_name), codes


def build_links(sources: Codes, owners: Codes, targets: Codes, extra: dict[str, Codes]) -> Links:
    """Links from pairs in any order; pairs without a target are dropped."""
    kept = np.flatnonzero(targets >= 0)
    order = kept[np.lexsort((targets[kept], owners[kept]))]
    columns = {name: column[order] for name, column in extra.items()}
    return Links(sources, find_starts(owners[order], len(sources)), targets[order], columns)


class TargetFilter:
    """Maps reached nodes to codes of the target variable, and filters them."""

    def __init__(self, node: Expand, path: ExpansionPath, context: ReadContext) -> None:
        self._node, self._way, self._context = node, path, context
        self._passing: Flags | None = None

    def apply_filter(self, rows: Rows, links: Links) -> NeighbourRows:
        """Select the links whose target is the bound one, or passes the filters."""
        node = self._node
        if node.closes:
            bound = rows.entities[node.target]
            return links.retarget(self._bound_codes(rows, bound)), {node.target: bound}
        if node.target_filters:
            links = links.keep(self._mask_passing(links.targets))
        return links, {node.target: self._context.list_entities(self._way.target_type)}

    def _bound_codes(self, rows: Rows, bound: Entities) -> Codes:
        """For every node of the type, its code among the bound entities."""
        table_codes = self._context.nodes(self._way.target_type)
        codes = find_distinct(rows.codes[self._node.target], bound.size)
        numbers = bound.node_codes(codes, table_codes, self._way.target_type)
        mapping = np.full(table_codes.size, MISSING, dtype=np.int32)
        mapping[numbers[numbers >= 0]] = codes[numbers >= 0]
        return mapping

    def _mask_passing(self, targets: Codes) -> Flags:
        if self._passing is not None:
            return self._passing[targets]
        type_name, variable = self._way.target_type, self._node.target
        filters = restrict_filters(self._node.target_filters, type_name)
        passing: Flags = np.zeros(self._context.nodes(type_name).size, dtype=np.bool_)
        some = find_distinct(targets, len(passing))
        if len(some) <= _FEW_TARGETS:
            passing[filter_codes(self._context, type_name, variable, filters, some)] = True
        else:
            passing[find_passing_codes(self._context, type_name, variable, filters)] = True
            self._passing = passing
        return passing[targets]


NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class EdgePairs:
    """Edges as pairs of ids, in the direction of the traversal."""

    sources: pa.Array
    targets: pa.Array


def look_up(context: ReadContext, steps: Sequence[EdgeStep], ids: pa.Array) -> EdgePairs:
    """Look up every edge that one of the steps follows from these nodes."""
    sources, targets = [NO_IDS], [NO_IDS]
    for step in steps:
        reader = context.tables.edge(step.edge_type)
        for near, far in list_followed_columns(step.direction):
            found = reader.find(near, ids, [SRC, DST])
            sources.append(found.column(near))
            targets.append(found.column(far))
    return EdgePairs(pa.concat_arrays(sources), pa.concat_arrays(targets))


def list_followed_columns(direction: Direction) -> tuple[tuple[str, str], ...]:
    """(near, far) columns of an edge for each direction in which it is followed."""
    match direction:
        case Direction.OUT:
            return ((SRC, DST),)
        case Direction.IN:
            return ((DST, SRC),)
        case _:
            return ((SRC, DST), (DST, SRC))


class Frontier:
    """Numbers ids as they are reached, and looks up neighbours of the newest ones."""

    def __init__(
        self, context: ReadContext, path: ExpansionPath, budget: LookupBudget, start: pa.Array
    ) -> None:
        self.ids = start
        self._context, self._way, self._budget = context, path, budget

    def neighbours(self, nodes: Codes, hop: int) -> tuple[Longs, Codes]:
        wanted = find_distinct(nodes, len(self.ids))
        self._budget.look_up(len(wanted))
        ids = self.ids.take(pa.array(wanted))
        pairs = look_up(self._context, self._way.steps, ids)
        self._budget.record_search(len(pairs.targets))
        if hop < self._way.hops.maximum:
            pairs = self._with_nodes(pairs)
        found = self._adjacency(pairs, ids)
        return found.neighbours(find_positions(nodes, wanted, len(self.ids)))

    def _with_nodes(self, pairs: EdgePairs) -> EdgePairs:
        """Only edges to existing nodes, since the walk continues from them."""
        reader = self._context.tables.node(self._way.target_type)
        there = reader.find(ID, pc.unique(pairs.targets), [ID]).column(ID)
        mask = pc.is_in(pairs.targets, value_set=there)
        return EdgePairs(pairs.sources.filter(mask), pairs.targets.filter(mask))

    def _adjacency(self, pairs: EdgePairs, ids: pa.Array) -> Adjacency:
        near = encode_values(
            np.asarray(pc.index_in(pairs.sources, value_set=ids).fill_null(MISSING))
        )
        far = self._encode_ids(pairs.targets)
        return build_adjacency([(near, far)], len(ids))

    def _encode_ids(self, ids: pa.Array) -> Codes:
        known = pc.is_in(ids, value_set=self.ids)
        self.ids = pa.concat_arrays([self.ids, pc.unique(ids.filter(pc.invert(known)))])
        return encode_values(np.asarray(pc.index_in(ids, value_set=self.ids)))


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """Reached nodes by id: `reached.nodes` are indexes into `ids`."""

    reached: Reached
    ids: pa.Array


def walk_by_lookups(
    context: ReadContext, path: ExpansionPath, budget: LookupBudget, start: pa.Array
) -> FrontierResult:
    """Find the ids reachable from the start ids. Ids of the last hop may belong to no node.

    Raises:
        LookupBudgetExceeded: the lookups would cost more than an adjacency.
    """
    if path.source_type != path.target_type:
        return _look_up_between_types(context, path, budget, start)
    frontier = Frontier(context, path, budget, start)
    begin = np.arange(len(start), dtype=np.int32)
    if path.hops.maximum > 1:
        return FrontierResult(walk(begin, frontier.neighbours, path.hops), frontier.ids)
    counts, nodes = frontier.neighbours(begin, 1)
    starts = encode_values(np.repeat(begin, counts))
    return FrontierResult(Reached(starts, nodes, np.ones(len(nodes), dtype=np.int32)), frontier.ids)


def _look_up_between_types(
    context: ReadContext, path: ExpansionPath, budget: LookupBudget, start: pa.Array
) -> FrontierResult:
    """Look up one hop to another type, whose ids may equal those of the start."""
    budget.look_up(len(start))
    pairs = look_up(context, path.steps, start)
    budget.record_search(len(pairs.targets))
    ids = pc.unique(pairs.targets)
    near = encode_values(np.asarray(pc.index_in(pairs.sources, value_set=start).fill_null(MISSING)))
    far = encode_values(np.asarray(pc.index_in(pairs.targets, value_set=ids)))
    found = build_adjacency([(near, far)], len(start))
    starts = encode_values(np.repeat(np.arange(len(start)), np.diff(found.starts)))
    hops = np.ones(len(found.targets), dtype=np.int32)
    return FrontierResult(Reached(starts, found.targets, hops), ids)
