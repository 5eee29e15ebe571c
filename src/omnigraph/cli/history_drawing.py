"""A history drawn beside its commits: a lane for each line of them, as `git log --graph` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit


def draw_history(commits: Sequence[Commit]) -> Iterator[tuple[str, Commit | None]]:
    """Lines of a drawing, newest first: each with the commit beside it, or none between commits.

    A lane waits for the commit that comes next in it. Lanes that wait for one commit are joined
    above it; below a merge there is one more.
    """
    lanes: list[str] = []
    for commit in commits:
        if commit.commit_id not in lanes:
            lanes.append(commit.commit_id)
        at = lanes.index(commit.commit_id)
        while lanes.count(commit.commit_id) > 1:
            joined = len(lanes) - 1 - lanes[::-1].index(commit.commit_id)
            yield _join(len(lanes), joined, at), None
            del lanes[joined]
        yield " ".join("*" if lane == at else "|" for lane in range(len(lanes))), commit
        parents = list(commit.parents)
        lanes[at : at + 1] = parents[:1]
        if len(parents) > 1:
            yield _fork(len(lanes), at), None
            lanes.insert(at + 1, parents[1])


def _join(lanes: int, joined: int, into: int) -> str:
    """The line on which a lane runs into another one to the left, and those behind it move up."""
    line = ""
    for lane in range(lanes):
        line += "|" if lane < joined else " "
        line += "_" if into <= lane < joined - 1 else "/" if joined - 1 <= lane < lanes - 1 else " "
    return line.rstrip()


def _fork(lanes: int, at: int) -> str:
    """The line on which a lane begins behind another one, and those to the right make room."""
    return "".join("| " if lane < at else "|\\" if lane == at else " \\" for lane in range(lanes))
