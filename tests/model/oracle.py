"""A graph that fits in a dictionary: what every write should do, decided without the engine.

A state is `{table: {id: row}}` with plain Python values, `src` and `dst` among those of an edge.
Operations are plain values too, so that another process can receive them:

    {"do": "mutate", "statements": [...]}     insert, merge, update and delete, in order
    {"do": "load", "mode": ..., "records": [...]}

`predict` returns the state afterwards, or the kind of refusal. Ids minted by the engine are
unknown here; rows that get one are listed separately as `fresh`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = """\
node Person {
  slug: String @key
  name: String
  email: String?
  age: I32?
  mood: enum(calm, wild)?
  @unique(email)  @range(age, 0..150)
}
node Note { text: String  rank: I32 @default(3) }
edge Knows: Person -> Person @card(0..2) { since: I32?  kind: enum(old, new)? }
edge Wrote: Person -> Note { role: String?  @unique(src, dst) }
edge Likes: Person -> Note @card(1..2) { since: I32? }
"""

NODES = ("Person", "Note")
EDGES = {
    "Knows": ("Person", "Person", 0, 2),
    "Wrote": ("Person", "Note", 0, None),
    "Likes": ("Person", "Note", 1, 2),
}
TABLES = (*NODES, *EDGES)
PROPERTIES = {
    "Person": {"slug": None, "name": None, "email": None, "age": None, "mood": None},
    "Note": {"text": None, "rank": 3},
    "Knows": {"src": None, "dst": None, "since": None, "kind": None},
    "Wrote": {"src": None, "dst": None, "role": None},
    "Likes": {"src": None, "dst": None, "since": None},
}
ENUMS = {("Person", "mood"): ("calm", "wild"), ("Knows", "kind"): ("old", "new")}
UNIQUE: dict[str, list[tuple[str, ...]]] = {"Person": [("email",)], "Wrote": [("src", "dst")]}

Row = dict[str, object]
State = dict[str, dict[str, Row]]


class Refused(Exception):
    """The write must be refused, for one of these reasons."""

    def __init__(self, *kinds: str) -> None:
        super().__init__(kinds)
        self.kinds = kinds

    @property
    def is_about_text(self) -> bool:
        """Return whether the text itself is refused, regardless of the content of the graph."""
        return "mixed" in self.kinds


@dataclass
class Change:
    """The rows a write leaves in one table."""

    rows: dict[str, Row] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    replaces_all: bool = False

    def is_empty(self) -> bool:
        return not self.rows and not self.deleted and not self.replaces_all

    def applied(self, before: dict[str, Row]) -> dict[str, Row]:
        kept = {} if self.replaces_all else before
        rows = {id: row for id, row in kept.items() if id not in self.deleted}
        return rows | self.rows


@dataclass
class Outcome:
    """The state after an accepted write; `commits` is False if nothing had to be written."""

    state: State
    commits: bool
    affected: tuple[int, int] | None = None
    is_about_text = False


FRESH = "fresh-"
"""The prefix of placeholders of ids minted by the engine."""


def empty() -> State:
    return {table: {} for table in TABLES}


def predict(state: State, operation: dict) -> Outcome | Refused:
    """The state after an operation, or why it must be refused."""
    try:
        if operation["do"] == "mutate":
            return _mutate(state, operation["statements"])
        return _load(state, operation["mode"], operation["records"])
    except Refused as refused:
        return refused


# --- mutations ----------------------------------------------------------------------------------


def _mutate(state: State, statements: list[dict]) -> Outcome:
    deletes = ["delete" in statement for statement in statements]
    if any(deletes) and not all(deletes):
        raise Refused("mixed")
    changes = {table: Change() for table in TABLES}
    affected = {"node": 0, "edge": 0}
    for number, statement in enumerate(statements):
        for table, count in _statement(state, changes, statement, number):
            affected["node" if table in NODES else "edge"] += count
    counts = (affected["node"], affected["edge"])
    used = {table: change for table, change in changes.items() if not change.is_empty()}
    if not used:
        return Outcome(state, commits=False, affected=counts)
    check(state, used)
    return Outcome(_applied(state, used), commits=True, affected=counts)


def _statement(state: State, changes: dict[str, Change], statement: dict, number: int):
    table = next(
        statement[word] for word in ("insert", "merge", "update", "delete") if word in statement
    )
    change = changes[table]
    visible = state[table] | change.rows
    if "insert" in statement or "merge" in statement:
        values = statement["values"]
        id = values["slug"] if table == "Person" else f"{FRESH}{number}"
        base = PROPERTIES[table]
        if "merge" in statement:
            base = visible.get(id, base)
        change.rows[id] = dict(base) | values
        yield table, 1
    elif "update" in statement:
        matched = [id for id, row in visible.items() if holds(row, statement["where"])]
        for id in matched:
            change.rows[id] = visible[id] | statement["set"]
        yield table, len(matched)
    else:
        matched = {id for id, row in state[table].items() if holds(row, statement["where"])}
        new = matched - change.deleted
        change.deleted |= new
        yield table, len(new)
        if table in NODES:
            for edge, (source, target, *_) in EDGES.items():
                gone = {
                    id
                    for id, row in state[edge].items()
                    if (source == table and row["src"] in new)
                    or (target == table and row["dst"] in new)
                } - changes[edge].deleted
                changes[edge].deleted |= gone
                yield edge, len(gone)


def holds(row: Row, where: list) -> bool:
    """Return whether a condition is true for a row; with NULL on either side none is."""
    name, op, wanted = where
    value = row[{"from": "src", "to": "dst"}.get(name, name)]
    if value is None or wanted is None:
        return False
    return {
        "=": value == wanted,
        "!=": value != wanted,
        "<": value < wanted,
        ">": value > wanted,
        "<=": value <= wanted,
        ">=": value >= wanted,
    }[op]


# --- loads --------------------------------------------------------------------------------------


def _load(state: State, mode: str, records: list[dict]) -> Outcome:
    changes: dict[str, Change] = {}
    early: list[str] = []
    for number, record in enumerate(records):
        table = record.get("type") or record["edge"]
        change = changes.setdefault(table, Change(replaces_all=mode == "overwrite"))
        row = dict(PROPERTIES[table]) | record.get("data", {})
        given = row.pop("id", None)
        if table in EDGES:
            row |= {"src": record["from"], "dst": record["to"]}
        id = row["slug"] if table == "Person" else given or f"{FRESH}{number}"
        if table == "Wrote" and mode == "merge" and given is None:
            id = _find_matched(state[table], row)
        if id in change.rows:
            if table == "Person":
                early.append("unique_violation")
            elif mode != "merge":
                early.append("KeyConflict")
        change.rows.pop(id, None)  # the last one counts, and stands where the last one stood
        change.rows[id] = row
    if early:
        raise Refused(*early)
    for table, change in changes.items():
        if change.replaces_all:
            change.deleted = set(state[table]) - set(change.rows)
    check(state, changes)
    if mode == "append" and any(set(c.rows) & set(state[t]) for t, c in changes.items()):
        raise Refused("KeyConflict")
    return Outcome(_applied(state, changes), commits=bool(changes))


def _find_matched(stored: dict[str, Row], row: Row) -> str:
    """The id of an edge that may be there once between two nodes."""
    ends = (row["src"], row["dst"])
    found = (id for id, one in stored.items() if (one["src"], one["dst"]) == ends)
    return next(found, f"{FRESH}{ends}")


def _applied(state: State, changes: dict[str, Change]) -> State:
    return state | {table: change.applied(state[table]) for table, change in changes.items()}


# --- rules --------------------------------------------------------------------------------------


def check(before: State, changes: dict[str, Change]) -> None:
    """Raise the first kind of rule that is broken: values, uniqueness, ends, cardinality."""
    after = _applied(before, changes)
    if any(_breaks_values(table, row) for table, c in changes.items() for row in c.rows.values()):
        raise Refused("value_constraint_violation")
    if any(_breaks_uniqueness(table, c, before) for table, c in changes.items()):
        raise Refused("unique_violation")
    if any(_has_loose_end(edge, row, after) for edge in EDGES for row in after[edge].values()):
        raise Refused("orphan_edge")
    if any(_breaks_cardinality(edge, before, after, changes) for edge in EDGES if edge in changes):
        raise Refused("cardinality_violation")


def _breaks_values(table: str, row: Row) -> bool:
    if table == "Person" and row["age"] is not None and not 0 <= row["age"] <= 150:
        return True
    return any(
        table == of and row[name] is not None and row[name] not in members
        for (of, name), members in ENUMS.items()
    )


def _breaks_uniqueness(table: str, change: Change, before: State) -> bool:
    for columns in UNIQUE.get(table, []):
        written = [tuple(row[c] for c in columns) for row in change.rows.values()]
        written = [values for values in written if None not in values]
        if len(set(written)) < len(written):
            return True
        kept = {} if change.replaces_all else before[table]
        others = {
            tuple(row[c] for c in columns)
            for id, row in kept.items()
            if id not in change.rows and id not in change.deleted
        }
        if others & set(written):
            return True
    return False


def _has_loose_end(edge: str, row: Row, after: State) -> bool:
    source, target, *_ = EDGES[edge]
    return row["src"] not in after[source] or row["dst"] not in after[target]


def _breaks_cardinality(edge: str, before: State, after: State, changes: dict[str, Change]) -> bool:
    source, _, least, most = EDGES[edge]
    change = changes[edge]
    gone = set(change.rows) | change.deleted
    touched = {row["src"] for row in change.rows.values()}
    touched |= {row["src"] for id, row in before[edge].items() if id in gone}
    if source in changes:
        touched -= changes[source].deleted
    counts = dict.fromkeys(touched, 0)
    for row in after[edge].values():
        if row["src"] in counts:
            counts[row["src"]] += 1
    return any(n < least or (most is not None and n > most) for n in counts.values())
