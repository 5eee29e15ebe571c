"""Read plans to rows: scans, expansions and joins on integer codes, values fetched at the end.

Inside the operators a node or an edge is a number, its place among the entities its variable
ranges over; `entities` turns numbers into ids and properties, `row_blocks` is what flows between
the operators, and `executor` connects them. Tables are only ever read through `table_reader`.
"""
