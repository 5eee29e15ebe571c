"""Random query trees: every form the language can write, and only those."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language.query import ast
from omnigraph.types.property import MAX_VECTOR_DIMENSION, PropertyType, Scalar

KEYWORDS = [
    *["query", "match", "return", "distinct", "order", "limit", "offset", "as"],
    *["asc", "desc", "not", "and", "or", "in", "is", "null"],
    *["true", "false", "optional", "hops", "contains", "starts_with", "ends_with", "insert"],
    *["merge", "update", "delete", "set", "where", "now", "date", "datetime"],
    *["search", "nearest", "count", "collect", "type", "from", "to", "id"],
]
CONSTANTS = ("true", "false", "null")
OPERATORS = ("and", "or", "not", "in", "is", "contains", "starts_with", "ends_with")

names = st.sampled_from(["a", "b", "x", "_", "_y", "__z9", "aB_9", "x" * 60]) | st.sampled_from(
    KEYWORDS
)
type_names = st.sampled_from(["T", "Artist", "A_9z", "Query", "Match"])
texts = st.text(max_size=12) | st.sampled_from(['"', "\\", "\\n", "\n\r\t", "//", "/*", "*/", "$a"])


def short(strategy: st.SearchStrategy) -> st.SearchStrategy:
    """The same strategy with a short name: hypothesis refuses to show a very long one."""
    return st.deferred(lambda: strategy)


def names_except(*words: str) -> st.SearchStrategy[str]:
    return names.filter(lambda name: name not in words)


# --- expressions ---------------------------------------------------------------------------------

non_negative = st.integers(0, 2**64 - 1)
literals = st.one_of(
    st.builds(ast.Literal, st.just(ast.LiteralKind.STRING), texts),
    st.builds(ast.Literal, st.just(ast.LiteralKind.INTEGER), st.integers(-(2**63), 2**64 - 1)),
    st.builds(
        ast.Literal,
        st.just(ast.LiteralKind.FLOAT),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.builds(ast.Literal, st.just(ast.LiteralKind.BOOL), st.booleans()),
    st.just(ast.Literal(ast.LiteralKind.NULL, None)),
    st.builds(
        ast.Literal, st.sampled_from([ast.LiteralKind.DATE, ast.LiteralKind.DATETIME]), texts
    ),
)
lists = st.builds(ast.ListLiteral, st.lists(literals, max_size=4).map(tuple))
variables = st.builds(ast.VariableRef, names)
properties = st.builds(ast.PropertyRef, names, names)
aliases = st.builds(ast.AliasRef, names_except(*CONSTANTS))
now = st.just(ast.NowCall())
values = literals | lists | variables | now


def calls(argument: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    def function(name: ast.FunctionName, *arguments: st.SearchStrategy[ast.Expression]):
        return st.builds(ast.FunctionCall, st.just(name), st.tuples(*arguments))

    takes_distinct = [ast.AggregateName.COUNT, ast.AggregateName.COLLECT]
    return st.one_of(
        function(ast.FunctionName.NEAREST, properties, argument),
        function(ast.FunctionName.SEARCH, argument, argument),
        function(ast.FunctionName.FUZZY, argument, argument),
        function(ast.FunctionName.FUZZY, argument, argument, argument),
        function(ast.FunctionName.MATCH_TEXT, argument, argument),
        function(ast.FunctionName.BM25, argument, argument),
        function(ast.FunctionName.RRF, argument, argument),
        function(ast.FunctionName.RRF, argument, argument, argument),
        function(ast.FunctionName.TYPE, variables),
        st.builds(ast.AggregateCall, st.sampled_from(ast.AggregateName), argument),
        st.builds(ast.AggregateCall, st.sampled_from(takes_distinct), argument, st.just(True)),
    )


expressions = short(st.recursive(values | properties | aliases, calls, max_leaves=6))
columns = expressions | st.builds(
    ast.ObjectProjection,
    names,
    st.none() | st.lists(names, min_size=1, max_size=3).map(tuple),
)
# A key is a column before it is a constant: `null` names one.
sort_keys = expressions.filter(
    lambda key: not (isinstance(key, ast.Literal) and key.kind is ast.LiteralKind.NULL)
) | st.just(ast.AliasRef("null"))


# --- conditions ----------------------------------------------------------------------------------


def joined(leaf: st.SearchStrategy[ast.Condition]) -> st.SearchStrategy[ast.Condition]:
    def join(item: st.SearchStrategy[ast.Condition]) -> st.SearchStrategy[ast.Condition]:
        items = st.lists(item, min_size=2, max_size=3).map(tuple)
        return st.builds(ast.And, items) | st.builds(ast.Or, items) | st.builds(ast.Not, item)

    return short(st.recursive(leaf, join, max_leaves=5))


operands = expressions.filter(
    lambda operand: not (isinstance(operand, ast.AliasRef) and operand.name in OPERATORS)
)
truths = operands.filter(
    lambda operand: (
        isinstance(operand, ast.VariableRef | ast.PropertyRef | ast.FunctionCall)
        or (isinstance(operand, ast.Literal) and operand.kind is ast.LiteralKind.BOOL)
    )
)
match_conditions = joined(
    st.one_of(
        st.builds(ast.Comparison, operands, st.sampled_from(ast.CompareOp), operands),
        st.builds(ast.Membership, operands, lists | variables, st.booleans()),
        st.builds(ast.NullTest, operands, st.booleans()),
        st.builds(ast.Truth, truths),
    )
)

symbols = st.sampled_from([op for op in ast.CompareOp if not op.isidentifier()])
words = st.sampled_from([op for op in ast.CompareOp if op.isidentifier()])
any_property = st.builds(ast.AliasRef, names)
# `not contains "x"` denies a property called `contains`, so `not` needs a symbol behind it.
plain_property = st.builds(ast.AliasRef, names_except("not"))
where_conditions = joined(
    st.one_of(
        st.builds(ast.Comparison, any_property, symbols, values),
        st.builds(ast.Comparison, plain_property, words, values),
        st.builds(ast.Membership, plain_property, lists | variables, st.booleans()),
        st.builds(ast.NullTest, plain_property, st.booleans()),
        st.builds(ast.Truth, plain_property),
    )
)


# --- clauses -------------------------------------------------------------------------------------

match_items = st.builds(ast.PropertyMatch, names, values)
matches = st.lists(match_items, max_size=3).map(tuple)
assignments = st.lists(match_items, min_size=1, max_size=4).map(tuple)
traversals = st.builds(
    ast.Traversal,
    source=names,
    edges=st.lists(names_except("not"), min_size=1, max_size=3).map(tuple),
    target=names,
    undirected=st.booleans(),
    hops=st.none() | st.builds(ast.HopBounds, non_negative, st.none() | non_negative),
    edge_variable=st.none() | names,
    hop_variable=st.none() | names,
)
plain_clauses = st.one_of(
    st.builds(ast.Binding, names, type_names, matches),
    traversals,
    st.builds(ast.Filter, match_conditions),
)


def blocks(clause: st.SearchStrategy[ast.Clause]) -> st.SearchStrategy[ast.Clause]:
    inner = st.lists(clause, min_size=1, max_size=3).map(tuple)
    return st.builds(ast.Negation, inner) | st.builds(ast.Optional, inner)


clauses = short(st.recursive(plain_clauses, blocks, max_leaves=4))


# --- queries -------------------------------------------------------------------------------------

counts = st.builds(ast.Literal, st.just(ast.LiteralKind.INTEGER), non_negative) | variables
read_bodies = st.builds(
    ast.ReadBody,
    clauses=st.lists(clauses, min_size=1, max_size=5).map(tuple),
    projections=st.lists(
        st.builds(ast.Projection, columns, st.none() | names), min_size=1, max_size=4
    ).map(tuple),
    distinct=st.booleans(),
    order=st.lists(
        st.builds(ast.Ordering, sort_keys, st.sampled_from([None, True, False])), max_size=3
    )
    .map(lambda keys: [_undirected_nearest(key) for key in keys])
    .map(tuple),
    limit=st.none() | counts,
    offset=st.none() | counts,
)


def _undirected_nearest(key: ast.Ordering) -> ast.Ordering:
    nearest = isinstance(key.expression, ast.FunctionCall) and (
        key.expression.function is ast.FunctionName.NEAREST
    )
    return ast.Ordering(key.expression) if nearest else key


statements = st.one_of(
    st.builds(ast.Insert, type_names, assignments, st.booleans()),
    st.builds(ast.Update, type_names, assignments, where_conditions),
    st.builds(ast.Delete, type_names, where_conditions),
)
mutation_bodies = st.builds(
    ast.MutationBody, st.lists(statements, min_size=1, max_size=3).map(tuple)
)
scalars = st.sampled_from([scalar for scalar in Scalar if scalar is not Scalar.VECTOR])
parameter_types = st.builds(
    PropertyType, scalars, nullable=st.booleans(), is_list=st.booleans()
) | st.builds(
    PropertyType,
    st.just(Scalar.VECTOR),
    nullable=st.booleans(),
    dimension=st.integers(1, MAX_VECTOR_DIMENSION),
)
queries = st.builds(
    ast.QueryDecl,
    name=names,
    parameters=st.lists(
        st.builds(ast.Parameter, names, parameter_types), max_size=4, unique_by=lambda p: p.name
    ).map(tuple),
    body=short(read_bodies | mutation_bodies),
    description=st.none() | texts,
    instruction=st.none() | texts,
)
query_files = st.builds(
    ast.QueryFile, st.lists(queries, max_size=3, unique_by=lambda query: query.name).map(tuple)
)
