"""Print syntax trees as text, in one layout: what is printed parses to the same tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.language import query_ast
from omnigraph.language.lexer import quote
from omnigraph.language.schema_ast import (
    AnnotationDecl,
    BodyItem,
    Cardinality,
    ConstraintArgument,
    ConstraintClause,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NameRef,
    NodeDecl,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
    SchemaLiteral,
)


def print_schema(file: SchemaFile) -> str:
    """The text of a file: declarations a blank line apart, one property or constraint a line."""
    return "\n".join(_print_declaration(declaration) for declaration in file.declarations)


def _print_declaration(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDecl(name=name, properties=properties):
            return f"interface {name} {_print_body(properties)}\n"
        case NodeDecl():
            header = _space_items(
                f"node {declaration.name}",
                *map(_print_annotation, declaration.annotations),
                _print_implements(declaration.implements),
            )
            return f"{header} {_print_body(declaration.body)}\n"
        case EdgeDecl():
            ends = f"{declaration.from_type.name} -> {declaration.to_type.name}"
            header = _space_items(
                f"edge {declaration.name}: {ends}",
                _print_cardinality(declaration.cardinality),
                *map(_print_annotation, declaration.annotations),
            )
            return (
                f"{header} {_print_body(declaration.body)}\n" if declaration.body else f"{header}\n"
            )


def _space_items(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _print_implements(names: tuple[NameRef, ...]) -> str:
    return f"implements {', '.join(ref.name for ref in names)}" if names else ""


def _print_cardinality(cardinality: Cardinality | None) -> str:
    if cardinality is None:
        return ""
    upper = "" if cardinality.maximum is None else str(cardinality.maximum)
    return f"@card({cardinality.minimum}..{upper})"


def _print_body(items: Iterable[BodyItem]) -> str:
    lines = "".join(f"  {_print_item(item)}\n" for item in items)
    return f"{{\n{lines}}}" if lines else "{}"


def _print_item(item: BodyItem) -> str:
    match item:
        case PropertyDecl():
            return _space_items(
                f"{item.name}: {item.type}", *map(_print_annotation, item.annotations)
            )
        case ConstraintClause(kind=kind, arguments=arguments):
            return f"@{kind}({', '.join(map(_print_argument, arguments))})"


def _print_annotation(annotation: AnnotationDecl) -> str:
    if annotation.argument is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={_print_argument(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([_print_argument(annotation.argument), *keywords])})"


def _print_argument(argument: ConstraintArgument) -> str:
    match argument:
        case SchemaLiteral(kind="string", text=text):
            return quote(text)
        case SchemaLiteral(text=text):
            return text
        case NameRef(name=name):
            return name
        case RangeBounds(low=low, high=high):
            return f"{low or ''}..{high or ''}"


WIDTH = 100
INDENT = "  "


def print_query_file(file: query_ast.QueryFile) -> str:
    """The text of a whole file, a blank line between queries."""
    return "\n".join(print_query(query) for query in file.queries)


def print_query(query: query_ast.QueryDecl) -> str:
    """The text of one query, ending in a line break."""
    parameters = [f"${p.name}: {p.type}" for p in query.parameters]
    head = f"query {query.name}({', '.join(parameters)})"
    if len(head) > WIDTH:
        head = _print_broken(f"query {query.name}(", parameters, ")", level=0)
    notes = [
        f"{INDENT}@{name}({quote(text)})"
        for name, text in (("description", query.description), ("instruction", query.instruction))
        if text is not None
    ]
    opening = [head, *notes, "{"] if notes else [f"{head} {{"]
    match query.body:
        case query_ast.ReadBody():
            body = _read_body(query.body)
        case query_ast.MutationBody(statements):
            body = [print_statement(statement) for statement in statements]
        case _:
            assert_never(query.body)
    return "\n".join([*opening, *body, "}", ""])


def _read_body(body: query_ast.ReadBody) -> list[str]:
    columns = [print_projection(projection) for projection in body.projections]
    lines = [
        f"{INDENT}match {{",
        *(print_clause(clause, level=2) for clause in body.clauses),
        f"{INDENT}}}",
        _print_braced("return distinct" if body.distinct else "return", columns, level=1),
    ]
    if body.order:
        lines.append(_print_braced("order", [print_ordering(key) for key in body.order], level=1))
    for word, count in (("limit", body.limit), ("offset", body.offset)):
        if count is not None:
            lines.append(f"{INDENT}{word} {print_expression(count)}")
    return lines


def print_projection(projection: query_ast.Projection) -> str:
    text = print_expression(projection.expression)
    return text if projection.alias is None else f"{text} as {projection.alias}"


def print_ordering(ordering: query_ast.Ordering) -> str:
    text = print_expression(ordering.expression)
    if ordering.descending is None:
        return text
    return f"{text} {'desc' if ordering.descending else 'asc'}"


# --- statements ----------------------------------------------------------------------------------


def print_statement(statement: query_ast.Statement, level: int = 1) -> str:
    """The text of a statement, indented, without a final line break."""
    match statement:
        case query_ast.Insert(type_name, assignments, partial):
            word = "merge" if partial else "insert"
            return _print_braced(f"{word} {type_name}", _print_matches(assignments), level)
        case query_ast.Update(type_name, assignments, where):
            body = _print_braced(f"update {type_name} set", _print_matches(assignments), level)
            return f"{body} where {print_condition(where)}"
        case query_ast.Delete(type_name, where):
            return f"{INDENT * level}delete {type_name} where {print_condition(where)}"
        case _:
            assert_never(statement)


# --- clauses -------------------------------------------------------------------------------------


def print_clause(clause: query_ast.Clause, level: int = 0) -> str:
    """The text of a clause, indented, without a final line break."""
    margin = INDENT * level
    match clause:
        case query_ast.Binding(variable, type_name, matches):
            head = f"${variable}: {type_name}"
            return (
                _print_braced(head, _print_matches(matches), level)
                if matches
                else f"{margin}{head}"
            )
        case query_ast.Traversal():
            return f"{margin}{_print_traversal(clause)}"
        case query_ast.Filter(condition):
            return f"{margin}{_filter(condition)}"
        case query_ast.Negation(clauses):
            return _print_block("not", clauses, level)
        case query_ast.Optional(clauses):
            return _print_block("optional", clauses, level)
        case _:
            assert_never(clause)


def _print_block(word: str, clauses: Iterable[query_ast.Clause], level: int) -> str:
    margin = INDENT * level
    inner = (print_clause(clause, level + 1) for clause in clauses)
    return "\n".join([f"{margin}{word} {{", *inner, f"{margin}}}"])


def _print_traversal(traversal: query_ast.Traversal) -> str:
    edges = "|".join(traversal.edges)
    edges = f"<{edges}>" if traversal.undirected else edges
    name = "" if traversal.edge_variable is None else f"${traversal.edge_variable}:"
    bounds = ""
    if traversal.hops is not None:
        most = traversal.hops.maximum
        bounds = f"{{{traversal.hops.minimum},{'' if most is None else most}}}"
    hops = "" if traversal.hop_variable is None else f" hops ${traversal.hop_variable}"
    return f"${traversal.source} {name}{edges}{bounds} ${traversal.target}{hops}"


def _filter(condition: query_ast.Condition) -> str:
    text = print_condition(condition)
    return f"({text})" if _is_ambiguous(condition) else text


def _is_ambiguous(condition: query_ast.Condition) -> bool:
    """Return whether a filter needs parentheses to be parsed as one.

    `$a contains $b` and `$a and $b` are traversals, `$a` alone could be the source of one, and a
    bare name at the end would call a function if the next clause opens with a parenthesis.
    """
    match _print_outer_leaf(condition, 0):
        case query_ast.Truth(query_ast.VariableRef()):
            return True
        case query_ast.Comparison(
            query_ast.VariableRef(), op, query_ast.VariableRef() | query_ast.PropertyRef()
        ):
            if op.isidentifier():
                return True
        case query_ast.Membership(query_ast.VariableRef(), query_ast.VariableRef(), False):
            return True
        case _:
            pass
    match _print_outer_leaf(condition, -1):
        case query_ast.Comparison(_, _, query_ast.AliasRef()):
            return True
        case _:
            return False


def _print_outer_leaf(condition: query_ast.Condition, side: int) -> query_ast.Condition | None:
    """The first (0) or last (-1) condition of the text, None if a word or parenthesis is there."""
    match condition:
        case query_ast.And(items) | query_ast.Or(items):
            item = items[side]
            return None if _needs_parentheses(item, condition) else _print_outer_leaf(item, side)
        case query_ast.Not(item):
            hidden = side == 0 or _needs_parentheses(item, condition)
            return None if hidden else _print_outer_leaf(item, side)
        case _:
            return condition


# --- conditions ----------------------------------------------------------------------------------


def print_condition(condition: query_ast.Condition) -> str:
    """The text of a condition, with the parentheses its grouping needs."""
    match condition:
        case query_ast.Comparison(left, op, right):
            return f"{print_expression(left)} {op} {print_expression(right)}"
        case query_ast.Membership(left, right, negated):
            word = "not in" if negated else "in"
            return f"{print_expression(left)} {word} {print_expression(right)}"
        case query_ast.NullTest(operand, negated):
            return f"{print_expression(operand)} is {'not null' if negated else 'null'}"
        case query_ast.Truth(operand):
            return print_expression(operand)
        case query_ast.And(items):
            return " and ".join(_print_nested(item, condition) for item in items)
        case query_ast.Or(items):
            return " or ".join(_print_nested(item, condition) for item in items)
        case query_ast.Not(item):
            return f"not {_print_nested(item, condition)}"
        case _:
            assert_never(condition)


def _print_nested(item: query_ast.Condition, within: query_ast.Condition) -> str:
    text = print_condition(item)
    return f"({text})" if _needs_parentheses(item, within) else text


def _needs_parentheses(item: query_ast.Condition, within: query_ast.Condition) -> bool:
    if isinstance(within, query_ast.Or):
        return isinstance(item, query_ast.Or)
    return isinstance(item, query_ast.And | query_ast.Or)


# --- expressions ---------------------------------------------------------------------------------


def print_expression(expression: query_ast.Expression) -> str:
    """The text of an expression."""
    match expression:
        case query_ast.Literal():
            return print_literal(expression)
        case query_ast.ListLiteral(items):
            return f"[{', '.join(map(print_literal, items))}]"
        case query_ast.VariableRef(name):
            return f"${name}"
        case query_ast.PropertyRef(variable, name):
            return f"${variable}.{name}"
        case query_ast.AliasRef(name):
            return name
        case query_ast.NowCall():
            return "now()"
        case query_ast.FunctionCall(function, arguments):
            return f"{function}({', '.join(map(print_expression, arguments))})"
        case query_ast.AggregateCall(function, argument, distinct):
            return f"{function}({'distinct ' if distinct else ''}{print_expression(argument)})"
        case query_ast.ObjectProjection(variable, properties):
            return f"${variable} {{ {'*' if properties is None else ', '.join(properties)} }}"
        case _:
            assert_never(expression)


def print_literal(literal: query_ast.Literal) -> str:
    """The text of a literal that is no list."""
    match literal.kind:
        case query_ast.LiteralKind.STRING:
            return quote(str(literal.value))
        case query_ast.LiteralKind.DATE | query_ast.LiteralKind.DATETIME:
            return f"{literal.kind}({quote(str(literal.value))})"
        case query_ast.LiteralKind.BOOL:
            return "true" if literal.value else "false"
        case query_ast.LiteralKind.NULL:
            return "null"
        case query_ast.LiteralKind.INTEGER | query_ast.LiteralKind.FLOAT:
            return repr(literal.value)
        case _:
            assert_never(literal.kind)


# --- lists ---------------------------------------------------------------------------------------


def _print_matches(matches: Iterable[query_ast.PropertyMatch]) -> list[str]:
    return [f"{match.name}: {print_expression(match.value)}" for match in matches]


def _print_braced(head: str, items: Sequence[str], level: int) -> str:
    """`head { item, item }` on one line if it fits, else an item a line."""
    line = f"{INDENT * level}{head} {{ {', '.join(items)} }}"
    return line if len(line) <= WIDTH else _print_broken(f"{head} {{", items, "}", level)


def _print_broken(opening: str, items: Sequence[str], closing: str, level: int) -> str:
    margin = INDENT * level
    inner = ",\n".join(f"{margin}{INDENT}{item}" for item in items)
    return f"{margin}{opening}\n{inner}\n{margin}{closing}"
