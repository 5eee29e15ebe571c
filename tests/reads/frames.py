"""Data frames and views over the graph of a run: created once, used again and again.

A frame belongs to the commit that was newest when it was loaded, or to the one it names, however
often it is used and whatever was written since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from omnigraph.spark_source import register
from reads.questions import (
    Answer,
    Question,
    difference,
    make_question,
    multiset_difference,
)
from reads.read_checks import Wrong, row_values
from reads.read_conditions import Row, holds, make_condition
from reads.read_model import COLUMNS, NODES, TABLES, VALUES, State
from reads.read_run import Pin, ReadRun

MAX_FRAMES = 5
VIEWS = 3
ACTS, STATEMENTS = 8, 5

DataFrame = Any


@dataclass
class Frame:
    """A data frame of a table or of a question, and the state it shows."""

    what: str
    frame: DataFrame
    about: str | Question
    pin: Pin
    made_at: int


@dataclass(frozen=True)
class Act:
    """An operation on the frame of a table, and its expected result."""

    kind: str
    run: Callable[[DataFrame], Answer]
    answer: Callable[[list[Row]], Answer]


@dataclass(frozen=True)
class Statement:
    """An SQL query over a view, and what it gives of the rows in it."""

    kind: str
    text: str
    answer: Callable[[list[Row]], Answer]


class SparkReadRun(ReadRun):
    """A run in which frames and views are created and queried, too."""

    session: Any

    def use(self, session: object) -> SparkReadRun:
        self.session = session
        register(self.session)
        self.frames: list[Frame] = []
        self.views: dict[str, Frame] = {}
        return self

    def _branch(self, random: Random) -> str:
        """Every second run is about a branch: its frames, and what changes, the first time."""
        names = list(self.world.branches)
        return names[self.turn % len(names)]

    # --- making -----------------------------------------------------------------------------------

    def _keep_frame(self, frame: Frame) -> str:
        self.frames = [*self.frames, frame][-MAX_FRAMES:]
        return frame.what

    def _reader(self, table: str) -> Any:
        return self.session.read.format("omnigraph").option("type", table)

    def load_a_frame(self, random: Random) -> str:
        branch, table = self._branch(random), random.choice(TABLES)
        made = self._reader(table).option("branch", branch).load(str(self.place))
        what = f"frame of {table} on {branch}"
        return self._keep_frame(Frame(what, made, table, self.pin(branch), self.now()))

    def load_a_frame_of_a_commit(self, random: Random) -> str | None:
        if not self.world.commits:
            return None
        commit, table = random.choice(self.world.commits), random.choice(TABLES)
        reader = self._reader(table).option("branch", commit.branch)
        made = reader.option("commit", commit.commit_id).load(str(self.place))
        pin = Pin(self.world.graph_number, commit.incarnation, commit.moves, commit.state)
        what = f"frame of {table} at {commit.commit_id}"
        return self._keep_frame(Frame(what, made, table, pin, self.now()))

    def load_a_frame_of_a_query(self, random: Random) -> str:
        branch, question = self._branch(random), make_question(random)
        if random.random() < 0.5:
            result = self.graph.query(
                question.text, branch=branch, engine="spark", session=self.session
            )
            made = result.to_spark()  # type: ignore[attr-defined]
            what = "frame of the result of"
        else:
            reader = self.session.read.format("omnigraph").option("query", question.text)
            made = reader.option("branch", branch).load(str(self.place))
            what = "frame of the query"
        what = f"{what} {question.text} on {branch}"
        return self._keep_frame(Frame(what, made, question, self.pin(branch), self.now()))

    def make_a_frame_of_rows(self, random: Random) -> str:
        branch, table = self._branch(random), random.choice(TABLES)
        handle = self.graph.nodes if table in NODES else self.graph.edges
        made = handle(table, branch=branch).to_spark(self.session)
        what = f"frame by to_spark of {table} on {branch}"
        return self._keep_frame(Frame(what, made, table, self.pin(branch), self.now()))

    def register_a_view(self, random: Random) -> str:
        """A name in SQL for a frame, often one that another frame had before."""
        if not any(isinstance(frame.about, str) for frame in self.frames):
            self.load_a_frame(random)
        of_tables = [frame for frame in self.frames if isinstance(frame.about, str)]
        frame, name = random.choice(of_tables), f"reads_{random.randrange(VIEWS)}"
        frame.frame.createOrReplaceTempView(name)
        self.views[name] = frame
        return f"{name} is the {frame.what}"

    # --- using ------------------------------------------------------------------------------------

    def ask_on_Spark(self, random: Random) -> str:
        branch, question = self._branch(random), make_question(random, self.turn)
        state = self.world.branches[branch].state
        result = self.graph.query(
            question.text, branch=branch, engine="spark", session=self.session
        )
        self._compare(question, state, result.rows, "gq on Spark")
        return f"{question.text} on {branch}"

    def act_on_a_frame(self, random: Random) -> str:
        if not self.frames:
            return self.load_a_frame(random)
        frame = random.choice(self.frames)
        self.log[-1] += f" {frame.what}"
        if isinstance(frame.about, Question):
            question = frame.about
            kind, run = "query frame", lambda: _tuples(frame.frame)
            compare = lambda state, found: difference(question, state, found)  # noqa: E731
        else:
            table = frame.about
            act = make_acts(random, table)[self.turn % ACTS]
            kind, run = act.kind, lambda: act.run(frame.frame)
            compare = lambda state, found: multiset_difference(  # noqa: E731
                act.answer(list(state[table].values())), found
            )
        return self._act(frame, kind, "data source", run, compare)

    def ask_a_view(self, random: Random) -> str:
        if not self.views:
            return self.register_a_view(random)
        name = random.choice(list(self.views))
        frame = self.views[name]
        table = str(frame.about)
        statement = make_statements(random, table, name)[self.turn % STATEMENTS]
        self.log[-1] += f" {statement.text} of {frame.what}"
        return self._act(
            frame,
            statement.kind,
            "SQL view",
            lambda: _tuples(self.session.sql(statement.text)),
            lambda state, found: multiset_difference(
                statement.answer(list(state[table].values())), found
            ),
        )

    def _act(
        self,
        frame: Frame,
        kind: str,
        engine: str,
        run: Callable[[], Answer],
        compare: Callable[[State, Answer], str | None],
    ) -> str:
        with self.may_be_refused(frame.pin, Exception) as refused:
            problem = compare(frame.pin.state, run())
            if problem is not None:
                raise Wrong(f"{kind} of {frame.what} gives {problem}")
        self.count(frame.pin, frame.made_at, kind, engine, is_refused=bool(refused))
        return f"{kind} of {frame.what}{', refused: ' * bool(refused)}{''.join(refused)}"


def _tuples(frame: DataFrame) -> Answer:
    return [tuple(row) for row in frame.collect()]


def _ids(frame: DataFrame) -> Answer:
    return _tuples(frame.select("id"))


def _whole(frame: DataFrame, table: str) -> Answer:
    return [row_values(row.asDict(), table) for row in frame.collect()]


def make_acts(random: Random, table: str) -> tuple[Act, ...]:
    """The ways to use a frame; most use it with a filter, some with itself."""
    first, second = (make_condition(random, VALUES[table]) for _ in range(2))
    group = random.choice([name for name in COLUMNS[table] if name not in ("id", "spot")])

    def chosen(rows: list[Row], condition: Any) -> Answer:
        return [(row["id"],) for row in rows if holds(condition, row)]

    return (
        Act(
            "all rows",
            lambda frame: _whole(frame, table),
            lambda rows: [row_values(row, table) for row in rows],
        ),
        Act("count", lambda frame: [(frame.count(),)], lambda rows: [(len(rows),)]),
        Act(
            "filter",
            lambda frame: _ids(frame.where(first.sql())),
            lambda rows: chosen(rows, first),
        ),
        Act(
            "filtered count",
            lambda frame: [(frame.where(first.sql()).count(),)],
            lambda rows: [(len(chosen(rows, first)),)],
        ),
        Act(
            "union",
            lambda frame: _ids(frame.where(first.sql()).union(frame.where(second.sql()))),
            lambda rows: chosen(rows, first) + chosen(rows, second),
        ),
        Act(
            "anti-join",
            lambda frame: _ids(
                frame.join(frame.where(first.sql()).select("id"), "id", "left_anti")
            ),
            lambda rows: [(row["id"],) for row in rows if not holds(first, row)],
        ),
        Act(
            "join",
            lambda frame: _ids(
                frame.where(first.sql()).join(frame.where(second.sql()).select("id"), "id")
            ),
            lambda rows: [(row["id"],) for row in rows if holds(first, row) and holds(second, row)],
        ),
        Act(
            "group",
            lambda frame: _tuples(frame.groupBy(group).count()),
            lambda rows: list(Counter(row[group] for row in rows).items()),
        ),
    )


def make_statements(random: Random, table: str, view: str) -> tuple[Statement, ...]:
    """Statements over a view."""
    condition = make_condition(random, VALUES[table])
    where = condition.sql()

    def kept(rows: list[Row]) -> list[Row]:
        return [row for row in rows if holds(condition, row)]

    return (
        Statement(
            "SQL filter",
            f"select id from {view} where {where}",
            lambda rows: [(row["id"],) for row in kept(rows)],
        ),
        Statement(
            "SQL count",
            f"select count(*) from {view}",
            lambda rows: [(len(rows),)],
        ),
        Statement(
            "SQL filtered count",
            f"select count(*) from {view} where {where}",
            lambda rows: [(len(kept(rows)),)],
        ),
        Statement(
            "SQL anti-join",
            f"select a.id from {view} a left anti join "
            f"(select id from {view} where {where}) b on a.id = b.id",
            lambda rows: [(row["id"],) for row in rows if not holds(condition, row)],
        ),
        Statement(
            "SQL union",
            f"select id from {view} where {where} union all select id from {view}",
            lambda rows: [(row["id"],) for row in [*kept(rows), *rows]],
        ),
    )
