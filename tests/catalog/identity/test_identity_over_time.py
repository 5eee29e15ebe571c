"""Identities over random schemas and random histories, against a dictionary that knows better."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.identity.random_schemas import Model, TypeThing
from omnigraph.catalog.assign_identities import identify_first, identify_next, list_types_by_owner
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.schema_json import hash_shape
from omnigraph.evolution.migration_plan import plan_migration
from omnigraph.language.source import SourceText

SEEDS = st.integers(min_value=0, max_value=2**32)


def ids_by_token(model: Model, catalog: Catalog) -> dict[tuple[str, int], int]:
    """Every id of the catalog under the token of the declaration it belongs to."""
    found: dict[tuple[str, int], int] = {}
    kinds: list[tuple[dict[str, TypeThing], object]] = [
        (model.interfaces, catalog.interfaces),
        (model.nodes, catalog.nodes),
        (model.edges, catalog.edges),
    ]
    for things, types in kinds:
        for name, thing in things.items():
            type_ = types[name]
            found["type", thing.token] = type_.id
            if hasattr(type_, "table_incarnation"):
                found["incarnation", thing.token] = type_.table_incarnation
            for property_name, property_ in thing.properties.items():
                found["property", property_.token] = type_.property(property_name).id
            for interface in thing.implements:
                for property_name, property_ in model.interfaces[interface].properties.items():
                    injected = type_.property(property_name)
                    found[f"injected into {thing.token}", property_.token] = injected.id
    return found


def all_ids(catalog: Catalog) -> list[int]:
    ids: list[int] = []
    for type_ in list_types_by_owner(catalog).values():
        ids += [type_.id, *(p.id for p in type_.properties)]
        ids += [type_.table_incarnation] if hasattr(type_, "table_incarnation") else []
    return ids


@given(SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_another_order_of_the_text_changes_neither_ids_nor_shape(seed, shuffle):
    model = Model(Random(seed))
    accepted = identify_first(compile_schema(SourceText(model.text())), "D")
    shuffled = compile_schema(SourceText(model.text(Random(shuffle))))
    assert identify_first(shuffled, "D") == accepted
    assert identify_next(shuffled, accepted).catalog == accepted
    assert hash_shape(shuffled.catalog) == hash_shape(accepted)
    assert plan_migration(accepted, shuffled).steps == ()


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_id_is_lost_or_used_again_over_a_history_of_edits(seed):
    model = Model(Random(seed))
    catalog = identify_first(compile_schema(SourceText(model.text())), "D")
    known = ids_by_token(model, catalog)
    used = set(all_ids(catalog))
    for _ in range(12):
        edit = model.edit()
        after = identify_next(compile_schema(SourceText(model.text())), catalog).catalog
        current = ids_by_token(model, after)
        for token, id_ in current.items():
            if token in known:
                assert id_ == known[token], edit
            else:
                assert id_ not in used, edit
        assert len(set(all_ids(after))) == len(all_ids(after)), edit
        fresh = set(all_ids(after)) - set(all_ids(catalog))
        assert not fresh & used, edit
        assert fresh == set(range(catalog.next_identity_id, after.next_identity_id)), edit
        known, used, catalog = known | current, used | fresh, after


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_plan_is_empty_exactly_when_nothing_changed(seed):
    model = Model(Random(seed))
    before = compile_schema(SourceText(model.text()))
    catalog = identify_first(before, "D")
    assert plan_migration(catalog, before).steps == ()
    for _ in range(8):
        edit = model.edit()
        draft = compile_schema(SourceText(model.text()))
        plan = plan_migration(catalog, draft)
        assert plan.plan.is_empty == (hash_shape(draft.catalog) == hash_shape(catalog)), edit
        assert not any("unclassified" in step.describe() for step in plan.steps), edit
        catalog = plan.catalog
