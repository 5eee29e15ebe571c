"""Columns written by tasks of Spark are those written here."""

from __future__ import annotations

from contextlib import ExitStack

from evolution.beside import APPLIES, started
from evolution.library import SCHEMA, changed, values
from omnigraph.errors import ReadSetChanged


def test_a_column_is_filled_by_tasks_of_spark(library, spark):
    for number in range(3):  # a fragment each
        library.load(
            [{"type": "Book", "data": {"slug": f"s{number}", "title": "T", "pages": number}}],
            "append",
        )
    library.mutate('query q() { delete Book where slug = "s1" }')
    wanted = changed("pages: I32?", "pages: I64?  stock: I32 @default(3)  size: F64?")
    done = library.apply_schema(
        wanted,
        expressions={"Book.size": "cast(pages as double) * 0.5"},
        engine="spark",
        session=spark,
    )
    assert done.applied
    assert values(library, "Book", "stock") == [3] * 8
    pages = [0, 100, 200, 300, 400, 500, 0, 2]
    assert values(library, "Book", "pages") == pages
    assert values(library, "Book", "size") == [page * 0.5 for page in pages]
    assert library.verify(deep=True).findings == ()


def test_loads_through_spark_beside_applies_never_mix_two_schemas(library, library_place, spark):
    versions = [
        changed("pages: I32?", "pages: I32?  stock: I32 @default(3)"),
        changed("pages: I32?", "pages: I64?  stock: I32 @default(3)"),
        changed("pages: I32?", "pages: I64?"),
        SCHEMA.replace("pages: I32?", "pages: I64?") + "node Shop { name: String @key }\n",
    ]
    wrote, refused = {f"b{n}" for n in range(6)}, []
    with ExitStack() as stack:
        applying = stack.enter_context(started(APPLIES, library_place, *versions))
        number = 0
        while applying.poll() is None or not number:
            slugs = {f"s{number}-{n}" for n in range(5)}
            books = [{"type": "Book", "data": {"slug": slug, "title": "T"}} for slug in slugs]
            try:
                library.load(books, "append", engine="spark", session=spark)
                wrote |= slugs
            except ReadSetChanged as error:
                refused.append(error.member)
            number += 1
        said = applying.communicate(timeout=600)[0]
    assert applying.returncode == 0, said
    assert set(refused) <= {"schema_contract"}
    assert set(values(library, "Book", "slug")) == wrote
    assert library.schema == versions[-1]
    assert library.verify(deep=True).findings == ()
