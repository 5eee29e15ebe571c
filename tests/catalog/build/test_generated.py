from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.build.schema_strategies import reordered, valid_schemas
from omnigraph.catalog.build import build_draft, compile_schema
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_schema


@given(valid_schemas())
def test_a_valid_schema_compiles(file):
    draft = compile_schema(SourceText(print_schema(file)))
    assert draft.warnings == ()


@given(st.data())
def test_the_order_of_a_text_does_not_matter(data):
    file = data.draw(valid_schemas())
    source = SourceText(print_schema(file))
    draft = compile_schema(source)
    again = build_draft(data.draw(reordered(file)), source)
    assert again.catalog == draft.catalog
    assert again.type_renames == draft.type_renames
    assert again.property_renames == draft.property_renames
    for ours, theirs in (
        (draft.catalog.interfaces, again.catalog.interfaces),
        (draft.catalog.nodes, again.catalog.nodes),
        (draft.catalog.edges, again.catalog.edges),
    ):
        assert list(ours) == list(theirs) == sorted(ours)
