"""Random histories of a graph, each step compared with the oracle.

Rules write, branch, look into the past, reopen and crash; after every step every live branch must
export exactly what the oracle says, and list exactly the commits it knows of.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import omnigraph
from model import oracle
from model.model_history import KnownBranch, KnownCommit, KnownHistory
from model.model_strategies import loads, mutations, operations
from model.oracle_driver import Refusal, carry_out, difference, read_state
from omnigraph.errors import AlreadyExists, ConflictError
from omnigraph.storage.objects.object_store import install_observer
from omnigraph.storage.tables.table import open_newest

NAMES = st.sampled_from(["dev", "dev/x", "old"])
MAX_TRACKED_BRANCHES = 3
SEED_RECORDS = [
    {"type": "Person", "data": {"slug": "ann", "name": "A", "email": "x@", "age": 40}},
    {"type": "Person", "data": {"slug": "bob", "name": "B"}},
    {"type": "Note", "data": {"id": "n1", "text": "A"}},
    {"type": "Note", "data": {"id": "n2", "text": "B"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "e1"}},
]


class Crash(BaseException):
    """The process has ended: nothing after this line runs."""


class CrashAt:
    """Ends everything right before the n-th durable write from now."""

    def __init__(self) -> None:
        self.left: int | None = None

    def before(self, action: str, path: str) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Crash

    def after(self, action: str, path: str) -> None:
        pass


def make_template(place: Path) -> Path:
    omnigraph.init(place, oracle.SCHEMA).load(SEED_RECORDS, "append")
    return place


class GraphHistory(RuleBasedStateMachine):
    """One graph from a fresh copy to the end of the run."""

    template: Path
    seen: ClassVar[Counter[str]] = Counter()
    """Counts of what the runs of this process covered, to check that the rules reach everything."""

    def note(self, what: str) -> None:
        self.seen[what] += 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-model-"))
        self.place = shutil.copytree(self.template, self.folder / "graph.omni")

    def teardown(self) -> None:
        install_observer(None)
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize()
    def begin(self) -> None:
        self.handles = [omnigraph.open(self.place), omnigraph.open(self.place)]
        state = read_state(self.handles[0].export())
        commits = [
            KnownCommit(c.commit_id, c.manifest_version, "main", kept)
            for c, kept in zip(self.handles[0].commits(), (state, oracle.empty()), strict=True)
        ]
        self.known = KnownHistory(KnownBranch("main", None, None, state, commits))

    def pick_branch(self, number: int) -> KnownBranch:
        names = self.known.names
        return self.known.branches[names[number % len(names)]]

    # --- writing ---------------------------------------------------------------------------------

    @rule(operation=mutations, branch=st.integers(0, 9), handle=st.integers(0, 1))
    def mutate(self, operation, branch, handle) -> None:
        self.write(operation, branch, handle)

    @rule(operation=loads, branch=st.integers(0, 9), handle=st.integers(0, 1))
    def load(self, operation, branch, handle) -> None:
        self.write(operation, branch, handle)

    @rule(several=st.lists(operations, min_size=2, max_size=4), handle=st.integers(0, 1))
    def write_several(self, several, handle) -> None:
        for operation in several:
            self.write(operation, 0, handle)

    @rule(operation=operations, number=st.integers(0, 99), handle=st.integers(0, 1))
    def write_on_a_head(self, operation, number, handle) -> None:
        """Write on the condition that the head is some commit, which it often is not."""
        main = self.known.branches["main"]
        commit = main.commits[min(number // 20, len(main.commits) - 1)]
        is_head = commit is main.commits[0]
        expected = oracle.predict(main.state, operation)
        if is_head or expected.is_about_text:
            self.write(operation, 0, handle, expected_head=commit.commit_id)
            return
        with pytest.raises(Refusal) as refusal:
            carry_out(self.handles[handle], operation, "main", commit.commit_id)
        assert refusal.value.kind == "PreconditionFailed"
        self.note("refused: PreconditionFailed")

    def write(self, operation, branch, handle, expected_head=None) -> None:
        target = self.pick_branch(branch)
        graph = self.handles[handle]
        expected = oracle.predict(target.state, operation)
        if isinstance(expected, oracle.Refused):
            with pytest.raises(Refusal) as refusal:
                carry_out(graph, operation, target.name, expected_head)
            assert refusal.value.kind in expected.kinds
            self.note(f"refused: {refusal.value.kind}")
            return
        result = carry_out(graph, operation, target.name, expected_head)
        self.note(f"accepted: {operation['do']}")
        assert (result.commit is not None) is expected.commits
        if expected.affected is not None:
            assert (result.affected_nodes, result.affected_edges) == expected.affected
        if result.commit is not None:
            self.learn(target, result.commit, expected.state)

    def learn(self, target: KnownBranch, commit, expected) -> None:
        """Take over what a commit left, with the ids the engine minted."""
        found = read_state(self.handles[0].at(commit=commit.commit_id).export())
        problem = difference(expected, found)
        assert problem is None, problem
        self.check_tables(target.name)
        assert commit.parent_commit_id == target.commits[0].commit_id
        target.state = found
        target.commits.insert(
            0,
            KnownCommit(commit.commit_id, commit.manifest_version, target.incarnation_key, found),
        )

    # --- branches --------------------------------------------------------------------------------

    @rule(name=NAMES, source=st.integers(0, 9), handle=st.integers(0, 1))
    def create_branch(self, name, source, handle) -> None:
        target = self.pick_branch(source)
        self.try_to_create(name, handle, target, target.commits, source=target.name)

    @rule(name=NAMES, commit=st.integers(0, 99), handle=st.integers(0, 1))
    def create_branch_at_a_commit(self, name, commit, handle) -> None:
        commits = self.known.reachable_commits()
        chosen = commits[commit % len(commits)]
        author = self.known.author_of(chosen)
        at = author.commits.index(chosen)
        self.try_to_create(name, handle, author, author.commits[at:], commit=chosen.commit_id)

    def try_to_create(self, name, handle, origin, commits, **given) -> None:
        graph = self.handles[handle]
        if name not in self.known.branches and len(self.known.branches) >= MAX_TRACKED_BRANCHES:
            return
        try:
            ref = graph.create_branch(name, **given)
        except AlreadyExists:
            assert name in self.known.branches
            return
        assert name not in self.known.branches
        self.known.add_branch(name, ref.incarnation, origin, commits, commits[0].state)

    @precondition(lambda self: len(self.known.branches) > 1)
    @rule(number=st.integers(0, 9), handle=st.integers(0, 1))
    def delete_branch(self, number, handle) -> None:
        names = self.known.names[1:]
        name = names[number % len(names)]
        try:
            self.handles[handle].delete_branch(name)
        except ConflictError:
            assert self.known.children(name)
            return
        assert not self.known.children(name)
        del self.known.branches[name]

    # --- the past --------------------------------------------------------------------------------

    @rule(number=st.integers(0, 99), bound=st.integers(0, 9), by_version=st.booleans())
    def look_back(self, number, bound, by_version) -> None:
        branch = self.pick_branch(bound)
        if by_version:
            commit = branch.commits[number % len(branch.commits)]
            view = self.handles[1].at(version=commit.version, branch=branch.name)
        else:
            commits = self.known.reachable_commits()
            commit = commits[number % len(commits)]
            view = self.handles[1].at(commit=commit.commit_id, branch=branch.name)
            assert view.commit_id == commit.commit_id
        assert read_state(view.export()) == commit.state

    # --- starting again --------------------------------------------------------------------------

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle) -> None:
        self.handles[handle] = omnigraph.open(self.place)

    @rule(
        operation=operations,
        branch=st.integers(0, 9),
        at=st.integers(0, 14),
        again=st.lists(st.integers(0, 6), max_size=2),
    )
    def crash_while_writing(self, operation, branch, at, again) -> None:
        target = self.pick_branch(branch)
        after = oracle.predict(target.state, operation)
        switch = CrashAt()
        install_observer(switch)
        try:
            doomed = omnigraph.open(self.place)
            switch.left = at
            with suppress(Crash, Refusal):
                carry_out(doomed, operation, target.name)
            self.recover_with_crashes(switch, again)
        finally:
            install_observer(None)
        self.check_recovered(target, after)

    def recover_with_crashes(self, switch, again) -> None:
        """Open the graph, and crash again while it is being opened."""
        for moment in again:
            switch.left = moment
            with suppress(Crash):
                omnigraph.open(self.place)
        switch.left = None
        self.handles[0] = omnigraph.open(self.place)

    def check_recovered(self, target: KnownBranch, after) -> None:
        """The branch shows the state before the crash or the state after the operation."""
        graph = self.handles[0]
        assert graph.recovery_pending() == []
        found = read_state(graph.export(branch=target.name))
        is_old = found == target.state
        is_new = isinstance(after, oracle.Outcome) and difference(after.state, found) is None
        assert is_old or is_new, f"neither old nor new: {difference(target.state, found)}"
        known = {commit.commit_id for commit in target.commits}
        added = [c for c in graph.commits(target.name) if c.commit_id not in known]
        assert len(added) <= 1, f"one write became {len(added)} commits"
        for commit in added:
            target.commits.insert(
                0,
                KnownCommit(
                    commit.commit_id, commit.manifest_version, target.incarnation_key, found
                ),
            )
        target.state = found
        self.check_tables(target.name)
        self.note(f"crashed: {'old' if is_old else 'new'}")

    def check_tables(self, branch: str) -> None:
        """No table the branch may write is ahead of what the branch shows of it."""
        snapshot = self.handles[1]._open.views.read_newest(branch).snapshot
        for key, entry in snapshot.entries.items():
            if entry.owner == snapshot.ref.incarnation:
                location = snapshot.root.location(entry.path, entry.owner_branch)
                assert open_newest(location).version == entry.version, key

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def every_branch_shows_what_the_oracle_says(self) -> None:
        graph = self.handles[0]
        assert graph.branches() == self.known.names
        for name, branch in self.known.branches.items():
            assert read_state(graph.export(branch=name)) == branch.state, name

    @invariant()
    def every_branch_lists_its_commits(self) -> None:
        for name, branch in self.known.branches.items():
            listed = [c.commit_id for c in self.handles[1].commits(name)]
            assert listed == [c.commit_id for c in branch.commits], name
