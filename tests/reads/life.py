"""One graph at one path, used, removed and made again, with every answer compared."""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import omnigraph
from omnigraph.errors import ConflictError, OmniError
from omnigraph.graph.graph import Graph
from reads.conditions import Row, make_condition
from reads.model import (
    COLUMNS,
    EDGES,
    NODES,
    SCHEMAS,
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
from reads.questions import Question, difference, make_question, multiset_difference
from reads.steps import Step

BRANCHES = ("dev", "trial")
MOST_KEPT = 5
SAME_QUESTIONS = 3


LOADED = (TABLES, ("Person", "Knows"), ("Person",), ("Note", "Wrote"), ("Knows",), ("Note",))
"""Which tables a load writes; one into an empty graph writes all."""
PREFIXES = {"Person": "p", "Note": "n", "Knows": "k", "Wrote": "w"}
SHARES = {"Person": 1.0, "Note": 0.5, "Knows": 1.0, "Wrote": 0.4}


class Wrong(AssertionError):
    """An answer that its rows do not give."""


@dataclass(frozen=True)
class Pin:
    """A state that something kept was made from."""

    life: int
    incarnation: int
    moves: int
    state: State


@dataclass(frozen=True)
class Kept:
    """Something made earlier that is asked again: `check` raises Wrong if it does not fit."""

    what: str
    pin: Pin
    check: Callable[[State, Random], None]


class Templates:
    """Graphs without rows, each with an identity of its own, to be copied where one is needed."""

    def __init__(self, folder: Path, count: int = 5) -> None:
        self._places = []
        for number in range(count * len(SCHEMAS)):
            place = folder / f"template{number}.omni"
            omnigraph.init(place, SCHEMAS[number % len(SCHEMAS)]).close()
            self._places.append(place)

    def __len__(self) -> int:
        return len(self._places)

    def copy(self, number: int, place: Path) -> int:
        """Copy one of them; gives the number of its schema."""
        number %= len(self._places)
        shutil.copytree(self._places[number], place)
        return number % len(SCHEMAS)


@dataclass
class Life:
    """Carries steps out; `log` says what they were and `tally` counts them."""

    place: Path
    templates: Templates
    tally: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lives = self.incarnations = 0
        self.first_template = sum(str(self.place).encode())
        self.is_indexed = False
        self.questions: list[Question] = []
        self.kept: list[Kept] = []
        self.older: Graph | None = None
        self.backup: tuple[Path, World] | None = None
        self.graph = self._make_graph()

    def end(self) -> None:
        """Remove what the life leaves behind."""
        shutil.rmtree(self.place, ignore_errors=True)
        if self.backup is not None:
            shutil.rmtree(self.backup[0])

    # --- the graph itself ------------------------------------------------------------------------

    def _make_graph(self) -> Graph:
        """A graph that never stood here before."""
        if self.lives < len(self.templates):
            schema = self.templates.copy(self.first_template + self.lives, self.place)
        else:
            schema = self.lives % len(SCHEMAS)
            omnigraph.init(self.place, SCHEMAS[schema]).close()
        self.lives += 1
        self.incarnations += 1
        self.world = World(self.lives, {"main": Line(self.incarnations, empty())})
        self.schema = schema
        return omnigraph.open(self.place)

    def _remove(self) -> None:
        self.older = self.graph
        shutil.rmtree(self.place)

    def begin(self, random: Random) -> str:
        """Rows to start with; in every second life also indexes, and rows deleted since."""
        self.is_indexed = random.random() < 0.5
        self.questions = [make_question(random) for _ in range(SAME_QUESTIONS)]
        return self._fill(random)

    def _fill(self, random: Random) -> str:
        written = self._append(random, "main", 30)
        if self.is_indexed:
            self.graph.optimize()
            self.world.branches["main"].moves += 1
            self._delete_rows(random, "main", "Person")
        self._ask_all(self.questions, "main")
        return f"{written}{', optimize, delete' * self.is_indexed}"

    def re_create_the_graph(self, random: Random) -> str:
        """Another graph of the same shape, asked the same questions as the one before it."""
        self._ask_all(self.questions, "main")
        self._remove()
        self.graph = self._make_graph()
        written = self._fill(random)
        return f"graph {self.world.life} with schema {self.schema} at the same path, {written}"

    def _ask_all(self, questions: list[Question], branch: str) -> None:
        for question in questions:
            rows = self.graph.query(question.text, branch=branch).rows
            self._compare(question, self.world.branches[branch].state, rows)

    def back_up(self, random: Random) -> str:
        if self.backup is not None:
            shutil.rmtree(self.backup[0])
        place = self.place.with_name(f"{self.place.stem}-backup.omni")
        shutil.copytree(self.place, place)
        self.backup = place, copy.deepcopy(self.world)
        return f"copy of graph {self.world.life}"

    def restore(self, random: Random) -> str:
        """The copy takes the place of what was written since: same identity, other history."""
        if self.backup is None:
            return self.back_up(random)
        place, world = self.backup
        self._remove()
        shutil.copytree(place, self.place)
        self.lives += 1
        self.world = copy.deepcopy(world)
        self.world.life = self.lives
        self.graph = omnigraph.open(self.place)
        return f"the copy as graph {self.lives}"

    def open_again(self, random: Random) -> str:
        self.graph = omnigraph.open(self.place)
        return "another handle"

    # --- steps -----------------------------------------------------------------------------------

    def carry_out(self, step: Step) -> None:
        random = Random(step.number)
        action = getattr(self, step.kind.replace(" ", "_").replace("-", "_"))
        self.log.append(f"{step}: …")
        done = action(random)
        self.log[-1] = f"{step}: {done or 'nothing to do it with'}"
        self.tally[step.kind if done else f"{step.kind}: nothing to do it with"] += 1

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

    def _load(self, random: Random, branch: str, mode: str, count: int) -> str:
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

    def re_create_a_branch(self, random: Random) -> str | None:
        """The same name for something else."""
        names = [name for name in self.world.branches if name != "main"]
        if not names:
            return self.create_a_branch(random)
        name = random.choice(names)
        questions = [make_question(random) for _ in range(SAME_QUESTIONS)]
        self._ask_all(questions, name)
        if self._delete(name) is None:
            return None
        made = self._create(name, random)
        written = self._append(random, name, 3)
        self._ask_all(questions, name)
        return f"{made}, {written}"

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

    # --- reading ---------------------------------------------------------------------------------

    def ask(self, random: Random) -> str:
        branch = self._branch(random)
        question = make_question(random)
        self._compare(question, self.world.branches[branch].state, self._answer(question, branch))
        return f"{question.text} on {branch}"

    def _answer(self, question: Question, branch: str) -> list[dict[str, object]]:
        return self.graph.query(question.text, branch=branch).rows

    def _compare(
        self, question: Question, state: State, rows: list[dict[str, object]], engine: str = "local"
    ) -> None:
        self.tally[f"{question.kind} / {engine}"] += 1
        problem = difference(question, state, [tuple(row.values()) for row in rows])
        if problem is not None:
            raise Wrong(f"{question.text}\n  gives {problem}")

    def ask_a_commit(self, random: Random) -> str | None:
        if not self.world.commits:
            return None
        commit = random.choice(self.world.commits)
        question = make_question(random)
        view = self.graph.at(commit=commit.commit_id, branch=commit.branch)
        self._compare(question, commit.state, view.query(question.text).rows)
        return f"{question.text} at {commit.commit_id}"

    def ask_an_older_handle(self, random: Random) -> str | None:
        """A handle of a graph that is gone gives what is there now, or refuses; nothing else."""
        if self.older is None:
            return None
        question = make_question(random)
        try:
            rows = self.older.query(question.text).rows
        except OmniError as error:
            return f"refused: {error.code}"
        self._compare(question, self.world.branches["main"].state, rows)
        return question.text

    def read_a_type(self, random: Random) -> str:
        branch, table = self._branch(random), random.choice(TABLES)
        handle = self.graph.nodes if table in NODES else self.graph.edges
        check_rows(handle(table, branch=branch), table, self.world.branches[branch].state)
        self.tally["rows / local"] += 1
        return f"{table} on {branch}"

    def export(self, random: Random) -> str:
        branch = self._branch(random)
        check_export(self.graph.export(branch=branch), self.world.branches[branch].state)
        self.tally["export / local"] += 1
        return branch

    # --- keeping ---------------------------------------------------------------------------------

    def pin(self, branch: str) -> Pin:
        line = self.world.branches[branch]
        return Pin(self.world.life, line.incarnation, line.moves, line.state)

    def _keep(self, what: str, pin: Pin, check: Callable[[State, Random], None]) -> str:
        self.kept = [*self.kept, Kept(what, pin, check)][-MOST_KEPT:]
        return what

    def keep_rows(self, random: Random) -> str:
        branch, table = self._branch(random), random.choice(TABLES)
        rows = (self.graph.nodes if table in NODES else self.graph.edges)(table, branch=branch)
        return self._keep(
            f"rows of {table} on {branch}",
            self.pin(branch),
            lambda state, random: check_rows(rows, table, state),
        )

    def keep_a_view(self, random: Random) -> str:
        branch = self._branch(random)
        view = self.graph.at(branch=branch)

        def check(state: State, random: Random) -> None:
            if random.random() < 0.2:
                check_export(view.export(), state)
            else:
                question = make_question(random)
                self._compare(question, state, view.query(question.text).rows)

        return self._keep(f"a view of {branch}", self.pin(branch), check)

    def keep_a_result(self, random: Random) -> str:
        """A result whose rows nobody asked for yet."""
        branch = self._branch(random)
        question = make_question(random)
        result = self.graph.query(question.text, branch=branch)
        return self._keep(
            f"{question.text} on {branch}",
            self.pin(branch),
            lambda state, random: self._compare(question, state, result.rows),
        )

    def ask_what_was_kept(self, random: Random) -> str:
        if not self.kept:
            return random.choice([self.keep_rows, self.keep_a_view, self.keep_a_result])(random)
        kept = random.choice(self.kept)
        self.log[-1] += f" {kept.what}"
        with self.may_be_refused(kept.pin, OmniError) as refused:
            kept.check(kept.pin.state, random)
        self.tally["kept, refused" if refused else "kept, answered"] += 1
        return f"{kept.what}{', refused: ' * bool(refused)}{''.join(refused)}"

    @contextmanager
    def may_be_refused(self, pin: Pin, kind: type[Exception]) -> Iterator[list[str]]:
        """What stood on files that were removed may be refused, never answered with others."""
        refused: list[str] = []
        try:
            yield refused
        except Wrong:
            raise
        except kind as error:
            if self.world.must_be_there(pin.life, pin.incarnation, pin.moves):
                raise
            refused.append(type(error).__name__)


def check_rows(rows: object, table: str, state: State) -> None:
    """A whole type, also how many rows it says it has."""
    columns = COLUMNS[table]
    found = rows.to_arrow().select(list(columns)).to_pylist()  # type: ignore[attr-defined]
    wanted = [row_values(row, table) for row in state[table].values()]
    problem = multiset_difference(wanted, [row_values(row, table) for row in found])
    if problem is None and len(rows) != len(wanted):  # type: ignore[arg-type]
        problem = f"says that it has {len(rows)} rows instead of {len(wanted)}"  # type: ignore[arg-type]
    if problem is not None:
        raise Wrong(f"{table}: {problem}")


def row_values(row: Row, table: str) -> tuple[object, ...]:
    values = (row[name] for name in COLUMNS[table])
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)


def check_export(records: Iterator[dict[str, object]], state: State) -> None:
    found: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    for record in records:
        table = str(record.get("type") or record["edge"])
        row: Row = dict(record["data"])  # type: ignore[call-overload]
        if table in EDGES:
            row |= {"src": record["from"], "dst": record["to"]}
        else:
            row["id"] = row["key"]
        found[table].append(row_values(dict.fromkeys(COLUMNS[table]) | row, table))
    for table in TABLES:
        wanted = [row_values(row, table) for row in state[table].values()]
        problem = multiset_difference(wanted, found[table])
        if problem is not None:
            raise Wrong(f"export of {table}: {problem}")


def _where(condition: object) -> str:
    """A condition of a mutation: the same, without a variable."""
    return condition.gq("x").replace("$x.", "")  # type: ignore[attr-defined, no-any-return]
