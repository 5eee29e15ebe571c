"""Changes of the schema that write no value. The aim: what a commit of one row costs."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_MEASURES = (
    Measure("add column", "add a nullable property to a type"),
    Measure("rename", "rename a property of the same type"),
    Measure("add type", "add a node type"),
)

SUITE = Suite(
    name="schema_metadata",
    question="What does a change of the schema cost that writes no value, on a large table?",
    systems=(
        System("one-row commit", Role.OURS, "bench.systems.schema_changes:run_commits"),
        System("omnigraph", Role.OURS, "bench.systems.schema_changes:run_applies"),
    ),
    measures=_MEASURES,
    baselines=("one-row commit",),
    prepare="bench.systems.schema_changes:prepare",
    cases=(Case("10 M rows", {"rows": 10_000_000}),),
    quick_cases=(Case("10,000 rows", {"rows": 10_000}),),
    targets=tuple(
        Target("omnigraph", measure.name, at_most=2.0, of="one-row commit") for measure in _MEASURES
    ),
    timeout_s=900,
)
