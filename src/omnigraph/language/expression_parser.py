"""Parse expressions, values and conditions of the query language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from omnigraph.language.error_recovery import is_at_statement, is_symbol
from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest
from omnigraph.language.query_ast import (
    AggregateCall,
    AggregateName,
    AliasRef,
    And,
    CompareOp,
    Comparison,
    Condition,
    Expression,
    FunctionCall,
    FunctionName,
    ListLiteral,
    Literal,
    LiteralKind,
    Membership,
    Not,
    NowCall,
    NullTest,
    Or,
    PropertyMatch,
    PropertyRef,
    Truth,
    VariableRef,
)
from omnigraph.language.source import Span

SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**64 - 1

FUNCTIONS = {function.value: function for function in FunctionName}
AGGREGATES = {aggregate.value: aggregate for aggregate in AggregateName}
CONSTANTS = {
    "true": (LiteralKind.BOOL, True),
    "false": (LiteralKind.BOOL, False),
    "null": (LiteralKind.NULL, None),
}
DATED = {"date": LiteralKind.DATE, "datetime": LiteralKind.DATETIME}
CALLABLE = (*FUNCTIONS, *AGGREGATES, *DATED, "now")

_ARGUMENT_COUNTS = {
    FunctionName.NEAREST: (2, 2),
    FunctionName.SEARCH: (2, 2),
    FunctionName.FUZZY: (2, 3),
    FunctionName.MATCH_TEXT: (2, 2),
    FunctionName.BM25: (2, 2),
    FunctionName.RRF: (2, 3),
    FunctionName.TYPE: (1, 1),
}
_MAX_INTEGER_DIGITS = len(str(LARGEST_INTEGER))


def fail_at(cursor: Cursor, message: str, span: Span, *, hint: str | None = None) -> NoReturn:
    """Report a syntax error at an earlier position, and give up the construct."""
    cursor.report("P107", message, span, hint=hint)
    raise SyntaxStop


def hint_lower_case(token: Token, what: str) -> str | None:
    """Return a hint for `SignedTo` written where a lower-case word belongs."""
    if token.kind is not TokenKind.TYPE_NAME:
        return None
    return f"{what} starts in lower case: write `{token.value[0].lower()}{token.value[1:]}`"


def expect_name(cursor: Cursor, expected: str, what: str) -> Token:
    """Read a name; a word with an upper-case initial gets a hint."""
    if cursor.token.kind is not TokenKind.NAME:
        cursor.fail(f"expected {expected}", hint=hint_lower_case(cursor.token, what))
    return cursor.advance()


# --- expressions ---------------------------------------------------------------------------------


def parse_expression(cursor: Cursor) -> Expression:
    """Parse the next expression: a variable, a property, a call, a literal or a bare name."""
    token = cursor.token
    if token.kind is TokenKind.VARIABLE:
        return _parse_variable_or_property(cursor)
    if token.kind is TokenKind.NAME and token.value not in CONSTANTS:
        return _parse_call(cursor) if _is_call_start(cursor) else _parse_alias(cursor)
    if cursor.at_symbol("["):
        return _list(cursor)
    return _parse_literal(cursor, "an expression")


def parse_value(cursor: Cursor) -> Expression:
    """Parse the next value: a literal, a list, a parameter or `now()`."""
    token = cursor.token
    if token.kind is TokenKind.VARIABLE:
        if is_symbol(cursor.peek(), ":"):
            cursor.fail("expected a value")
        cursor.advance()
        if cursor.at_symbol("."):
            cursor.fail("expected a value of its own, not a property", hint=_VALUE_HINT)
        return VariableRef(token.value[1:], token.span)
    if cursor.at_symbol("["):
        return _list(cursor)
    if token.value == "now" and token.kind is TokenKind.NAME and _is_call_start(cursor):
        return _parse_now(cursor)
    return _parse_literal(cursor, "a value")


_VALUE_HINT = "a value is a literal, a list, a parameter or `now()`"


def _is_call_start(cursor: Cursor) -> bool:
    return is_symbol(cursor.peek(), "(")


def _parse_alias(cursor: Cursor) -> AliasRef:
    token = cursor.advance()
    return AliasRef(token.value, token.span)


def _parse_variable_or_property(cursor: Cursor) -> VariableRef | PropertyRef:
    token = cursor.token
    if is_symbol(cursor.peek(), ":"):
        # `$x:` starts a binding: the operand before it is missing.
        cursor.fail("expected an expression")
    cursor.advance()
    if not cursor.accept_symbol("."):
        return VariableRef(token.value[1:], token.span)
    name = expect_name(cursor, "a property name after `.`", "a property name")
    return PropertyRef(token.value[1:], name.value, token.span.to(name.span), name.span)


# --- calls ---------------------------------------------------------------------------------------


def _parse_call(cursor: Cursor) -> Expression:
    name = cursor.token.value
    if name in FUNCTIONS:
        return _parse_function(cursor, FUNCTIONS[name])
    if name in AGGREGATES:
        return _aggregate(cursor, AGGREGATES[name])
    if name == "now":
        return _parse_now(cursor)
    if name in DATED:
        return _parse_dated(cursor)
    span = cursor.token.span
    cursor.report("P120", f"unknown function '{name}'", span, hint=suggest_closest(name, CALLABLE))
    raise SyntaxStop


def _parse_now(cursor: Cursor) -> NowCall:
    name = cursor.advance()
    cursor.expect_symbol("(")
    close = cursor.expect_symbol(")", "after `now(`")
    return NowCall(name.span.to(close.span))


def _parse_function(cursor: Cursor, function: FunctionName) -> FunctionCall:
    name = cursor.advance()
    cursor.expect_symbol("(")
    cursor.enter()
    arguments = [parse_expression(cursor)]
    while cursor.accept_symbol(","):
        arguments.append(parse_expression(cursor))
    cursor.leave()
    if not cursor.at_symbol(")"):
        cursor.fail("expected `,` or `)`")
    call = FunctionCall(function, tuple(arguments), name.span.to(cursor.advance().span))
    _check_arguments(cursor, call, name.span)
    return call


def _check_arguments(cursor: Cursor, call: FunctionCall, at: Span) -> None:
    least, most = _ARGUMENT_COUNTS[call.function]
    found, first = len(call.arguments), call.arguments[0]
    if not least <= found <= most:
        wanted = f"{least} or {most} arguments" if least < most else f"{least} arguments"
        wanted = "1 argument" if most == 1 else wanted
        cursor.report("P121", f"`{call.function}` takes {wanted}, found {found}", at)
    elif call.function is FunctionName.NEAREST and not isinstance(first, PropertyRef):
        message = "the first argument of `nearest` is a property such as `$x.embedding`"
        cursor.report("P122", message, first.span)
    elif call.function is FunctionName.TYPE and not isinstance(first, VariableRef):
        cursor.report("P122", "the argument of `type` is a variable such as `$x`", first.span)


def _aggregate(cursor: Cursor, aggregate: AggregateName) -> AggregateCall:
    name = cursor.advance()
    cursor.expect_symbol("(")
    cursor.enter()
    distinct = cursor.at_word("distinct") and not is_symbol(cursor.peek(), ")")
    if distinct:
        word = cursor.advance()
        if aggregate not in (AggregateName.COUNT, AggregateName.COLLECT):
            hint = "`count` and `collect` take `distinct`"
            cursor.report("P125", f"`{aggregate}` takes no `distinct`", word.span, hint=hint)
    if cursor.at_symbol("*"):
        cursor.fail("expected an expression", hint="count a variable: `count($x)`")
    argument = parse_expression(cursor)
    cursor.leave()
    close = cursor.expect_symbol(")")
    return AggregateCall(aggregate, argument, distinct, name.span.to(close.span))


# --- literals ------------------------------------------------------------------------------------


def _parse_literal(cursor: Cursor, expected: str) -> Literal:
    """Parse the next scalar literal; anything else fails with `expected …`."""
    token = cursor.token
    if token.kind is TokenKind.STRING:
        cursor.advance()
        return Literal(LiteralKind.STRING, token.value, token.span)
    if token.kind in (TokenKind.INTEGER, TokenKind.FLOAT) or cursor.at_symbol("-"):
        return _number(cursor)
    if token.kind is TokenKind.NAME and token.value in DATED and _is_call_start(cursor):
        return _parse_dated(cursor)
    if token.kind is not TokenKind.NAME or token.value not in CONSTANTS:
        bare_word = token.kind in (TokenKind.NAME, TokenKind.TYPE_NAME, TokenKind.WORD)
        hint = "text is written in double quotes" if bare_word else None
        cursor.fail(f"expected {expected}", hint=hint)
    cursor.advance()
    kind, value = CONSTANTS[token.value]
    return Literal(kind, value, token.span)


def _number(cursor: Cursor) -> Literal:
    start = cursor.token
    negative = cursor.accept_symbol("-")
    token = cursor.token
    span = start.span.to(token.span)
    if token.kind is TokenKind.INTEGER:
        cursor.advance()
        value = read_integer(cursor, token.value, span, negative=negative)
        return Literal(LiteralKind.INTEGER, value, span)
    if token.kind is not TokenKind.FLOAT:
        cursor.fail("expected a number after `-`")
    cursor.advance()
    number = float(token.value)
    if math.isinf(number):
        cursor.report("P109", "float out of range", span)
    return Literal(LiteralKind.FLOAT, -number if negative else number, span)


def read_integer(cursor: Cursor, digits: str, span: Span, *, negative: bool = False) -> int:
    """The value of digits as written; one beyond 64 bits is reported and read as 0."""
    significant = digits.lstrip("0") or "0"
    # Check the length first: Python refuses to convert thousands of digits.
    if len(significant) <= _MAX_INTEGER_DIGITS:
        value = -int(significant) if negative else int(significant)
        if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            return value
    bounds = f"integers go from {SMALLEST_INTEGER} to {LARGEST_INTEGER}"
    cursor.report("P109", "integer out of range", span, hint=bounds)
    return 0


def _parse_dated(cursor: Cursor) -> Literal:
    name = cursor.advance()
    cursor.expect_symbol("(")
    text = cursor.expect(
        TokenKind.STRING, f"a string, as in `{name.value}({_SAMPLES[name.value]})`"
    )
    close = cursor.expect_symbol(")")
    return Literal(DATED[name.value], text.value, name.span.to(close.span))


_SAMPLES = {"date": '"2024-06-01"', "datetime": '"2024-06-01T12:00:00Z"'}


def _list(cursor: Cursor) -> ListLiteral:
    opening = cursor.advance()
    items: list[Literal] = []
    while not cursor.at_symbol("]"):
        if items and not cursor.accept_symbol(","):
            cursor.fail("expected `,` or `]`")
        items.append(_list_item(cursor))
    return ListLiteral(tuple(items), opening.span.to(cursor.advance().span))


def _list_item(cursor: Cursor) -> Literal:
    if cursor.at_symbol("["):
        cursor.report("P124", "a list cannot hold a list", cursor.token.span)
        raise SyntaxStop
    if cursor.token.kind is TokenKind.VARIABLE:
        cursor.fail("expected a literal", hint="a list holds literals; pass a whole list as `$x`")
    return _parse_literal(cursor, "a literal")


SYMBOL_OPERATORS = {op.value: op for op in CompareOp if not op.value.isidentifier()}
WORD_OPERATORS = {op.value: op for op in CompareOp if op.value.isidentifier()}
OPERATOR_WORDS = frozenset({*WORD_OPERATORS, "and", "or", "in", "is"})
"""Words that go on with a condition; none of them can be compared by a `match`."""

Leaf = Callable[[Cursor], Condition]
Operand = Callable[[Cursor], Expression]


def parse_match_condition(cursor: Cursor) -> Condition:
    """The next condition of a `match`."""
    return _parse_any_of(cursor, _match_leaf)


def parse_where_condition(cursor: Cursor) -> Condition:
    """The next condition of a `where`."""
    return _parse_any_of(cursor, _parse_where_leaf)


def is_symbol_operator(token: Token) -> bool:
    return token.kind is TokenKind.SYMBOL and token.value in SYMBOL_OPERATORS


# --- and, or, not --------------------------------------------------------------------------------


def _parse_any_of(cursor: Cursor, leaf: Leaf) -> Condition:
    items = [_parse_all_of(cursor, leaf)]
    while cursor.accept_word("or"):
        items.append(_parse_all_of(cursor, leaf))
    if len(items) == 1:
        return items[0]
    return Or(tuple(items), items[0].span.to(items[-1].span))


def _parse_all_of(cursor: Cursor, leaf: Leaf) -> Condition:
    items = [_parse_one(cursor, leaf)]
    while cursor.accept_word("and"):
        items.append(_parse_one(cursor, leaf))
    if len(items) == 1:
        return items[0]
    return And(tuple(items), items[0].span.to(items[-1].span))


def _parse_one(cursor: Cursor, leaf: Leaf) -> Condition:
    if cursor.at_symbol("("):
        return _group(cursor, leaf)
    # `not = 3` compares a property that happens to be called `not`.
    if not cursor.at_word("not") or is_symbol_operator(cursor.peek()):
        return leaf(cursor)
    word = cursor.advance()
    cursor.enter()
    item = _parse_one(cursor, leaf)
    cursor.leave()
    return Not(item, word.span.to(item.span))


def _group(cursor: Cursor, leaf: Leaf) -> Condition:
    cursor.advance()
    cursor.enter()
    condition = _parse_any_of(cursor, leaf)
    cursor.leave()
    if not cursor.at_symbol(")"):
        _fail_after(cursor, "expected `and`, `or` or `)`")
    cursor.advance()
    if is_symbol_operator(cursor.token):
        cursor.fail("expected `and` or `or`", hint="parentheses group conditions, not values")
    return condition


def _fail_after(cursor: Cursor, expected: str) -> None:
    known = () if is_symbol_operator(cursor.token) else ("and", "or", *WORD_OPERATORS)
    hint = "comparisons do not chain; join them with `and`"
    cursor.fail(expected, known=known, hint=None if known else hint)


# --- leaves --------------------------------------------------------------------------------------


def _match_leaf(cursor: Cursor) -> Condition:
    first = cursor.token
    left = _match_operand(cursor)
    test = _test(cursor, left, _match_operand)
    if test is None:
        return _parse_truth(cursor, left, first)
    if is_symbol_operator(cursor.token):
        _fail_after(cursor, "expected `and`, `or` or the next clause")
    return test


def _match_operand(cursor: Cursor) -> Expression:
    token = cursor.token
    if token.kind is TokenKind.NAME and (token.value in OPERATOR_WORDS or token.value == "not"):
        cursor.fail("expected an expression")
    return parse_expression(cursor)


def _parse_truth(cursor: Cursor, operand: Expression, first: Token) -> Truth:
    if isinstance(operand, AliasRef):
        message = f"expected a clause or an operator, found {first.describe()}"
        fail_at(cursor, message, operand.span, hint=_find_stray_word_hint(cursor, operand.name))
    is_bool = isinstance(operand, Literal) and operand.kind is LiteralKind.BOOL
    if not (is_bool or isinstance(operand, VariableRef | PropertyRef | FunctionCall)):
        message = "expected a condition, found a value alone"
        fail_at(cursor, message, operand.span, hint="compare it, as in `$x.age = 30`")
    return Truth(operand, operand.span)


def _find_stray_word_hint(cursor: Cursor, word: str) -> str | None:
    if word == "optional":
        return "a block follows: `optional { … }`"
    if word in FUNCTIONS:
        return f"the arguments follow in parentheses: `{word}(…)`"
    guess = suggest_closest(word, (*OPERATOR_WORDS, "not", "optional", *FUNCTIONS))
    if guess is None and cursor.token.kind is TokenKind.VARIABLE:
        return f"a traversal starts at a variable: `$x {word} {cursor.token.value}`"
    return guess


def _parse_where_leaf(cursor: Cursor) -> Condition:
    if is_at_statement(cursor):
        cursor.fail("expected a property name")
    if cursor.token.kind is TokenKind.VARIABLE:
        cursor.fail("expected a property name", hint="`where` names properties without `$`")
    name = expect_name(cursor, "a property name", "a property name")
    left = AliasRef(name.value, name.span)
    test = _test(cursor, left, parse_value)
    if test is None:
        return Truth(left, left.span)
    if is_symbol_operator(cursor.token):
        _fail_after(cursor, "expected `and`, `or` or the end of the statement")
    return test


# --- operators -----------------------------------------------------------------------------------


def _test(cursor: Cursor, left: Expression, operand: Operand) -> Condition | None:
    """Parse the condition on `left`; None if no operator follows it."""
    token = cursor.token
    if token.kind is TokenKind.SYMBOL:
        if token.value not in SYMBOL_OPERATORS:
            return None
        return _parse_comparison(cursor, left, SYMBOL_OPERATORS[token.value], operand)
    if token.kind is not TokenKind.NAME:
        return None
    if token.value in WORD_OPERATORS:
        return _parse_comparison(cursor, left, WORD_OPERATORS[token.value], operand)
    if token.value == "in" or (token.value == "not" and cursor.peek()[:2] == _IN):
        return _parse_membership(cursor, left)
    if token.value == "is":
        return _parse_null_test(cursor, left)
    return None


_IN = (TokenKind.NAME, "in")
_WRONG_OPERATORS = {
    ("=", "="): "equality is a single `=`",
    ("<", ">"): "inequality is written `!=`",
}


def _parse_comparison(
    cursor: Cursor, left: Expression, op: CompareOp, operand: Operand
) -> Comparison:
    symbol = cursor.advance()
    hint = _WRONG_OPERATORS.get((symbol.value, cursor.token.value))
    if hint and cursor.token.kind is TokenKind.SYMBOL:
        cursor.fail("expected an expression", hint=hint)
    right = operand(cursor)
    return Comparison(left, op, right, left.span.to(right.span))


def _parse_membership(cursor: Cursor, left: Expression) -> Membership:
    negated = cursor.accept_word("not")
    cursor.expect_word("in")
    if not (cursor.at_symbol("[") or cursor.token.kind is TokenKind.VARIABLE):
        cursor.fail("expected a list or a parameter after `in`")
    right = parse_value(cursor)
    return Membership(left, right, negated, left.span.to(right.span))


def _parse_null_test(cursor: Cursor, left: Expression) -> NullTest:
    cursor.advance()
    negated = cursor.accept_word("not")
    word = cursor.expect_word("null", "after `is not`" if negated else "or `not null` after `is`")
    return NullTest(left, negated, left.span.to(word.span))


def parse_property_match(cursor: Cursor) -> PropertyMatch:
    """Parse the next `name: value`."""
    name = expect_name(cursor, "a property name", "a property name")
    cursor.expect_symbol(":", f"after `{name.value}`")
    value = parse_value(cursor)
    return PropertyMatch(name.value, value, name.span.to(value.span))
