"""Binding through its functions: what the text cases cannot show."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from omnigraph.errors import CompileError
from omnigraph.language.query_ast import Literal, LiteralKind
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.expressions import Compare, Constant, NotP, TextMatch, VectorDistance
from omnigraph.plan.plan_nodes import Match, Project, Rank, ReadPlan, Slice, Sort
from omnigraph.types.property import PropertyType, Scalar
from plan.bind.bind_cases import catalog_of


def bind_text(text: str, schema: str = "library.pg") -> ReadPlan:
    source = SourceText(text, "q.gq")
    (decl,) = parse_query_file(source).queries
    plan = bind_query(decl, catalog_of(schema), source)
    assert isinstance(plan, ReadPlan)
    return plan


def first_filter(condition: str, parameters: str = ""):
    plan = bind_text(
        f"query q({parameters}) {{ match {{ $a: Person {condition} }} return {{ $a }} }}"
    )
    project = plan.root
    assert isinstance(project, Project)
    assert isinstance(project.child, Sort)
    assert isinstance(project.child.child, Match)
    return project.child.child.pattern.filters[0]


def ranking(call: str, schema: str, type_name: str, parameters: str = ""):
    plan = bind_text(
        f"query q({parameters}) {{ match {{ $b: {type_name} }} return {{ $b }} "
        f"order {{ {call} }} limit 3 }}",
        schema,
    )
    assert isinstance(plan.root, Slice)
    assert isinstance(plan.root.child, Project)
    assert isinstance(plan.root.child.child, Rank)
    return plan.root.child.child.ranking


@pytest.mark.parametrize(
    ("condition", "constant"),
    [
        ("$a.age > 30", Constant(30, PropertyType(Scalar.I64))),
        ("$a.age > 2.5", Constant(2.5, PropertyType(Scalar.F64))),
        ("$a.score > 2", Constant(2, PropertyType(Scalar.I64))),
        ("$a.score > 0.1", Constant(0.10000000149011612, PropertyType(Scalar.F64))),
        ("$a.score > 1e300", Constant(1e300, PropertyType(Scalar.F64))),
        ("$a.big > 18446744073709551615", Constant(2**64 - 1, PropertyType(Scalar.U64))),
        ('$a.name > "x"', Constant("x", PropertyType(Scalar.STRING))),
        (
            '$a.seen > datetime("2024-06-01T14:00:00.1239+02:00")',
            Constant(
                datetime.datetime(2024, 6, 1, 12, 0, 0, 123000, tzinfo=datetime.UTC),
                PropertyType(Scalar.DATETIME),
            ),
        ),
    ],
)
def test_constants_keep_their_exact_value(condition, constant):
    predicate = first_filter(condition)
    assert isinstance(predicate, Compare)
    assert predicate.right == constant


def test_a_vector_is_compared_as_it_is_given():
    distance = ranking("nearest($b.vibe, $v)", "music.pg", "Album", "$v: Vector(3)")
    assert isinstance(distance, VectorDistance)
    assert (distance.dimension, distance.embed, distance.model) == (3, False, None)


def test_a_text_is_embedded_by_the_model_of_the_property():
    distance = ranking('nearest($b.vibe, "calm")', "music.pg", "Album")
    assert isinstance(distance, VectorDistance)
    assert (distance.dimension, distance.embed, distance.model) == (3, True, "m-1")


def test_a_text_is_embedded_without_a_model_when_none_is_recorded():
    distance = ranking("nearest($b.mark, $t)", "library.pg", "Book", "$t: String?")
    assert isinstance(distance, VectorDistance)
    assert (distance.dimension, distance.embed, distance.model) == (2, True, None)


def test_a_text_condition_is_unknown_when_its_query_may_be_missing():
    certain = first_filter('search($a.name, "x")')
    uncertain = first_filter("search($a.name, $t) = false", "$t: String?")
    assert isinstance(certain, TextMatch)
    assert not certain.type.nullable
    assert isinstance(uncertain, NotP)
    assert isinstance(uncertain.item, TextMatch)
    assert uncertain.item.type.nullable


def test_one_query_is_bound_without_the_mistakes_of_its_neighbours():
    text = """
    query good() { match { $a: Person } return { $a } }
    query bad() { match { $a: Nobody } return { $a } }
    """
    source = SourceText(text, "q.gq")
    good, bad = parse_query_file(source).queries
    assert bind_query(good, catalog_of("library.pg"), source).name == "good"
    with pytest.raises(CompileError, match=r"T1: unknown node type 'Nobody' at q\.gq:3:31"):
        bind_query(bad, catalog_of("library.pg"), source)


def test_a_limit_in_a_tree_is_not_negative():
    source = SourceText("query q() { match { $a: Person } return { $a } }", "q.gq")
    (decl,) = parse_query_file(source).queries
    body = replace(decl.body, limit=Literal(LiteralKind.INTEGER, -1))
    with pytest.raises(CompileError, match="T28: limit takes a whole number"):
        bind_query(replace(decl, body=body), catalog_of("library.pg"), source)


def test_parameters_are_declared_in_order():
    plan = bind_text("query q($b: I32, $a: [String]?) { match { $x: Person } return { $a, $b } }")
    assert [(p.name, str(p.type)) for p in plan.parameters] == [("b", "I32"), ("a", "[String]?")]
