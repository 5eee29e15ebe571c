"""A finished run as rows of figures, ready to be written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench.figures import NoiseFloor, Spread, noise_floor, p95, paired_ratio, spread
from bench.outcome import Sample
from bench.run import CaseRun, SuiteRun
from bench.schedule import AGAIN
from bench.suite import (
    AnyTarget,
    CallsTarget,
    GrowthTarget,
    Measure,
    MemoryTarget,
    Suite,
    Target,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One system's figures for one measure. `ratios` follow the suite's baselines."""

    measure: Measure
    label: str
    role: str
    is_repeat: bool
    ratios: tuple[Spread | None, ...]
    seconds: Spread
    p95_s: float | None
    rate: float | None
    peak_memory_bytes: int
    memory: Mapping[str, int]
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline ratio of a suite, with the noise to compare it with."""

    case: str
    measure: str
    system: str
    baseline: str
    ratio: Spread
    floor: NoiseFloor | None

    @property
    def is_within_noise(self) -> bool:
        return self.floor is not None and self.floor.covers(self.ratio.median)


@dataclass(frozen=True, slots=True)
class RecoveryVerdict:
    """A target and what was found for it in one case; `found` is None if nothing could be.

    The case of a target for growth names the two cases it compares.
    """

    case: str
    target: AnyTarget
    found: float | None

    @property
    def is_met(self) -> bool:
        return self.found is not None and self.found <= self.target.at_most


@dataclass(frozen=True, slots=True)
class Growth:
    """The median of the last case as a ratio to the first, for one system and measure."""

    measure: str
    system: str
    first_case: str
    last_case: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Crossover:
    """The measure of a series from which on a system is the faster one; None if there is none."""

    case: str
    system: str
    baseline: str
    series: tuple[str, ...]
    measure: str | None


def case_rows(suite: Suite, case: CaseRun) -> tuple[Row, ...]:
    """The figures of one case, measure by measure, in the order the suite declares them."""
    rows = []
    for measure in suite.measures:
        for arm in case.arms:
            samples = case.samples.get(arm.label, ())
            values = _values(samples, measure.name)
            if values is not None:
                rows.append(_row(suite, case, measure, arm.label, values))
    return tuple(rows)


def case_floor(case: CaseRun, measure: str) -> NoiseFloor | None:
    """Return the noise of the baseline in `measure`, or None if it was not measured."""
    first = _values(case.samples.get(case.reference, ()), measure)
    again = _values(case.samples.get(case.reference + AGAIN, ()), measure)
    return noise_floor(first, again) if first is not None and again is not None else None


def headlines(run: SuiteRun) -> tuple[Headline, ...]:
    """The ratio to every baseline of every system that is not a baseline."""
    found = []
    for case in run.cases:
        for row in case_rows(run.suite, case):
            floor = case_floor(case, row.measure.name)
            for baseline, ratio in zip(run.suite.baselines, row.ratios, strict=True):
                if ratio is not None and not row.is_repeat and row.label not in run.suite.baselines:
                    name = row.measure.name
                    found.append(Headline(case.case.name, name, row.label, baseline, ratio, floor))
    return tuple(found)


def verdicts(run: SuiteRun) -> tuple[RecoveryVerdict, ...]:
    """Each target beside what was found: for every case that was run, growth once for all."""
    in_cases = [
        RecoveryVerdict(case.case.name, target, _found(case, target))
        for case in run.cases
        for target in run.suite.targets
        if not isinstance(target, GrowthTarget)
    ]
    grown = {(found.system, found.measure): found for found in growth(run)}
    between = [
        _grown(target, grown.get((target.system, target.measure)))
        for target in run.suite.targets
        if isinstance(target, GrowthTarget)
    ]
    return (*in_cases, *between)


def _grown(target: GrowthTarget, found: Growth | None) -> RecoveryVerdict:
    if found is None:
        return RecoveryVerdict("the last ÷ the first case", target, None)
    return RecoveryVerdict(f"{found.last_case} ÷ {found.first_case}", target, found.ratio)


def growth(run: SuiteRun) -> tuple[Growth, ...]:
    """Return the ratio of the last case to the first, for a suite that declares an axis.

    With a yardstick, as if the machine had been as fast in both.
    """
    if run.suite.axis is None or len(run.cases) < 2:
        return ()
    first, last = run.cases[0], run.cases[-1]
    before = {(row.label, row.measure.name): row for row in case_rows(run.suite, first)}
    found = []
    for row in case_rows(run.suite, last):
        start = before.get((row.label, row.measure.name))
        if start is not None and not row.is_repeat:
            ratio = row.seconds.median / start.seconds.median
            names = (first.case.name, last.case.name)
            found.append(Growth(row.measure.name, row.label, *names, ratio))
    return _as_of_one_machine(run.suite.yardstick, found)


def _as_of_one_machine(yardstick: str | None, found: Sequence[Growth]) -> tuple[Growth, ...]:
    if yardstick is None:
        return tuple(found)
    slower = {one.system: one.ratio for one in found if one.measure == yardstick}
    return tuple(
        replace(one, ratio=one.ratio / slower[one.system])
        for one in found
        if one.measure != yardstick
    )


def crossovers(run: SuiteRun) -> tuple[Crossover, ...]:
    """Return where each system overtakes a baseline for good, in each series of the suite."""
    ratios: dict[tuple[str, str, str], dict[str, float]] = {}
    for found in headlines(run):
        asked = (found.case, found.system, found.baseline)
        ratios.setdefault(asked, {})[found.measure] = found.ratio.median
    return tuple(
        Crossover(*asked, series, _overtaking(series, measured))
        for asked, measured in ratios.items()
        for series in run.suite.series
        if measured.keys() >= set(series)
    )


def _overtaking(series: Sequence[str], ratios: Mapping[str, float]) -> str | None:
    """The first of the faster ones that last to the end."""
    first = None
    for name in series:
        if ratios[name] >= 1:
            first = None
        elif first is None:
            first = name
    return first


def _row(
    suite: Suite, case: CaseRun, measure: Measure, label: str, values: tuple[float, ...]
) -> Row:
    samples = case.samples[label]
    arm = next(arm for arm in case.arms if arm.label == label)
    every = [value for sample in samples for value in sample.timings[measure.name]]
    seconds = spread(values)
    work = [sample.work[measure.name] for sample in samples if measure.name in sample.work]
    return Row(
        measure=measure,
        label=label,
        role=arm.system.role,
        is_repeat=arm.is_repeat,
        ratios=tuple(_ratio(case, values, name, measure.name) for name in suite.baselines),
        seconds=seconds,
        p95_s=p95(every),
        rate=median(work) / seconds.median if work else None,
        peak_memory_bytes=int(median(sample.peak_memory_bytes for sample in samples)),
        memory=_most_memory(samples),
        calls=_medians([sample.calls for sample in samples]),
    )


def _ratio(case: CaseRun, values: tuple[float, ...], baseline: str, measure: str) -> Spread | None:
    base = _values(case.samples.get(baseline, ()), measure)
    return paired_ratio(values, base) if base is not None else None


def _values(samples: tuple[Sample, ...], measure: str) -> tuple[float, ...] | None:
    """One figure a sample, or None unless every sample has it."""
    values = [value for sample in samples if (value := sample.seconds(measure)) is not None]
    return tuple(values) if values and len(values) == len(samples) else None


def _medians(counted: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = sorted({name for counts in counted for name in counts})
    return {name: int(median(counts.get(name, 0) for counts in counted)) for name in names}


def _most_memory(samples: Sequence[Sample]) -> dict[str, int]:
    """The most of any sample: a limit that one sample exceeds is missed."""
    names = dict.fromkeys(name for sample in samples for name in sample.memory)
    return {name: max(sample.memory.get(name, 0) for sample in samples) for name in names}


def _found(case: CaseRun, target: Target | CallsTarget | MemoryTarget) -> float | None:
    samples = case.samples.get(target.system, ())
    if isinstance(target, CallsTarget):
        calls = _medians([sample.calls for sample in samples])
        return float(sum(calls.values())) if calls else None
    if isinstance(target, MemoryTarget):
        return _most_memory(samples).get(target.process)
    values = _values(samples, target.measure)
    if values is None:
        return None
    if target.of is None:
        return spread(values).median
    ratio = _ratio(case, values, target.of, target.measure)
    return ratio.median if ratio is not None else None
