from dataclasses import replace
from typing import Any

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import (
    Catalog,
    Constraint,
    ConstraintKind,
    DefaultValue,
    Draft,
    TypeKind,
    render_constraint,
)
from omnigraph.evolution.migration_plan import plan_migration
from omnigraph.evolution.migration_steps import AddConstraint, ConstraintDocument, UnsupportedChange
from omnigraph.language.source import SourceText


def draft(text: str) -> Draft:
    return compile_schema(SourceText(text, "schema.pg"))


def created(text: str) -> Catalog:
    return identify_first(draft(text), "D")


def test_a_plan_leads_to_a_catalog_with_the_accepted_identity_domain():
    found = plan_migration(created("node A { x: String }"), draft("node A { x: String  y: I32? }"))
    assert found.catalog.identity_domain == "D"
    assert found.catalog.nodes["A"].property("y").id == 4
    plan = found.plan
    assert plan.wire() == {
        "supported": True,
        "step_count": 1,
        "steps": [plan.steps[0].wire()],
        "notes": [],
    }
    assert plan.first_unsupported is None


def test_a_plan_reports_its_effects_before_it_is_applied():
    accepted = created("node A { x: String  y: I32? }")
    plan = plan_migration(accepted, draft('node A @rename_from("B") { x: String @uniqe }'))
    wire: dict[str, Any] = plan.plan.wire()
    assert [(n["severity"], n["code"]) for n in wire["notes"]] == [
        ("warning", "S190"),
        ("warning", "S185"),
        ("info", "OG-DS-104"),
    ]


def test_a_plan_does_not_change_its_input():
    accepted = created("node A { x: String }")
    plan_migration(accepted, draft("node B { x: String }"))
    assert accepted == created("node A { x: String }")


def test_an_interface_that_would_be_renamed_is_refused():
    accepted = created("interface Named { name: String }\nnode Doc implements Named { k: String }")
    desired = draft("interface Titled { name: String }\nnode Doc implements Titled { k: String }")
    hinted = replace(desired, type_renames={(TypeKind.INTERFACE, "Titled"): "Named"})
    (step,) = plan_migration(accepted, hinted).steps
    assert isinstance(step, UnsupportedChange)
    assert step.entity == "interface:Titled"
    assert "renaming interfaces" in step.reason


def test_a_difference_no_rule_knows_is_not_passed_over():
    text = 'node Doc { text: String  place: Vector(3)? @embed("text") }'
    accepted = created(text)
    doc = accepted.nodes["Doc"]
    place = doc.property("place")
    misnamed = replace(place, embed=replace(place.embed, source="other"))
    properties = tuple(misnamed if p is place else p for p in doc.properties)
    accepted = replace(accepted, nodes={"Doc": replace(doc, properties=properties)})
    (step,) = plan_migration(accepted, draft(text)).steps
    assert isinstance(step, UnsupportedChange)
    assert "unclassified" in step.reason


def test_a_default_that_changes_only_its_json_type_is_a_change():
    text = "node Doc { n: F64 @default(1.0) }"
    accepted = created(text)
    doc = accepted.nodes["Doc"]
    (number,) = doc.properties
    whole = replace(number, default=DefaultValue(1))
    accepted = replace(accepted, nodes={"Doc": replace(doc, properties=(whole,))})
    (step,) = plan_migration(accepted, draft(text)).steps
    assert step.wire()["annotations"] == [{"name": "default", "value": "1.0"}]


def test_every_kind_of_constraint_has_a_json_form_and_a_spelling():
    kinds = [
        (Constraint(ConstraintKind.KEY, ("a", "b")), {"Key": ["a", "b"]}, "@key(a, b)"),
        (Constraint(ConstraintKind.UNIQUE, ("a",)), {"Unique": ["a"]}, "@unique(a)"),
        (Constraint(ConstraintKind.INDEX, ("a",)), {"Index": ["a"]}, "@index(a)"),
        (
            Constraint(ConstraintKind.RANGE, ("a",), low="1", high=None),
            {"Range": {"property": "a", "min": "1", "max": None}},
            "@range(a, 1..)",
        ),
        (
            Constraint(ConstraintKind.CHECK, ("a",), pattern='"é'),
            {"Check": {"property": "a", "pattern": '"é'}},
            '@check(a, "\\"é")',
        ),
    ]
    for constraint, as_json, spelled in kinds:
        step = AddConstraint(TypeKind.NODE, "Doc", ConstraintDocument.of(constraint))
        assert step.wire()["constraint"] == as_json
        assert step.constraint.read() == constraint
        assert render_constraint(constraint) == spelled


def test_an_annotation_with_keywords_shows_them():
    accepted = created("node Doc { a: String? }")
    desired = draft('node Doc { a: String? @description("x", lang="en") }')
    (step,) = plan_migration(accepted, desired).steps
    assert step.wire()["annotations"] == [
        {"name": "description", "value": "x", "kwargs": {"lang": "en"}}
    ]
