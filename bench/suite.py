"""The declaration of a suite: a question, the systems that answer it, and the measures."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
Parameters = Mapping[str, JsonValue]


class Role(StrEnum):
    """The role of a system in a suite."""

    OURS = "ours"
    PEER = "peer"
    BARE = "bare"


class Environment(StrEnum):
    """The Python that runs a system."""

    PROJECT = "project"
    PEERS = "peers"
    CONNECT = "connect"
    """The project's own, with what a client of Spark Connect needs beside it."""


@dataclass(frozen=True, slots=True)
class System:
    """One way to do the job. `entry` is `module:function`, imported only in the child process.

    `requires` names installed distributions; a system lacking one is reported as not installed
    rather than as failed. `parameters` win over the case's parameters of the same name.
    `prepare` (`module:function`) runs once per case, in the system's own environment, and fills
    a folder that each of its samples then reads as `spec["store"]`.
    """

    name: str
    role: Role
    entry: str
    parameters: Parameters = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    environment: Environment = Environment.PROJECT
    prepare: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One timed thing. `unit` names what a system counts in its `work`, for a rate per second."""

    name: str
    meaning: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One size or setting at which all systems are compared."""

    name: str
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A promise about one system: a maximum of seconds, or of the ratio to the baseline `of`.

    `aim` is what we would like to reach beyond the promise.
    """

    system: str
    measure: str
    at_most: float
    of: str | None = None
    aim: float | None = None


@dataclass(frozen=True, slots=True)
class GrowthTarget:
    """A promise about the last case of a growing suite, as a ratio to the first."""

    system: str
    measure: str
    at_most: float
    aim: float | None = None


@dataclass(frozen=True, slots=True)
class CallsTarget:
    """A promise about the storage calls of a system, all kinds together, in every case."""

    system: str
    at_most: int


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """A promise about the most bytes that one kind of process of a system holds, in every case."""

    system: str
    process: str
    at_most: int


AnyTarget = Target | GrowthTarget | CallsTarget | MemoryTarget


@dataclass(frozen=True, slots=True)
class Suite:
    """A question, and everything needed to answer it with ratios.

    The first of `baselines` is the one run against itself for the noise floor. `quick_cases`
    replace `cases` under `--quick`. `prepare` (`module:function`) runs once per case in its own
    child and fills a folder that every sample then reads as `spec["inputs"]`. With `cached_by`, the
    names of the parameters that decide what is prepared, such folders are cached for later runs.
    `axis` names what grows from the first case to the last, and asks for a table of growth;
    `yardstick` is a measure of work that is the same in every case, by which growth is divided.
    `series` are measures of growing sizes; of each the report says from which size on a system
    overtakes the baseline.
    """

    name: str
    question: str
    systems: tuple[System, ...]
    measures: tuple[Measure, ...]
    baselines: tuple[str, ...]
    cases: tuple[Case, ...] = (Case("default"),)
    quick_cases: tuple[Case, ...] = ()
    targets: tuple[AnyTarget, ...] = ()
    prepare: str | None = None
    cached_by: tuple[str, ...] = ()
    axis: str | None = None
    yardstick: str | None = None
    series: tuple[tuple[str, ...], ...] = ()
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        systems = _unique("system", (system.name for system in self.systems))
        measures = _unique("measure", (measure.name for measure in self.measures))
        _unique("case", (case.name for case in self.cases))
        _unique("quick case", (case.name for case in self.quick_cases))
        if not (systems and measures and self.baselines and self.cases):
            raise ValueError(f"suite {self.name!r} needs systems, measures, a baseline and a case")
        for baseline in self.baselines:
            _known("baseline", baseline, systems)
        for name in (name for one in self.series for name in one):
            _known("measure of a series", name, measures)
        if self.yardstick is not None:
            _known("yardstick", self.yardstick, measures)
        for target in self.targets:
            self._check(target, systems, measures)

    def _check(self, target: AnyTarget, systems: frozenset[str], measures: frozenset[str]) -> None:
        _known("target system", target.system, systems)
        if isinstance(target, Target | GrowthTarget):
            _known("target measure", target.measure, measures)
        if isinstance(target, Target) and target.of is not None:
            _known("target baseline", target.of, frozenset(self.baselines))
        if isinstance(target, GrowthTarget) and self.axis is None:
            raise ValueError(f"suite {self.name!r} promises growth and has no axis")

    @property
    def baseline(self) -> str:
        """The system every headline is a ratio to."""
        return self.baselines[0]

    def system(self, name: str) -> System:
        return next(system for system in self.systems if system.name == name)

    def chosen_cases(self, *, quick: bool) -> tuple[Case, ...]:
        return (self.quick_cases or self.cases) if quick else self.cases


def find_suites(package: str = "bench.suites") -> dict[str, Suite]:
    """Every suite declared in `package`, by name, in name order."""
    root = importlib.import_module(package)
    found: dict[str, Suite] = {}
    for info in pkgutil.iter_modules(root.__path__):
        suite = _declared_in(importlib.import_module(f"{package}.{info.name}"))
        if suite.name in found:
            raise ValueError(f"two suites are named {suite.name!r}")
        found[suite.name] = suite
    return dict(sorted(found.items()))


def _declared_in(module: ModuleType) -> Suite:
    suite = getattr(module, "SUITE", None)
    if not isinstance(suite, Suite):
        raise TypeError(f"{module.__name__} must declare SUITE = Suite(...)")
    return suite


def _unique(kind: str, names: Iterable[str]) -> frozenset[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{kind} {name!r} is declared twice")
        seen.add(name)
    return frozenset(seen)


def _known(kind: str, name: str, known: frozenset[str]) -> None:
    if name not in known:
        raise ValueError(f"{kind} {name!r} is not one of {', '.join(sorted(known))}")
