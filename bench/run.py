"""Running a suite: the answers first, then the rounds of timed samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from bench.environments import interpreter, missing_package
from bench.inputs import Announce, Folders, Preparation, case_spec, tell_failure
from bench.outcome import Failure, FailureKind, Sample
from bench.prepared import Store
from bench.process import Request, run_sample
from bench.schedule import Arm, arms_of, round_order
from bench.suite import Case, Environment, JsonValue, Suite, System

MINIMUM_SAMPLES = 5


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
    def reference(self) -> str:
        """The system whose answers the others must give, and which runs against itself."""
        return next((arm.system.name for arm in self.arms if arm.is_repeat), "")

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

    @property
    def reference(self) -> str:
        """The system that ran against itself: the baseline, or what stood in for it."""
        return (self.cases[0].reference if self.cases else "") or self.suite.baseline


def run_suite(
    suite: Suite,
    *,
    samples: int = MINIMUM_SAMPLES,
    quick: bool = False,
    announce: Announce,
    store: Store | None = None,
) -> SuiteRun:
    """Every case of `suite`. A disagreement ends the run, for no time after it means anything."""
    if samples < MINIMUM_SAMPLES:
        raise ValueError(f"a median needs at least {MINIMUM_SAMPLES} samples, not {samples}")
    started = datetime.now(UTC)
    cases: list[CaseRun] = []
    for case in suite.chosen_cases(quick=quick):
        cases.append(_run_case(suite, case, samples, announce, store or Store()))
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
    baseline: str
    folders: Folders
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
        if self.reference is None:
            self.reference = samples.get(self.baseline)
        if self.reference is None:
            return None
        return find_disagreement(self.baseline, self.reference, samples)

    def _request(self, system: System) -> Request:
        spec = case_spec(self.suite, self.case, system)
        spec["inputs"] = self.folders.inputs
        spec["store"] = self.folders.stores.get(system.name)
        measures = frozenset(measure.name for measure in self.suite.measures)
        python = interpreter(system.environment)
        return Request(system.entry, spec, measures, self.suite.timeout_s, python)

    def _drop(self, arm: Arm, failure: Failure) -> None:
        self.failures[arm.label] = failure
        self.active.remove(arm)
        tell_failure(self.announce, arm.label, failure)


def _run_case(suite: Suite, case: Case, samples: int, announce: Announce, store: Store) -> CaseRun:
    failures = _not_installed(suite)
    baseline = _baseline(suite, failures)
    installed = [system for system in suite.systems if system.name not in failures]
    result = CaseRun(case, arms_of(installed, baseline or suite.baseline), failures=failures)
    if baseline is None:
        return result
    with ExitStack() as held:
        folders = Preparation(suite, case, store, held, announce).of(installed)
        failures = {**failures, **folders.failures}
        if {"prepare", baseline} & folders.failures.keys():
            return replace(result, failures=failures)
        arms = [arm for arm in result.arms if arm.system.name not in failures]
        rounds = _Rounds(suite, case, baseline, folders, announce, arms, failures)
        return _timed_rounds(result, rounds, samples)


def _not_installed(suite: Suite) -> dict[str, Failure]:
    missing = {system.name: missing_package(system) for system in suite.systems}
    return {
        name: Failure(FailureKind.NOT_INSTALLED, f"needs the package {package}")
        for name, package in missing.items()
        if package is not None
    }


def _baseline(suite: Suite, failures: Mapping[str, Failure]) -> str | None:
    """The first baseline that is installed; for absent peers the first system that is.

    Without its peers a suite has no ratios, but it still shows that it runs, and its seconds.
    """
    for name in suite.baselines:
        if name not in failures:
            return name
    if any(suite.system(name).environment is Environment.PROJECT for name in suite.baselines):
        return None
    return next((system.name for system in suite.systems if system.name not in failures), None)


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
        if rounds.baseline in rounds.failures:
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
