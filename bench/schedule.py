"""The order of samples: every system once a round, the baseline twice, in varying order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.suite import System

AGAIN = " (again)"


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of the experiment: a system, or the baseline's second copy."""

    label: str
    system: System

    @property
    def is_repeat(self) -> bool:
        """True for the copy that runs the baseline against itself."""
        return self.label != self.system.name


def arms_of(systems: Sequence[System], baseline: str) -> tuple[Arm, ...]:
    """An arm per system, then a second one for the baseline, whose ratio is the noise."""
    first = [Arm(system.name, system) for system in systems]
    again = [Arm(system.name + AGAIN, system) for system in systems if system.name == baseline]
    return (*first, *again)


def round_order(arms: Sequence[Arm], round_index: int) -> tuple[Arm, ...]:
    """The order of one round: AB then BA, and after each such pair another arm leads.

    Mirroring cancels a drift of the machine within a pair of rounds; moving the lead prevents an
    arm of many from always following the same neighbour.
    """
    lead = (round_index // 2) % len(arms)
    order = (*arms[lead:], *arms[:lead])
    return order if round_index % 2 == 0 else order[::-1]
