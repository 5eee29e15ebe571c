"""The only package that imports Lance. Above it the word is *table*.

A `Table` is one pinned version, read only (`table`). Changes are staged (`stage_table`,
`indices`, `ledger`), which writes unreferenced files, and then committed exactly at the next
version or not at all (`commit`). `lance_branches` and `history` show what Lance keeps besides the
rows, `compaction` merges fragments without changing rows. Nothing here knows a schema language, a
catalog or what the rows of a manifest mean.
"""
