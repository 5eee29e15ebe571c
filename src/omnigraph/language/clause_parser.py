"""Parse the clauses of a `match`: bindings, traversals, filters, `not` and `optional`."""

from __future__ import annotations

from omnigraph.language import query_ast
from omnigraph.language.error_recovery import (
    check_room,
    close_block,
    is_at_block_clause,
    is_at_clause,
    is_at_section,
    is_symbol,
    skip,
)
from omnigraph.language.expression_parser import (
    OPERATOR_WORDS,
    expect_name,
    is_symbol_operator,
    parse_match_condition,
    parse_property_match,
    read_integer,
)
from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind
from omnigraph.language.source import Span

_CLAUSE_STARTS = frozenset(
    {
        TokenKind.VARIABLE,
        TokenKind.NAME,
        TokenKind.STRING,
        TokenKind.INTEGER,
        TokenKind.FLOAT,
    }
)


def parse_block(cursor: Cursor) -> tuple[query_ast.Clause, ...]:
    """Parse the clauses of `{ clause clause … }`; an invalid clause is reported and skipped."""
    cursor.expect_symbol("{")
    mistakes_before = len(cursor.problems.found)
    clauses: list[query_ast.Clause] = []
    while not (cursor.at_symbol("}") or cursor.at_end() or is_at_section(cursor)):
        if cursor.at_symbol(","):
            _refuse_comma(cursor)
            continue
        check_room(cursor, clauses, "clauses")
        start, depth = cursor.position, cursor.depth()
        try:
            clauses.append(_parse_clause(cursor))
        except SyntaxStop:
            cursor.restore_depth(depth)
            skip(cursor, start, is_at_clause)
    if not clauses and len(cursor.problems.found) == mistakes_before:
        cursor.report(
            "P107", f"expected a clause, found {cursor.token.describe()}", _mark_here(cursor)
        )
    close_block(cursor, mistakes_before)
    return tuple(clauses)


def _mark_here(cursor: Cursor) -> Span:
    return cursor.token.span


def _refuse_comma(cursor: Cursor) -> None:
    hint = "clauses follow each other without commas"
    cursor.report("P107", "expected a clause, found ','", cursor.advance().span, hint=hint)


def _parse_clause(cursor: Cursor) -> query_ast.Clause:
    token = cursor.token
    if is_at_block_clause(cursor):
        return _parse_nested(cursor)
    if token.kind is TokenKind.VARIABLE:
        if is_symbol(cursor.peek(), ":"):
            return _parse_binding(cursor)
        if _is_traversal_start(cursor):
            return _parse_traversal(cursor)
    elif token.kind not in _CLAUSE_STARTS and not (
        token.kind is TokenKind.SYMBOL and token.value in "([-"
    ):
        cursor.fail("expected a clause")
    condition = parse_match_condition(cursor)
    return query_ast.Filter(condition, token.span.to(cursor.previous.span))


def _parse_nested(cursor: Cursor) -> query_ast.Negation | query_ast.Optional:
    word = cursor.advance()
    cursor.enter()
    clauses = parse_block(cursor)
    cursor.leave()
    span = word.span.to(cursor.previous.span)
    return (
        query_ast.Negation(clauses, span)
        if word.value == "not"
        else query_ast.Optional(clauses, span)
    )


# --- bindings ------------------------------------------------------------------------------------


def _parse_binding(cursor: Cursor) -> query_ast.Binding:
    variable = cursor.advance()
    cursor.expect_symbol(":")
    if cursor.token.kind is TokenKind.NAME:
        cursor.fail("expected a type name", hint="a type name starts in upper case")
    type_name = cursor.expect(TokenKind.TYPE_NAME, "a type name")
    matches = _parse_property_matches(cursor) if cursor.at_symbol("{") else ()
    span = variable.span.to(cursor.previous.span)
    return query_ast.Binding(variable.value[1:], type_name.value, matches, span, type_name.span)


def _parse_property_matches(cursor: Cursor) -> tuple[query_ast.PropertyMatch, ...]:
    cursor.advance()
    matches: list[query_ast.PropertyMatch] = []
    while not cursor.at_symbol("}"):
        check_room(cursor, matches, "properties")
        matches.append(parse_property_match(cursor))
        if not cursor.accept_symbol(",") and not cursor.at_symbol("}"):
            cursor.fail("expected `,` or `}`")
    cursor.advance()
    return tuple(matches)


# --- traversals ----------------------------------------------------------------------------------


def _parse_traversal(cursor: Cursor) -> query_ast.Traversal:
    source = cursor.advance()
    edge_variable = _parse_edge_variable(cursor)
    first = cursor.token
    undirected = cursor.accept_symbol("<")
    edges = _parse_edge_words(cursor)
    if undirected:
        cursor.expect_symbol(">", "after the edge word")
    edge_span = first.span.to(cursor.previous.span)
    hops = _parse_hop_bounds(cursor) if cursor.at_symbol("{") else None
    target = _parse_target(cursor)
    hop_variable = None
    if cursor.at_word("hops") and cursor.peek().kind is TokenKind.VARIABLE:
        cursor.advance()
        hop_variable = cursor.advance().value[1:]
    return query_ast.Traversal(
        source=source.value[1:],
        edges=edges,
        target=target.value[1:],
        undirected=undirected,
        hops=hops,
        edge_variable=edge_variable,
        hop_variable=hop_variable,
        span=source.span.to(cursor.previous.span),
        edge_span=edge_span,
        source_span=source.span,
        target_span=target.span,
    )


def _parse_edge_variable(cursor: Cursor) -> str | None:
    if cursor.token.kind is not TokenKind.VARIABLE:
        return None
    name = cursor.advance().value[1:]
    cursor.expect_symbol(":")
    return name


def _parse_edge_words(cursor: Cursor) -> tuple[str, ...]:
    words = [_parse_edge_word(cursor)]
    while cursor.accept_symbol("|"):
        check_room(cursor, words, "edges")
        words.append(_parse_edge_word(cursor))
    return tuple(words)


def _parse_edge_word(cursor: Cursor) -> str:
    if cursor.at_word("not"):
        cursor.fail("expected an edge word", hint="`not` cannot name an edge here")
    return expect_name(cursor, "an edge word", "an edge word").value


def _parse_hop_bounds(cursor: Cursor) -> query_ast.HopBounds:
    opening = cursor.advance()
    minimum = _parse_hop_count(cursor)
    if not cursor.at_symbol(","):
        cursor.fail("expected `,` and the largest number of hops", hint=_HOPS_HINT)
    cursor.advance()
    maximum = None if cursor.at_symbol("}") else _parse_hop_count(cursor)
    close = cursor.expect_symbol("}", "after the hop bounds")
    return query_ast.HopBounds(minimum, maximum, opening.span.to(close.span))


_HOPS_HINT = "one to three hops are written `{1,3}`"


def _parse_hop_count(cursor: Cursor) -> int:
    if cursor.token.kind is not TokenKind.INTEGER:
        cursor.fail("expected a number of hops", hint=_HOPS_HINT)
    token = cursor.advance()
    return read_integer(cursor, token.value, token.span)


def _parse_target(cursor: Cursor) -> Token:
    token = cursor.token
    # `$x:` starts the next clause, so the target before it is missing.
    if token.kind is not TokenKind.VARIABLE or is_symbol(cursor.peek(), ":"):
        bind = f"name the node and bind it: `$x` and `$x: {token.value}`"
        hint = bind if token.kind is TokenKind.TYPE_NAME else None
        cursor.fail("expected the target variable of the traversal", hint=hint)
    return cursor.advance()


# --- which clause a variable starts --------------------------------------------------------------


def _is_traversal_start(cursor: Cursor) -> bool:
    """Return whether the variable here is the source of a traversal, not part of a filter."""
    following = cursor.peek()
    match following.kind:
        case TokenKind.TYPE_NAME:
            return True  # an edge word in upper case: refused with a hint
        case TokenKind.VARIABLE:
            return _is_edge_name(cursor)
        case TokenKind.NAME:
            return following.value != "not" and _has_target_ahead(cursor)
        case _:
            return is_symbol(following, "<") and _is_undirected(cursor)


def _is_edge_name(cursor: Cursor) -> bool:
    """Return whether `$a $w:` continues with an edge: `$flag` and `$w: Type` may be two clauses."""
    if not is_symbol(cursor.peek(2), ":"):
        return False
    named = cursor.peek(3)
    if named.kind is not TokenKind.TYPE_NAME:
        return named.kind is TokenKind.NAME or is_symbol(named, "<")
    # An edge in upper case, or two clauses? `$a $w:SignedTo $b` on one line is meant as one.
    after = cursor.peek(4)
    if is_symbol(after, "{"):
        return cursor.peek(5).kind is TokenKind.INTEGER
    if after.kind is not TokenKind.VARIABLE or _can_continue(cursor, 5):
        return False
    return "\n" not in cursor.problems.source.text[cursor.token.span.end : after.span.start]


def _can_continue(cursor: Cursor, ahead: int) -> bool:
    """Return whether the token can be the second of a clause that starts with a variable."""
    token, after = cursor.peek(ahead), cursor.peek(ahead + 1)
    match token.kind:
        case TokenKind.VARIABLE:
            return is_symbol(after, ":")
        case TokenKind.NAME:
            block = token.value in ("not", "optional") or is_symbol(after, "(")
            return not block
        case _:
            return is_symbol_operator(token) or is_symbol(token, ":") or is_symbol(token, ".")


def _has_target_ahead(cursor: Cursor) -> bool:
    word, after = cursor.peek(), cursor.peek(2)
    if after.kind is TokenKind.VARIABLE:
        # `$a contains $b` is a traversal; `$a contains $b.tags` and `$a and $n = 3` cannot be.
        beyond = cursor.peek(3)
        compared = is_symbol(beyond, ".") or is_symbol_operator(beyond)
        return not (word.value in OPERATOR_WORDS and compared)
    if is_symbol(after, "|"):
        return True
    if is_symbol(after, "{"):
        opens_section = word.value in ("optional", "match", "return")
        return not opens_section or cursor.peek(3).kind is TokenKind.INTEGER
    compares_alias = is_symbol(after, "(") or is_symbol_operator(after)
    return not (word.value in OPERATOR_WORDS or compares_alias)


def _is_undirected(cursor: Cursor) -> bool:
    """Return whether `< word | word … >` follows; any other `<` compares."""
    words = (TokenKind.NAME, TokenKind.TYPE_NAME)
    ahead = 2
    while cursor.peek(ahead).kind in words and is_symbol(cursor.peek(ahead + 1), "|"):
        ahead += 2
    return cursor.peek(ahead).kind in words and is_symbol(cursor.peek(ahead + 1), ">")
