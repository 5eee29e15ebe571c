"""Work on one branch among many."""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

SUITE = Suite(
    name="growth_branches",
    question="How does the cost of work on branches grow with their number?",
    systems=(
        System("lance branch", Role.BARE, "bench.systems.many_branches:run_table"),
        System("omnigraph", Role.OURS, "bench.systems.many_branches:run_graph"),
    ),
    measures=(
        Measure("create", "one branch more"),
        Measure("list", "the names of all branches", "branches"),
        Measure("main commit", "one row more on `main`"),
        Measure("first write", "one row on a branch that was never written"),
        Measure("yardstick", "one row written over a bare table after each of them: the machine"),
    ),
    baselines=("lance branch",),
    prepare="bench.systems.many_branches:prepare",
    cases=tuple(
        Case(f"{branches:,} branches", {"branches": branches, "repetitions": 10})
        for branches in (1, 100, 1_000)
    ),
    quick_cases=tuple(
        Case(f"{branches} branches", {"branches": branches, "repetitions": 3})
        for branches in (1, 20)
    ),
    targets=(
        GrowthTarget("omnigraph", "main commit", at_most=1.5, aim=1.1),
        GrowthTarget("omnigraph", "create", at_most=1.5, aim=1.2),
        GrowthTarget("omnigraph", "first write", at_most=1.5, aim=1.2),
    ),
    axis="branches",
    yardstick="yardstick",
    timeout_s=300,
)
