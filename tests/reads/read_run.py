"""One graph at one path, used, removed and made again, with every answer compared."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import omnigraph
from omnigraph.errors import OmniError
from omnigraph.graph.graph import Graph
from reads.questions import Question, difference, make_question
from reads.read_checks import Wrong, check_export, check_rows
from reads.read_model import NODES, SCHEMAS, TABLES, State, World
from reads.read_writes import Writer
from reads.steps import Step
from reads.templates import Filling, Templates, as_graph

MAX_RETAINED = 5
SAME_QUESTIONS = 2
MADE_ON_THE_SPOT = 0.15


@dataclass(frozen=True)
class Pin:
    """The state that a retained result was read from."""

    graph_number: int
    incarnation: int
    moves: int
    state: State


@dataclass(frozen=True)
class Retained:
    """A retained result that is read again: `check` raises Wrong if it differs."""

    what: str
    pin: Pin
    made_at: int
    check: Callable[[State, Random], None]


@dataclass
class ReadRun(Writer):
    """Runs steps; `log` describes them and `tally` counts them."""

    place: Path
    templates: Templates
    tally: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graphs = self.incarnations = 0
        self.is_indexed = False
        self.questions: list[Question] = []
        self.retained: list[Retained] = []
        self.happened: list[str] = []
        self.older: Graph | None = None
        self.backup: tuple[Path, World] | None = None

    def end(self) -> None:
        """Remove the files of the run."""
        shutil.rmtree(self.place, ignore_errors=True)
        if self.backup is not None:
            shutil.rmtree(self.backup[0])

    # --- the graph itself ------------------------------------------------------------------------

    def _make_graph(self, random: Random) -> str:
        """A graph with rows: mostly a copy, at times one that is made on the spot."""
        self.graphs += 1
        self.incarnations += 1
        if random.random() < MADE_ON_THE_SPOT:
            filling = Filling(self.place, random.randrange(len(SCHEMAS)))
            world, how = filling.fill(random, is_indexed=self.is_indexed), "made"
        else:
            world = self.templates.copy(random, self.place, is_indexed=self.is_indexed)
            how = "copied"
        self.world = as_graph(world, self.graphs, self.incarnations)
        self.graph = omnigraph.open(self.place)
        self._ask_all(self.questions, "main")
        return f"graph {self.graphs}, {how}{', indexed' * self.is_indexed}"

    def _remove(self) -> None:
        self.older = self.graph
        shutil.rmtree(self.place)

    def begin(self, random: Random) -> str:
        self.is_indexed = random.random() < 0.5
        self.questions = [make_question(random) for _ in range(SAME_QUESTIONS)]
        return self._make_graph(random)

    def re_create_the_graph(self, random: Random) -> str:
        """Another graph of the same schema, queried as the one before it."""
        self._ask_all(self.questions, "main")
        self._remove()
        return self._make_graph(random)

    def _ask_all(self, questions: list[Question], branch: str) -> None:
        for question in questions:
            rows = self.graph.query(question.text, branch=branch).rows
            self._compare(question, self.world.branches[branch].state, rows)

    def back_up(self, random: Random) -> str:
        if self.backup is not None:
            shutil.rmtree(self.backup[0])
        place = self.place.with_name(f"{self.place.stem}-backup.omni")
        shutil.copytree(self.place, place)
        self.backup = place, self.world.copy()
        return f"copy of graph {self.world.graph_number}"

    def restore(self, random: Random) -> str:
        """The copy takes the place of what was written since: same identity, other history."""
        if self.backup is None:
            return self.back_up(random)
        place, world = self.backup
        self._remove()
        shutil.copytree(place, self.place)
        self.graphs += 1
        self.world = world.copy()
        self.world.graph_number = self.graphs
        self.graph = omnigraph.open(self.place)
        return f"the copy as graph {self.graphs}"

    def open_again(self, random: Random) -> str:
        self.graph = omnigraph.open(self.place)
        return "another handle"

    # --- steps -----------------------------------------------------------------------------------

    def carry_out(self, step: Step) -> None:
        random = Random(step.number)
        action = getattr(self, step.kind.replace(" ", "_").replace("-", "_"))
        self.log.append(f"{step}: …")
        self.turn = step.turn
        done = action(random)
        self.log[-1] = f"{step}: {done or 'nothing to do it with'}"
        self.tally[step.kind if done else f"{step.kind}: nothing to do it with"] += 1
        self.happened.append(step.kind)

    def re_create_a_branch(self, random: Random) -> str | None:
        """Create another branch under the same name."""
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
        """A handle of a replaced graph returns the current content, or refuses."""
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
        return Pin(self.world.graph_number, line.incarnation, line.moves, line.state)

    def _keep(self, what: str, pin: Pin, check: Callable[[State, Random], None]) -> str:
        self.retained = [*self.retained, Retained(what, pin, self.now(), check)][-MAX_RETAINED:]
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
        """A result whose rows were not requested yet."""
        branch = self._branch(random)
        question = make_question(random)
        result = self.graph.query(question.text, branch=branch)
        return self._keep(
            f"{question.text} on {branch}",
            self.pin(branch),
            lambda state, random: self._compare(question, state, result.rows),
        )

    def ask_a_retained_result(self, random: Random) -> str:
        if not self.retained:
            return random.choice([self.keep_rows, self.keep_a_view, self.keep_a_result])(random)
        retained = random.choice(self.retained)
        self.log[-1] += f" {retained.what}"
        with self.may_be_refused(retained.pin, OmniError) as refused:
            retained.check(retained.pin.state, random)
        self.count(retained.pin, retained.made_at, "retained", "local", is_refused=bool(refused))
        return f"{retained.what}{', refused: ' * bool(refused)}{''.join(refused)}"

    def now(self) -> int:
        """A moment of this run, to ask later what happened since."""
        return len(self.happened)

    def count(self, pin: Pin, made_at: int, kind: str, engine: str, *, is_refused: bool) -> None:
        """Count an answer of a retained result, also by the events since it was read."""
        outcome = ", refused" * is_refused
        self.tally[f"{kind} / {engine}{outcome}"] += 1
        for event in self._since(pin, made_at):
            self.tally[f"asked after {event} / {engine}{outcome}"] += 1

    def _since(self, pin: Pin, made_at: int) -> Iterator[str]:
        if pin.graph_number != self.world.graph_number:
            yield "its graph was replaced"
            return
        line = self.world.line_of(pin.incarnation)
        if line is None:
            yield "its branch was deleted"
            return
        if line.moves > pin.moves:
            yield "commits"
        if self.world.cleaned.get(pin.incarnation, 0) > pin.moves:
            yield "a clean-up of its commit"
        if "optimize" in self.happened[made_at:]:
            yield "an optimize"

    @contextmanager
    def may_be_refused(self, pin: Pin, kind: type[Exception]) -> Iterator[list[str]]:
        """Reads of removed files may be refused, but never answered from other files."""
        refused: list[str] = []
        try:
            yield refused
        except Wrong:
            raise
        except kind as error:
            if self.world.must_be_there(pin.graph_number, pin.incarnation, pin.moves):
                raise
            refused.append(type(error).__name__)
