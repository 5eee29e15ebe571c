"""A graph as plain Python values: its rows, and what every write does to them.

A state is `{table: {id: row}}`. States are never changed: a write gives another one, so that
whatever was read earlier can be compared with the state it was read from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from reads.read_conditions import Condition, Row, holds

State = dict[str, dict[str, Row]]
Record = dict[str, object]

NODES = ("Person", "Note")
EDGES = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Note")}
TABLES = (*NODES, *EDGES)

WORDS = ("ember", "tide", "dub", "quartz", "velvet")
TEAMS = ("amber", "azure", "blue", "coral")
AGES = tuple(range(12))

COLUMNS = {
    "Person": ("id", "key", "age", "team", "bio", "spot"),
    "Note": ("id", "key", "rank"),
    "Knows": ("id", "src", "dst", "since"),
    "Wrote": ("id", "src", "dst"),
}
VALUES: dict[str, dict[str, tuple[object, ...]]] = {
    "Person": {"age": AGES, "team": TEAMS, "id": ("p1", "p2", "p13", "p20")},
    "Note": {"rank": AGES, "id": ("n1", "n2", "n11")},
    "Knows": {"since": AGES, "src": ("p1", "p2", "p3"), "dst": ("p1", "p2", "p3")},
    "Wrote": {"src": ("p1", "p2", "p3"), "dst": ("n1", "n2")},
}
"""The values that conditions compare each column with."""

SCHEMAS = tuple(
    f"""\
node Person {{
  key: String @key
  age: {age}? @index
  team: String?{index}
  bio: String?{index}
  spot: Vector(2)?{index}
}}
node Note {{ key: String @key  rank: I32?{index} }}
edge Knows: Person -> Person {{ since: I32?{index} }}
edge Wrote: Person -> Note
"""
    for age, index in (("I32", " @index"), ("I64", ""), ("F64", " @index"))
)
"""Equal types, three times; created again, a type has its columns in other Lance types."""


def empty() -> State:
    return {table: {} for table in TABLES}


def make_row(random: Random, table: str, id: str, state: State) -> Row | None:
    """Random values; None for an edge that has no ends yet."""
    if table == "Person":
        bio = " ".join(random.choices(WORDS, k=random.randint(1, 3)))
        spot = [float(random.randrange(40)), float(random.randrange(40))]
        return {
            "id": id,
            "key": id,
            "age": _perhaps(random, random.choice(AGES)),
            "team": _perhaps(random, random.choice(TEAMS)),
            "bio": _perhaps(random, bio),
            "spot": _perhaps(random, spot),
        }
    if table == "Note":
        return {"id": id, "key": id, "rank": _perhaps(random, random.choice(AGES))}
    sources, targets = (list(state[type_]) for type_ in EDGES[table])
    if not sources or not targets:
        return None
    row: Row = {"id": id, "src": random.choice(sources), "dst": random.choice(targets)}
    return row | ({"since": _perhaps(random, random.choice(AGES))} if table == "Knows" else {})


def _perhaps(random: Random, value: object) -> object:
    return None if random.random() < 0.15 else value


def as_record(table: str, row: Row) -> Record:
    if table in NODES:
        return {"type": table, "data": {name: v for name, v in row.items() if name != "id"}}
    data = {name: value for name, value in row.items() if name not in ("src", "dst")}
    return {"edge": table, "from": row["src"], "to": row["dst"], "data": data}


def with_rows(state: State, rows: dict[str, dict[str, Row]], *, replacing: bool = False) -> State:
    """Rows put into tables by their ids; `replacing` empties each of these tables first."""
    kept = {table: {} if replacing else state[table] for table in rows}
    return state | {table: kept[table] | rows[table] for table in rows}


def updated(state: State, table: str, change: Row, where: Condition) -> State:
    rows = {id: row | change if holds(where, row) else row for id, row in state[table].items()}
    return state | {table: rows}


def without(state: State, table: str, where: Condition) -> State:
    """Without the rows a condition holds for, and without the edges at nodes among them."""
    kept = {id: row for id, row in state[table].items() if not holds(where, row)}
    left = state | {table: kept}
    for edge, (source, target) in EDGES.items():
        if table in (source, target):
            left[edge] = {
                id: row
                for id, row in left[edge].items()
                if row["src"] in left[source] and row["dst"] in left[target]
            }
    return left


@dataclass
class Line:
    """A live branch: one incarnation of its name."""

    incarnation: int
    state: State
    moves: int = 0
    """The number of its commits."""


@dataclass(frozen=True)
class Known:
    """A commit that was seen as the head of a branch."""

    commit_id: str
    branch: str
    incarnation: int
    moves: int
    state: State


@dataclass
class World:
    """The expected graph at the address. `graph_number` counts the graphs created there."""

    graph_number: int
    branches: dict[str, Line]
    commits: list[Known] = field(default_factory=list)
    cleaned: dict[int, int] = field(default_factory=dict)
    """By incarnation: commits before this move may have lost their files."""

    def copy(self) -> World:
        """Another world that has come to the same; states are never changed, so they are shared."""
        branches = {name: replace(line) for name, line in self.branches.items()}
        return World(self.graph_number, branches, list(self.commits), dict(self.cleaned))

    def line_of(self, incarnation: int) -> Line | None:
        return next((b for b in self.branches.values() if b.incarnation == incarnation), None)

    def must_be_there(self, graph_number: int, incarnation: int, moves: int) -> bool:
        """Return whether a state can be read for certain: none of its files was removed."""
        is_live = self.graph_number == graph_number and self.line_of(incarnation) is not None
        return is_live and moves >= self.cleaned.get(incarnation, 0)
