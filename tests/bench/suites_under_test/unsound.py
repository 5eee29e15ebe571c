from bench.suite import Measure, Role, Suite, System

_ENTRY = "systems_under_test:reports"
_RESULT = {"timings": {"work": 0.01}, "result_hash": "41"}

SUITE = Suite(
    name="unsound",
    question="Is it unsound?",
    systems=(
        System("base", Role.PEER, _ENTRY, {"result": _RESULT}),
        System("wrong", Role.OURS, _ENTRY, {"result": {**_RESULT, "result_hash": "42"}}),
    ),
    measures=(Measure("work", "nothing much"),),
    baselines=("base",),
)
