from __future__ import annotations

import pytest

from omnigraph.errors import CompileError
from omnigraph.language.query_ast import (
    AggregateCall,
    AggregateName,
    AliasRef,
    And,
    Binding,
    CompareOp,
    Comparison,
    Delete,
    Filter,
    FunctionCall,
    FunctionName,
    HopBounds,
    Insert,
    ListLiteral,
    Literal,
    LiteralKind,
    Membership,
    Negation,
    Not,
    NowCall,
    NullTest,
    ObjectProjection,
    Optional,
    Or,
    Ordering,
    Parameter,
    Projection,
    PropertyMatch,
    PropertyRef,
    QueryFile,
    Traversal,
    Truth,
    Update,
    VariableRef,
)
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText, Span
from omnigraph.types.property import PropertyType, Scalar


def parse(text):
    return parse_query_file(SourceText(text, "q.gq"))


def only(text):
    (query,) = parse(text).queries
    return query


def clauses_of(text):
    return only(f"query q() {{ match {{ {text} }} return {{ 1 }} }}").body.clauses


def read(text):
    return only(f"query q() {{ match {{ $a: T }} {text} }}").body


def statements_of(text):
    return only(f"query q() {{ {text} }}").body.statements


def integer(value):
    return Literal(LiteralKind.INTEGER, value)


def text(value):
    return Literal(LiteralKind.STRING, value)


def var(name):
    return VariableRef(name)


def prop(path):
    return PropertyRef(*path.split("."))


def compare(left, op, right):
    return Comparison(left, CompareOp(op), right)


X1 = compare(prop("a.x"), "=", integer(1))
Y2 = compare(prop("a.y"), "=", integer(2))
Z3 = compare(prop("a.z"), "=", integer(3))


@pytest.mark.parametrize("written", ["", " \r\n\t", "// nothing", "/* nothing */ // at all"])
def test_a_file_without_queries_is_empty(written):
    assert parse(written) == QueryFile(())


# --- what a clause that starts with a variable is -------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$a: T", [Binding("a", "T")]),
        ("$a: T { }", [Binding("a", "T")]),
        ("$a: T { x: 1, }", [Binding("a", "T", (PropertyMatch("x", integer(1)),))]),
        ("$a knows $b", [Traversal("a", ("knows",), "b")]),
        ("$_ knows $_", [Traversal("_", ("knows",), "_")]),
        ("$a contains $b", [Traversal("a", ("contains",), "b")]),
        ("$a starts_with $b", [Traversal("a", ("starts_with",), "b")]),
        ("$a in $b", [Traversal("a", ("in",), "b")]),
        ("$a and $b", [Traversal("a", ("and",), "b")]),
        ("$a null $b", [Traversal("a", ("null",), "b")]),
        ("$a <knows> $b", [Traversal("a", ("knows",), "b", undirected=True)]),
        ("$a knows|likes $b", [Traversal("a", ("knows", "likes"), "b")]),
        ("$a <knows|likes> $b", [Traversal("a", ("knows", "likes"), "b", undirected=True)]),
        ("$a knows{1,3} $b", [Traversal("a", ("knows",), "b", hops=HopBounds(1, 3))]),
        ("$a knows{1,} $b", [Traversal("a", ("knows",), "b", hops=HopBounds(1, None))]),
        ("$a $w:knows $b", [Traversal("a", ("knows",), "b", edge_variable="w")]),
        ("$a $w: <knows> $b", [Traversal("a", ("knows",), "b", True, edge_variable="w")]),
        ("$a $_:knows $b", [Traversal("a", ("knows",), "b", edge_variable="_")]),
        ("$a knows $b hops $h", [Traversal("a", ("knows",), "b", hop_variable="h")]),
        (
            "$a knows $b hops = 1",
            [Traversal("a", ("knows",), "b"), Filter(compare(AliasRef("hops"), "=", integer(1)))],
        ),
        (
            "$a hops $b $b hops $c hops $d",
            [
                Traversal("a", ("hops",), "b"),
                Traversal("b", ("hops",), "c", hop_variable="d"),
            ],
        ),
        ("$a optional{1,2} $b", [Traversal("a", ("optional",), "b", hops=HopBounds(1, 2))]),
        (
            "$a optional { $b: T }",
            [Filter(Truth(var("a"))), Optional((Binding("b", "T"),))],
        ),
        ("$a not { $b: T }", [Filter(Truth(var("a"))), Negation((Binding("b", "T"),))]),
        ("$a not $b", [Filter(Truth(var("a"))), Filter(Not(Truth(var("b"))))]),
        ("$a $b: T", [Filter(Truth(var("a"))), Binding("b", "T")]),
        ("$a $b knows $c", [Filter(Truth(var("a"))), Traversal("b", ("knows",), "c")]),
        ("$a < 3", [Filter(compare(var("a"), "<", integer(3)))]),
        ("$a < knows", [Filter(compare(var("a"), "<", AliasRef("knows")))]),
        ("$a = $b", [Filter(compare(var("a"), "=", var("b")))]),
        ("$a != $b", [Filter(compare(var("a"), "!=", var("b")))]),
        ("$a.id = $b.id", [Filter(compare(prop("a.id"), "=", prop("b.id")))]),
        ("($a contains $b)", [Filter(compare(var("a"), "contains", var("b")))]),
        ("($a in $b)", [Filter(Membership(var("a"), var("b")))]),
        ("$a contains $b.x", [Filter(compare(var("a"), "contains", prop("b.x")))]),
        ('$a contains "x"', [Filter(compare(var("a"), "contains", text("x")))]),
        ("$a not in $b", [Filter(Membership(var("a"), var("b"), negated=True))]),
        ("$a is null", [Filter(NullTest(var("a")))]),
        (
            "$a and $n = 3",
            [Filter(And((Truth(var("a")), compare(var("n"), "=", integer(3)))))],
        ),
        ("$a or $a.x = 1", [Filter(Or((Truth(var("a")), X1)))]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_variable_starts(written, expected):
    assert list(clauses_of(written)) == expected


def test_clauses_follow_each_other_without_separators():
    assert clauses_of("$a: T $a.x = $b $c knows $d -1 < $a.x not { $a: T } search($a.t, $q)") == (
        Binding("a", "T"),
        Filter(compare(prop("a.x"), "=", var("b"))),
        Traversal("c", ("knows",), "d"),
        Filter(compare(integer(-1), "<", prop("a.x"))),
        Negation((Binding("a", "T"),)),
        Filter(Truth(FunctionCall(FunctionName.SEARCH, (prop("a.t"), var("q"))))),
    )


# --- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$a.x = 1 and $a.y = 2 and $a.z = 3", And((X1, Y2, Z3))),
        ("$a.x = 1 or $a.y = 2 and $a.z = 3", Or((X1, And((Y2, Z3))))),
        ("$a.x = 1 and $a.y = 2 or $a.z = 3", Or((And((X1, Y2)), Z3))),
        ("($a.x = 1 or $a.y = 2) and $a.z = 3", And((Or((X1, Y2)), Z3))),
        ("($a.x = 1 and $a.y = 2) and $a.z = 3", And((And((X1, Y2)), Z3))),
        ("not $a.x = 1 and $a.y = 2", And((Not(X1), Y2))),
        ("not ($a.x = 1 and $a.y = 2)", Not(And((X1, Y2)))),
        ("not not $a.x = 1", Not(Not(X1))),
        ("(($a.x = 1))", X1),
        ("$a.x in [1, -2]", Membership(prop("a.x"), ListLiteral((integer(1), integer(-2))))),
        ("$a.x not in $p", Membership(prop("a.x"), var("p"), negated=True)),
        ("$a.x is not null", NullTest(prop("a.x"), negated=True)),
        ("$a.x", Truth(prop("a.x"))),
        ("$a.x ends_with $p", compare(prop("a.x"), "ends_with", var("p"))),
        ('type($a) = "T"', compare(FunctionCall(FunctionName.TYPE, (var("a"),)), "=", text("T"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_condition_reads(written, expected):
    assert clauses_of(written) == (Filter(expected),)


# --- literals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("18446744073709551615", LiteralKind.INTEGER, 2**64 - 1),
        ("-9223372036854775808", LiteralKind.INTEGER, -(2**63)),
        ("- 5", LiteralKind.INTEGER, -5),
        ("0" * 5000 + "7", LiteralKind.INTEGER, 7),
        ("-2.5", LiteralKind.FLOAT, -2.5),
        ("1e3", LiteralKind.FLOAT, 1000.0),
        ("5.0E-1", LiteralKind.FLOAT, 0.5),
        ("null", LiteralKind.NULL, None),
        ("true", LiteralKind.BOOL, True),
        (r'"a\"\\\n\r\tb"', LiteralKind.STRING, 'a"\\\n\r\tb'),
        ('"a\nb"', LiteralKind.STRING, "a\nb"),
        ('date("x")', LiteralKind.DATE, "x"),
        ('datetime("x")', LiteralKind.DATETIME, "x"),
    ],
)
def test_a_literal_has_the_value(written, kind, value):
    (condition,) = clauses_of(f"$a.x = {written}")
    assert condition.condition.right == Literal(kind, value)
    assert type(condition.condition.right.value) is type(value)


# --- return, order, limit ------------------------------------------------------------------------


def test_projections_need_no_commas():
    body = read("return { $a.x $a as b $a { * } $a { x, y } as c count(distinct $a) n, }")
    assert body.projections == (
        Projection(prop("a.x")),
        Projection(var("a"), "b"),
        Projection(ObjectProjection("a", None)),
        Projection(ObjectProjection("a", ("x", "y")), "c"),
        Projection(AggregateCall(AggregateName.COUNT, var("a"), distinct=True)),
        Projection(AliasRef("n")),
    )


def test_distinct_is_a_word_before_the_block_only():
    assert read("return distinct { $a }").distinct
    body = read("return { distinct, count(distinct), count(distinct distinct) }")
    assert not body.distinct
    name = AliasRef("distinct")
    assert [p.expression for p in body.projections] == [
        name,
        AggregateCall(AggregateName.COUNT, name),
        AggregateCall(AggregateName.COUNT, name, distinct=True),
    ]


def test_a_function_name_without_parentheses_is_a_column():
    body = read("return { $a.x as count } order { count desc, date, null asc, true }")
    assert body.order == (
        Ordering(AliasRef("count"), descending=True),
        Ordering(AliasRef("date")),
        Ordering(AliasRef("null"), descending=False),
        Ordering(Literal(LiteralKind.BOOL, True)),
    )


def test_limit_and_offset_take_numbers_or_parameters():
    body = read("return { $a } order { $a.x } limit $n offset 20")
    assert (body.limit, body.offset) == (var("n"), integer(20))
    body = read("return { $a } offset $n")
    assert (body.limit, body.offset) == (None, var("n"))


def test_scores_stand_wherever_an_expression_may():
    score = FunctionCall(FunctionName.BM25, (prop("a.t"), text("x")))
    body = read('return { bm25($a.t, "x") as s } order { bm25($a.t, "x") desc }')
    assert body.projections == (Projection(score, "s"),)
    assert body.order == (Ordering(score, descending=True),)
    assert clauses_of('bm25($a.t, "x") > 1') == (Filter(compare(score, ">", integer(1))),)


# --- statements ----------------------------------------------------------------------------------


def test_statements_follow_each_other():
    values = (PropertyMatch("x", NowCall()), PropertyMatch("y", ListLiteral((integer(1),))))
    slug = compare(AliasRef("slug"), "=", var("p"))
    assert statements_of(
        "insert T { x: now() y: [1], } merge T { x: now(), y: [1] }"
        "update T set { x: now(), y: [1] } where slug = $p delete T where slug = $p"
    ) == (
        Insert("T", values),
        Insert("T", values, partial=True),
        Update("T", values, slug),
        Delete("T", slug),
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("not = 3", compare(AliasRef("not"), "=", integer(3))),
        ("true = 3", compare(AliasRef("true"), "=", integer(3))),
        ("not not = 3", Not(compare(AliasRef("not"), "=", integer(3)))),
        ("not active", Not(Truth(AliasRef("active")))),
        ("in in [3]", Membership(AliasRef("in"), ListLiteral((integer(3),)))),
        ("null is null", NullTest(AliasRef("null"))),
        ("a = null", compare(AliasRef("a"), "=", Literal(LiteralKind.NULL, None))),
        (
            "a = 1 or b and not c is null",
            Or(
                (
                    compare(AliasRef("a"), "=", integer(1)),
                    And((Truth(AliasRef("b")), Not(NullTest(AliasRef("c"))))),
                )
            ),
        ),
    ],
)
def test_a_where_names_properties_without_a_variable(written, expected):
    assert statements_of(f"delete T where {written}") == (Delete("T", expected),)


# --- header --------------------------------------------------------------------------------------


def test_the_header_carries_parameters_and_texts():
    query = only(
        'query q($a: [I32]?, $v: Vector(3), $b: Blob?) @instruction("i") @description("d") '
        "{ delete T where x = $a }"
    )
    assert query.parameters == (
        Parameter("a", PropertyType(Scalar.I32, nullable=True, is_list=True)),
        Parameter("v", PropertyType(Scalar.VECTOR, dimension=3)),
        Parameter("b", PropertyType(Scalar.BLOB, nullable=True)),
    )
    assert (query.description, query.instruction) == ("d", "i")


# --- places --------------------------------------------------------------------------------------


def test_spans_point_at_what_they_name():
    written = (
        "query find($s: String?) {\n"
        "  match { $a: Artist { slug: $s } $a $w:<made|owns>{1,2} $b hops $h"
        " ($a.born = -5 or not $b is null) not { $a.x } }\n"
        "  return { count(distinct $a) as n, $b { * } } order { n desc } limit 3\n"
        "}"
    )

    def piece(span: Span):
        return written[span.start : span.end]

    query = only(written)
    assert piece(query.span) == written
    assert piece(query.name_span) == "find"
    assert piece(query.parameters[0].span) == "$s: String?"
    binding, traversal, condition, negation = query.body.clauses
    assert piece(binding.span) == "$a: Artist { slug: $s }"
    assert piece(binding.type_span) == "Artist"
    assert piece(binding.matches[0].span) == "slug: $s"
    assert piece(traversal.span) == "$a $w:<made|owns>{1,2} $b hops $h"
    assert piece(traversal.edge_span) == "<made|owns>"
    assert piece(traversal.source_span) == "$a"
    assert piece(traversal.target_span) == "$b"
    assert piece(traversal.hops.span) == "{1,2}"
    assert piece(condition.span) == "($a.born = -5 or not $b is null)"
    assert piece(condition.condition.items[0].left.property_span) == "born"
    assert piece(condition.condition.items[0].right.span) == "-5"
    assert piece(condition.condition.items[1].span) == "not $b is null"
    assert piece(negation.span) == "not { $a.x }"
    assert piece(query.body.projections[0].span) == "count(distinct $a) as n"
    assert piece(query.body.projections[1].expression.span) == "$b { * }"
    assert piece(query.body.order[0].span) == "n desc"
    assert piece(query.body.limit.span) == "3"


def test_windows_line_ends_count_as_one_line():
    with pytest.raises(CompileError) as raised:
        parse("query q() {\r\n  match { $a. }\r\n  return { 1 }\r\n}\r\n")
    (found,) = raised.value.diagnostics
    assert (found.line, found.column, found.line_text) == (2, 15, "  match { $a. }")
