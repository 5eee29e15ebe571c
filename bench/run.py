"""Running a suite: the answers first, then the rounds of timed samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.outcome import Failure, FailureKind, Sample
from bench.process import Request, run_prepare, run_sample
from bench.schedule import Arm, arms_of, round_order
from bench.suite import Case, JsonValue, Suite, System

MINIMUM_SAMPLES = 5
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two systems that gave different answers, with what each showed of its answer."""

    first: str
    second: str
    first_hash: str
    second_hash: str
    first_preview: JsonValue = None
    second_preview: JsonValue = None


@dataclass(frozen=True, slots=True)
class CaseRun:
    """All that happened in one case. `samples` holds the timed rounds of arms that never failed."""

    case: Case
    arms: tuple[Arm, ...]
    samples: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    disagreement: Disagreement | None = None

    @property
    def is_sound(self) -> bool:
        """True if there are samples to believe; a peer that is not installed does no harm."""
        kinds = {failure.kind for failure in self.failures.values()}
        harmless = kinds <= {FailureKind.NOT_INSTALLED}
        return harmless and self.disagreement is None and bool(self.samples)


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A finished suite: its cases in order, up to and including one that disagreed."""

    suite: Suite
    cases: tuple[CaseRun, ...]
    samples: int
    quick: bool
    started: datetime
    finished: datetime

    @property
    def is_sound(self) -> bool:
        return all(case.is_sound for case in self.cases)


def run_suite(
    suite: Suite, *, samples: int = MINIMUM_SAMPLES, quick: bool = False, announce: Announce
) -> SuiteRun:
    """Every case of `suite`. A disagreement ends the run, for no time after it means anything."""
    if samples < MINIMUM_SAMPLES:
        raise ValueError(f"a median needs at least {MINIMUM_SAMPLES} samples, not {samples}")
    started = datetime.now(UTC)
    cases: list[CaseRun] = []
    for case in suite.chosen_cases(quick=quick):
        cases.append(_run_case(suite, case, samples, announce))
        if cases[-1].disagreement is not None:
            break
    return SuiteRun(suite, tuple(cases), samples, quick, started, datetime.now(UTC))


def find_disagreement(
    baseline: str, reference: Sample, samples: Mapping[str, Sample]
) -> Disagreement | None:
    """The first arm whose answer is not the baseline's, or None if all agree."""
    for label, sample in samples.items():
        if sample.result_hash != reference.result_hash:
            return Disagreement(
                baseline,
                label,
                reference.result_hash,
                sample.result_hash,
                reference.preview,
                sample.preview,
            )
    return None


@dataclass(slots=True)
class _Rounds:
    """The state of one case while its rounds run."""

    suite: Suite
    case: Case
    inputs: str | None
    announce: Announce
    active: list[Arm]
    failures: dict[str, Failure]
    reference: Sample | None = None

    def run(self, round_index: int) -> dict[str, Sample]:
        """One sample of every active arm. An arm that fails takes no part in later rounds."""
        samples: dict[str, Sample] = {}
        for arm in round_order(tuple(self.active), round_index):
            outcome = run_sample(self._request(arm.system))
            if isinstance(outcome, Failure):
                self._drop(arm, outcome)
            else:
                samples[arm.label] = outcome
        return samples

    def check(self, samples: Mapping[str, Sample]) -> Disagreement | None:
        """Compare a round's answers with the first answer the baseline ever gave."""
        baseline = self.suite.baseline
        if self.reference is None:
            self.reference = samples.get(baseline)
        if self.reference is None:
            return None
        return find_disagreement(baseline, self.reference, samples)

    def _request(self, system: System) -> Request:
        spec: dict[str, JsonValue] = {
            "suite": self.suite.name,
            "case": self.case.name,
            "system": system.name,
            "inputs": self.inputs,
            "parameters": {**self.case.parameters, **system.parameters},
        }
        measures = frozenset(measure.name for measure in self.suite.measures)
        return Request(system.entry, spec, measures, self.suite.timeout_s)

    def _drop(self, arm: Arm, failure: Failure) -> None:
        self.failures[arm.label] = failure
        self.active.remove(arm)
        self.announce(f"  {arm.label}: {failure}")
        if failure.output:
            self.announce(failure.output.rstrip())


def _run_case(suite: Suite, case: Case, samples: int, announce: Announce) -> CaseRun:
    missing = {system.name: _missing(system) for system in suite.systems}
    failures = {name: failure for name, failure in missing.items() if failure is not None}
    installed = [system for system in suite.systems if system.name not in failures]
    arms = arms_of(installed, suite.baseline)
    result = CaseRun(case, arms, failures=failures)
    if suite.baseline in failures:
        return result
    with _inputs(suite, case) as inputs:
        if isinstance(inputs, Failure):
            announce(f"  prepare: {inputs}\n{inputs.output.rstrip()}")
            return replace(result, failures={**failures, "prepare": inputs})
        rounds = _Rounds(suite, case, inputs, announce, list(arms), failures)
        return _timed_rounds(result, rounds, samples)


def _timed_rounds(result: CaseRun, rounds: _Rounds, samples: int) -> CaseRun:
    """The gate round, whose times are thrown away, then `samples` timed rounds."""
    timed: list[dict[str, Sample]] = []
    for index in range(-1, samples):
        label = "answers" if index < 0 else f"round {index + 1} of {samples}"
        rounds.announce(f"{rounds.suite.name} / {rounds.case.name}: {label}")
        taken = rounds.run(max(index, 0))
        disagreement = rounds.check(taken)
        if disagreement is not None:
            return replace(result, failures=dict(rounds.failures), disagreement=disagreement)
        if rounds.suite.baseline in rounds.failures:
            return replace(result, failures=dict(rounds.failures))
        if index >= 0:
            timed.append(taken)
    return replace(
        result,
        samples=_by_arm(rounds.active, timed),
        failures=dict(rounds.failures),
    )


def _by_arm(
    arms: Sequence[Arm], rounds: Sequence[Mapping[str, Sample]]
) -> dict[str, tuple[Sample, ...]]:
    return {arm.label: tuple(taken[arm.label] for taken in rounds) for arm in arms}


@contextmanager
def _inputs(suite: Suite, case: Case) -> Iterator[str | Failure | None]:
    """The folder that `prepare` filled, kept for the length of the case."""
    if suite.prepare is None:
        yield None
        return
    spec: dict[str, JsonValue] = {
        "suite": suite.name,
        "case": case.name,
        "parameters": dict(case.parameters),
    }
    request = Request(suite.prepare, spec, frozenset(), suite.timeout_s)
    with tempfile.TemporaryDirectory(prefix="bench-inputs-") as folder:
        failure = run_prepare(request, Path(folder))
        yield failure if failure is not None else folder


def _missing(system: System) -> Failure | None:
    for package in system.requires:
        try:
            version(package)
        except PackageNotFoundError:
            return Failure(FailureKind.NOT_INSTALLED, f"needs the package {package}")
    return None
