"""A naive interpreter of reads: the oracle of the differential tests.

It takes a bound plan as written, before any rule has run, and plain data. Rows come as groups:
the order of the groups is fixed by the query, the order inside a group is unspecified.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import assert_never

from differential.data import GraphData, Value
from differential.matching import Matcher, Row
from differential.model_aggregates import Bag, aggregate, group_rows, same_value, with_one_zero
from differential.model_evaluation import Embedder, Evaluator, Rough
from differential.plans import PlanRunner
from omnigraph.catalog.catalog import Catalog
from omnigraph.plan.expressions import (
    AggregateValue,
    Constant,
    FusedScore,
    ObjectValue,
    Operand,
    Output,
    OutputValue,
    ParameterValue,
    Ranking,
    VectorDistance,
)
from omnigraph.plan.plan_nodes import (
    Aggregate,
    Node,
    OutputColumn,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
    SortKey,
)
from omnigraph.types.property import FLOATS, PropertyType

Groups = list[list[Row]]
NOW = datetime(2024, 6, 1, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Answer:
    """The rows of a read: groups in order, of which `offset` and `limit` cut a stretch.

    Zeros come out with the sign they are stored with, and as 0.0 where one value stands for several
    that are equal; without `signed_zeros` they are equal.
    """

    columns: tuple[OutputColumn, ...]
    groups: Groups
    offset: int = 0
    limit: int | None = None
    signed_zeros: bool = True

    @property
    def count(self) -> int:
        left = max(0, sum(map(len, self.groups)) - self.offset)
        return left if self.limit is None else min(left, self.limit)


def interpret(
    plan: ReadPlan,
    data: GraphData,
    catalog: Catalog,
    parameters: Mapping[str, Value],
    *,
    now: datetime = NOW,
    embed: Embedder | None = None,
    most_rows: int = 1_000_000,
) -> Answer:
    """The answer to a bound plan; values are ready for JSON.

    Give it the plan as written. It also runs what the rules make of it, which must not matter.
    """
    evaluator = Evaluator(data, parameters, now, embed)
    matcher = Matcher(data, catalog, evaluator, most_rows)
    reading = _Reading(evaluator, PlanRunner(matcher))
    root, cut = plan.root, Slice(plan.root)
    if isinstance(root, Slice):
        root, cut = root.child, root
    offset, limit = reading.count(cut.offset) or 0, reading.count(cut.limit)
    match root:
        case Project(Rank(_, FusedScore() as ranking)) if limit is not None:
            evaluator.kept[ranking] = offset + limit
    groups = reading.groups(root)
    answer = Answer(plan.columns, [[_rendered(row) for row in group] for group in groups])
    return replace(answer, offset=offset, limit=limit)


@dataclass
class _Reading:
    evaluator: Evaluator
    runner: PlanRunner

    def count(self, value: Constant | ParameterValue | None) -> int | None:
        if value is None:
            return None
        number = self.evaluator.value(value, {})
        assert isinstance(number, int)
        return number

    def groups(self, node: Node) -> Groups:
        match node:
            case Sort(child, keys, tie_break, tie_columns):
                by = [self._by(key) for key in keys]
                by += [_by_id(variable) for variable in tie_break]
                by += [_by_column(name) for name in self._orderable(child, tie_columns)]
                return _ordered(_flat(self.groups(child)), by)
            case Rank(child, ranking, keys, tie_break):
                best = SortKey(ranking, descending=not isinstance(ranking, VectorDistance))
                rows = _flat(self.groups(child))
                by = [self._by(key) for key in (best, *keys)]
                by += self._together(ranking)
                by += [_by_id(variable) for variable in tie_break]
                has_score = [r for r in rows if self.evaluator.value(ranking, r) is not None]
                return _ordered(has_score, by)
            case Project(child, columns, distinct):
                groups = self.groups(child)
                projected = [[self._project(columns, row) for row in rows] for rows in groups]
                return [_distinct(_flat(projected))] if distinct else projected
            case Aggregate(child, columns):
                return [self._aggregate(columns, _flat(self.groups(child)))]
            case _:
                rows = self.runner.rows(node, {})
                self.evaluator.matched = rows
                return [rows]

    # --- columns ----------------------------------------------------------------------------------

    def _project(self, columns: tuple[OutputColumn, ...], row: Row) -> Row:
        return {column.name: self._output(column.value, row) for column in columns}

    def _output(self, output: Output, row: Row) -> Value:
        match output:
            case ObjectValue(variable, fields):
                if row[variable] is None:
                    return None
                return {name: self.evaluator.value(field, row) for name, field in fields}
            case AggregateValue():
                raise AssertionError("an aggregate is no value of one row")
            case Constant(tuple() as items, PropertyType(scalar=scalar)) if scalar in FLOATS:
                return tuple(map(float, items))  # type: ignore[arg-type]
            case _:
                return self.evaluator.value(output, row)

    def _aggregate(self, columns: tuple[OutputColumn, ...], rows: list[Row]) -> list[Row]:
        keys = [c for c in columns if not isinstance(c.value, AggregateValue)]
        keyed = [(tuple(self._output(key.value, row) for key in keys), row) for row in rows]
        groups = group_rows(keyed) if keys else [((), rows)]
        answer = []
        for values, members in groups:
            row = dict(zip((key.name for key in keys), values, strict=True))
            for column in columns:
                if isinstance(column.value, AggregateValue):
                    argument = column.value.argument
                    given = [self.evaluator.value(argument, member) for member in members]
                    row[column.name] = aggregate(column.value, given)
            answer.append({column.name: row[column.name] for column in columns})
        return answer

    # --- order ------------------------------------------------------------------------------------

    def _by(self, key: SortKey) -> Comparison:
        value = _getter(self.evaluator, key.value)
        if key.descending:
            return lambda one, other: _compare(value(other), value(one))
        return lambda one, other: _compare(value(one), value(other))

    def _together(self, ranking: Ranking) -> list[Comparison]:
        """Level rows by the ranked node, so that its rows stand together.

        Fused rankings come in the order of the first one, then of the second, else nodes by id.
        """
        if not isinstance(ranking, FusedScore):
            return [_by_id(ranking.variable)]
        arms = [self.evaluator.places(ranking, a) for a in (ranking.first, ranking.second)]
        last = len(self.evaluator.matched) + 1

        def place(row: Row) -> list[int]:
            return [ranks.get(row[ranking.variable], last) for ranks in arms]  # type: ignore[arg-type]

        return [lambda one, other: (place(one) > place(other)) - (place(one) < place(other))]

    def _orderable(self, child: Node, names: Iterable[str]) -> list[str]:
        """The columns up to the first that has no order: from there on rows are level."""
        assert isinstance(child, Project | Aggregate) or not tuple(names)
        found: list[str] = []
        for name in names:
            type_ = next(c.type for c in child.columns if c.name == name)  # type: ignore[union-attr]
            if not isinstance(type_, PropertyType) or not type_.is_plain_scalar:
                break
            found.append(name)
        return found


Comparison = Callable[[Row, Row], int | None]


def _getter(evaluator: Evaluator, operand: Operand) -> Callable[[Row], Value]:
    if isinstance(operand, OutputValue):
        return lambda row: row[operand.column]
    return lambda row: evaluator.value(operand, row)


def _by_id(variable: str) -> Comparison:
    def compare(one: Row, other: Row) -> int | None:
        return _compare(*(getattr(row[variable], "id", None) for row in (one, other)))

    return compare


def _by_column(name: str) -> Comparison:
    return lambda one, other: _compare(one[name], other[name])


def _compare(one: Value, other: Value) -> int | None:
    """NULL is smaller than every value.

    None means undecided: approximate numbers that differ but could be equal.
    """
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, Rough) and isinstance(other, Rough):
        if one.value != other.value and abs(one.value - other.value) <= one.slack + other.slack:
            return None
        one, other = one.value, other.value
    return (one > other) - (one < other)  # type: ignore[operator]


def _ordered(rows: list[Row], by: list[Comparison]) -> Groups:
    """The rows sorted by each comparison in turn; rows equal by all share a group.

    Where a comparison is undecided, those after it do not matter: the engine may see a difference.
    """

    def compare(one: Row, other: Row) -> int:
        found = next((found for part in by if (found := part(one, other)) != 0), 0)
        return found or 0

    key = functools.cmp_to_key(compare)
    return [list(group) for _, group in groupby(sorted(rows, key=key), key=key)]


def _flat(groups: Groups) -> list[Row]:
    return [row for group in groups for row in group]


def _distinct(rows: list[Row]) -> list[Row]:
    found: dict[Hashable, Row] = {}
    for row in rows:
        plain = {name: with_one_zero(value) for name, value in row.items()}
        found.setdefault(same_value(tuple(row.values())), plain)
    return list(found.values())


# --- JSON -----------------------------------------------------------------------------------------


def _rendered(row: Row) -> Row:
    return {name: render(value) for name, value in row.items()}


def render(value: Value) -> Value:
    """The JSON value a query gives back; rough numbers stay marked as such."""
    match value:
        case float() if not math.isfinite(value):
            return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
        case Rough() | None | bool() | int() | float() | str():
            return value
        case datetime():
            text = value.astimezone(UTC).strftime("%m-%dT%H:%M:%S")
            return f"{value.year:04}-{text}.{value.microsecond // 1000:03}Z"
        case date():
            return value.isoformat()
        case Bag():
            return Bag(render(item) for item in value)
        case tuple() | list():
            return [render(item) for item in value]
        case dict():
            return {name: render(item) for name, item in value.items()}
        case _:
            assert_never(value)  # type: ignore[arg-type]
