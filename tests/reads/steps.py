"""The steps of a history: their kinds, and the lists of them that seeds stand for.

A step is a kind and a number. The number decides everything else about it once it is carried out,
so that a list of steps stays valid whatever is left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

STEPS = 9
STEPS_BETWEEN = 1

EMBEDDED = {
    "ask": 24,
    "ask a commit": 6,
    "ask an older handle": 4,
    "read a type": 6,
    "export": 4,
    "keep rows": 5,
    "keep a view": 5,
    "keep a result": 5,
    "ask a retained result": 16,
    "append": 7,
    "merge": 9,
    "overwrite": 3,
    "insert": 5,
    "update": 6,
    "delete": 6,
    "create a branch": 5,
    "delete a branch": 4,
    "re-create a branch": 4,
    "optimize": 3,
    "clean up": 1,
    "open again": 3,
    "re-create the graph": 6,
    "back up": 2,
    "restore": 3,
}
"""The frequency of each kind, in a run without Spark."""

RETENTIONS = ("keep rows", "keep a view", "keep a result")

FRAMES = (
    "load a frame",
    "load a frame of a commit",
    "load a frame of a query",
    "make a frame of rows",
)

CHANGES: dict[str, tuple[str, ...]] = {
    "append": (),
    "optimize": (),
    "clean up": ("append",),
    "re-create a branch": (),
    "re-create the graph": (),
    "restore": ("append",),
    "overwrite": (),
}
"""Events between two uses of a retained result, and their prerequisites."""

ON_SPARK = (*FRAMES, "register a view", "act on a frame", "ask a view", "ask on Spark")
"""The kinds that need a session."""


@dataclass(frozen=True)
class Step:
    """`turn` chooses where every choice has to come up, `number` everywhere else."""

    kind: str
    number: int
    turn: int

    def __str__(self) -> str:
        return f"{self.kind} ({self.number}, {self.turn})"


def make_steps(seed: int, *, on_spark: bool) -> list[Step]:
    """Return the steps of a seed. They begin with rows."""
    random = Random(f"reads {seed} {on_spark}")
    if on_spark:
        kinds = _with_frames(random, seed)
    elif seed % 2:
        kinds = _with_retained_results(random, seed // 2)
    else:
        kinds = _choose(random, STEPS)
    steps: list[Step] = []
    for kind in ["begin", *kinds]:
        turn = seed + sum(step.kind == kind for step in steps)
        steps.append(Step(kind, random.randrange(1_000_000), turn))
    return steps


def _with_retained_results(random: Random, turn: int) -> list[str]:
    """Two results are retained, the graph changes, and they are read again."""
    change = list(CHANGES)[turn % len(CHANGES)]
    needed = {"re-create a branch": ["create a branch"], "restore": ["back up"]}.get(change, [])
    retained = [RETENTIONS[(turn + n) % len(RETENTIONS)] for n in range(2)]
    again = ["ask a retained result", "ask a retained result", "ask"]
    kinds = [*needed, *retained, *CHANGES[change], change, *again]
    for kind in _choose(random, STEPS_BETWEEN):
        kinds.insert(random.randint(len(needed), len(kinds)), kind)
    return kinds


def _with_frames(random: Random, seed: int) -> list[str]:
    """Frames and a view are made and used, the graph changes, and they are used again."""
    change = list(CHANGES)[seed % len(CHANGES)]
    made = ["create a branch", "back up", *(FRAMES[(seed + n) % len(FRAMES)] for n in range(2))]
    used = ["register a view", "ask a view", "act on a frame"]
    again = ["act on a frame", "act on a frame", "ask a view", "ask on Spark"]
    random.shuffle(again)
    kinds = [*made, *used, *CHANGES[change], change, *again]
    for kind in _choose(random, STEPS_BETWEEN):
        kinds.insert(random.randint(len(made), len(kinds)), kind)
    return kinds


def _choose(random: Random, count: int) -> list[str]:
    return random.choices(list(EMBEDDED), list(EMBEDDED.values()), k=count)
