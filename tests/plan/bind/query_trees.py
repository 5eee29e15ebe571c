"""Random query trees over the music schema: most mean nothing, some do."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language import query_ast
from omnigraph.types.property import PropertyType, Scalar

VARIABLES = st.sampled_from(["a", "b", "c", "w", "h", "p", "_1", query_ast.ANONYMOUS])
TYPES = st.sampled_from(["Artist", "Artist", "Album", "Album", "Label", "Take", "Titled", "Made"])
PROPERTIES = st.sampled_from(
    [
        *("slug", "name", "title", "born", "genres", "rating", "plays", "released", "cover"),
        *("vibe", "country", "seconds", "weight", "since", "role", "id", "nope"),
    ]
)
EDGES = st.sampled_from(["made", "made", "influences", "signedTo", "sampled", "nope"])
PARAMETERS = st.lists(
    st.builds(
        query_ast.Parameter,
        st.sampled_from(["p", "q", "v", "n"]),
        st.one_of(
            st.builds(
                PropertyType,
                st.sampled_from([s for s in Scalar if s is not Scalar.VECTOR]),
                st.booleans(),
                st.booleans(),
            ),
            st.builds(lambda n: PropertyType(Scalar.VECTOR, dimension=n), st.integers(2, 3)),
        ),
    ),
    max_size=3,
    unique_by=lambda p: p.name,
).map(tuple)


def _literal(
    kind: query_ast.LiteralKind, values: st.SearchStrategy
) -> st.SearchStrategy[query_ast.Literal]:
    return st.builds(query_ast.Literal, st.just(kind), values)


LITERALS = st.one_of(
    _literal(query_ast.LiteralKind.STRING, st.sampled_from(["x", "uk", "lead", ""])),
    _literal(query_ast.LiteralKind.INTEGER, st.integers(-(2**70), 2**70)),
    _literal(query_ast.LiteralKind.INTEGER, st.integers(-3, 2000)),
    _literal(query_ast.LiteralKind.FLOAT, st.floats()),
    _literal(query_ast.LiteralKind.BOOL, st.booleans()),
    _literal(query_ast.LiteralKind.NULL, st.none()),
    _literal(query_ast.LiteralKind.DATE, st.sampled_from(["1999-05-04", "x"])),
    _literal(query_ast.LiteralKind.DATETIME, st.sampled_from(["1999-05-04T01:02:03Z", "x"])),
)
LISTS = st.builds(query_ast.ListLiteral, st.lists(LITERALS, max_size=3).map(tuple))
NAMES = st.one_of(VARIABLES, st.sampled_from(["p", "q", "v", "n"]))
SIMPLE = st.one_of(
    st.builds(query_ast.PropertyRef, VARIABLES, PROPERTIES),
    st.builds(query_ast.PropertyRef, VARIABLES, PROPERTIES),
    st.builds(query_ast.VariableRef, NAMES),
    LITERALS,
    LISTS,
    st.just(query_ast.NowCall()),
    st.builds(query_ast.AliasRef, st.sampled_from(["name", "n", "a.name", "from", "id"])),
    st.builds(query_ast.ObjectProjection, VARIABLES, st.none()),
    st.builds(query_ast.ObjectProjection, VARIABLES, st.lists(PROPERTIES, max_size=3).map(tuple)),
)


def _call(function: query_ast.FunctionName, *arguments: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(query_ast.FunctionCall, st.just(function), st.tuples(*arguments))


def _calls(inner: st.SearchStrategy) -> st.SearchStrategy:
    two = [
        query_ast.FunctionName.NEAREST,
        query_ast.FunctionName.SEARCH,
        query_ast.FunctionName.MATCH_TEXT,
        query_ast.FunctionName.BM25,
        query_ast.FunctionName.FUZZY,
        query_ast.FunctionName.RRF,
    ]
    three = [query_ast.FunctionName.FUZZY, query_ast.FunctionName.RRF]
    return st.one_of(
        *(_call(function, inner, inner) for function in two),
        *(_call(function, inner, inner, inner) for function in three),
        _call(query_ast.FunctionName.TYPE, inner),
        st.builds(
            query_ast.AggregateCall, st.sampled_from(query_ast.AggregateName), inner, st.booleans()
        ),
    )


EXPRESSIONS = st.recursive(SIMPLE, _calls, max_leaves=4)
VALUES = st.one_of(LITERALS, LISTS, st.builds(query_ast.VariableRef, NAMES), EXPRESSIONS)
CONDITIONS = st.recursive(
    st.one_of(
        st.builds(
            query_ast.Comparison, EXPRESSIONS, st.sampled_from(query_ast.CompareOp), EXPRESSIONS
        ),
        st.builds(query_ast.Membership, EXPRESSIONS, EXPRESSIONS, st.booleans()),
        st.builds(query_ast.NullTest, EXPRESSIONS, st.booleans()),
        st.builds(query_ast.Truth, EXPRESSIONS),
    ),
    lambda inner: st.one_of(
        st.builds(query_ast.And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(query_ast.Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(query_ast.Not, inner),
    ),
    max_leaves=4,
)
MATCHES = st.lists(st.builds(query_ast.PropertyMatch, PROPERTIES, VALUES), max_size=2).map(tuple)
HOPS = st.none() | st.builds(query_ast.HopBounds, st.integers(0, 3), st.none() | st.integers(0, 3))
TRAVERSALS = st.builds(
    query_ast.Traversal,
    VARIABLES,
    st.lists(EDGES, min_size=1, max_size=2).map(tuple),
    VARIABLES,
    st.booleans(),
    HOPS,
    st.none() | VARIABLES,
    st.none() | VARIABLES,
)
PLAIN_TRAVERSALS = st.builds(
    query_ast.Traversal, VARIABLES, st.tuples(st.sampled_from(["made", "influences"])), VARIABLES
)
CLAUSES = st.recursive(
    st.one_of(
        st.builds(query_ast.Binding, VARIABLES, TYPES, MATCHES),
        st.builds(query_ast.Binding, VARIABLES, TYPES),
        TRAVERSALS,
        PLAIN_TRAVERSALS,
        st.builds(query_ast.Filter, CONDITIONS),
    ),
    lambda inner: st.one_of(
        st.builds(query_ast.Negation, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(query_ast.Optional, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
READS = st.builds(
    query_ast.ReadBody,
    clauses=st.lists(CLAUSES, min_size=1, max_size=5).map(tuple),
    projections=st.lists(
        st.builds(
            query_ast.Projection, EXPRESSIONS, st.none() | st.sampled_from(["n", "m", "name"])
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    distinct=st.booleans(),
    order=st.lists(
        st.builds(query_ast.Ordering, EXPRESSIONS, st.none() | st.booleans()), max_size=2
    ).map(tuple),
    limit=st.none() | LITERALS | st.builds(query_ast.VariableRef, NAMES),
    offset=st.none() | LITERALS,
)
ASSIGNMENTS = st.lists(
    st.builds(
        query_ast.PropertyMatch,
        PROPERTIES | st.sampled_from(["from", "to", "slug", "name"]),
        VALUES,
    ),
    max_size=4,
).map(tuple)
STATEMENTS = st.one_of(
    st.builds(query_ast.Insert, TYPES, ASSIGNMENTS, st.booleans()),
    st.builds(query_ast.Update, TYPES, ASSIGNMENTS, CONDITIONS),
    st.builds(query_ast.Delete, TYPES, CONDITIONS),
)
MUTATIONS = st.builds(
    query_ast.MutationBody, st.lists(STATEMENTS, min_size=1, max_size=3).map(tuple)
)
QUERIES = st.builds(query_ast.QueryDecl, st.just("q"), PARAMETERS, READS | MUTATIONS)

# --- texts that often mean something --------------------------------------------------------------

LIKELY_CLAUSES = {
    "$a: Artist { born: 1970 }": "$a.slug",
    "not { $a signedTo $l }": "$a.id",
    "not { $a made $x $x.rating > 3.0 not { $x sampled $b } }": "$b.title",
    "$a influences{1,2} $c hops $h": "$h",
    "$c: Artist": "$c.name",
    "$a <influences> $c": "$c.born",
    "$a made $b": "$b.slug",
    "$b: Titled": "$b.title as t",
    "$a $w:signedTo $l": "$w.since",
    "$b sampled $_": "$b.id",
    "$x: Titled": "type($x)",
    "$b sampled $x": "$x.title",
    "$c influences $a": "$c.id",
    'not { $x: Titled { title: "t" } $x sampled $b }': "$a.born",
    "optional { $a made $d $d.rating > $a.born }": "$d { * }",
    "optional { $a $v:influences $f not { $f made $b } }": "$v.weight",
    "optional { $d sampled $e not { $e sampled $x } }": "$e.id",
    "$a.born > 1900 and $b.title < $a.name": "$a.bio",
    'search($b.title, "x") or $a.name in ["y"]': 'search($b.title, "x")',
    "$d is null or $d.title = $b.title": "$d",
    "$w.advance is not null": "$w { * }",
    "$h > 1": "$h as hops",
    "$a != $c": "$c { id, type }",
    "$x = $b": "$x { type }",
}
"""Clauses in an order in which they mostly fit, each with something to return beside it."""


@st.composite
def likely_texts(draw: st.DrawFn) -> str:
    """A query text of which about half mean something."""
    chosen = draw(st.sets(st.sampled_from(range(len(LIKELY_CLAUSES))), min_size=1, max_size=7))
    pairs = [pair for at, pair in enumerate(LIKELY_CLAUSES.items()) if at in chosen]
    body = "  ".join(["$a: Artist", "$b: Album", *(clause for clause, _ in pairs)])
    columns = [column for _, column in pairs]
    distinct = draw(st.sampled_from(["", "distinct "]))
    return f"query q() {{ match {{ {body} }} return {distinct}{{ {', '.join(columns)} }} }}"
