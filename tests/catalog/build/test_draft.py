from __future__ import annotations

import pytest

from language.schema.schema_case_files import CASES
from omnigraph.catalog.build import build_draft, compile_schema
from omnigraph.catalog.catalog import (
    UNASSIGNED,
    Annotation,
    Constraint,
    ConstraintKind,
    DefaultValue,
    Embed,
    TypeKind,
)
from omnigraph.errors import CompileError
from omnigraph.language import schema_ast
from omnigraph.language.source import SourceText
from omnigraph.types.property import PropertyType, Scalar


def compile_text(text):
    return compile_schema(SourceText(text, "s.pg"))


@pytest.fixture(scope="module")
def music():
    return compile_text((CASES / "valid" / "music.pg").read_text("utf-8"))


def test_everything_stands_in_order_of_its_name(music):
    catalog = music.catalog
    assert list(catalog.interfaces) == ["Titled"]
    assert list(catalog.nodes) == ["Album", "Artist", "Label", "Take"]
    assert list(catalog.edges) == ["Influences", "Made", "Sampled", "SignedTo"]
    names = [p.name for p in catalog.nodes["Album"].properties]
    assert names == ["cover", "plays", "rating", "released", "slug", "title", "vibe"]


def test_a_draft_has_no_identities(music):
    catalog = music.catalog
    types = [*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values()]
    assert {t.id for t in types} == {UNASSIGNED}
    assert {p.id for t in types for p in t.properties} == {UNASSIGNED}
    assert (catalog.identity_domain, catalog.next_identity_id) == ("", UNASSIGNED)


def test_constraints_are_sorted_and_say_where_they_were_written(music):
    assert music.catalog.nodes["Album"].constraints == (
        Constraint(ConstraintKind.CHECK, ("slug",), pattern="^[a-z0-9-]+$"),
        Constraint(ConstraintKind.INDEX, ("title",), on_property=True),
        Constraint(ConstraintKind.KEY, ("slug",), on_property=True),
        Constraint(ConstraintKind.RANGE, ("rating",), low="0.0", high="10.0"),
    )
    take = music.catalog.nodes["Take"].constraints
    assert take == (Constraint(ConstraintKind.KEY, ("number", "studio")),)
    made = music.catalog.edges["Made"].constraints
    assert made == (Constraint(ConstraintKind.UNIQUE, ("dst", "src")),)


def test_a_constraint_written_twice_is_recorded_once():
    node = compile_text("node A { x: I32 @unique @unique(x) @unique(x, x) @index(x) @index(x) }")
    assert node.catalog.nodes["A"].constraints == (
        Constraint(ConstraintKind.INDEX, ("x",)),
        Constraint(ConstraintKind.UNIQUE, ("x",), on_property=True),
    )


def test_edges_know_their_ends_and_cardinality(music):
    signed, sampled = music.catalog.edges["SignedTo"], music.catalog.edges["Sampled"]
    assert (signed.from_type, signed.to_type) == ("Artist", "Label")
    assert (signed.minimum, signed.maximum) == (0, 1)
    assert (sampled.minimum, sampled.maximum) == (0, None)


def test_an_embedding_is_structured(music):
    vibe = music.catalog.nodes["Album"].property("vibe")
    assert vibe.embed == Embed("title", UNASSIGNED, "m-1")
    assert vibe.annotations == ()


def test_an_injected_property_comes_with_everything_its_interface_says():
    draft = compile_text(
        'interface I { x: String @index @note @default("a") @rename_from("w") }\n'
        "node A implements I {}"
    )
    node = draft.catalog.nodes["A"]
    injected = node.property("x")
    assert not injected.declared_directly
    assert injected.annotations == (Annotation("note"),)
    assert injected.default == DefaultValue("a")
    assert node.constraints == (Constraint(ConstraintKind.INDEX, ("x",), on_property=True),)
    assert node.implements == ("I",)
    assert draft.property_renames == {
        (TypeKind.INTERFACE, "I", "x"): "w",
        (TypeKind.NODE, "A", "x"): "w",
    }


def test_a_property_the_node_declares_keeps_the_annotations_of_the_node():
    draft = compile_text(
        "interface I { x: String @key @index @note }\nnode A implements I { x: String @unique }"
    )
    node = draft.catalog.nodes["A"]
    assert node.property("x").declared_directly
    assert node.property("x").annotations == ()
    assert node.constraints == (Constraint(ConstraintKind.UNIQUE, ("x",), on_property=True),)
    assert draft.catalog.interfaces["I"].constraints == (
        Constraint(ConstraintKind.INDEX, ("x",), on_property=True),
        Constraint(ConstraintKind.KEY, ("x",), on_property=True),
    )


def test_body_constraints_may_name_injected_properties():
    draft = compile_text("interface I { x: String }\nnode A implements I { y: I32 @key(x, y) }")
    assert draft.catalog.nodes["A"].constraints == (Constraint(ConstraintKind.KEY, ("x", "y")),)


def test_an_old_name_given_by_one_of_two_interfaces_holds():
    draft = compile_text(
        'interface I { x: I32 }\ninterface J { x: I32 @rename_from("w") }\n'
        "node A implements I, J {}"
    )
    assert draft.property_renames[(TypeKind.NODE, "A", "x")] == "w"


def test_metadata_is_sorted_and_stored_as_text():
    draft = compile_text(
        'node A @z(1, b=2, a="x") @instruction("do") @a(name) @rename_from("B") @a { }'
    )
    assert draft.catalog.nodes["A"].annotations == (
        Annotation("a"),
        Annotation("a", "name"),
        Annotation("instruction", "do"),
        Annotation("z", "1", (("a", "x"), ("b", "2"))),
    )
    assert draft.type_renames == {(TypeKind.NODE, "A"): "B"}


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ('String @default("x")', "x"),
        ('enum(a, b) @default("b")', "b"),
        ("Bool @default(false)", False),
        ("I32 @default(-7)", -7),
        ("U64 @default(18446744073709551615)", 2**64 - 1),
        ("F64 @default(3)", 3.0),
        ("F32? @default(-2.5e-1)", -0.25),
        ('Date @default("2024-06-01")', "2024-06-01"),
        ('Date @default("2024-06-01T23:30:00-02:00")', "2024-06-02"),
        ('DateTime @default("2024-06-01")', "2024-06-01T00:00:00.000Z"),
        ('DateTime @default("2024-06-01T12:00:00")', "2024-06-01T12:00:00.000Z"),
        ('DateTime @default("2024-06-01T12:00:00.1239+02:00")', "2024-06-01T10:00:00.123Z"),
    ],
)
def test_defaults_are_read_as_the_type_of_the_property(declaration, value):
    draft = compile_text(f"node A {{ x: {declaration} }}\nedge E: A -> A {{ x: {declaration} }}")
    for owner in (draft.catalog.nodes["A"], draft.catalog.edges["E"]):
        found = owner.property("x").default
        assert found == DefaultValue(value)
        assert type(found.value) is type(value)


def test_spans_say_where_declarations_stand():
    text = "interface I { x: String }\nnode A implements I { y: I32 }\nedge E: A -> A { z: I32 }"
    draft = compile_text(text)
    shown = {owner: text[span.start : span.end] for owner, span in draft.type_spans.items()}
    assert shown == {
        (TypeKind.INTERFACE, "I"): "I",
        (TypeKind.NODE, "A"): "A",
        (TypeKind.EDGE, "E"): "E",
    }
    assert draft.span_of((TypeKind.NODE, "A"), "y").start == text.index("y:")
    assert draft.span_of((TypeKind.NODE, "A"), "x").start == text.index("x:")
    assert draft.span_of((TypeKind.EDGE, "E"), "z").start == text.index("z:")


def test_a_tree_built_by_hand_may_not_give_a_key_a_value():
    key = schema_ast.AnnotationDecl("key", schema_ast.SchemaLiteral("string", "x"))
    prop = schema_ast.PropertyDecl("x", PropertyType(Scalar.STRING), (key,))
    file = schema_ast.SchemaFile((schema_ast.NodeDecl("A", (), (), (prop,)),))
    with pytest.raises(CompileError, match="does not accept a value"):
        build_draft(file, SourceText(""))


def test_node_and_edge_types_may_share_a_name():
    catalog = compile_text("node Same {}\nedge Same: Same -> Same\ninterface Same {}").catalog
    assert (list(catalog.nodes), list(catalog.edges)) == (["Same"], ["Same"])
