"""Random query trees: every form the language can write, and only those."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language import query_ast
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
    """Return the strategy with a short name: hypothesis refuses to show a very long one."""
    return st.deferred(lambda: strategy)


def names_except(*words: str) -> st.SearchStrategy[str]:
    return names.filter(lambda name: name not in words)


# --- expressions ---------------------------------------------------------------------------------

non_negative = st.integers(0, 2**64 - 1)
literals = st.one_of(
    st.builds(query_ast.Literal, st.just(query_ast.LiteralKind.STRING), texts),
    st.builds(
        query_ast.Literal, st.just(query_ast.LiteralKind.INTEGER), st.integers(-(2**63), 2**64 - 1)
    ),
    st.builds(
        query_ast.Literal,
        st.just(query_ast.LiteralKind.FLOAT),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.builds(query_ast.Literal, st.just(query_ast.LiteralKind.BOOL), st.booleans()),
    st.just(query_ast.Literal(query_ast.LiteralKind.NULL, None)),
    st.builds(
        query_ast.Literal,
        st.sampled_from([query_ast.LiteralKind.DATE, query_ast.LiteralKind.DATETIME]),
        texts,
    ),
)
lists = st.builds(query_ast.ListLiteral, st.lists(literals, max_size=4).map(tuple))
variables = st.builds(query_ast.VariableRef, names)
properties = st.builds(query_ast.PropertyRef, names, names)
aliases = st.builds(query_ast.AliasRef, names_except(*CONSTANTS))
now = st.just(query_ast.NowCall())
values = literals | lists | variables | now


def calls(
    argument: st.SearchStrategy[query_ast.Expression],
) -> st.SearchStrategy[query_ast.Expression]:
    def function(name: query_ast.FunctionName, *arguments: st.SearchStrategy[query_ast.Expression]):
        return st.builds(query_ast.FunctionCall, st.just(name), st.tuples(*arguments))

    takes_distinct = [query_ast.AggregateName.COUNT, query_ast.AggregateName.COLLECT]
    return st.one_of(
        function(query_ast.FunctionName.NEAREST, properties, argument),
        function(query_ast.FunctionName.SEARCH, argument, argument),
        function(query_ast.FunctionName.FUZZY, argument, argument),
        function(query_ast.FunctionName.FUZZY, argument, argument, argument),
        function(query_ast.FunctionName.MATCH_TEXT, argument, argument),
        function(query_ast.FunctionName.BM25, argument, argument),
        function(query_ast.FunctionName.RRF, argument, argument),
        function(query_ast.FunctionName.RRF, argument, argument, argument),
        function(query_ast.FunctionName.TYPE, variables),
        st.builds(query_ast.AggregateCall, st.sampled_from(query_ast.AggregateName), argument),
        st.builds(
            query_ast.AggregateCall, st.sampled_from(takes_distinct), argument, st.just(True)
        ),
    )


expressions = short(st.recursive(values | properties | aliases, calls, max_leaves=6))
columns = expressions | st.builds(
    query_ast.ObjectProjection,
    names,
    st.none() | st.lists(names, min_size=1, max_size=3).map(tuple),
)
# A key is a column before it is a constant: `null` names one.
sort_keys = expressions.filter(
    lambda key: not (isinstance(key, query_ast.Literal) and key.kind is query_ast.LiteralKind.NULL)
) | st.just(query_ast.AliasRef("null"))


# --- conditions ----------------------------------------------------------------------------------


def joined(leaf: st.SearchStrategy[query_ast.Condition]) -> st.SearchStrategy[query_ast.Condition]:
    def join(
        item: st.SearchStrategy[query_ast.Condition],
    ) -> st.SearchStrategy[query_ast.Condition]:
        items = st.lists(item, min_size=2, max_size=3).map(tuple)
        return (
            st.builds(query_ast.And, items)
            | st.builds(query_ast.Or, items)
            | st.builds(query_ast.Not, item)
        )

    return short(st.recursive(leaf, join, max_leaves=5))


operands = expressions.filter(
    lambda operand: not (isinstance(operand, query_ast.AliasRef) and operand.name in OPERATORS)
)
truths = operands.filter(
    lambda operand: (
        isinstance(operand, query_ast.VariableRef | query_ast.PropertyRef | query_ast.FunctionCall)
        or (isinstance(operand, query_ast.Literal) and operand.kind is query_ast.LiteralKind.BOOL)
    )
)
match_conditions = joined(
    st.one_of(
        st.builds(query_ast.Comparison, operands, st.sampled_from(query_ast.CompareOp), operands),
        st.builds(query_ast.Membership, operands, lists | variables, st.booleans()),
        st.builds(query_ast.NullTest, operands, st.booleans()),
        st.builds(query_ast.Truth, truths),
    )
)

symbols = st.sampled_from([op for op in query_ast.CompareOp if not op.isidentifier()])
words = st.sampled_from([op for op in query_ast.CompareOp if op.isidentifier()])
any_property = st.builds(query_ast.AliasRef, names)
# `not contains "x"` denies a property called `contains`, so `not` needs a symbol behind it.
plain_property = st.builds(query_ast.AliasRef, names_except("not"))
where_conditions = joined(
    st.one_of(
        st.builds(query_ast.Comparison, any_property, symbols, values),
        st.builds(query_ast.Comparison, plain_property, words, values),
        st.builds(query_ast.Membership, plain_property, lists | variables, st.booleans()),
        st.builds(query_ast.NullTest, plain_property, st.booleans()),
        st.builds(query_ast.Truth, plain_property),
    )
)


# --- clauses -------------------------------------------------------------------------------------

match_items = st.builds(query_ast.PropertyMatch, names, values)
matches = st.lists(match_items, max_size=3).map(tuple)
assignments = st.lists(match_items, min_size=1, max_size=4).map(tuple)
traversals = st.builds(
    query_ast.Traversal,
    source=names,
    edges=st.lists(names_except("not"), min_size=1, max_size=3).map(tuple),
    target=names,
    undirected=st.booleans(),
    hops=st.none() | st.builds(query_ast.HopBounds, non_negative, st.none() | non_negative),
    edge_variable=st.none() | names,
    hop_variable=st.none() | names,
)
plain_clauses = st.one_of(
    st.builds(query_ast.Binding, names, type_names, matches),
    traversals,
    st.builds(query_ast.Filter, match_conditions),
)


def blocks(clause: st.SearchStrategy[query_ast.Clause]) -> st.SearchStrategy[query_ast.Clause]:
    inner = st.lists(clause, min_size=1, max_size=3).map(tuple)
    return st.builds(query_ast.Negation, inner) | st.builds(query_ast.Optional, inner)


clauses = short(st.recursive(plain_clauses, blocks, max_leaves=4))


# --- queries -------------------------------------------------------------------------------------

counts = (
    st.builds(query_ast.Literal, st.just(query_ast.LiteralKind.INTEGER), non_negative) | variables
)
read_bodies = st.builds(
    query_ast.ReadBody,
    clauses=st.lists(clauses, min_size=1, max_size=5).map(tuple),
    projections=st.lists(
        st.builds(query_ast.Projection, columns, st.none() | names), min_size=1, max_size=4
    ).map(tuple),
    distinct=st.booleans(),
    order=st.lists(
        st.builds(query_ast.Ordering, sort_keys, st.sampled_from([None, True, False])), max_size=3
    )
    .map(lambda keys: [_undirected_nearest(key) for key in keys])
    .map(tuple),
    limit=st.none() | counts,
    offset=st.none() | counts,
)


def _undirected_nearest(key: query_ast.Ordering) -> query_ast.Ordering:
    nearest = isinstance(key.expression, query_ast.FunctionCall) and (
        key.expression.function is query_ast.FunctionName.NEAREST
    )
    return query_ast.Ordering(key.expression) if nearest else key


statements = st.one_of(
    st.builds(query_ast.Insert, type_names, assignments, st.booleans()),
    st.builds(query_ast.Update, type_names, assignments, where_conditions),
    st.builds(query_ast.Delete, type_names, where_conditions),
)
mutation_bodies = st.builds(
    query_ast.MutationBody, st.lists(statements, min_size=1, max_size=3).map(tuple)
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
    query_ast.QueryDecl,
    name=names,
    parameters=st.lists(
        st.builds(query_ast.Parameter, names, parameter_types),
        max_size=4,
        unique_by=lambda p: p.name,
    ).map(tuple),
    body=short(read_bodies | mutation_bodies),
    description=st.none() | texts,
    instruction=st.none() | texts,
)
query_files = st.builds(
    query_ast.QueryFile,
    st.lists(queries, max_size=3, unique_by=lambda query: query.name).map(tuple),
)
