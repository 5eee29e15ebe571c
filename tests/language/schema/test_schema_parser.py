from __future__ import annotations

import pytest

from omnigraph.errors import CompileError
from omnigraph.language.schema_ast import (
    AnnotationDecl,
    Cardinality,
    ConstraintClause,
    NameRef,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
    SchemaLiteral,
)
from omnigraph.language.schema_parser import parse_schema
from omnigraph.language.source import SourceText, Span
from omnigraph.types.property import PropertyType, Scalar


def parse(text):
    return parse_schema(SourceText(text, "s.pg"))


def only(text):
    (declaration,) = parse(text).declarations
    return declaration


def piece(text, span: Span):
    return text[span.start : span.end]


@pytest.mark.parametrize("text", ["", " \r\n\t", "// nothing", "/* nothing */ // at all"])
def test_a_file_without_declarations_is_an_empty_schema(text):
    assert parse(text) == SchemaFile(())


def test_enum_values_are_sorted_and_may_run_over_several_tokens():
    node = only("node A { x: enum(low-fi, 3d, -1, 1e-5, Z)? }")
    values = ("-1", "1e-5", "3d", "Z", "low-fi")
    assert node.body[0].type == PropertyType(Scalar.STRING, nullable=True, enum_values=values)


def test_a_constraint_word_with_parentheses_is_a_body_constraint():
    node = only("node A { mail: String @index @unique(mail) }")
    assert node.body == (
        PropertyDecl("mail", PropertyType(Scalar.STRING), (AnnotationDecl("index"),)),
        ConstraintClause("unique", (NameRef("mail"),)),
    )


def test_literals_are_preserved_as_written():
    node = only('node A @x("a\\"b\\n", b=-1.50, c=007, d=true, e=2E5) @y(name) {}')
    first, second = node.annotations
    assert first.argument == SchemaLiteral("string", 'a"b\n')
    assert first.keywords == (
        ("b", SchemaLiteral("float", "-1.50")),
        ("c", SchemaLiteral("integer", "007")),
        ("d", SchemaLiteral("bool", "true")),
        ("e", SchemaLiteral("float", "2E5")),
    )
    assert second.argument == NameRef("name")


def test_range_bounds_are_preserved_as_written():
    node = only("node A { @range(a, -1..2.50) @range(a, ..0) @range(a, 0 .. ) }")
    assert [clause.arguments[1] for clause in node.body] == [
        RangeBounds("-1", "2.50"),
        RangeBounds(None, "0"),
        RangeBounds("0", None),
    ]


def test_a_cardinality_may_have_no_upper_bound():
    edge = only("edge E: A -> B @card(002..)")
    assert edge.cardinality == Cardinality(2, None)


def test_spans_point_at_what_they_name():
    text = 'interface I {}\nnode A @d("x") implements I {\n  n: [I32]? @index\n  @key(n)\n}'
    _, node = parse(text).declarations
    prop, clause = node.body
    assert piece(text, node.name_span) == "A"
    assert piece(text, node.span) == text[15:]
    assert piece(text, node.annotations[0].span) == '@d("x")'
    assert piece(text, node.implements[0].span) == "I"
    assert piece(text, prop.span) == "n"
    assert piece(text, prop.type_span) == "[I32]?"
    assert piece(text, prop.annotations[0].span) == "@index"
    assert piece(text, clause.span) == "@key(n)"
    assert piece(text, clause.arguments[0].span) == "n"


def test_the_span_of_a_keyword_value_covers_the_keyword():
    text = 'node A @x("v", model="m") {}'
    ((_, literal),) = only(text).annotations[0].keywords
    assert piece(text, literal.span) == 'model="m"'


def test_windows_line_ends_count_as_one_line():
    with pytest.raises(CompileError) as raised:
        parse("node A {\r\n  x: Strng\r\n}\r\n")
    (found,) = raised.value.diagnostics
    assert (found.line, found.column, found.line_text) == (2, 6, "  x: Strng")


def test_a_mistake_in_a_header_does_not_hide_those_in_the_body():
    with pytest.raises(CompileError) as raised:
        parse("node A @ { x: Strng }\nedge E: { y: [Blob] }\ninterface I ( { z: I33 }")
    assert [found.code for found in raised.value.diagnostics] == [
        "P107", "P131", "P107", "P135", "P107", "P131",
    ]  # fmt: skip
