"""From samples to figures: medians with their range, ratios by round, and the noise floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

P95_MINIMUM = 20


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the range it came from."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise of the baseline: any ratio between 1 ÷ `factor` and `factor` counts as 1."""

    factor: float

    def covers(self, ratio: float) -> bool:
        return 1 / self.factor <= ratio <= self.factor


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def paired_ratio(system: Sequence[float], baseline: Sequence[float]) -> Spread:
    """The ratio of `system` to `baseline`, taken within each round.

    Two runs of one round met the same state of the machine; two medians of a long run may not
    have. So this is the median of the ratios, not the ratio of the medians.
    """
    return spread([mine / theirs for mine, theirs in zip(system, baseline, strict=True)])


def noise_floor(first: Sequence[float], again: Sequence[float]) -> NoiseFloor:
    """Twice the usual distance, as a ratio, between two runs of one system in one round.

    A headline is a median, which a single disturbed round cannot move, so the floor is made from
    a median too: twice the usual distance covers nearly every median of five such rounds. The
    full range stays visible in the table, as the row of the baseline's second copy.
    """
    ratios = [mine / theirs for mine, theirs in zip(again, first, strict=True)]
    return NoiseFloor(median(max(ratio, 1 / ratio) for ratio in ratios) ** 2)


def p95(values: Sequence[float]) -> float | None:
    """The 95th percentile (nearest rank), or None with too few values for one to mean much."""
    if len(values) < P95_MINIMUM:
        return None
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]
