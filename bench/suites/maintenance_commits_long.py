"""The suite `maintenance_commits` up to ten thousand commits; takes some minutes."""

from __future__ import annotations

from bench.suite import Role, Suite
from bench.suites.maintenance_commits import MEASURES, SYSTEMS, TARGETS, case

SUITE = Suite(
    name="maintenance_commits_long",
    question="How does the cost of a commit grow over ten thousand of them, if the graph is "
    "maintained, and if it is not?",
    systems=tuple(system for system in SYSTEMS if system.role is Role.OURS),
    measures=MEASURES,
    baselines=("omnigraph",),
    prepare="bench.systems.maintenance:prepare_histories",
    cases=tuple(case(commits, 30, with_log=False) for commits in (10, 100, 1_000, 10_000)),
    quick_cases=tuple(case(commits, 4, with_log=False) for commits in (10, 30)),
    targets=TARGETS,
    axis="commits",
    yardstick="yardstick",
    timeout_s=900,
)
