from pathlib import Path

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog, DeclaredIndex, IndexKind, index_kinds, list_indexes
from omnigraph.language.source import SourceText
from omnigraph.types.property import PropertyType, Scalar

MUSIC = (Path(__file__).parents[2] / "cases" / "migration" / "music.pg").read_text()


def created(text: str) -> Catalog:
    return identify_first(compile_schema(SourceText(text)), "D")


def indexes(type_) -> list[tuple[str, str]]:
    assert all(len(index.columns) == 1 for index in list_indexes(type_))
    return [(index.columns[0], str(index.kind)) for index in list_indexes(type_)]


def test_every_table_wants_a_tree_on_its_ids():
    catalog = created(MUSIC)
    assert indexes(catalog.edges["Sampled"]) == [
        ("id", "btree"),
        ("src", "btree"),
        ("dst", "btree"),
    ]
    assert list_indexes(catalog.nodes["Take"]) == (DeclaredIndex(("id",), IndexKind.BTREE),)


def test_a_text_key_is_found_by_word_and_by_value():
    assert indexes(created(MUSIC).nodes["Artist"]) == [
        ("id", "btree"),
        ("name", "full_text"),
        ("slug", "full_text"),
        ("slug", "btree"),
    ]


def test_the_kind_of_an_index_follows_the_type():
    catalog = created(
        "node A { k: I64 @key  a: String? @index  b: enum(x, y)? @index  c: Bool? @index  d: F32?"
        "  e: Date?  f: DateTime? @index  g: Vector(3)? @index  h: U64? @index  i: String?"
        "  @index(d)  @index(e)  @index(a, b)  @unique(i) }"
    )
    assert indexes(catalog.nodes["A"]) == [
        ("id", "btree"),
        ("a", "full_text"),
        ("b", "btree"),
        ("c", "btree"),
        ("d", "btree"),
        ("e", "btree"),
        ("f", "btree"),
        ("g", "vector"),
        ("h", "btree"),
        ("k", "btree"),
    ]


def test_lists_and_blobs_have_no_index():
    assert index_kinds(PropertyType(Scalar.STRING, is_list=True)) == ()
    assert index_kinds(PropertyType(Scalar.BLOB)) == ()


def test_an_enum_key_needs_one_index_only():
    catalog = created("node A { k: enum(x, y) @key }")
    assert indexes(catalog.nodes["A"]) == [("id", "btree"), ("k", "btree")]


def test_an_index_declared_twice_is_built_once():
    catalog = created("node A { k: I32 @key  b: I32? @index  @index(b)  @index(k) }")
    assert indexes(catalog.nodes["A"]) == [("id", "btree"), ("b", "btree"), ("k", "btree")]


def test_properties_of_edges_are_indexed_too():
    catalog = created(
        "node A {}\nedge E: A -> A { w: F64? @index  t: String?  @index(t)  @index(src) }"
    )
    assert indexes(catalog.edges["E"]) == [
        ("id", "btree"),
        ("src", "btree"),
        ("dst", "btree"),
        ("t", "full_text"),
        ("w", "btree"),
    ]
