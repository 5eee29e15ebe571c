"""Execute runs, several in one process at one path, and shrink one that fails."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from reads.frames import SparkReadRun
from reads.read_run import ReadRun
from reads.steps import Step, make_steps
from reads.templates import Templates

MAX_ATTEMPTS = 40


def run(
    steps: Iterable[Step],
    place: Path,
    templates: Templates,
    session: object | None,
    tally: Counter[str],
) -> str | None:
    """Execute a run and return the mistake, with everything that was done until then."""
    one = (
        ReadRun(place, templates, tally)
        if session is None
        else SparkReadRun(place, templates, tally).use(session)
    )
    try:
        for step in steps:
            one.carry_out(step)
    except Exception as error:  # noqa: BLE001  # whatever it is, the steps must be printed
        lines = traceback.format_exception(error)[-3:]
        return "\n".join(["what was done:", *(f"  {line}" for line in one.log), *lines])
    finally:
        one.end()
    return None


def run_seeds(
    seeds: Iterable[int],
    folder: Path,
    templates: Templates,
    session: object | None = None,
) -> Counter[str]:
    """Execute one run after the other, each at the path of the one before, and count the steps.

    A run that fails is repeated alone, and then with as few steps as still fail.
    """
    tally: Counter[str] = Counter()
    begun: list[int] = []
    for seed in seeds:
        begun.append(seed)
        steps = make_steps(seed, on_spark=session is not None)
        problem = run(steps, folder / "graph.omni", templates, session, tally)
        if problem is not None:
            raise AssertionError(
                f"seed {seed} is wrong, {problem}\n"
                + _described_alone(steps, folder, templates, session, begun)
            )
    return tally


def _described_alone(
    steps: list[Step],
    folder: Path,
    templates: Templates,
    session: object | None,
    begun: list[int],
) -> str:
    attempts = 0

    def fails(some: list[Step]) -> str | None:
        nonlocal attempts
        attempts += 1
        place = folder / f"again{attempts}.omni"
        return run(some, place, templates, session, Counter())

    problem = fails(steps)
    if problem is None:
        return f"Alone it is right: it needs the runs before it, seeds {begun}."
    at = 1  # every run has a beginning
    while at < len(steps) and attempts < MAX_ATTEMPTS:
        fewer = steps[:at] + steps[at + 1 :]
        found = fails(fewer)
        if found is None:
            at += 1
        else:
            steps, problem = fewer, found
    return f"With {len(steps)} steps, alone, it is still wrong; {problem}"


def describe(tally: Counter[str], seeds: Sequence[int]) -> str:
    """Describe the run: steps, and questions by engine."""
    asked = {name: count for name, count in tally.items() if " / " in name}
    done = {name: count for name, count in tally.items() if name not in asked}
    lines = [f"seeds {seeds[0]} to {seeds[-1]}, {len(seeds)} of them"]
    for title, part in (("steps", done), ("questions by engine", asked)):
        lines.append(f"{title}:")
        lines += [f"  {part[name]:6} {name}" for name in sorted(part)]
    return "\n".join(lines)
