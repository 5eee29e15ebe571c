"""The outcome of one child process: a sample, or the reason there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from bench.suite import JsonValue

# Records are meant to be published, and a file name tells about the machine, not the system.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}/?")


class FailureKind(StrEnum):
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    BAD_RESULT = "bad result"
    NOT_INSTALLED = "not installed"


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason a system has no sample; `output` is for the console and never recorded."""

    kind: FailureKind
    message: str
    output: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one system. Each timing holds every repetition made inside that process.

    `memory` is for a system of several processes: the most bytes that each kind of them held.
    """

    timings: Mapping[str, tuple[float, ...]]
    result_hash: str
    peak_memory_bytes: int
    calls: Mapping[str, int] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    notes: JsonValue = None
    preview: JsonValue = None

    def seconds(self, measure: str) -> float | None:
        """The median repetition of `measure`, or None if this system does not measure it."""
        repetitions = self.timings.get(measure)
        return median(repetitions) if repetitions else None


Outcome = Sample | Failure


def parse_result(result: JsonValue, peak_memory_bytes: int, measures: frozenset[str]) -> Outcome:
    """The sample a child reported, or a failure naming what is wrong with its report."""
    try:
        return _sample(_mapping("result", result), peak_memory_bytes, measures)
    except ValueError as error:
        return Failure(FailureKind.BAD_RESULT, str(error))


def without_paths(value: JsonValue) -> JsonValue:
    """`value` with every absolute path inside its strings blotted out."""
    if isinstance(value, str):
        return _PATH.sub("<path>", value)
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, dict):
        return {key: without_paths(item) for key, item in value.items()}
    return value


def _sample(
    result: dict[str, JsonValue], peak_memory_bytes: int, measures: frozenset[str]
) -> Sample:
    timings = {
        name: _repetitions(name, value)
        for name, value in _mapping("timings", result.get("timings")).items()
    }
    if not timings:
        raise ValueError("no timings")
    unknown = sorted(timings.keys() - measures)
    if unknown:
        raise ValueError(f"timings for undeclared measures: {', '.join(unknown)}")
    result_hash = result.get("result_hash")
    if not isinstance(result_hash, str) or not result_hash:
        raise ValueError("result_hash must be a non-empty string")
    calls = _mapping("calls", result.get("calls") or {})
    work = _mapping("work", result.get("work") or {})
    memory = _mapping("memory", result.get("memory") or {})
    return Sample(
        timings=timings,
        result_hash=result_hash,
        peak_memory_bytes=peak_memory_bytes,
        calls={name: int(_number(f"calls {name}", count)) for name, count in calls.items()},
        work={name: _number(f"work {name}", amount) for name, amount in work.items()},
        memory={name: int(_number(f"memory {name}", held)) for name, held in memory.items()},
        notes=without_paths(result.get("notes")),
        preview=without_paths(result.get("preview")),
    )


def _mapping(what: str, value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object, not {type(value).__name__}")
    return value


def _repetitions(measure: str, value: JsonValue) -> tuple[float, ...]:
    """The seconds of one measure; zero is refused, as no clock that works reads it."""
    values = value if isinstance(value, list) else [value]
    seconds = tuple(_number(f"timing {measure}", item) for item in values)
    if not seconds or min(seconds) == 0:
        raise ValueError(f"timing {measure} is empty or zero")
    return seconds


def _number(what: str, value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} must be a number")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be finite and not negative")
    return float(value)
