"""What happens in a life: kinds of steps, and the lists of them that seeds stand for.

A step is a kind and a number. The number decides everything else about it once it is carried out,
so that a list of steps stays valid whatever is left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

STEPS = 14

EMBEDDED = {
    "ask": 24,
    "ask a commit": 6,
    "ask an older handle": 4,
    "read a type": 6,
    "export": 4,
    "keep rows": 5,
    "keep a view": 5,
    "keep a result": 5,
    "ask what was kept": 16,
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
"""How often each kind comes up, in a life that does without Spark."""

ON_SPARK = {
    "ask on Spark": 12,
    "load a frame": 12,
    "load a frame of a commit": 7,
    "load a frame of a query": 7,
    "make a frame of rows": 8,
    "register a view": 6,
    "act on a frame": 40,
    "ask a view": 18,
}
"""The kinds that need a session; in lives that have one they are every second step."""


@dataclass(frozen=True)
class Step:
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} ({self.number})"


def make_steps(seed: int, *, on_spark: bool) -> list[Step]:
    """The life of a seed. It begins with rows."""
    random = Random(f"reads {seed} {on_spark}")
    kinds = ["begin", *_choose(random, EMBEDDED, STEPS // 2 if on_spark else STEPS)]
    if on_spark:
        for kind in _choose(random, ON_SPARK, STEPS // 2):
            kinds.insert(random.randint(1, len(kinds)), kind)
    return [Step(kind, random.randrange(1_000_000)) for kind in kinds]


def _choose(random: Random, kinds: dict[str, int], count: int) -> list[str]:
    return random.choices(list(kinds), list(kinds.values()), k=count)
