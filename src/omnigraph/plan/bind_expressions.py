"""Expressions of the syntax tree to typed operands.

Names mean different things in a match and in a mutation's `where`, so the walk over expressions
asks `NameResolver` what each one stands for. A mistake is reported where it is found and gives
None.
"""

from __future__ import annotations

from typing import Protocol, assert_never

from omnigraph.language.query.query_ast import (
    AggregateCall,
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    ListLiteral,
    Literal,
    NowCall,
    ObjectProjection,
    PropertyRef,
    VariableRef,
)
from omnigraph.plan.bind_properties import make_entity_id, report_unbound, resolve_property
from omnigraph.plan.bind_search import bind_search
from omnigraph.plan.expressions import (
    I64,
    STRING,
    Constant,
    HopCount,
    NowValue,
    Operand,
    ParameterValue,
    TypeNameValue,
)
from omnigraph.plan.literals import list_constant, make_literal_constant
from omnigraph.plan.scope import (
    BindContext,
    Block,
    BrokenVariable,
    EdgeVariable,
    HopVariable,
    NodeVariable,
)


class NameResolver(Protocol):
    """What the names inside an expression stand for, and how mistakes around them are coded."""

    @property
    def context(self) -> BindContext: ...

    @property
    def literal_code(self) -> str:
        """The code of a literal that cannot be compared with a property."""

    @property
    def blob_code(self) -> str:
        """The code of a Blob that is compared."""

    @property
    def checks_enums(self) -> bool:
        """Whether a literal equated with an enum must be one of its values."""

    def variable(self, ref: VariableRef) -> Operand | None: ...

    def property(self, ref: PropertyRef) -> Operand | None: ...

    def alias(self, ref: AliasRef) -> Operand | None: ...

    def function(self, call: FunctionCall) -> Operand | None: ...

    def node(self, expression: Expression) -> NodeVariable | None:
        """The node variable that is here by itself, if one does."""


def bind_operand(expression: Expression, names: NameResolver) -> Operand | None:
    """The value an expression means, or None when it has a mistake (then reported)."""
    context = names.context
    match expression:
        case Literal() | ListLiteral():
            return bind_literal(expression, context)
        case VariableRef():
            return names.variable(expression)
        case PropertyRef():
            return names.property(expression)
        case AliasRef():
            return names.alias(expression)
        case NowCall():
            return NowValue()
        case FunctionCall():
            return names.function(expression)
        case AggregateCall():
            message = f"{expression.function}() can only be used by itself in `return`"
            context.report("T8", message, expression.span, hint="order by the column's alias")
        case ObjectProjection():
            message = "an object can only be used by itself in `return`"
            context.report("T7", message, expression.span)
        case _:
            assert_never(expression)
    return None


def bind_literal(literal: Literal | ListLiteral, context: BindContext) -> Constant | None:
    def complain(message: str) -> None:
        context.report("T3", message, literal.span)

    if isinstance(literal, ListLiteral):
        return list_constant(literal, complain)
    return make_literal_constant(literal, complain)


def bind_parameter(ref: VariableRef, context: BindContext) -> ParameterValue | None:
    """The parameter `$name`, or None without any report."""
    type_ = context.parameters.get(ref.name)
    return None if type_ is None else ParameterValue(ref.name, type_)


class MatchNames:
    """Names as a `match`, `return` or `order` sees them: variables, then parameters."""

    literal_code = "T7"
    blob_code = "T7"
    checks_enums = False

    def __init__(self, block: Block) -> None:
        self.block, self.context = block, block.context

    def variable(self, ref: VariableRef) -> Operand | None:
        match self.block.find(ref.name):
            case None:
                parameter = bind_parameter(ref, self.context)
                if parameter is None:
                    report_unbound(ref.name, ref.span, self.block)
                return parameter
            case NodeVariable() as node:
                return make_entity_id(node)
            case HopVariable() as hops:
                return HopCount(hops.name, I64.optional() if hops.nullable else I64)
            case EdgeVariable():
                message = f"${ref.name} is an edge variable and has no value of its own"
                self.context.report(
                    "T23", message, ref.span, hint=f"name a property, or `${ref.name}.id`"
                )
            case BrokenVariable():
                pass
        return None

    def property(self, ref: PropertyRef) -> Operand | None:
        return resolve_property(ref, self.block)

    def alias(self, ref: AliasRef) -> Operand | None:
        hint = "a column's alias can be used in `order` only"
        if self.block.find(ref.name) is not None or ref.name in self.context.parameters:
            hint = f"did you mean `${ref.name}`?"
        self.context.report("T6", f"`{ref.name}` means nothing here", ref.span, hint=hint)
        return None

    def function(self, call: FunctionCall) -> Operand | None:
        if call.function is FunctionName.TYPE:
            return self._name_type(call)
        return bind_search(call, self.block)

    def node(self, expression: Expression) -> NodeVariable | None:
        if not isinstance(expression, VariableRef):
            return None
        found = self.block.find(expression.name)
        return found if isinstance(found, NodeVariable) else None

    def _name_type(self, call: FunctionCall) -> TypeNameValue | None:
        argument = call.arguments[0]
        node = self.node(argument)
        if node is not None:
            return TypeNameValue(node.name, STRING.optional() if node.nullable else STRING)
        name = argument.name if isinstance(argument, VariableRef) else None
        if name is None or not isinstance(self.block.find(name), BrokenVariable):
            self.context.report("T26", "type() takes a node variable", argument.span)
        return None
