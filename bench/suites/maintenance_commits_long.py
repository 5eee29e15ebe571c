"""The same as `maintenance_commits`, up to ten thousand commits; takes many minutes."""

from __future__ import annotations

from bench.suite import Suite
from bench.suites.maintenance_commits import MEASURES, SYSTEMS, TARGETS, case

SUITE = Suite(
    name="maintenance_commits_long",
    question="How much dearer does a commit become over ten thousand of them, if the graph is "
    "looked after?",
    systems=SYSTEMS,
    measures=MEASURES,
    baselines=("lance append",),
    prepare="bench.systems.maintenance:prepare_histories",
    cases=tuple(case(commits, 30) for commits in (10, 1_000, 10_000)),
    quick_cases=tuple(case(commits, 4) for commits in (10, 30)),
    targets=TARGETS,
    axis="commits",
    timeout_s=3_600,
)
