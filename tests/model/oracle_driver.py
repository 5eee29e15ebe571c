"""Carrying out the oracle's operations on a real graph, and reading it back as a state."""

from __future__ import annotations

from model.oracle import EDGES, FRESH, PROPERTIES, State, empty
from omnigraph import Graph
from omnigraph.errors import CompileError, ConstraintViolated, OmniError

TYPES = {
    "slug": "String",
    "name": "String",
    "email": "String?",
    "age": "I32?",
    "mood": "String?",
    "text": "String",
    "rank": "I32",
    "from": "String",
    "to": "String",
    "since": "I32?",
    "kind": "String?",
    "role": "String?",
}


class Refusal(Exception):
    """A refusal of the engine, in the oracle's words."""

    def __init__(self, kind: str, error: OmniError) -> None:
        super().__init__(f"{kind}: {error}")
        self.kind = kind


def carry_out(graph: Graph, operation: dict, branch: str, expected_head: str | None = None):
    """Run one operation; gives the engine's result or raises `Refusal`."""
    try:
        if operation["do"] == "mutate":
            text, params = mutation_text(operation["statements"])
            return graph.mutate(text, params=params, branch=branch, expected_head=expected_head)
        records, mode = operation["records"], operation["mode"]
        return graph.load(records, mode, branch=branch, expected_head=expected_head)
    except OmniError as error:
        raise Refusal(kind_of(error), error) from error


def kind_of(error: OmniError) -> str:
    if isinstance(error, ConstraintViolated):
        return str(error.violations[0].kind)
    if isinstance(error, CompileError):
        return "mixed" if "mixes inserts/updates and deletes" in str(error) else "CompileError"
    return type(error).__name__


def mutation_text(statements: list[dict]) -> tuple[str, dict[str, object]]:
    """The statements as a query whose every value is a parameter."""
    declared: list[str] = []
    params: dict[str, object] = {}

    def value(name: str, given: object, *, is_condition: bool = False) -> str:
        parameter = f"p{len(params)}"
        params[parameter] = given
        type_ = TYPES[name].rstrip("?") + "?" if is_condition else TYPES[name]
        declared.append(f"${parameter}: {type_}")
        return f"${parameter}"

    def assigned(values: dict) -> str:
        words = {"src": "from", "dst": "to"}
        named = {words.get(name, name): given for name, given in values.items()}
        return ", ".join(f"{name}: {value(name, given)}" for name, given in named.items())

    lines = []
    for statement in statements:
        match statement:
            case {"insert": table, "values": values}:
                lines.append(f"insert {table} {{ {assigned(values)} }}")
            case {"merge": table, "values": values}:
                lines.append(f"merge {table} {{ {assigned(values)} }}")
            case {"update": table, "set": values, "where": (name, op, wanted)}:
                condition = f"{name} {op} {value(name, wanted, is_condition=True)}"
                lines.append(f"update {table} set {{ {assigned(values)} }} where {condition}")
            case {"delete": table, "where": (name, op, wanted)}:
                condition = f"{name} {op} {value(name, wanted, is_condition=True)}"
                lines.append(f"delete {table} where {condition}")
    body = "\n  ".join(lines)
    return f"query q({', '.join(declared)}) {{\n  {body}\n}}", params


def read_state(records) -> State:
    """An export as a state."""
    state = empty()
    for record in records:
        table = record.get("type") or record["edge"]
        row = dict(record["data"])
        id = row.pop("id")
        if table in EDGES:
            row |= {"src": record["from"], "dst": record["to"]}
        assert set(row) == set(PROPERTIES[table]), f"columns of {table}: {sorted(row)}"
        assert id not in state[table], f"{table} has {id} twice"
        state[table][id] = row
    return state


def difference(expected: State, found: State) -> str | None:
    """Return how two states differ, or None. Placeholders of generated ids match any new id."""
    for table, rows in expected.items():
        known = {id: row for id, row in rows.items() if not id.startswith(FRESH)}
        minted = sorted(
            repr(sorted(row.items(), key=str)) for id, row in rows.items() if id not in known
        )
        there = {id: row for id, row in found[table].items() if id in known}
        new = sorted(
            repr(sorted(row.items(), key=str))
            for id, row in found[table].items()
            if id not in known
        )
        if known != there:
            odd = {id for id in known | there if known.get(id) != there.get(id)}
            return f"{table}: {[(id, known.get(id), there.get(id)) for id in sorted(odd)]}"
        if minted != new:
            return f"{table}: expected new rows {minted}, found {new}"
    return None
