"""Columns written by tasks of Spark are those written here."""

from __future__ import annotations

from evolution.library import changed, values


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
