"""The oracle's branches and commits: names, where they came from, and what each commit showed."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.oracle import State


@dataclass(frozen=True)
class KnownCommit:
    """A commit as it was acknowledged, and the state it left."""

    commit_id: str
    version: int
    authored_on: str
    state: State = field(repr=False, hash=False, compare=False)


@dataclass
class KnownBranch:
    """A live branch: its state now and its commits, newest first."""

    name: str
    incarnation: str | None
    parent: str | None
    state: State
    commits: list[KnownCommit]

    @property
    def incarnation_key(self) -> str:
        return self.incarnation or "main"


class KnownHistory:
    """Every live branch of the graph, by name."""

    def __init__(self, main: KnownBranch) -> None:
        self.branches = {main.name: main}

    @property
    def names(self) -> list[str]:
        return ["main", *sorted(name for name in self.branches if name != "main")]

    def children(self, name: str) -> list[str]:
        parent = self.branches[name].incarnation_key
        return [b.name for b in self.branches.values() if b.parent == parent]

    def reachable_commits(self) -> list[KnownCommit]:
        found = {c.commit_id: c for b in self.branches.values() for c in b.commits}
        return [found[id] for id in sorted(found)]

    def author_of(self, commit: KnownCommit) -> KnownBranch:
        return next(b for b in self.branches.values() if b.incarnation_key == commit.authored_on)

    def add_branch(self, name: str, incarnation: str, source: KnownBranch, commits, state) -> None:
        self.branches[name] = KnownBranch(
            name, incarnation, source.incarnation_key, state, list(commits)
        )
