"""The life of a branch among ten others, and among ten thousand."""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

_FLAT = ("create", "first write", "merge", "delete")

SUITE = Suite(
    name="live_branches",
    question="How much dearer does the life of a branch become among ten thousand live ones?",
    systems=(System("omnigraph", Role.OURS, "bench.systems.live_branches:run"),),
    measures=(
        Measure("create", "one branch more"),
        Measure("list", "the names of all branches", "branches"),
        Measure("first write", "one row on a branch that was never written"),
        Measure("merge", "that row merged into `main`"),
        Measure("delete", "the branch deleted"),
        Measure("cleanup", "removing what no branch needs any more", "branches"),
        Measure("yardstick", "one row written over a bare table after each of them: the machine"),
    ),
    baselines=("omnigraph",),
    prepare="bench.systems.live_branches:prepare",
    cases=tuple(
        Case(f"{branches:,} branches", {"branches": branches, "repetitions": 10})
        for branches in (10, 10_000)
    ),
    quick_cases=tuple(
        Case(f"{branches} branches", {"branches": branches, "repetitions": 2})
        for branches in (2, 20)
    ),
    targets=tuple(
        GrowthTarget("omnigraph", name, at_most=1.5, aim=1.2) for name in (*_FLAT, "cleanup")
    ),
    axis="branches",
    yardstick="yardstick",
    timeout_s=1200,
)
