"""Operations on a branch among ten others, and among a thousand."""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

_FLAT = ("create", "first write", "merge", "delete", "cleanup of each")

SYSTEMS = (System("omnigraph", Role.OURS, "bench.systems.live_branches:run"),)
MEASURES = (
    Measure("create", "one branch more"),
    Measure("list", "the names of all branches", "branches"),
    Measure("first write", "one row on a branch that was never written"),
    Measure("merge", "that row merged into `main`"),
    Measure("delete", "the branch deleted"),
    Measure("cleanup", "removing what no branch needs any more", "branches"),
    Measure("cleanup of each", "the same, divided by the number of branches"),
    Measure("yardstick", "one row written over a bare table after each of them: the machine"),
)
TARGETS = tuple(GrowthTarget("omnigraph", name, at_most=1.5, aim=1.2) for name in _FLAT)


def case(branches: int, repetitions: int) -> Case:
    return Case(f"{branches:,} branches", {"branches": branches, "repetitions": repetitions})


SUITE = Suite(
    name="live_branches",
    question="How does the cost of operations on a branch grow among a thousand branches?",
    systems=SYSTEMS,
    measures=MEASURES,
    baselines=("omnigraph",),
    prepare="bench.systems.live_branches:prepare",
    cases=tuple(case(branches, 10) for branches in (10, 1_000)),
    quick_cases=tuple(case(branches, 2) for branches in (2, 20)),
    targets=TARGETS,
    axis="branches",
    yardstick="yardstick",
    timeout_s=300,
)
