"""The door to Lance, and the only package that imports it. Above it the word is *table*.

A `Table` is one pinned version, read only (`handle`). Changes are staged (`stage`, `indices`,
`ledger`), which writes files nobody refers to, and then committed exactly at the next version or
not at all (`commit`). `branches` and `history` show what Lance keeps beside the rows, `maintain`
makes a table smaller and faster without changing what it says. Nothing here knows a schema
language, a catalog or what the rows of a manifest mean.
"""
