"""The suite `live_branches` among ten thousand branches; takes a quarter of an hour."""

from __future__ import annotations

from bench.suite import Suite
from bench.suites.live_branches import MEASURES, SYSTEMS, TARGETS, case

SUITE = Suite(
    name="live_branches_long",
    question="How does the cost of operations on a branch grow among ten thousand branches?",
    systems=SYSTEMS,
    measures=MEASURES,
    baselines=("omnigraph",),
    prepare="bench.systems.live_branches:prepare",
    cases=tuple(case(branches, 10) for branches in (10, 10_000)),
    quick_cases=tuple(case(branches, 2) for branches in (2, 50)),
    targets=TARGETS,
    axis="branches",
    yardstick="yardstick",
    timeout_s=1200,
)
