"""One function decides; here it is compared with a truth table and with a plain oracle."""

from __future__ import annotations

import itertools
import random

import pytest
import yaml

from omnigraph.errors import PolicyDenied
from omnigraph.policy import Action, BundleKind, Decision, NoPolicy, authorize, decide
from omnigraph.policy.restricted_catalog import find_hidden
from policy.bundles import ACTORS, BRANCHES, LIBRARY, NAMES, QUERIES, bundle, random_bundle
from policy.oracle import rules_that_allow, sees

BOT, MARIA, STRANGER = "act-bot-1", "act-maria", "act-eve"

# Whether the policy of the documentation allows it, by (branch, target branch) presented.
TRUTH: dict[tuple[str, str], dict[tuple[str | None, str | None], bool]] = {
    (BOT, "read"): {(None, None): True, ("main", None): True, ("dev", None): True},
    (BOT, "export"): {(None, None): True, ("main", None): True, ("dev", None): True},
    (BOT, "change"): {(None, None): False, ("main", None): False, ("dev", None): True},
    (BOT, "branch_create"): {("main", "dev"): True, ("dev", "main"): False, (None, None): False},
    (BOT, "branch_delete"): {(None, "dev"): True, (None, "main"): False, (None, None): False},
    (BOT, "branch_merge"): {("dev", "main"): False, ("main", "dev"): False},
    (BOT, "schema_apply"): {(None, "main"): False, (None, None): False},
    (BOT, "invoke_query"): {(None, None): True},
    (BOT, "admin"): {(None, None): False},
    (BOT, "graph_list"): {(None, None): False},
    (MARIA, "read"): {(None, None): False, ("main", None): False, ("dev", None): False},
    (MARIA, "export"): {(None, None): False, ("main", None): False, ("dev", None): False},
    (MARIA, "change"): {("main", None): False, ("dev", None): False},
    (MARIA, "branch_create"): {("main", "dev"): False},
    (MARIA, "branch_delete"): {(None, "dev"): False},
    (MARIA, "branch_merge"): {("dev", "main"): True, ("main", "dev"): False, (None, None): False},
    (MARIA, "schema_apply"): {(None, "main"): True, (None, "dev"): False, (None, None): False},
    (MARIA, "invoke_query"): {(None, None): False},
    (MARIA, "admin"): {(None, None): False},
    (MARIA, "graph_list"): {(None, None): False},
}


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("actor", [BOT, MARIA])
def test_the_truth_table_of_the_documentation(actor: str, action: Action) -> None:
    policy = bundle(LIBRARY)
    for (branch, target), expected in TRUTH[actor, action].items():
        found = decide(policy, actor, action, branch=branch, target_branch=target)
        assert found.allowed is expected, found.message
        assert (found.matched_rule is not None) is expected


@pytest.mark.parametrize("action", list(Action))
def test_unknown_actors_and_no_actor_may_do_nothing(action: Action) -> None:
    policy = bundle(LIBRARY)
    for branch, target in itertools.product((None, "main", "dev"), repeat=2):
        stranger = decide(policy, STRANGER, action, branch=branch, target_branch=target)
        nobody = decide(policy, None, action, branch=branch, target_branch=target)
        assert not stranger.allowed
        assert not nobody.allowed
        if action is not Action.GRAPH_LIST:
            assert "unknown actor" in stranger.message
            assert "needs an actor" in nobody.message


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("actor", [BOT, None])
def test_without_a_policy(action: Action, actor: str | None) -> None:
    is_of_graph = action is not Action.GRAPH_LIST
    assert decide(NoPolicy.OPEN, actor, action, branch="main").allowed is is_of_graph
    may_read = action is Action.READ and actor is not None
    assert decide(NoPolicy.DEFAULT_DENY, actor, action, branch="main").allowed is may_read


def test_a_denial_says_who_what_and_where() -> None:
    policy = bundle(LIBRARY)
    with pytest.raises(PolicyDenied) as caught:
        authorize(policy, BOT, Action.CHANGE, branch="main")
    error = caught.value
    assert "policy denied action 'change' on branch 'main' to actor 'act-bot-1'" in error.message
    assert (error.http_status, error.code, error.wire()["code"]) == (
        403,
        "policy_denied",
        "forbidden",
    )
    assert error.wire()["policy_denied"] == {"action": "change", "actor": BOT, "branch": "main"}
    assert authorize(policy, BOT, Action.CHANGE, branch="dev").matched_rule == (
        "agents-write-side-branches"
    )


def test_a_padded_branch_is_the_branch() -> None:
    policy = bundle(LIBRARY)
    assert not decide(policy, BOT, Action.CHANGE, branch=" main ").allowed
    assert not decide(policy, BOT, Action.BRANCH_DELETE, target_branch="main\t").allowed


def test_the_first_matching_rule_by_id_is_named() -> None:
    policy = bundle(
        "version: 1\ngroups: {a: [x]}\nrules:\n"
        "  - {id: z, allow: {actors: {group: a}, actions: [read]}}\n"
        "  - {id: b, allow: {actors: {group: a}, actions: [read]}}\n"
    )
    assert decide(policy, "x", Action.READ).matched_rule == "b"


def test_rules_about_single_queries() -> None:
    policy = bundle(
        "version: 1\ngroups: {a: [x]}\nrules:\n"
        "  - {id: r, allow: {actors: {group: a}, actions: [invoke_query], queries: [find]}}\n"
    )
    assert decide(policy, "x", Action.INVOKE_QUERY, query="find").allowed
    assert not decide(policy, "x", Action.INVOKE_QUERY, query="other").allowed
    assert not decide(policy, "x", Action.INVOKE_QUERY).allowed


def test_a_bundle_of_the_server_decides_about_nothing_else() -> None:
    text = (
        "version: 1\ngroups: {a: [x]}\n"
        "rules: [{id: r, allow: {actors: {group: a}, actions: [graph_list]}}]\n"
    )
    server = bundle(text, BundleKind.CLUSTER)
    assert decide(server, "x", Action.GRAPH_LIST).allowed
    assert not decide(server, "x", Action.READ, branch="main").allowed
    assert not decide(bundle(LIBRARY), BOT, Action.GRAPH_LIST).allowed


def test_a_decision_as_a_document() -> None:
    found = decide(bundle(LIBRARY), BOT, Action.CHANGE, branch="dev")
    assert found.wire() == {
        "decision": "allow",
        "actor": BOT,
        "action": "change",
        "branch": "dev",
        "matched_rule": "agents-write-side-branches",
        "message": "policy allowed action 'change' on branch 'dev' to actor 'act-bot-1': "
        "rule 'agents-write-side-branches'",
    }


def compare_with_oracle(seed: int) -> int:
    """Compare every decision of a random bundle; gives how many were allowed."""
    body = random_bundle(random.Random(seed))
    policy = bundle(yaml.safe_dump(body))
    allowed = 0
    asked = itertools.product(
        (*ACTORS, "eve", None), Action, (None, *BRANCHES), (None, *BRANCHES), (None, *QUERIES)
    )
    for actor, action, branch, target, query in asked:
        found = decide(policy, actor, action, branch=branch, target_branch=target, query=query)
        rules = rules_that_allow(body, actor, action, branch, target, query)
        expected = rules[0]["id"] if rules else None
        assert (found.allowed, found.matched_rule) == (bool(rules), expected), (seed, found)
        assert isinstance(found, Decision)
        allowed += found.allowed
    for actor, action, branch in itertools.product(ACTORS, ("read", "export"), (None, *BRANCHES)):
        if not rules_that_allow(body, actor, action, branch, None):
            continue
        hidden = find_hidden(policy, actor, Action(action), branch)
        for name in NAMES:
            is_hidden = name in hidden or name.split(".")[0] in hidden
            assert is_hidden is not sees(body, actor, action, branch, name), (seed, actor, name)
    return allowed


def test_decisions_agree_with_the_oracle() -> None:
    allowed = sum(compare_with_oracle(seed) for seed in range(60))
    assert allowed > 1_000, "the bundles must allow something"


@pytest.mark.fuzz
def test_many_decisions_agree_with_the_oracle() -> None:
    first = random.SystemRandom().randrange(1 << 40)
    print(f"seeds from {first}")
    for seed in range(first, first + 3_000):
        compare_with_oracle(seed)
