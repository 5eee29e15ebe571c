import pytest

from bench.generators.documents import schema_text as documents_schema
from bench.generators.social import SCHEMA
from bench.systems import compile_ours, compile_scan, compile_sqlite
from bench.systems.compile_texts import QUERY_NAME, read_input, schema_text
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog

SPEC = {"parameters": {"repetitions": 2}}


@pytest.mark.parametrize("text", [SCHEMA, documents_schema(16)], ids=["social", "documents"])
def test_the_schemas_of_the_generators_compile(text):
    compile_catalog(SourceText(text))


def test_the_compile_suite_uses_the_social_schema():
    assert schema_text() == SCHEMA


def test_the_query_has_twenty_clauses():
    (query,) = parse_query_file(SourceText(read_input("query.gq"))).queries
    assert query.name == QUERY_NAME
    assert len(query.body.clauses) == 20


def test_all_compilers_see_the_same_columns():
    samples = [system.run(SPEC) for system in (compile_ours, compile_scan, compile_sqlite)]
    assert [sample["preview"] for sample in samples] == [
        ["person", "city", "friends", "mean_age"]
    ] * 3
    assert len({sample["result_hash"] for sample in samples}) == 1
    assert all(len(sample["timings"]["repeat"]) == 2 for sample in samples)
