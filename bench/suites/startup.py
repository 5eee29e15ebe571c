"""The start-up time of the command."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_ENTRY = "bench.systems.command:run"

SUITE = Suite(
    name="startup",
    question="How long does the command take to answer, next to Python itself?",
    systems=(
        System("python", Role.BARE, _ENTRY, {"command": ["{python}", "-c", "pass"]}),
        System("import click", Role.BARE, _ENTRY, {"command": ["{python}", "-c", "import click"]}),
        System(
            "omnigraph --help", Role.OURS, _ENTRY, {"command": ["{scripts}/omnigraph", "--help"]}
        ),
        System(
            "omnigraph version", Role.OURS, _ENTRY, {"command": ["{scripts}/omnigraph", "version"]}
        ),
    ),
    measures=(Measure("wall", "from the start of the process to its end"),),
    baselines=("python", "import click"),
    cases=(Case("warm files", {"repetitions": 10}),),
    quick_cases=(Case("warm files", {"repetitions": 3}),),
    targets=(
        Target("omnigraph --help", "wall", at_most=0.150),
        Target("omnigraph version", "wall", at_most=0.150),
    ),
    timeout_s=60,
)
