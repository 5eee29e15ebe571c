"""Parse policy bundles and decision tests from YAML, with the position of every mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value, YamlReader
from omnigraph.policy.decision import (
    READING_ACTIONS,
    SCOPE_KEYS,
    Action,
    Authority,
    BranchScope,
    BundleKind,
    Decision,
    Group,
    Policy,
    Rule,
    ScopeKey,
    Verdict,
    decide,
    find_action,
    find_kind,
)
from omnigraph.result import Result

POLICY_CODES: Mapping[str, str] = {
    "B100": "The text is not YAML.",
    "B101": "A value of another kind was expected here.",
    "B102": "No such key.",
    "B103": "A key appears twice.",
    "B104": "A key is missing.",
    "B105": "The version of the file is not supported.",
    "B106": "Anchors and aliases are not supported.",
    "B110": "A name is blank.",
    "B111": "A list is empty.",
    "B112": "A name appears twice.",
    "B113": "No group has this name.",
    "B114": "No such action.",
    "B115": "No such branch scope.",
    "B116": "A rule has both scope keys.",
    "B117": "The action does not take this scope key.",
    "B118": "A rule mixes actions of the server with actions of a graph.",
    "B119": "The action is not allowed in a bundle of this kind.",
    "B120": "The key does not fit the actions of the rule.",
    "B121": "This is neither a type nor a property.",
    "B122": "The expected decision is neither `allow` nor `deny`.",
}


BUNDLE_VERSION = 1
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)


def load_bundle(path: str | Path, kind: BundleKind = BundleKind.GRAPH) -> Policy:
    """Read the policy in a file.

    Raises:
        BadRequest: the file cannot be read.
        CompileError: it is not a bundle of this kind; with every mistake and its position.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    return parse_bundle(SourceText.from_bytes(data, str(path)), kind)


def parse_bundle(source: SourceText, kind: BundleKind = BundleKind.GRAPH) -> Policy:
    """Parse a policy, which is named after its source."""
    source.require_encodable()
    return _BundleReader(source, kind).read_bundle()


class _BundleReader:
    def __init__(self, source: SourceText, kind: BundleKind) -> None:
        self._yaml, self._kind, self._source = YamlReader(source, "policy"), kind, source
        self._groups: dict[str, Group] = {}
        self._rule_ids: set[str] = set()

    def read_bundle(self) -> Policy:
        document = self._yaml.read("the bundle")
        policy = None if document is None else self._read_policy(document)
        self._yaml.problems.raise_if_any()
        assert policy is not None, "what could not be read has problems"
        return policy

    def _read_policy(self, document: Value) -> Policy:
        optional = ("groups", "protected_branches", "rules")
        top = self._yaml.read_members(document, ("version",), optional)
        if "version" in top:
            self._yaml.check_version(top["version"], BUNDLE_VERSION)
        if "groups" in top:
            self._groups = self._read_groups(top["groups"])
        protected = frozenset[str]()
        if "protected_branches" in top:
            branches = self._yaml.read_items(top["protected_branches"], "a protected branch")
            protected = frozenset(name for one in branches if (name := self._yaml.read_name(one)))
        rules = self._yaml.read_items(top["rules"], "a rule") if "rules" in top else []
        read = [self._read_rule(one) for one in rules]
        return Policy(
            name=_name_policy(self._source.name),
            kind=self._kind,
            groups=tuple(self._groups.values()),
            protected_branches=protected,
            rules=tuple(rule for rule in read if rule is not None),
        )

    def _read_groups(self, value: Value) -> dict[str, Group]:
        found = {}
        for name, (key, actors) in self._yaml.read_entries(value).items():
            if not name:
                self._yaml.add("B110", "the name of a group is blank", key.span)
            members = self._yaml.read_names(Value(actors.node, f"group '{name}'"), "an actor")
            found[name] = Group(name, frozenset(actor for actor, _ in members))
        return found

    def _read_rule(self, value: Value) -> Rule | None:
        members = self._yaml.read_members(value, ("id", "allow"))
        id = self._yaml.read_name(Value(members["id"].node, "the id")) if "id" in members else None
        if id is not None and id in self._rule_ids:
            self._yaml.add("B112", f"duplicate rule id '{id}'", members["id"].span)
        if id is None or "allow" not in members:
            return None
        self._rule_ids.add(id)
        what = f"rule '{id}'"
        optional = (*ScopeKey, "except", "queries")
        allow = self._yaml.read_members(
            Value(members["allow"].node, what), ("actors", "actions"), optional
        )
        group = self._read_group(allow["actors"]) if "actors" in allow else None
        actions = self._read_actions(allow["actions"], what) if "actions" in allow else {}
        scope_key, scope = self._read_scope(allow, actions, what)
        excluded = self._read_excluded(allow, actions, what)
        queries = self._read_queries(allow, actions, what)
        if group is None or not actions:
            return None
        return Rule(id, group, frozenset(actions), scope_key, scope, excluded, queries)

    def _read_group(self, value: Value) -> str | None:
        members = self._yaml.read_members(value, ("group",))
        if "group" not in members:
            return None
        name = self._yaml.read_name(members["group"])
        if name is None:
            return None
        if name not in self._groups:
            hint = _suggest(name, self._groups)
            self._yaml.add("B113", f"no such group '{name}'", members["group"].span, hint=hint)
            return None
        return name

    def _read_actions(self, value: Value, what: str) -> dict[Action, Value]:
        named = self._yaml.read_names(Value(value.node, f"'actions' of {what}"), "an action")
        found: dict[Action, Value] = {}
        for name, item in named:
            action = find_action(name)
            if action is None:
                hint = _suggest(name, {str(one): one for one in Action})
                self._yaml.add("B114", f"no such action '{name}'", item.span, hint=hint)
            else:
                found[action] = item
        kinds = {find_kind(action) for action in found}
        if len(kinds) > 1:
            message = f"{what} mixes actions of the server with actions of a graph"
            self._yaml.add("B118", message, value.span)
        elif kinds and kinds != {self._kind}:
            action, item = next(iter(found.items()))
            message = f"action '{action}' is not allowed in a {self._kind} bundle"
            self._yaml.add("B119", message, item.span)
        return found

    def _read_scope(
        self, allow: Mapping[str, Value], actions: Mapping[Action, Value], what: str
    ) -> tuple[ScopeKey | None, BranchScope]:
        given = [key for key in ScopeKey if key in allow]
        if len(given) > 1:
            self._yaml.add("B116", f"{what} has both scope keys", allow[given[1]].span)
            return None, BranchScope.ANY
        if not given:
            return None, BranchScope.ANY
        key = given[0]
        for action, item in actions.items():
            if SCOPE_KEYS[action] is not key:
                allowed = SCOPE_KEYS[action]
                hint = f"it takes `{allowed}`" if allowed else "it takes no scope"
                message = f"action '{action}' does not take '{key}'"
                self._yaml.add("B117", message, item.span, hint=hint)
        word = self._yaml.read_text(allow[key])
        if word is None:
            return None, BranchScope.ANY
        if word not in set(BranchScope):
            message = f"no such branch scope '{word}'"
            hint = f"use one of {', '.join(BranchScope)}"
            self._yaml.add("B115", message, allow[key].span, hint=hint)
            return None, BranchScope.ANY
        return key, BranchScope(word)

    def _read_excluded(
        self, allow: Mapping[str, Value], actions: Mapping[Action, Value], what: str
    ) -> frozenset[str]:
        if "except" not in allow:
            return frozenset()
        others = sorted(set(actions) - READING_ACTIONS)
        if others:
            message = f"{what} cannot use `except` with action '{others[0]}'"
            hint = "`except` is only allowed with read, export and change"
            self._yaml.add("B120", message, actions[others[0]].span, hint=hint)
        found = self._yaml.read_names(allow["except"], "a type or property")
        for name, item in found:
            if not _NAME.fullmatch(name):
                message = f"'{name}' is neither a type nor a property"
                hint = "write Type or Type.property"
                self._yaml.add("B121", message, item.span, hint=hint)
        return frozenset(name for name, _ in found)

    def _read_queries(
        self, allow: Mapping[str, Value], actions: Mapping[Action, Value], what: str
    ) -> frozenset[str] | None:
        if "queries" not in allow:
            return None
        others = sorted(set(actions) - {Action.INVOKE_QUERY})
        if others:
            message = f"{what} cannot use `queries` with action '{others[0]}'"
            hint = "`queries` is only allowed with invoke_query"
            self._yaml.add("B120", message, actions[others[0]].span, hint=hint)
        return frozenset(name for name, _ in self._yaml.read_names(allow["queries"], "a query"))


def _name_policy(source: str) -> str:
    """Return the stem of a file: `library` of `conf/library.policy.yaml`."""
    name = PurePath(source).name
    for ending in (".yaml", ".yml", ".policy"):
        name = name.removesuffix(ending)
    return name or source


def _suggest(name: str, known: Mapping[str, object]) -> str | None:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known: {', '.join(sorted(known))}" if known else None


CASES_VERSION = 1
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


class CaseResult(Result, frozen=True, kw_only=True):
    """A case, and the decision about it."""

    id: str
    passed: bool
    expect: Verdict
    decision: Verdict
    actor: str | None
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None
    matched_rule: str | None = None
    message: str

    @classmethod
    def of(cls, case: DecisionCase, found: Decision) -> CaseResult:
        expected = Verdict.ALLOW if case.expects_allow else Verdict.DENY
        facts = msgspec.structs.asdict(found)
        return cls(id=case.id, passed=found.decision is expected, expect=expected, **facts)


def parse_cases(source: SourceText) -> tuple[DecisionCase, ...]:
    """Parse the cases of a file.

    Raises:
        CompileError: it is not a file of cases; with every mistake and its position.
    """
    return _CaseReader(source).read_cases()


def run_cases(authority: Authority, cases: Iterable[DecisionCase]) -> tuple[CaseResult, ...]:
    return tuple(
        CaseResult.of(
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
                self._yaml.check_version(top["version"], CASES_VERSION)
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
        return DecisionCase(id, str(texts["actor"]), action, expected, **_pick_targets(texts))

    def _read_action(self, word: str, value: Value) -> Action | None:
        found = find_action(word)
        if found is None:
            close = get_close_matches(word, list(Action), n=1)
            hint = f"did you mean `{close[0]}`?" if close else None
            self._yaml.add("B114", f"no such action '{word}'", value.span, hint=hint)
        return found


def _pick_targets(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: texts.get(name) for name in ("branch", "target_branch", "query")}
