from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.catalog.assign_identities import (
    MAX_IDENTITY,
    identify_first,
    identify_next,
    list_inert_hints,
)
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog, Draft, TypeKind
from omnigraph.errors import CompileError, ResourceLimitExceeded, Severity
from omnigraph.language.source import SourceText

MUSIC = (Path(__file__).parents[2] / "cases" / "migration" / "music.pg").read_text()


def draft(text: str) -> Draft:
    return compile_schema(SourceText(text, "schema.pg"))


def created(text: str) -> Catalog:
    return identify_first(draft(text), "01DOMAIN")


def test_a_created_graph_numbers_types_then_properties_then_incarnations():
    catalog = created(MUSIC)
    types: dict[str, Any] = {**catalog.interfaces, **catalog.nodes, **catalog.edges}
    assert {name: t.id for name, t in types.items()} == {
        "Titled": 1,
        "Album": 2,
        "Artist": 3,
        "Label": 4,
        "Take": 5,
        "Influences": 6,
        "Made": 7,
        "Sampled": 8,
        "SignedTo": 9,
    }
    numbered = {f"{t.name}.{p.name}": p.id for t in types.values() for p in t.properties}
    assert list(numbered.values()) == list(range(10, 35))
    assert (numbered["Titled.title"], numbered["Album.cover"]) == (10, 11)
    assert (numbered["Album.vibe"], numbered["Artist.bio"]) == (17, 18)
    assert numbered["SignedTo.since"] == 34
    tables = {**catalog.nodes, **catalog.edges}
    assert {name: t.table_incarnation for name, t in tables.items()} == {
        "Album": 35,
        "Artist": 36,
        "Label": 37,
        "Take": 38,
        "Influences": 39,
        "Made": 40,
        "Sampled": 41,
        "SignedTo": 42,
    }
    assert catalog.next_identity_id == 43
    assert catalog.identity_domain == "01DOMAIN"


def test_references_between_properties_are_resolved():
    album = created(MUSIC).nodes["Album"]
    assert album.property("title").satisfies == (10,)
    assert album.property("slug").satisfies == ()
    assert album.property("vibe").embed.source_id == album.property("title").id == 16


def test_an_interface_may_leave_the_embedding_source_to_its_implementers():
    catalog = created(
        'interface Found { where: Vector(3)? @embed("text") }\n'
        "node Doc implements Found { text: String }"
    )
    assert catalog.interfaces["Found"].property("where").embed.source_id == 0
    doc = catalog.nodes["Doc"]
    assert doc.property("where").embed.source_id == doc.property("text").id


def test_the_members_of_a_key_keep_their_order_through_a_rename():
    accepted = created("node Take { studio: String  number: U32  @key(studio, number) }")
    assert [p.name for p in accepted.nodes["Take"].key] == ["number", "studio"]
    renamed = draft(
        'node Take { studio: String  zeroth: U32 @rename_from("number")  @key(studio, zeroth) }'
    )
    catalog = identify_next(renamed, accepted).catalog
    assert [p.name for p in catalog.nodes["Take"].key] == ["zeroth", "studio"]


def test_hints_say_nothing_when_a_graph_is_created():
    hinted = draft(
        'interface Named { label: String @rename_from("name") }\n'
        'node Doc @rename_from("Ghost") implements Named { slug: String @rename_from("id2") }'
    )
    plain = draft("interface Named { label: String }\nnode Doc implements Named { slug: String }")
    assert identify_first(hinted, "D") == identify_first(plain, "D")
    notes = list_inert_hints(hinted)
    assert [(n.code, n.severity) for n in notes] == [("S186", Severity.WARNING)] * 3
    assert [n.line for n in notes] == [1, 2, 2]
    assert list_inert_hints(plain) == ()


def test_a_renamed_type_keeps_its_ids_and_its_incarnation():
    accepted = created("node A { x: String }\nedge E: A -> A { w: I32? }")
    identified = identify_next(
        draft(
            'node B @rename_from("A") { y: String @rename_from("x")  z: I32? }\n'
            'edge F: B -> B @rename_from("E") { w: I32? }'
        ),
        accepted,
    )
    before, after = accepted.nodes["A"], identified.catalog.nodes["B"]
    assert (after.id, after.table_incarnation) == (before.id, before.table_incarnation)
    assert after.property("y").id == before.property("x").id
    assert after.property("z").id == accepted.next_identity_id
    assert identified.catalog.edges["F"].identity == accepted.edges["E"].identity
    assert identified.notes == ()


def test_an_exact_name_wins_over_a_hint():
    accepted = created("node A { x: String  y: String }\nnode B { x: String }")
    swapped = draft(
        'node A @rename_from("B") { x: String @rename_from("y")  y: String }\n'
        'node B @rename_from("A") { x: String }'
    )
    identified = identify_next(swapped, accepted)
    assert identified.catalog.nodes == accepted.nodes
    assert [(n.code, n.severity) for n in identified.notes] == [("S185", Severity.WARNING)] * 3


def test_dropping_and_adding_again_gives_new_ids():
    first = created("node A { x: String  y: I32? }\nnode B { z: I32? }")
    dropped = identify_next(draft("node A { x: String }"), first).catalog
    assert dropped.next_identity_id == first.next_identity_id
    again = identify_next(draft("node A { x: String  y: I32? }\nnode B { z: I32? }"), dropped)
    node = again.catalog.nodes["B"]
    new = {again.catalog.nodes["A"].property("y").id, node.property("z").id, node.id}
    new.add(node.table_incarnation)
    assert new == set(range(first.next_identity_id, first.next_identity_id + 4))


def test_new_properties_are_numbered_by_their_owners_id():
    accepted = created("node Z { a: String }\nnode B { a: String }")
    added = draft(
        "node A { n: String }\nnode B { a: String  m: I32? }\nnode Z { a: String  m: I32? }"
    )
    catalog = identify_next(added, accepted).catalog
    first = accepted.next_identity_id
    assert catalog.nodes["A"].id == first
    assert catalog.nodes["B"].property("m").id == first + 1
    assert catalog.nodes["Z"].property("m").id == first + 2
    assert catalog.nodes["A"].property("n").id == first + 3
    assert catalog.nodes["A"].table_incarnation == first + 4


def test_a_hint_of_an_interface_renames_what_it_injects_and_is_not_required_of_implementers():
    accepted = created("interface Named { name: String }\nnode Doc implements Named { k: String }")
    identified = identify_next(
        draft(
            'interface Named { label: String @rename_from("name") }\n'
            "node Doc implements Named { k: String }\nnode Tag implements Named { k: String }"
        ),
        accepted,
    )
    doc = identified.catalog.nodes["Doc"]
    assert doc.property("label").id == accepted.nodes["Doc"].property("name").id
    assert doc.property("label").satisfies == (accepted.interfaces["Named"].property("name").id,)
    assert identified.catalog.nodes["Tag"].property("label").id >= accepted.next_identity_id


def test_a_hint_of_an_interface_does_not_take_what_a_node_declares_itself():
    accepted = created(
        "interface Named { name: String? }\n"
        "node Doc implements Named { name: String? }\n"
        "node Tag implements Named { label: String? }"
    )
    catalog = identify_next(
        draft(
            'interface Named { label: String? @rename_from("name") }\n'
            "node Doc implements Named { name: String? }\n"
            "node Tag implements Named {}"
        ),
        accepted,
    ).catalog
    doc, tag = catalog.nodes["Doc"], catalog.nodes["Tag"]
    assert doc.property("name").id == accepted.nodes["Doc"].property("name").id
    assert doc.property("label").id == accepted.next_identity_id
    assert tag.property("label").id == accepted.nodes["Tag"].property("label").id


def test_a_hint_points_at_its_declaration():
    accepted = created("node A { x: String }")
    with pytest.raises(CompileError) as refused:
        identify_next(draft('node A { x: String\n  y: I32? @rename_from("ghost") }'), accepted)
    (found,) = refused.value.diagnostics
    assert (found.code, found.line, found.column) == ("S180", 2, 3)
    assert "y: I32?" in found.render()


def test_an_interface_can_continue_another_although_the_language_has_no_word_for_it():
    accepted = created("interface Named { name: String }\nnode Doc implements Named { k: String }")
    desired = draft("interface Titled { name: String }\nnode Doc implements Titled { k: String }")
    hinted = replace(desired, type_renames={(TypeKind.INTERFACE, "Titled"): "Named"})
    catalog = identify_next(hinted, accepted).catalog
    assert catalog.interfaces["Titled"].id == accepted.interfaces["Named"].id


def test_a_graph_that_has_used_up_its_ids_takes_no_new_declaration():
    accepted = replace(created("node A { x: String }"), next_identity_id=MAX_IDENTITY)
    assert identify_next(draft("node A { x: String }"), accepted).catalog == accepted
    with pytest.raises(ResourceLimitExceeded, match="identities"):
        identify_next(draft("node A { x: String  y: I32? }"), accepted)
