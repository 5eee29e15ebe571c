"""A small commit on a long history."""

from __future__ import annotations

from bench.suite import CallsTarget, Case, GrowthTarget, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="growth_history",
    question="How does the cost of a commit and an open grow with the length of the history?",
    systems=(
        System("lance append", Role.BARE, "bench.systems.histories:run_log"),
        System("omnigraph", Role.OURS, "bench.systems.histories:run_ours"),
    ),
    measures=(
        Measure("commit", "one row more", "commits"),
        Measure("processor", "processor time of the same commit, on all threads"),
        Measure("open", "the first open of a process"),
        Measure("list", "the list of all commits, the first time", "commits"),
        Measure("yardstick", "one row written over a bare table after each of them: the machine"),
    ),
    baselines=("lance append",),
    prepare="bench.systems.histories:prepare",
    cases=tuple(
        Case(f"{commits:,} commits", {"commits": commits, "warm_up": 5, "repetitions": 30})
        for commits in (10, 100, 1_000)
    ),
    quick_cases=tuple(
        Case(f"{commits} commits", {"commits": commits, "warm_up": 2, "repetitions": 6})
        for commits in (10, 50)
    ),
    targets=(
        Target("omnigraph", "commit", at_most=4.0, of="lance append", aim=2.0),
        GrowthTarget("omnigraph", "commit", at_most=1.5, aim=1.2),
        GrowthTarget("omnigraph", "processor", at_most=1.5, aim=1.2),
        CallsTarget("omnigraph", at_most=12),
    ),
    axis="commits",
    yardstick="yardstick",
    timeout_s=300,
)
