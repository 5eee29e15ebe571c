"""Seeded graphs as Arrow tables, equal to the last byte for the same seed and size.

`social` has the shape of the published social-network study, `documents` carries text and
vectors; `files` writes either as Parquet, CSV or the JSON lines that the graph loads.
"""
