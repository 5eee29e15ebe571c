"""Commits and queries in one process, and how much memory that takes.

long_process.py PLACE COMMITS QUERIES. Print one line of JSON: the memory of the process at the end
and at its peak, in bytes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import omnigraph

SCHEMA = """
node Person { name: String @key  age: I64?  note: String? }
edge Knows: Person -> Person
"""
PEOPLE = 200
INSERT = "query q($n: String, $a: I64) { insert Person { name: $n, age: $a } }"
UPDATE = "query q($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
KNOW = "query q($n: String, $m: String) { insert Knows { from: $n, to: $m } }"
READ = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
COUNT = "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as s } }"
FRIENDS = "query q($n: String) { match { $p: Person { name: $n } $p knows $f } return { $f.name } }"


def held_bytes(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def run(place: str, commits: int, queries: int, report: int = 0) -> dict[str, int]:
    graph = omnigraph.init(place, SCHEMA)
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(PEOPLE)]
    graph.load(people, "append")
    for number in range(max(commits, queries)):
        name, other = f"p{number % PEOPLE}", f"p{number * 7 % PEOPLE}"
        if number < commits:
            match number % 3:
                case 0:
                    graph.mutate(INSERT, params={"n": f"n{number}", "a": number})
                case 1:
                    graph.mutate(UPDATE, params={"n": name, "a": number})
                case _:
                    graph.mutate(KNOW, params={"n": name, "m": other})
        if number < queries:
            match number % 3:
                case 0:
                    graph.query(READ, params={"n": name})
                case 1:
                    graph.query(COUNT)
                case _:
                    graph.query(FRIENDS, params={"n": name})
        if report and number % report == 0:
            print(number, held_bytes("VmRSS") >> 20, "MiB", file=sys.stderr, flush=True)
    return {"held": held_bytes("VmRSS"), "peak": held_bytes("VmHWM")}


if __name__ == "__main__":
    reported = run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int([*sys.argv, "0"][4]))
    print(json.dumps(reported))
