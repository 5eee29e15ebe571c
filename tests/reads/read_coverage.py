"""The steps and questions that the histories of the default run have to include at least once."""

from __future__ import annotations

from collections import Counter
from random import Random

from reads.frames import make_acts, make_statements
from reads.questions import KINDS, make_question
from reads.steps import CHANGES, EMBEDDED, ON_SPARK

QUESTIONS = [make_question(Random(0), turn).kind for turn in range(len(KINDS))]
ACTS = [act.kind for act in make_acts(Random(0), "Person")]
STATEMENTS = [statement.kind for statement in make_statements(Random(0), "Person", "v")]
EVENTS = (
    "commits",
    "an optimize",
    "a clean-up of its commit",
    "its branch was deleted",
    "its graph was replaced",
)

WANTED = {
    "local": [
        *EMBEDDED,
        *(f"{kind} / local" for kind in [*QUESTIONS, "rows", "export", "retained"]),
        *(f"asked after {event} / local" for event in EVENTS),
    ],
    "Spark": [
        *(*CHANGES, *ON_SPARK),
        *(f"{kind} / gq on Spark" for kind in QUESTIONS),
        *(f"{kind} / data source" for kind in [*ACTS, "query frame"]),
        *(f"{kind} / SQL view" for kind in STATEMENTS),
        *(
            f"asked after {event} / {engine}"
            for event in EVENTS
            for engine in ("data source", "SQL view")
        ),
    ],
}
"""By engine: what has to be counted. An answer that was refused, as it may be, counts too."""


def find_untried(tally: Counter[str], engine: str) -> list[str]:
    return [what for what in WANTED[engine] if not tally[what] + tally[f"{what}, refused"]]
