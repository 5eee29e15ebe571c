"""A graph of ten million edges, and queries that say how much memory they took.

    python -m execution.read.large_graph make PLACE
    python -m execution.read.large_graph answer PLACE NAME

Each runs in a process of its own, so that the peak it reports is that of one query.
"""

from __future__ import annotations

import json
import resource
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph
from execution.physical_states import append_tables

SCHEMA = """
node Person { number: I64 @key  name: String  age: I32 }
edge Follows: Person -> Person { weight: F64 }
"""
PERSONS, EDGES, PORTIONS = 500_000, 10_000_000, 5
SEED = 20
STREAMED_ROWS = 5_000_000

QUERIES = {
    "most followed": """query q() {
        match { $a follows $b } return { $b.name, count($a) as n } order { n desc } limit 10 }""",
    "first by name": """query q() {
        match { $a: Person  $a follows $b  $b.age > 90 }
        return { $a.name, $b.name as followed } order { followed, $a.age desc } limit 10 }""",
    "heaviest edges": """query q() {
        match { $a $w:follows $b }
        return { $a, $b, $w.weight } order { $w.weight desc } limit 10 }""",
    "friends of friends": """query q() {
        match { $a: Person { number: 7 }  $a follows{1,2} $b }
        return { $b.name, $b.age } order { $b.age desc } limit 10 }""",
    "every pair": f"""query q() {{
        match {{ $a follows $b }} return {{ $a.name, $b, $b.age }} limit {STREAMED_ROWS} }}""",
}


def make(place: str) -> None:
    """Write the graph a part at a time, straight into its tables."""
    random = np.random.default_rng(SEED)
    omnigraph.init(place, SCHEMA)
    append_tables(place, {"Person": _persons(random)})
    for portion in range(PORTIONS):
        append_tables(place, {"Follows": _edges(random, portion)})


def _persons(random: np.random.Generator) -> pa.Table:
    numbers = np.arange(PERSONS)
    ids = pa.array(numbers).cast(pa.string())
    names = pc.binary_join_element_wise("Person", pa.array(numbers[::-1]).cast(pa.string()), " ")
    ages = pa.array(random.integers(0, 100, PERSONS), pa.int32())
    return pa.table({"id": ids, "number": numbers, "name": names, "age": ages})


def _edges(random: np.random.Generator, portion: int) -> pa.Table:
    count = EDGES // PORTIONS
    ids = np.arange(portion * count, (portion + 1) * count)
    # Squares of even numbers: a few persons are at the end of very many edges.
    ends = [(random.random(count) ** power * PERSONS).astype(np.int64) for power in (1, 2)]
    columns = [pa.array(values).cast(pa.string()) for values in (ids, *ends)]
    weights = pa.array(random.random(count))
    return pa.table([*columns, weights], names=["id", "src", "dst", "weight"])


def answer(place: str, name: str) -> dict[str, int]:
    """Read all batches of a query, keeping none: how many rows, and the peaks in bytes."""
    batches = omnigraph.open(place).query(QUERIES[name]).batches()
    rows = largest = first_peak = 0
    for batch in batches:
        rows, largest = rows + batch.num_rows, max(largest, batch.num_rows)
        first_peak = first_peak or _peak()
    return {"rows": rows, "largest_batch": largest, "first_peak": first_peak, "peak": _peak()}


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        print(json.dumps(answer(sys.argv[2], sys.argv[3])))
