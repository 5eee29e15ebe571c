"""Policies and stored queries, the same through every surface that has them.

The library opens its graph under the rules that the server has; the command reaches storage without
any, so it takes part only through the server.
"""

from __future__ import annotations

import json

import pytest

from behaviour.entry_points import SERVED
from behaviour.library_surfaces import SdkSurface
from behaviour.scenarios import list_error_kinds, run_everywhere
from behaviour.served_copies import Terms
from policy import guarded_people
from policy.guarded_people import SCHEMA

RULES = f"""\
{guarded_people.RULES}
  - id: admins-run
    allow: {{ actors: {{ group: admins }}, actions: [invoke_query] }}
  - id: agents-run
    allow: {{ actors: {{ group: agents }}, actions: [invoke_query], queries: [older, add] }}
  - id: readers
    allow: {{ actors: {{ group: others }}, actions: [read] }}
"""
QUERIES = """\
query older($than: I32) @description("by age") {
  match { $p: Person  $p.age > $than } return { $p.name, $p.age } order { $p.name }
}
query add($name: String) { insert Person { name: $name } }
query pay() { match { $s: Salary } return { $s.amount } }
"""
TERMS = Terms(RULES, guarded_people.ACTORS, QUERIES, is_guarded=True)
RECORDS = [
    {
        "type": "Person",
        "data": {"name": "Ada", "age": 36, "email": "a@x", "photo": "base64:AAECAw=="},
    },
    {"type": "Person", "data": {"name": "Ben", "age": 20, "email": "b@x"}},
    {"type": "Salary", "data": {"name": "s1", "amount": 100}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
]
LINES = "".join(json.dumps(one) + "\n" for one in RECORDS)
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
EMAILS = "query q() { match { $p: Person } return { $p.email } }"
OLDER = 'query q() { update Person set { age: 37 } where name = "Ada" }'
PHOTO = ("node", "Person", "Ada", "photo")
WIDER = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")


def maria(surface):
    return surface.acting_as("maria")


def bot(surface):
    return surface.acting_as("bot")


def side(surface):
    return surface.acting_as("side")


def will(surface):
    return surface.acting_as("will")


def eve(surface):
    return surface.acting_as("eve")


SCENARIO = {
    "an admin loads": lambda d: maria(d).load(LINES, "append"),
    "an admin changes": lambda d: maria(d).mutate(OLDER),
    "an admin reads everything": lambda d: maria(d).query(EMAILS),
    "a schema would break one": lambda d: maria(d).apply_schema(SCHEMA.replace("  age: I32?", "")),
    "an agent reads": lambda d: bot(d).query(NAMES),
    "an agent reads what is hidden": lambda d: bot(d).query(EMAILS),
    "an agent reads a hidden type": lambda d: bot(d).query(
        "query q() { match { $s: Salary } return { $s.amount } }"
    ),
    "an agent checks a query of what is hidden": lambda d: bot(d).lint(NAMES),
    "an agent exports": lambda d: bot(d).export(),
    "an agent looks at the tables": lambda d: bot(d).snapshot(),
    "an agent follows the feed": lambda d: bot(d).changes("beginning"),
    "an agent takes a copy": lambda d: bot(d).baseline(),
    "an agent compares": lambda d: bot(d).diff("2", "main", images=True),
    "an agent looks at an entity": lambda d: bot(d).entity_history("Person", "Ada"),
    "an agent looks at a hidden one": lambda d: bot(d).entity_history("Salary", "s1"),
    "an agent looks at a hidden blob": lambda d: bot(d).blob_stat(*PHOTO),
    "an agent changes what is protected": lambda d: bot(d).mutate(OLDER),
    "an agent loads what is protected": lambda d: bot(d).load(LINES, "merge"),
    "an agent creates a branch": lambda d: bot(d).create_branch("work"),
    "an agent changes its branch": lambda d: bot(d).mutate(OLDER, branch="work"),
    "an agent merges": lambda d: bot(d).merge("work"),
    "an agent restores what is protected": lambda d: bot(d).restore("2"),
    "an agent tags": lambda d: bot(d).tag("v1"),
    "an agent applies a schema": lambda d: bot(d).apply_schema(WIDER),
    "an agent deletes what is protected": lambda d: bot(d).delete_branch("main"),
    "an outsider reads a branch": lambda d: side(d).query(NAMES, branch="work"),
    "an outsider reads what is protected": lambda d: side(d).query(NAMES),
    "a reader exports": lambda d: will(d).export(),
    "a reader takes a copy": lambda d: will(d).baseline(),
    "an outsider lists commits": lambda d: side(d).commits(),
    "nobody reads": lambda d: eve(d).query(NAMES),
    "nobody changes": lambda d: eve(d).mutate(OLDER, branch="work"),
    "nobody lists branches": lambda d: eve(d).branches(),
    "stored queries of an admin": lambda d: maria(d).stored_queries(),
    "stored queries of an agent": lambda d: bot(d).stored_queries(),
    "stored queries of nobody": lambda d: eve(d).stored_queries(),
    "its text is run": lambda d: bot(d).query(QUERIES.partition("query add")[0], {"than": 30}),
    "a stored query is run": lambda d: bot(d).invoke_read("older", {"than": 30}),
    "it is run in the past": lambda d: maria(d).invoke_read(
        "older", {"than": 30}, snapshot=maria(d).commits()[1]["graph_commit_id"]
    ),
    "it is run without its parameter": lambda d: bot(d).invoke_read("older"),
    "it is run with another parameter": lambda d: bot(d).invoke_read("older", {"then": 30}),
    "it is run as a mutation": lambda d: bot(d).invoke_mutation("older", {"than": 30}),
    "a stored mutation is run": lambda d: maria(d).invoke_mutation("add", {"name": "Cy"}),
    "it is run as a query": lambda d: maria(d).invoke_read("add", {"name": "Di"}),
    "it is run on a branch": lambda d: bot(d).invoke_mutation("add", {"name": "Di"}, "work"),
    "it is run where it is protected": lambda d: bot(d).invoke_mutation("add", {"name": "Di"}),
    "it is run twice": lambda d: maria(d).invoke_mutation("add", {"name": "Cy"}),
    "it is run too late": lambda d: maria(d).invoke_mutation(
        "add", {"name": "Ed"}, if_commit=maria(d).commits()[1]["graph_commit_id"]
    ),
    "one is run that there is not": lambda d: maria(d).invoke_read("nothing"),
    "one is run that may not be": lambda d: bot(d).invoke_read("pay"),
    "one is run by nobody": lambda d: eve(d).invoke_read("older", {"than": 30}),
}
"""The steps, in this order."""

SURFACES = {"sdk": SdkSurface, **SERVED}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return run_everywhere(SURFACES, SCENARIO, SCHEMA, tmp_path_factory, TERMS)


@pytest.mark.parametrize("step", SCENARIO)
def test_every_surface_answers_alike_under_a_policy(results, step: str) -> None:
    expected = results["sdk"][step]
    for surface in SURFACES:
        assert results[surface][step] == expected, surface


def test_the_scenario_has_denials_and_failures_of_stored_queries(results) -> None:
    assert list_error_kinds(results["sdk"]) == {
        *("policy_denied", "query_not_found", "parameter_error", "bad_request"),
        *("precondition_failed", "schema_breaks_queries"),
    }


def test_a_stored_query_is_answered_as_its_text_is(results) -> None:
    for surface in SURFACES:
        assert results[surface]["a stored query is run"] == results[surface]["its text is run"]
