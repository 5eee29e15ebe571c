"""Conditions on the rows of one type, in which bare words are its columns.

The `where` of a mutation is one; a reader of rows takes one on its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.cursor import suggest_closest
from omnigraph.language.query.query_ast import (
    AliasRef,
    Expression,
    FunctionCall,
    PropertyRef,
    VariableRef,
)
from omnigraph.language.query.query_parser import parse_condition
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.bind_conditions import bind_condition
from omnigraph.plan.bind_expressions import bind_parameter
from omnigraph.plan.bind_properties import ID, suggest_variable
from omnigraph.plan.expressions import STRING, EntityId, Operand, Predicate, PropertyValue
from omnigraph.plan.nodes import ROW
from omnigraph.plan.scope import BindContext, NodeVariable

ENDS = {"from": "src", "to": "dst"}
"""How the ends of an edge are written, and the columns they are kept in."""

_STORED_ENDS = {**ENDS, "src": "src", "dst": "dst"}
"""The same for readers, who see the columns."""


def bind_row_condition(
    source: SourceText, type_: NodeType | EdgeType, catalog: Catalog
) -> Predicate:
    """The condition of a text on the rows of a type; it has no parameters.

    Raises:
        CompileError: the text has mistakes; the error carries all of them.
    """
    condition = parse_condition(source)
    problems = Problems(source, "type")
    names = RowNames(type_, BindContext(catalog, problems, {}), _STORED_ENDS)
    predicate = bind_condition(condition, names)
    problems.raise_if_any()
    assert predicate is not None, "a condition that cannot be bound is a mistake"
    return predicate


class RowNames:
    """The columns of the row a statement looks at, and the parameters."""

    literal_code = "T3"
    blob_code = "T11"
    checks_enums = True

    def __init__(
        self, target: NodeType | EdgeType, context: BindContext, ends: Mapping[str, str] = ENDS
    ) -> None:
        self._target, self.context, self._ends = target, context, ends

    def variable(self, ref: VariableRef) -> Operand | None:
        parameter = bind_parameter(ref, self.context)
        if parameter is None:
            message = f"${ref.name} must be a declared query parameter"
            hint = suggest_variable(ref.name, self.context.parameters)
            self.context.report("T14", message, ref.span, hint=hint)
        return parameter

    def property(self, ref: PropertyRef) -> Operand | None:
        message = "`where` names properties without a variable"
        hint = f"write `{ref.property}`"
        self.context.report("T14", message, ref.span, hint=hint)
        return None

    def alias(self, ref: AliasRef) -> Operand | None:
        if ref.name == ID:
            return EntityId(ROW)
        if isinstance(self._target, EdgeType) and ref.name in self._ends:
            return PropertyValue(ROW, self._ends[ref.name], STRING)
        found = self._target.property(ref.name)
        if found is not None:
            return PropertyValue(ROW, ref.name, found.type)
        message = f"{self._target.name} has no property '{ref.name}'"
        hint = suggest_closest(ref.name, list_column_words(self._target))
        self.context.report("T11", message, ref.span, hint=hint)
        return None

    def function(self, call: FunctionCall) -> Operand | None:
        message = f"{call.function}() can be used in a match, not in `where`"
        self.context.report("T7", message, call.span)
        return None

    def node(self, expression: Expression) -> NodeVariable | None:
        del expression  # no variable is bound in a mutation
        return None


def list_column_words(target: NodeType | EdgeType) -> list[str]:
    """What can be written for a column of the type: its properties, and the ends of an edge."""
    ends = list(ENDS) if isinstance(target, EdgeType) else []
    return [*ends, *(p.name for p in target.properties)]
