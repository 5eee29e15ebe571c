"""Bind conditions of a `match`, and conditions on the rows of one type, where words are columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import (
    AliasRef,
    And,
    CompareOp,
    Comparison,
    Condition,
    Expression,
    FunctionCall,
    ListLiteral,
    Literal,
    LiteralKind,
    Membership,
    Not,
    NullTest,
    Or,
    PropertyRef,
    Truth,
    VariableRef,
)
from omnigraph.language.query_parser import parse_condition
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.bind_expressions import NameResolver, bind_operand, bind_parameter
from omnigraph.plan.expressions import (
    BOOL,
    STRING,
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    IsNull,
    NotP,
    Operand,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TypeNameValue,
)
from omnigraph.plan.literals import check_enum, list_constant, round_constant
from omnigraph.plan.plan_nodes import ROW
from omnigraph.plan.scope import ID, BindContext, NodeVariable, make_entity_id, suggest_variable
from omnigraph.types.property import PropertyType, Scalar, are_comparable

_ORDERED = {
    CompareOp.EQ: Comparator.EQ,
    CompareOp.NE: Comparator.NE,
    CompareOp.LT: Comparator.LT,
    CompareOp.LE: Comparator.LE,
    CompareOp.GT: Comparator.GT,
    CompareOp.GE: Comparator.GE,
}
_TEXTUAL = {
    CompareOp.CONTAINS: Comparator.CONTAINS,
    CompareOp.STARTS_WITH: Comparator.STARTS_WITH,
    CompareOp.ENDS_WITH: Comparator.ENDS_WITH,
}
_EQUALITY = (CompareOp.EQ, CompareOp.NE)


def bind_condition(condition: Condition, names: NameResolver) -> Predicate | None:
    """Bind a condition to a predicate, or None when some part has a mistake."""
    match condition:
        case Comparison():
            return _bind_comparison(condition, names)
        case Membership():
            return _bind_membership(condition, names)
        case NullTest():
            operand = bind_operand(condition.operand, names)
            test = None if operand is None else IsNull(operand)
            return NotP(test) if test is not None and condition.negated else test
        case Truth():
            return _bind_truth(condition, names)
        case And():
            items = _collect_bound(condition.items, names)
            return None if items is None else AllOf(items)
        case Or():
            items = _collect_bound(condition.items, names)
            return None if items is None else AnyOf(items)
        case Not():
            item = bind_condition(condition.item, names)
            return None if item is None else NotP(item)
        case _:
            assert_never(condition)


def _collect_bound(
    conditions: tuple[Condition, ...], names: NameResolver
) -> tuple[Predicate, ...] | None:
    bound = [bind_condition(condition, names) for condition in conditions]
    found = tuple(predicate for predicate in bound if predicate is not None)
    return found if len(found) == len(bound) else None


def _bind_truth(condition: Truth, names: NameResolver) -> Predicate | None:
    operand = bind_operand(condition.operand, names)
    if operand is None:
        return None
    if isinstance(operand, TextMatch):
        return operand
    if operand.type == BOOL or operand.type == BOOL.optional():
        return Compare(operand, Comparator.EQ, Constant(True, BOOL))
    message = f"a condition is needed here, not a value of type {operand.type}"
    names.context.report("T7", message, condition.span, hint="compare it, as in `$x.age = 30`")
    return None


# --- comparisons ------------------------------------------------------------------------------


def _bind_comparison(comparison: Comparison, names: NameResolver) -> Predicate | None:
    for side in (comparison.left, comparison.right):
        if isinstance(side, Literal) and side.kind is LiteralKind.NULL:
            message = "a comparison with null is never true"
            names.context.report("T7", message, side.span, hint="write `is null` or `is not null`")
            return None
    left_node, right_node = names.node(comparison.left), names.node(comparison.right)
    if left_node is not None or right_node is not None:
        return _bind_node_comparison(comparison, left_node, right_node, names)
    left = bind_operand(comparison.left, names)
    right = bind_operand(comparison.right, names)
    if left is None or right is None:
        return None
    if comparison.op in _ORDERED:
        return _bind_ordered(comparison, left, right, names)
    return _bind_containment(comparison, left, right, names)


def _bind_ordered(
    comparison: Comparison, left: Operand, right: Operand, names: NameResolver
) -> Predicate | None:
    left_type, right_type = _find_scalar_type(left), _find_scalar_type(right)
    if left_type is None:
        _report_not_scalar(comparison, comparison.left, left, names)
        return None
    if right_type is None:
        _report_not_scalar(comparison, comparison.right, right, names)
        return None
    if not are_comparable(left_type, right_type):
        _report_mismatch(comparison, left_type, right_type, names)
        return None
    if comparison.op in _EQUALITY:
        if names.checks_enums and not _is_member(left, right, names, comparison.right):
            return None
        if isinstance(left, TextMatch) and isinstance(right, Constant):
            return left if (comparison.op is CompareOp.EQ) == right.value else NotP(left)
    op = _ORDERED[comparison.op]
    return Compare(round_constant(left, right_type), op, round_constant(right, left_type))


def _bind_containment(
    comparison: Comparison, left: Operand, right: Operand, names: NameResolver
) -> Predicate | None:
    """`contains` on a list or a text; `starts_with` and `ends_with` on a text."""
    left_type, right_type = left.type, right.type
    assert isinstance(left_type, PropertyType), "no object stands in a condition"
    assert isinstance(right_type, PropertyType), "no object stands in a condition"
    if comparison.op is CompareOp.CONTAINS and left_type.is_list:
        if right_type.is_plain_scalar and are_comparable(left_type.element(), right_type):
            items = round_constant(left, right_type)
            return Compare(items, Comparator.HAS, round_constant(right, left_type.element()))
    elif left_type.is_string and right_type.is_string:
        return Compare(left, _TEXTUAL[comparison.op], right)
    if left_type.is_blob:
        _report_not_scalar(comparison, comparison.left, left, names)
        return None
    message = f"`{comparison.op}` cannot be used on {left_type} and {right_type}"
    hint = "it works on two strings"
    if comparison.op is CompareOp.CONTAINS:
        hint = "the left side is a list and the right side an element, or both are strings"
    names.context.report("T7", message, comparison.span, hint=hint)
    return None


def _find_scalar_type(operand: Operand) -> PropertyType | None:
    type_ = operand.type
    return type_ if isinstance(type_, PropertyType) and type_.is_plain_scalar else None


def _report_not_scalar(
    comparison: Comparison, expression: Expression, operand: Operand, names: NameResolver
) -> None:
    message = f"`{comparison.op}` needs scalar operands, not {operand.type}"
    is_blob = isinstance(operand.type, PropertyType) and operand.type.is_blob
    is_list = isinstance(operand.type, PropertyType) and operand.type.is_list
    hint = "use `contains` to look for an element" if is_list else None
    code = names.blob_code if is_blob else "T7"
    names.context.report(code, message, expression.span, hint=hint)


def _report_mismatch(
    comparison: Comparison, left: PropertyType, right: PropertyType, names: NameResolver
) -> None:
    literal = isinstance(comparison.left, Literal) or isinstance(comparison.right, Literal)
    message = f"cannot compare {left} with {right}"
    code = names.literal_code if literal else "T7"
    hint = _hint_mismatch({left.scalar, right.scalar})
    names.context.report(code, message, comparison.span, hint=hint)


def _hint_mismatch(scalars: set[Scalar]) -> str | None:
    if scalars == {Scalar.DATE, Scalar.STRING}:
        return 'a date is written `date("2024-06-01")`'
    if scalars == {Scalar.DATETIME, Scalar.STRING}:
        return 'a moment is written `datetime("2024-06-01T12:00:00Z")`'
    if scalars == {Scalar.DATE, Scalar.DATETIME}:
        return "Date and DateTime do not mix"
    return None


def _is_member(left: Operand, right: Operand, names: NameResolver, at: Expression) -> bool:
    """Return whether constants compared with an enum are among its values; others always pass."""
    members = left.type.enum_values if isinstance(left.type, PropertyType) else None
    if members is None or not isinstance(right, Constant):
        return True
    target = f"'{left.property}'" if isinstance(left, PropertyValue) else str(left.type)
    values = right.value if isinstance(right.value, tuple) else (right.value,)

    def complain(message: str) -> None:
        names.context.report("T3", message, at.span)

    return None not in [check_enum(str(v), members, target, complain) for v in values]


# --- nodes ------------------------------------------------------------------------------------


def _bind_node_comparison(
    comparison: Comparison,
    left: NodeVariable | None,
    right: NodeVariable | None,
    names: NameResolver,
) -> Predicate | None:
    """Bind `$a = $b`: the same node, and so the same type where types may differ."""
    context = names.context
    if left is None or right is None:
        other = comparison.right if right is None else comparison.left
        if bind_operand(other, names) is not None:
            name = comparison.left if right is None else comparison.right
            shown = f"${name.name}" if isinstance(name, VariableRef) else "it"
            message = f"`{comparison.op}` needs scalar operands or two nodes; {shown} is one node"
            context.report("T7", message, name.span, hint=f"its identity is `{shown}.id`")
        return None
    if comparison.op not in _EQUALITY:
        message = f"nodes compare with `=` and `!=`, not with `{comparison.op}`"
        context.report("T7", message, comparison.span)
        return None
    if not set(left.types) & set(right.types):
        message = f"{left.describe()} and {right.describe()} have no node in common"
        context.report("T7", message, comparison.span)
        return None
    return compare_nodes(left, right, negated=comparison.op is CompareOp.NE)


def compare_nodes(left: NodeVariable, right: NodeVariable, *, negated: bool) -> Predicate:
    op = Comparator.NE if negated else Comparator.EQ
    ids = Compare(make_entity_id(left), op, make_entity_id(right))
    if len(left.types) == 1 and left.types == right.types:
        return ids
    # Nodes of two types may share an id.
    types = Compare(describe_type(left), op, describe_type(right))
    return AnyOf((ids, types)) if negated else AllOf((ids, types))


def describe_type(variable: NodeVariable) -> TypeNameValue:
    return TypeNameValue(variable.name, STRING.optional() if variable.nullable else STRING)


def restrict_to_types(variable: NodeVariable, types: tuple[str, ...]) -> Predicate:
    """The node is of one of these types."""
    if len(types) == 1:
        return Compare(describe_type(variable), Comparator.EQ, Constant(types[0], STRING))
    names = Constant(types, PropertyType(Scalar.STRING, is_list=True))
    return InList(describe_type(variable), names)


# --- membership -------------------------------------------------------------------------------


def _bind_membership(membership: Membership, names: NameResolver) -> Predicate | None:
    value = _bind_member(membership.left, names)
    items = _bind_items(membership.right, names)
    if value is None or items is None:
        return None
    type_ = _find_scalar_type(value)
    if type_ is None:
        message = f"`in` looks for one value, not for {value.type}"
        names.context.report("T7", message, membership.left.span)
        return None
    if isinstance(items, Constant) and items.value == ():
        items = Constant((), PropertyType(type_.scalar, is_list=True))
    if not are_comparable(type_, PropertyType(items.type.scalar)):
        message = f"cannot look for {type_} among {items.type}"
        hint = _hint_mismatch({type_.scalar, items.type.scalar})
        names.context.report("T7", message, membership.span, hint=hint)
        return None
    if not _is_member(value, items, names, membership.right):
        return None
    found = InList(value, round_constant(items, type_))
    return NotP(found) if membership.negated else found


def _bind_member(expression: Expression, names: NameResolver) -> Operand | None:
    if names.node(expression) is None:
        return bind_operand(expression, names)
    shown = f"${expression.name}" if isinstance(expression, VariableRef) else "it"
    message = f"{shown} is a node, not a scalar operand"
    names.context.report("T7", message, expression.span, hint=f"its identity is `{shown}.id`")
    return None


def _bind_items(expression: Expression, names: NameResolver) -> Constant | ParameterValue | None:
    """The list on the right of `in`: a literal or a list parameter."""
    if isinstance(expression, ListLiteral):
        return list_constant(
            expression, lambda message: names.context.report("T7", message, expression.span)
        )
    if isinstance(expression, VariableRef):
        parameter = bind_parameter(expression, names.context)
        if parameter is not None and parameter.type.is_list:
            return parameter
    message = "`in` takes a list literal or a list parameter on its right"
    names.context.report("T7", message, expression.span)
    return None


ENDS = {"from": "src", "to": "dst"}
"""Names of the ends of an edge in queries, and their columns."""

_STORED_ENDS = {**ENDS, "src": "src", "dst": "dst"}
"""User-facing names of the endpoint columns."""


def bind_row_condition(
    source: SourceText, type_: NodeType | EdgeType, catalog: Catalog
) -> Predicate:
    """Bind the text of a condition on the rows of a type; it has no parameters.

    Raises:
        CompileError: the text has errors; all of them are attached.
    """
    condition = parse_condition(source)
    problems = Problems(source, "type")
    names = RowNames(type_, BindContext(catalog, problems, {}), _STORED_ENDS)
    predicate = bind_condition(condition, names)
    problems.raise_if_any()
    assert predicate is not None, "a condition that cannot be bound is a mistake"
    return predicate


class RowNames:
    """Names in a statement: the columns of its row, and the parameters."""

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
    """List the column names of the type: its properties, and the ends of an edge."""
    ends = list(ENDS) if isinstance(target, EdgeType) else []
    return [*ends, *(p.name for p in target.properties)]
