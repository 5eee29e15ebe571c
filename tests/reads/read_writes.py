"""Changes of a graph, applied to the graph and to the rows in plain Python."""

from __future__ import annotations

from random import Random

from omnigraph.errors import ConflictError
from omnigraph.graph.engines import ModeName
from omnigraph.graph.graph import Graph
from reads.read_conditions import Condition, Row, make_condition
from reads.read_model import (
    NODES,
    TABLES,
    TEAMS,
    VALUES,
    Known,
    Line,
    State,
    World,
    as_record,
    empty,
    make_row,
    updated,
    with_rows,
    without,
)

BRANCHES = ("dev", "trial")

LOADED = (TABLES, ("Person", "Knows"), ("Person",), ("Note", "Wrote"), ("Knows",), ("Note",))
"""The tables that a load writes; one into an empty graph writes all."""
PREFIXES = {"Person": "p", "Note": "n", "Knows": "k", "Wrote": "w"}
SHARES = {"Person": 1.0, "Note": 0.5, "Knows": 1.0, "Wrote": 0.4}


class Writer:
    """A graph and the world it should show; every method but those with `_` is a kind of step."""

    graph: Graph
    world: World
    incarnations: int

    def _branch(self, random: Random) -> str:
        return random.choice(["main", "main", *self.world.branches])

    # --- writing ---------------------------------------------------------------------------------

    def append(self, random: Random) -> str:
        return self._append(random, self._branch(random), random.choice([3, 12, 40]))

    def _append(self, random: Random, branch: str, count: int) -> str:
        return self._load(random, branch, "append", count)

    def merge(self, random: Random) -> str:
        return self._load(random, self._branch(random), "merge", random.choice([2, 8, 20]))

    def overwrite(self, random: Random) -> str:
        """Everything is replaced, so that no edge is left without its ends."""
        return self._load(random, self._branch(random), "overwrite", random.choice([6, 25]))

    def _load(self, random: Random, branch: str, mode: ModeName, count: int) -> str:
        line = self.world.branches[branch]
        base = empty() if mode == "overwrite" else line.state
        rows: dict[str, dict[str, Row]] = {}
        tables = random.choice(LOADED) if base["Person"] else TABLES
        for table in tables:
            prefix, share = PREFIXES[table], SHARES[table]
            wanted = [f"{prefix}{number}" for number in range(60)]
            if mode == "append":
                wanted = [id for id in wanted if id not in base[table]]
            visible = with_rows(base, rows)
            for id in random.sample(wanted, min(len(wanted), max(1, int(count * share)))):
                row = make_row(random, table, id, visible)
                if row is not None:
                    rows.setdefault(table, {})[id] = row
        records = [as_record(table, row) for table in rows for row in rows[table].values()]
        if not records:
            return "no room for more"
        done = self.graph.load(records, mode, branch=branch)
        self._moved(branch, with_rows(line.state, rows, replacing=mode == "overwrite"), done.commit)
        return f"{mode} {len(records)} records on {branch}"

    def insert(self, random: Random) -> str | None:
        branch = self._branch(random)
        state = self.world.branches[branch].state
        free = [f"p{n}" for n in range(90) if f"p{n}" not in state["Person"]]
        row = make_row(random, "Person", random.choice(free), state)
        assert row is not None, "a node needs no ends"
        values = {name: value for name, value in row.items() if name != "id" and value is not None}
        types = {"key": "String", "age": "I32", "team": "String", "bio": "String"}
        types["spot"] = "Vector(2)"
        parameters = ", ".join(f"${name}: {types[name]}" for name in values)
        assigned = ", ".join(f"{name}: ${name}" for name in values)
        text = f"query q({parameters}) {{ insert Person {{ {assigned} }} }}"
        done = self.graph.mutate(text, params=values, branch=branch)
        self._moved(branch, with_rows(state, {"Person": {str(row["id"]): row}}), done.commit)
        return f"{row['id']} on {branch}"

    def update(self, random: Random) -> str:
        branch = self._branch(random)
        state = self.world.branches[branch].state
        where = make_condition(random, VALUES["Person"], 1)
        change: Row = random.choice(
            [{"age": random.randrange(12)}, {"team": random.choice(TEAMS)}, {"bio": "quartz"}]
        )
        assigned = ", ".join(f"{k}: {v!r}".replace("'", '"') for k, v in change.items())
        text = f"query q() {{ update Person set {{ {assigned} }} where {_where(where)} }}"
        done = self.graph.mutate(text, branch=branch)
        self._moved(branch, updated(state, "Person", change, where), done.commit)
        return f"{text} on {branch}"

    def delete(self, random: Random) -> str:
        table = random.choice(["Person", "Person", "Note", "Knows"])
        return self._delete_rows(random, self._branch(random), table)

    def _delete_rows(self, random: Random, branch: str, table: str) -> str:
        state = self.world.branches[branch].state
        values = VALUES[table] if table in NODES else {"since": VALUES[table]["since"]}
        where = make_condition(random, values, 1)
        text = f"query q() {{ delete {table} where {_where(where)} }}"
        done = self.graph.mutate(text, branch=branch)
        self._moved(branch, without(state, table, where), done.commit)
        return f"{text} on {branch}"

    def _moved(self, branch: str, state: State, commit: object) -> None:
        line = self.world.branches[branch]
        line.state = state
        if commit is not None:
            line.moves += 1
            id = str(commit.commit_id)  # type: ignore[attr-defined]
            self.world.commits.append(Known(id, branch, line.incarnation, line.moves, state))

    # --- branches --------------------------------------------------------------------------------

    def create_a_branch(self, random: Random) -> str | None:
        name = random.choice(BRANCHES)
        return None if name in self.world.branches else self._create(name, random)

    def _create(self, name: str, random: Random) -> str:
        source = self._branch(random)
        self.graph.create_branch(name, source=source)
        self.incarnations += 1
        self.world.branches[name] = Line(self.incarnations, self.world.branches[source].state)
        return f"{name} from {source}"

    def delete_a_branch(self, random: Random) -> str | None:
        names = [name for name in self.world.branches if name != "main"]
        return self._delete(random.choice(names)) if names else self.create_a_branch(random)

    def _delete(self, name: str) -> str | None:
        try:
            self.graph.delete_branch(name)
        except ConflictError:  # another branch was made from it
            return None
        gone = self.world.branches.pop(name).incarnation
        self.world.commits = [c for c in self.world.commits if c.incarnation != gone]
        return name

    # --- maintenance -----------------------------------------------------------------------------

    def optimize(self, random: Random) -> str:
        branch = self._branch(random)
        self.graph.optimize(branch=branch)
        self.world.branches[branch].moves += 1
        return branch

    def clean_up(self, random: Random) -> str:
        """Only the newest commit of every branch is promised afterwards."""
        self.graph.cleanup(keep=1, confirm=True)
        for line in self.world.branches.values():
            self.world.cleaned[line.incarnation] = line.moves
        self.world.commits = [
            c for c in self.world.commits if c.moves >= self.world.cleaned[c.incarnation]
        ]
        return "all but the newest commits"


def _where(condition: Condition) -> str:
    """A condition of a mutation: the same, without a variable."""
    return condition.gq("x").replace("$x.", "")
