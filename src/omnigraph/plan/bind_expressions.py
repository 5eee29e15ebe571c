"""Bind expressions and the search functions to typed operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never

from omnigraph.language.query_ast import (
    AggregateCall,
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    ListLiteral,
    Literal,
    LiteralKind,
    NowCall,
    ObjectProjection,
    PropertyRef,
    VariableRef,
)
from omnigraph.plan.expressions import (
    BOOL,
    I64,
    STRING,
    Constant,
    EntityId,
    FusedScore,
    HopCount,
    NowValue,
    Operand,
    ParameterValue,
    TextMatch,
    TextMode,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.plan.literals import fit_literal, list_constant, make_literal_constant
from omnigraph.plan.scope import (
    BindContext,
    Block,
    BrokenVariable,
    EdgeVariable,
    HopVariable,
    NodeVariable,
    make_entity_id,
    report_unbound,
    resolve_property,
)
from omnigraph.types.property import INTEGERS, PropertyType

DEFAULT_FUZZY_DISTANCE = 2
DEFAULT_FUSION_CONSTANT = 60

_CODES = {
    FunctionName.SEARCH: "T19",
    FunctionName.FUZZY: "T19",
    FunctionName.MATCH_TEXT: "T20",
    FunctionName.BM25: "T20",
    FunctionName.NEAREST: "T15",
    FunctionName.RRF: "T21",
}
TEXT_MODES = {
    FunctionName.SEARCH: TextMode.ANY_TERM,
    FunctionName.MATCH_TEXT: TextMode.PHRASE,
    FunctionName.FUZZY: TextMode.FUZZY,
}

Searched = tuple[str, str, PropertyType]
"""The plan name of a variable, a property of it, and the property's type."""


def bind_search(call: FunctionCall, block: Block) -> Operand | None:
    match call.function:
        case FunctionName.SEARCH | FunctionName.MATCH_TEXT | FunctionName.FUZZY:
            return _bind_text_match(call, block)
        case FunctionName.BM25:
            return _bind_text_score(call, block)
        case FunctionName.NEAREST:
            return _bind_vector_distance(call, block)
        case FunctionName.RRF:
            return _bind_fused_score(call, block)
        case FunctionName.TYPE:
            raise AssertionError("type() is not a search function")
        case _:
            assert_never(call.function)


# --- text -----------------------------------------------------------------------------------------


def _bind_text_match(call: FunctionCall, block: Block) -> TextMatch | None:
    field, query = _bind_text_arguments(call, block)
    distance = _bind_fuzzy_distance(call, block)
    if field is None or query is None or (distance is None and len(call.arguments) > 2):
        return None
    variable, name, _ = field
    type_ = BOOL.optional() if query.type.nullable else BOOL
    return TextMatch(TEXT_MODES[call.function], variable, name, query, distance, type_)


def _bind_text_score(call: FunctionCall, block: Block) -> TextScore | None:
    field, query = _bind_text_arguments(call, block)
    if field is None or query is None:
        return None
    variable, name, _ = field
    return TextScore(variable, name, query)


def _bind_text_arguments(
    call: FunctionCall, block: Block
) -> tuple[Searched | None, Constant | ParameterValue | None]:
    field = _bind_searched_property(
        call, block, lambda type_: type_.is_string, "a String property of a node"
    )
    query = _bind_query_value(call, block)
    if query is not None and not query.type.is_string:
        _report(call, block, "takes a String literal or parameter to look for", call.arguments[1])
        query = None
    return field, query


def _bind_fuzzy_distance(call: FunctionCall, block: Block) -> Operand | None:
    if call.function is not FunctionName.FUZZY:
        return None
    if len(call.arguments) < 3:
        return Constant(DEFAULT_FUZZY_DISTANCE, I64)
    return _count(call, block, call.arguments[2], least=0)


# --- vectors --------------------------------------------------------------------------------------


def _bind_vector_distance(call: FunctionCall, block: Block) -> VectorDistance | None:
    field = _bind_searched_property(
        call, block, lambda type_: type_.is_vector, "a Vector property of a node"
    )
    if field is None:
        return None
    variable, name, type_ = field
    dimension = type_.dimension
    assert dimension is not None, "a vector type has a dimension"
    query = _bind_vector_query(call, block, type_)
    if query is None:
        return None
    if not query.type.is_string:
        return VectorDistance(variable, name, query, dimension)
    models = _list_models(call, block, name)
    if len(models) > 1:
        named = ", ".join(sorted(model or "no model" for model in models))
        _report(call, block, f"cannot embed a text for {name}: made by {named}", call.arguments[0])
        return None
    return VectorDistance(variable, name, query, dimension, embed=True, model=next(iter(models)))


def _bind_vector_query(
    call: FunctionCall, block: Block, type_: PropertyType
) -> Constant | ParameterValue | None:
    argument, required = call.arguments[1], type_.required()
    if isinstance(argument, ListLiteral):
        return fit_literal(
            argument,
            required,
            "the query vector",
            lambda message: block.context.report("T15", f"nearest(): {message}", argument.span),
        )
    query = _bind_query_value(call, block)
    if query is None or query.type.is_string or query.type.required() == required:
        return query
    _report(call, block, f"compares with {required} or String, not {query.type}", argument)
    return None


def _list_models(call: FunctionCall, block: Block, name: str) -> set[str | None]:
    """The embedding models recorded for a property: one for each type the variable ranges over."""
    field = call.arguments[0]
    node = block.find(field.variable) if isinstance(field, PropertyRef) else None
    assert isinstance(node, NodeVariable), "the searched variable has been checked"
    found = [block.context.catalog.nodes[type_name].property(name) for type_name in node.types]
    return {p.embed.model if p is not None and p.embed is not None else None for p in found}


# --- fusion ---------------------------------------------------------------------------------------


def _bind_fused_score(call: FunctionCall, block: Block) -> FusedScore | None:
    arms = [_bind_arm(call, block, argument) for argument in call.arguments[:2]]
    constant: Operand | None = Constant(DEFAULT_FUSION_CONSTANT, I64)
    if len(call.arguments) > 2:
        constant = _count(call, block, call.arguments[2], least=1)
    first, second = arms
    if first is None or second is None or constant is None:
        return None
    if first.variable != second.variable:
        _report(call, block, "needs two rankings of one variable", call.arguments[1])
        return None
    return FusedScore(first, second, constant)


def _bind_arm(
    call: FunctionCall, block: Block, argument: Expression
) -> VectorDistance | TextScore | None:
    if isinstance(argument, FunctionCall):
        if argument.function is FunctionName.NEAREST:
            return _bind_vector_distance(argument, block)
        if argument.function is FunctionName.BM25:
            return _bind_text_score(argument, block)
    _report(call, block, "fuses two rankings: nearest() or bm25()", argument)
    return None


# --- arguments ------------------------------------------------------------------------------------


def _bind_searched_property(
    call: FunctionCall, block: Block, fits: Callable[[PropertyType], bool], wanted: str
) -> Searched | None:
    """The property that a function searches; it must belong to a node variable."""
    field = call.arguments[0]
    if not isinstance(field, PropertyRef):
        _report(call, block, f"looks into {wanted}", field)
        return None
    variable = block.find(field.variable)
    if isinstance(variable, BrokenVariable):
        return None
    if isinstance(variable, EdgeVariable):
        message = f"{call.function}() cannot look into ${field.variable}: it is an edge variable"
        block.context.report("T23", message, field.span)
        return None
    value = resolve_property(field, block)
    if value is None:
        return None
    if isinstance(value, EntityId):
        _report(call, block, f"looks into {wanted}, not an id", field)
        return None
    if not fits(value.type):
        _report(call, block, f"looks into {wanted}, not {value.type}", field)
        return None
    return value.variable, field.property, value.type


def _bind_query_value(call: FunctionCall, block: Block) -> Constant | ParameterValue | None:
    """Bind the searched text: a literal or a parameter, constant for all rows."""
    argument = call.arguments[1]
    if isinstance(argument, Literal) and argument.kind is LiteralKind.STRING:
        return Constant(argument.value, STRING)
    if isinstance(argument, VariableRef) and argument.name in block.context.parameters:
        return ParameterValue(argument.name, block.context.parameters[argument.name])
    _report(call, block, "takes a literal or a declared parameter to look for", argument)
    return None


def _count(
    call: FunctionCall, block: Block, argument: Expression, *, least: int
) -> Constant | ParameterValue | None:
    """Bind an integer that is constant for all rows."""
    if isinstance(argument, Literal) and isinstance(argument.value, int):
        if argument.kind is LiteralKind.INTEGER and argument.value >= least:
            return Constant(argument.value, I64)
    elif isinstance(argument, VariableRef):
        type_ = block.context.parameters.get(argument.name)
        if type_ is not None and type_.scalar in INTEGERS and not type_.is_list:
            return ParameterValue(argument.name, type_)
    wanted = "a positive whole number" if least else "a whole number"
    _report(call, block, f"takes {wanted} or an integer parameter here", argument)
    return None


def _report(call: FunctionCall, block: Block, problem: str, at: Expression) -> None:
    block.context.report(_CODES[call.function], f"{call.function}() {problem}", at.span)


class NameResolver(Protocol):
    """Resolution of the names inside an expression, and the codes of mistakes around them."""

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
        """Return whether a literal equated with an enum must be one of its values."""

    def variable(self, ref: VariableRef) -> Operand | None: ...

    def property(self, ref: PropertyRef) -> Operand | None: ...

    def alias(self, ref: AliasRef) -> Operand | None: ...

    def function(self, call: FunctionCall) -> Operand | None: ...

    def node(self, expression: Expression) -> NodeVariable | None:
        """Return the node variable that the expression consists of, if any."""


def bind_operand(expression: Expression, names: NameResolver) -> Operand | None:
    """Bind an expression to an operand, or None after reporting a mistake."""
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
    """Names in scope of a `match`, `return` or `order`: variables, then parameters."""

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
