"""A program of its own: whom a person follows, from two Lance tables and nothing above them.

Started as `python bare_traversal.py FOLLOWS PERSONS ID`; prints the rows as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import lance
import pyarrow as pa


def followed(follows: str, persons: str, person: str) -> list[Mapping[str, object]]:
    """The number and the name of everyone whom `person` follows."""
    edges = lance.dataset(follows).to_table(columns=["dst"], filter=f"src = '{person}'")
    people = lance.dataset(persons).to_table(columns=["id", "number", "name"])
    ends = pa.table({"id": edges["dst"].combine_chunks()})
    met = ends.join(people, "id", join_type="inner")
    rows: list[Mapping[str, object]] = met.select(["number", "name"]).to_pylist()
    return rows


if __name__ == "__main__":
    print(json.dumps(followed(*sys.argv[1:])))
