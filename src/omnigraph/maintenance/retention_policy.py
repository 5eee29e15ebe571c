"""Retention of commits: by number, by age, or both."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from omnigraph.errors import BadOptions
from omnigraph.storage.manifest import CommitRecord

RECOMMENDED_KEEP = 10
FLOOR = 3
"""An age never retains fewer commits than this: the clocks that dated them may be wrong."""

_DURATION = re.compile(r"(\d{1,12})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Retention:
    """The commits cleanup retains: with both limits, those that either protects.

    Raises:
        BadOptions: no limit was given, or one that means nothing.
    """

    keep: int | None = None
    older_than_s: float | None = None

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than_s is None:
            raise BadOptions(
                "cleanup needs a policy: how many commits to keep, or how old they must be to go; "
                f"--keep {RECOMMENDED_KEEP} is a good choice"
            )
        if self.keep is not None and self.keep < 0:
            raise BadOptions(f"{self.keep} commits cannot be kept")
        age = self.older_than_s
        if age is not None and not (math.isfinite(age) and age >= 0):
            raise BadOptions(f"{age} s is not a valid age")

    def list_retained(self, commits: Sequence[CommitRecord], now_us: int) -> list[CommitRecord]:
        """Return the commits of one branch, given newest first, that must stay readable."""
        count = 0 if self.keep is None else max(self.keep, 1)
        if self.older_than_s is None:
            return list(commits[:count])
        limit = now_us - self.older_than_s * 1_000_000
        count = max(count, FLOOR)
        return [c for at, c in enumerate(commits) if at < count or c.created_at > limit]

    def __str__(self) -> str:
        parts = []
        if self.keep is not None:
            parts.append(f"the newest {max(self.keep, 1)} commits")
        if self.older_than_s is not None:
            age = timedelta(seconds=self.older_than_s)
            parts.append(f"commits younger than {age} (and the newest {FLOOR})")
        return f"keep {' and '.join(parts)} of every branch"


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `15m`, `12h`, `7d` or `2w`."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise BadOptions(
            f"'{text}' is not a duration; write a number and s, m, h, d or w, such as 7d"
        )
    return float(int(found[1]) * _SECONDS[found[2]])
