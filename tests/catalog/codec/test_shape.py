import pytest

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.schema_json import hash_shape
from omnigraph.language.source import SourceText

BASE = """
interface Named { name: String @index }
node Doc @description("d") @owner("a") implements Named {
  slug: String @key  pages: I32 @default(1)  state: enum(open, shut)?
  place: Vector(3)? @embed("name", model="m")
  @range(pages, 0..9)  @unique(pages, state)
}
edge Cites: Doc -> Doc @card(0..2) { page: I32? @index }
"""

PINNED = "sha256:26bee52cf44109fe3adcfe9a3e03451a586c3e58190b3998fbeae1892720a45d"


def hash_of(text: str) -> str:
    return hash_shape(compile_schema(SourceText(text)).catalog)


def test_the_hash_names_its_algorithm():
    algorithm, _, digest = hash_of(BASE).partition(":")
    assert (algorithm, len(digest)) == ("sha256", 64)
    assert hash_of("") == hash_of("// nothing")


def test_the_hash_stays_the_same_from_release_to_release():
    # A graph keeps this hash; if it must change, so must the format version of the state record.
    assert hash_of(BASE) == PINNED


def test_identities_do_not_change_the_shape():
    draft = compile_schema(SourceText(BASE))
    assert hash_shape(identify_first(draft, "D")) == hash_shape(draft.catalog)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("interface Named", "/* a remark */ interface Named"),
        ("name: String @index", 'name: String @index @rename_from("title")'),
        ("node Doc ", 'node Doc @rename_from("Page") '),
        ('@description("d") @owner("a")', '@owner("a") @description("d")'),
        ("enum(open, shut)", "enum(shut, open)"),
        ("@unique(pages, state)", "@unique(state, pages)"),
        ("@range(pages, 0..9)  @unique(pages, state)", "@unique(pages, state) @range(pages, 0..9)"),
        ("slug: String @key  pages: I32 @default(1)", "pages: I32 @default(1)  slug: String @key"),
    ],
)
def test_equal_meanings_have_equal_shapes(old, new):
    assert BASE.count(old) == 1
    assert hash_of(BASE.replace(old, new)) == hash_of(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: String @index", "name: String"),
        ("name: String @index", "name: String? @index"),
        ("@default(1)", "@default(2)"),
        ("@default(1)", ""),
        ('@description("d")', '@description("e")'),
        ('@owner("a")', '@owner("a", of="b")'),
        ("enum(open, shut)", "enum(open, shut, torn)"),
        ('model="m"', 'model="n"'),
        ("@range(pages, 0..9)", "@range(pages, 0..)"),
        ("slug: String @key", "slug: String  @key(slug)"),
        ("slug: String @key", "slug: String @key  name: String @index"),
        (" implements Named {", " { name: String @index"),
        ("@card(0..2)", "@card(0..3)"),
        ("{ page: I32? @index }", "{ page: I32? @index  @range(page, 1..) }"),
    ],
)
def test_different_meanings_have_different_shapes(old, new):
    assert BASE.count(old) == 1
    assert hash_of(BASE.replace(old, new)) != hash_of(BASE)
