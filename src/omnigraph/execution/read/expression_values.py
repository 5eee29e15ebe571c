"""Evaluate operands and predicates on a block of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.execution.predicates import RowScope, evaluate_mask, make_scalar
from omnigraph.execution.read import scores
from omnigraph.execution.read.code_arrays import Codes, Flags, find_distinct, find_positions, take
from omnigraph.execution.read.entities import Entities
from omnigraph.execution.read.read_context import ReadContext, get_scalar_type, map_operands
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.scores import has_query
from omnigraph.execution.read.table_reader import ID
from omnigraph.plan.expressions import (
    Constant,
    EntityId,
    FusedScore,
    HopCount,
    NowValue,
    Operand,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.plan.walk import list_operands_of, list_predicate_variables, list_used_properties

_COMPUTED = TypeNameValue | HopCount | TextMatch | TextScore | VectorDistance | FusedScore


class Values:
    """Evaluates operands on one block; each column is fetched once."""

    def __init__(self, context: ReadContext, rows: Rows) -> None:
        self.context, self.rows = context, rows
        self._columns: dict[tuple[str, str], pa.Array] = {}
        self._computed: dict[Operand, pa.Array] = {}
        self._aliases: dict[Operand, str] = {}

    def prefetch(self, operands: Iterable[Operand]) -> None:
        """Fetch the columns of these operands, all of a variable together."""
        wanted: dict[str, set[str]] = {}
        for operand in operands:
            for variable, name in list_used_properties(operand):
                if (variable, name) not in self._columns:
                    wanted.setdefault(variable, set()).add(name)
        for variable, names in wanted.items():
            self._fetch(variable, sorted(names))

    def column(self, variable: str, name: str) -> pa.Array:
        if (variable, name) not in self._columns:
            self._fetch(variable, [name])
        return self._columns[variable, name]

    def _fetch(self, variable: str, names: list[str]) -> None:
        codes, entities = self.rows.codes[variable], self.rows.entities[variable]
        known = np.flatnonzero(codes >= 0)
        found = entities.columns(names, codes if len(known) == len(codes) else codes[known])
        for name, values in found.items():
            if len(known) < len(codes):
                back = np.full(len(codes), -1, dtype=np.int32)
                back[known] = np.arange(len(known), dtype=np.int32)
                values = take(values, back)
            self._columns[variable, name] = values

    def of(self, operand: Operand) -> pa.Array:
        """One value for each row."""
        match operand:
            case Constant() | ParameterValue() | NowValue():
                value = self.context.given.value(operand)
                return pa.repeat(make_scalar(value, operand.type), self.rows.size)
            case PropertyValue():
                return self.column(operand.variable, operand.property)
            case EntityId():
                return self.column(operand.variable, ID)
            case (
                TypeNameValue()
                | HopCount()
                | TextMatch()
                | TextScore()
                | VectorDistance()
                | FusedScore()
            ):
                if operand not in self._computed:
                    self._computed[operand] = self._compute(operand)
                return self._computed[operand]
            case OutputValue():
                raise AssertionError("result columns are evaluated above the projection")
            case _:
                assert_never(operand)

    def _compute(self, operand: _COMPUTED) -> pa.Array:
        codes = self.rows.codes[operand.variable]
        if isinstance(operand, HopCount):
            return pa.array(codes.astype(np.int64), pa.int64(), mask=codes < 0)
        entities = self.rows.entities[operand.variable]
        if isinstance(operand, TypeNameValue):
            return _list_type_names(entities, codes)
        wanted = find_distinct(codes, entities.size)
        where = find_positions(codes, wanted, entities.size)
        found = take(self._search(operand, entities, wanted), where)
        if isinstance(operand, TextMatch) and has_query(self.context, operand):
            # The text of a missing entity is NULL, and NULL text does not match.
            return found.fill_null(False)
        return found

    def _search(
        self,
        operand: TextMatch | TextScore | VectorDistance | FusedScore,
        entities: Entities,
        codes: Codes,
    ) -> pa.Array:
        match operand:
            case TextMatch():
                return scores.match_texts(self.context, operand, entities, codes)
            case TextScore() | VectorDistance():
                return scores.score_values(self.context, operand, entities, codes)
            case FusedScore():
                return self._fuse(operand, entities, codes)
            case _:
                assert_never(operand)

    def _fuse(self, operand: FusedScore, entities: Entities, codes: Codes) -> pa.Array:
        """Compute fused scores, which rank an entity within the whole match."""
        ranked, values = self.context.fused[operand]
        order = np.argsort(ranked, kind="stable")
        where = find_positions(codes, ranked[order], entities.size)
        return take(pa.array(values[order]), where)

    # --- predicates ------------------------------------------------------------------------------

    def keeps(self, predicate: Predicate) -> Flags:
        """The rows the predicate is true for."""
        self.prefetch(list_operands_of(predicate))
        scope = RowScope(
            self.rows.size,
            self.column,
            self.context.given.parameters,
            self.context.given.now,
        )
        found = evaluate_mask(map_operands(predicate, self._as_property), scope)
        answer: Flags = np.asarray(found, dtype=np.bool_)
        return answer

    def _as_property(self, operand: Operand) -> Operand:
        """Store a computed operand under a name that no property can have."""
        if not isinstance(operand, _COMPUTED):
            return operand
        alias = self._aliases.setdefault(operand, f"#{len(self._aliases)}")
        self._columns[operand.variable, alias] = self.of(operand)
        return PropertyValue(operand.variable, alias, get_scalar_type(operand))


def _list_type_names(entities: Entities, codes: Codes) -> pa.Array:
    names = pa.array(entities.types, pa.string())
    kinds = np.full(len(codes), -1, dtype=np.int32)
    known = codes >= 0
    kinds[known] = entities.kinds(codes[known])
    return take(names, kinds)


def filter_rows(context: ReadContext, rows: Rows, predicate: Predicate) -> Rows:
    """Select the rows for which a predicate is true.

    A predicate on a single entity variable is evaluated once per distinct entity.
    """
    variables = list_predicate_variables(predicate)
    only = next(iter(variables)) if len(variables) == 1 else None
    entities = rows.entities.get(only) if only is not None else None
    if only is None or entities is None:
        mask = Values(context, rows).keeps(predicate)
        return rows if mask.all() else rows.take(np.flatnonzero(mask))
    codes = rows.codes[only]
    wanted = find_distinct(codes, entities.size)
    # The last row is the missing entity, for which a predicate may be true as well.
    asked = np.concatenate([wanted, np.asarray([-1], dtype=np.int32)])
    some = replace(
        rows,
        size=len(asked),
        codes={only: asked},
        entities={only: entities},
        weights=None,
        origin=None,
    )
    mask = Values(context, some).keeps(predicate)[find_positions(codes, wanted, entities.size)]
    return rows if mask.all() else rows.take(np.flatnonzero(mask))
