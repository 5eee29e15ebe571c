"""Reading conditions: comparisons joined by `and`, `or` and `not`.

`match` and `where` join conditions alike and differ in what they compare: a match compares any two
expressions, a `where` compares a property of the changed type, written as a bare name, to a value.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.language.cursor import Cursor, suggest_closest
from omnigraph.language.lexer import Token, TokenKind
from omnigraph.language.query.error_recovery import is_at_statement
from omnigraph.language.query.expression_parser import (
    FUNCTIONS,
    expect_name,
    fail_at,
    parse_expression,
    parse_value,
)
from omnigraph.language.query.query_ast import (
    AliasRef,
    And,
    CompareOp,
    Comparison,
    Condition,
    Expression,
    FunctionCall,
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
    """What is asked of `left`, or None where no operator follows it."""
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
