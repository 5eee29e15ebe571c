"""Tests of a policy: requests, each with the decision that is expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value, YamlReader
from omnigraph.policy.actions import Action, find_action
from omnigraph.policy.bundle import Authority
from omnigraph.policy.decision import Decision, decide

VERSION = 1
_EXPECTED = {"allow": True, "deny": False}


@dataclass(frozen=True, slots=True)
class DecisionCase:
    id: str
    actor: str
    action: Action
    expects_allow: bool
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: DecisionCase
    decision: Decision

    @property
    def passed(self) -> bool:
        return self.decision.allowed == self.case.expects_allow

    def wire(self) -> dict[str, object]:
        expected = "allow" if self.case.expects_allow else "deny"
        found = self.decision.wire()
        return {"id": self.case.id, "passed": self.passed, "expect": expected, **found}


def parse_cases(source: SourceText) -> tuple[DecisionCase, ...]:
    """The cases of a file.

    Raises:
        CompileError: it is not a file of cases; with every mistake and its place.
    """
    return _CaseReader(source).read_cases()


def run_cases(authority: Authority, cases: Iterable[DecisionCase]) -> tuple[CaseResult, ...]:
    return tuple(
        CaseResult(
            case,
            decide(
                authority,
                case.actor,
                case.action,
                branch=case.branch,
                target_branch=case.target_branch,
                query=case.query,
            ),
        )
        for case in cases
    )


class _CaseReader:
    def __init__(self, source: SourceText) -> None:
        self._yaml = YamlReader(source, "policy")
        self._ids: set[str] = set()

    def read_cases(self) -> tuple[DecisionCase, ...]:
        document = self._yaml.read("the file of tests")
        found: list[DecisionCase | None] = []
        if document is not None:
            top = self._yaml.read_members(document, ("version", "cases"))
            if "version" in top:
                self._yaml.check_version(top["version"], VERSION)
            if "cases" in top:
                found = [
                    self._read_case(one) for one in self._yaml.read_items(top["cases"], "a case")
                ]
        self._yaml.problems.raise_if_any()
        return tuple(case for case in found if case is not None)

    def _read_case(self, value: Value) -> DecisionCase | None:
        required = ("id", "actor", "action", "expect")
        members = self._yaml.read_members(value, required, ("branch", "target_branch", "query"))
        texts = {name: self._yaml.read_name(one) for name, one in members.items()}
        if any(texts.get(name) is None for name in required):
            return None
        id, action = str(texts["id"]), self._read_action(str(texts["action"]), members["action"])
        if id in self._ids:
            self._yaml.add("B112", f"duplicate case id '{id}'", members["id"].span)
        self._ids.add(id)
        expected = _EXPECTED.get(str(texts["expect"]))
        if expected is None:
            self._yaml.add("B122", "'expect' must be allow or deny", members["expect"].span)
        if action is None or expected is None:
            return None
        return DecisionCase(id, str(texts["actor"]), action, expected, **_pick_places(texts))

    def _read_action(self, word: str, value: Value) -> Action | None:
        found = find_action(word)
        if found is None:
            close = get_close_matches(word, list(Action), n=1)
            hint = f"did you mean `{close[0]}`?" if close else None
            self._yaml.add("B114", f"no such action '{word}'", value.span, hint=hint)
        return found


def _pick_places(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: texts.get(name) for name in ("branch", "target_branch", "query")}
