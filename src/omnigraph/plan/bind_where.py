"""Names inside the `where` of a mutation: bare words are columns of the changed type."""

from __future__ import annotations

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.language.cursor import closest
from omnigraph.language.query.ast import (
    AliasRef,
    Expression,
    FunctionCall,
    PropertyRef,
    VariableRef,
)
from omnigraph.plan.bind_expressions import bind_parameter
from omnigraph.plan.bind_properties import ID, closest_variable
from omnigraph.plan.expressions import STRING, EntityId, Operand, PropertyValue
from omnigraph.plan.nodes import ROW
from omnigraph.plan.scope import Context, NodeVariable

ENDS = {"from": "src", "to": "dst"}
"""How the ends of an edge are written, and the columns they are kept in."""


class RowNames:
    """The columns of the row a statement looks at, and the parameters."""

    literal_code = "T3"
    blob_code = "T11"
    checks_enums = True

    def __init__(self, target: NodeType | EdgeType, context: Context) -> None:
        self._target, self.context = target, context

    def variable(self, ref: VariableRef) -> Operand | None:
        parameter = bind_parameter(ref, self.context)
        if parameter is None:
            message = f"${ref.name} must be a declared query parameter"
            hint = closest_variable(ref.name, self.context.parameters)
            self.context.report("T14", message, ref.span, hint=hint)
        return parameter

    def property(self, ref: PropertyRef) -> Operand | None:
        message = "`where` names properties of the changed type without a variable"
        hint = f"write `{ref.property}`"
        self.context.report("T14", message, ref.span, hint=hint)
        return None

    def alias(self, ref: AliasRef) -> Operand | None:
        if ref.name == ID:
            return EntityId(ROW)
        if isinstance(self._target, EdgeType) and ref.name in ENDS:
            return PropertyValue(ROW, ENDS[ref.name], STRING)
        found = self._target.property(ref.name)
        if found is not None:
            return PropertyValue(ROW, ref.name, found.type)
        message = f"{self._target.name} has no property '{ref.name}'"
        hint = closest(ref.name, column_words(self._target))
        self.context.report("T11", message, ref.span, hint=hint)
        return None

    def function(self, call: FunctionCall) -> Operand | None:
        message = f"{call.function}() can be used in a match, not in `where`"
        self.context.report("T7", message, call.span)
        return None

    def node(self, expression: Expression) -> NodeVariable | None:
        del expression  # no variable is bound in a mutation
        return None


def column_words(target: NodeType | EdgeType) -> list[str]:
    """What can be written for a column of the type: its properties, and the ends of an edge."""
    ends = list(ENDS) if isinstance(target, EdgeType) else []
    return [*ends, *(p.name for p in target.properties)]
