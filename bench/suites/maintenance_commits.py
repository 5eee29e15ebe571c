"""A small commit on a long history with maintenance. The aim: its cost is constant."""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

SYSTEMS = (
    System("lance append", Role.BARE, "bench.systems.maintenance:run_log"),
    System("omnigraph", Role.OURS, "bench.systems.maintenance:run_neglected"),
    System("omnigraph maintained", Role.OURS, "bench.systems.maintenance:run_maintained"),
)
MEASURES = (
    Measure("commit", "one row more", "commits"),
    Measure("processor", "processor time of the same commit, on all threads"),
    Measure("open", "the first open of a process"),
    Measure("yardstick", "one row written over a bare table after each of them: the machine"),
)
TARGETS = (GrowthTarget("omnigraph maintained", "commit", at_most=1.2),)


def case(commits: int, repetitions: int, *, with_log: bool = True) -> Case:
    parameters = {
        "commits": commits,
        "warm_up": 3,
        "repetitions": repetitions,
        "with_log": with_log,
    }
    return Case(f"{commits:,} commits", parameters)


SUITE = Suite(
    name="maintenance_commits",
    question="How does the cost of a commit grow with the length of the history, if the graph is "
    "optimized and cleaned up every hundred of them?",
    systems=SYSTEMS,
    measures=MEASURES,
    baselines=("lance append",),
    prepare="bench.systems.maintenance:prepare_histories",
    cases=tuple(case(commits, 30) for commits in (10, 100, 1_000)),
    quick_cases=tuple(case(commits, 6) for commits in (10, 50)),
    targets=TARGETS,
    axis="commits",
    yardstick="yardstick",
    timeout_s=600,
)
