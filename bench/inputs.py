"""The inputs of the samples of a case: the data, and each system's prepared form of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.environments import interpreter, versions
from bench.outcome import Failure
from bench.prepared import Store, prepared
from bench.process import Request
from bench.suite import Case, Environment, JsonValue, Suite, System

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of the data and, by system, of its store; with what could not be prepared."""

    inputs: str | None = None
    stores: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """Everything that is done once before the rounds of a case; folders last as long as `held`."""

    suite: Suite
    case: Case
    store: Store
    held: ExitStack
    announce: Announce

    def of(self, systems: Sequence[System]) -> Folders:
        """Prepare the data, then each system; one that fails is excluded from the case."""
        inputs: str | None = None
        if self.suite.prepare is not None:
            self._say("the data")
            found = self._filled(self.suite.prepare, None, None)
            if isinstance(found, Failure):
                tell_failure(self.announce, "prepare", found)
                return Folders(failures={"prepare": found})
            inputs = found
        stores, failures = {}, {}
        for system in systems:
            if system.prepare is None:
                continue
            self._say(system.name)
            found = self._filled(system.prepare, system, inputs)
            if isinstance(found, Failure):
                tell_failure(self.announce, system.name, found)
                failures[system.name] = found
            else:
                stores[system.name] = found
        return Folders(inputs, stores, failures)

    def _say(self, what: str) -> None:
        self.announce(f"{self.suite.name} / {self.case.name}: preparing {what}")

    def _filled(self, entry: str, system: System | None, inputs: str | None) -> str | Failure:
        spec = case_spec(self.suite, self.case, system)
        spec["inputs"] = inputs
        python = interpreter(system.environment if system else Environment.PROJECT)
        request = Request(entry, spec, frozenset(), self.suite.timeout_s, python)
        folder = prepared(request, self.store, self._cached_by(system, inputs))
        found = self.held.enter_context(folder)
        return found if isinstance(found, Failure) else str(found)

    def _cached_by(self, system: System | None, inputs: str | None) -> dict[str, JsonValue] | None:
        """Return the key of the prepared data, or None if it is not cached."""
        if not self.suite.cached_by:
            return None
        cached_by: dict[str, JsonValue] = {
            name: self.case.parameters[name] for name in self.suite.cached_by
        }
        if system is not None:
            cached_by["system"] = dict(system.parameters)
            cached_by["versions"] = dict(versions([system]))
            # Its name is a digest in turn, so other data makes another store.
            cached_by["data"] = Path(inputs).name if inputs else None
        return cached_by


def case_spec(suite: Suite, case: Case, system: System | None) -> dict[str, JsonValue]:
    """Return the specification passed to every child of a case."""
    return {
        "suite": suite.name,
        "case": case.name,
        "system": system.name if system else None,
        "parameters": {**case.parameters, **(system.parameters if system else {})},
    }


def tell_failure(announce: Announce, name: str, failure: Failure) -> None:
    """Announce a failure with the last output of the child it happened in."""
    announce(f"  {name}: {failure}")
    if failure.output:
        announce(failure.output.rstrip())
