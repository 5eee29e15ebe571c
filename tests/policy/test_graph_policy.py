"""A graph opened for an actor under a policy: what every verb allows, and what is hidden."""

from __future__ import annotations

import inspect
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    BadRequest,
    CommitNotFound,
    CompileError,
    MergeConflicts,
    NotFoundError,
    PolicyDenied,
)
from omnigraph.language.source import SourceText
from omnigraph.policy import Action, Decision, NoPolicy
from omnigraph.stored_queries import parse_registry
from policy.bundles import bundle

SCHEMA = """
interface Reachable { email: String? }
node Person implements Reachable {
  name: String @key
  age: I32?
  bio: String? @index
  photo: Blob?
  taste: Vector(2)? @embed("bio")
}
node Company implements Reachable { name: String @key  city: String? }
node Salary { name: String @key  amount: I64 }
edge Knows: Person -> Person { since: I32? }
edge Earns: Person -> Salary
edge WorksAt: Person -> Company
"""
RECORDS = [
    {
        "type": "Person",
        "data": {"name": "Ada", "age": 36, "email": "ada@example.org"}
        | {"bio": "likes tides", "photo": "base64:AAAA", "taste": [1, 0]},
    },
    {"type": "Person", "data": {"name": "Ben", "age": 41, "email": "ben@example.org"}},
    {"type": "Company", "data": {"name": "Wave", "city": "Kiel", "email": "hi@wave.example"}},
    {"type": "Salary", "data": {"name": "ada-2024", "amount": 100}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"since": 2001}},
    {"edge": "Earns", "from": "Ada", "to": "ada-2024"},
    {"edge": "WorksAt", "from": "Ada", "to": "Wave"},
]
RULES = """
version: 1
groups:
  readers: [rita]
  agents: [bot]
  admins: [maria]
  writers: [will]
protected_branches: [main]
rules:
  - id: readers
    allow: { actors: { group: readers }, actions: [read] }
  - id: agents-read
    allow:
      actors: { group: agents }
      actions: [read, export]
      branch_scope: any
      except: [Person.email, Person.photo, Salary]
  - id: agents-change
    allow: { actors: { group: agents }, actions: [change], branch_scope: any }
  - id: agents-branch
    allow:
      actors: { group: agents }
      actions: [branch_create, branch_delete, branch_merge]
      target_branch_scope: any
  - id: admins
    allow:
      actors: { group: admins }
      actions: [read, export, change, branch_create, branch_delete, branch_merge, schema_apply,
                admin, invoke_query]
  - id: writers
    allow: { actors: { group: writers }, actions: [change], branch_scope: unprotected }
"""
POLICY = bundle(RULES)


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("template") / "people.omni"
    omnigraph.init(place, SCHEMA, actor="loader").load(RECORDS, "append")
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "people.omni")


@pytest.fixture
def maria(place: Path) -> Graph:
    return omnigraph.open(place, actor="maria", policy=POLICY)


@pytest.fixture
def bot(maria: Graph) -> Graph:
    return maria.as_actor("bot")


ALL_PEOPLE = "query q() { match { $p: Person } return { $p.name, $p.age } }"
QUERIES = parse_registry([SourceText(ALL_PEOPLE.replace("q()", "all_people()"), "q.gq")])
RENAME = 'query q() { update Person set { age: 1 } where name = "Ada" }'


def find_own_write(graph: Graph) -> object:
    graph.mutate(RENAME, idempotency_key="own")
    return graph.find_write("own")


# What each verb asks for, and a call of it; every public verb of a graph is in this table.
VERBS: dict[str, tuple[Action | None, Callable[[Graph], object]]] = {
    "query": (Action.READ, lambda g: g.query(ALL_PEOPLE)),
    "explain": (Action.READ, lambda g: g.explain(ALL_PEOPLE)),
    "lint": (Action.READ, lambda g: g.lint(ALL_PEOPLE)),
    "read_blob": (Action.READ, lambda g: g.read_blob("Person", "Ada", "photo")),
    "schema": (Action.READ, lambda g: g.schema),
    "catalog": (Action.READ, lambda g: g.catalog),
    "plan_schema": (Action.READ, lambda g: g.plan_schema(SCHEMA)),
    "branches": (Action.READ, lambda g: g.branches()),
    "commits": (Action.READ, lambda g: g.commits()),
    "commit": (Action.READ, lambda g: g.commit(head(g))),
    "snapshot": (Action.READ, lambda g: g.snapshot()),
    "at": (Action.READ, lambda g: g.at("1").info()),
    "tags": (Action.READ, lambda g: g.tags()),
    "consumers": (Action.READ, lambda g: g.consumers()),
    "diff": (Action.READ, lambda g: list(g.diff("1"))),
    "changes": (Action.READ, lambda g: g.changes("beginning")),
    "entity_history": (Action.READ, lambda g: g.entity_history("Person", "Ada")),
    "nodes": (Action.READ, lambda g: g.nodes("Person").to_arrow()),
    "edges": (Action.READ, lambda g: g.edges("Knows").to_arrow()),
    "stored_queries": (Action.READ, lambda g: g.with_queries(QUERIES).stored_queries()),
    "export": (Action.EXPORT, lambda g: list(g.export())),
    "baseline": (Action.EXPORT, lambda g: list(g.baseline().records())),
    "mutate": (Action.CHANGE, lambda g: g.mutate(RENAME)),
    "load": (Action.CHANGE, lambda g: g.load(RECORDS[:1], "merge")),
    "apply_schema": (Action.SCHEMA_APPLY, lambda g: g.apply_schema(SCHEMA)),
    "find_write": (Action.CHANGE, find_own_write),
    "revert": (Action.CHANGE, lambda g: g.revert(head(g))),
    "cherry_pick": (Action.CHANGE, lambda g: g.cherry_pick(head(g))),
    "restore": (Action.CHANGE, lambda g: g.restore("1")),
    "embed": (Action.CHANGE, lambda g: g.embed(["Person"])),
    "tag": (Action.CHANGE, lambda g: g.tag("v1")),
    "delete_tag": (Action.CHANGE, lambda g: g.delete_tag("old")),
    "set_consumer": (Action.CHANGE, lambda g: g.set_consumer("c")),
    "delete_consumer": (Action.CHANGE, lambda g: g.delete_consumer("old")),
    "create_branch": (Action.BRANCH_CREATE, lambda g: g.create_branch("new")),
    "delete_branch": (Action.BRANCH_DELETE, lambda g: g.delete_branch("old")),
    "rename_branch": (Action.BRANCH_DELETE, lambda g: g.rename_branch("old", "newer")),
    "merge": (Action.BRANCH_MERGE, lambda g: g.merge("old")),
    "optimize": (Action.ADMIN, lambda g: g.optimize()),
    "ensure_indices": (Action.ADMIN, lambda g: g.ensure_indices()),
    "repair": (Action.ADMIN, lambda g: g.repair()),
    "cleanup": (Action.ADMIN, lambda g: g.cleanup(keep=5)),
    "verify": (Action.ADMIN, lambda g: g.verify()),
    "maintain": (Action.ADMIN, lambda g: g.maintain()),
    "recover": (Action.ADMIN, lambda g: g.recover()),
    "recovery_pending": (Action.ADMIN, lambda g: g.recovery_pending()),
    "recovery_list": (Action.ADMIN, lambda g: g.recovery_list()),
    # They give a handle, say who one is, or answer as if nothing was there.
    "branch": (None, lambda g: g.branch("main")),
    "as_actor": (None, lambda g: g.as_actor("rita")),
    "policy": (None, lambda g: g.policy),
    "uri": (None, lambda g: g.uri),
    "actor": (None, lambda g: g.actor),
    "read_only": (None, lambda g: g.read_only),
    "recovered_on_open": (None, lambda g: g.recovered_on_open),
    "settings": (None, lambda g: g.settings),
    "close": (None, lambda g: g.close()),
    "commit_changes": (None, lambda g: g.commit_changes(head(g))),
    "with_queries": (None, lambda g: g.with_queries(QUERIES)),
    "invoke": (None, lambda g: g.with_queries(QUERIES).invoke("all_people")),
}


def head(graph: Graph) -> str:
    return str(graph.as_actor("maria").commits()[0].commit_id)


def test_only_readers_of_main_learn_that_a_state_is_missing(maria: Graph) -> None:
    missing = "0" * 26
    for given in (
        {"revision": missing},
        {"commit": missing},
        {"snapshot": missing},
        {"version": 99},
    ):
        with pytest.raises((NotFoundError, BadRequest)):
            maria.at(**given)
        with pytest.raises(PolicyDenied):
            maria.as_actor("will").at(**given)
    for places in ((missing,), ("main", missing)):
        with pytest.raises(PolicyDenied):
            maria.as_actor("will").diff(*places)
    with pytest.raises(PolicyDenied):
        maria.as_actor("will").at(branch="nothing")


def test_a_view_evaluates_its_policy_once(maria: Graph) -> None:
    decisions: list[Decision] = []
    view = maria.as_actor("bot", observe=decisions.append).at()
    assert [row["p.name"] for row in view.query(ALL_PEOPLE).rows] == ["Ada", "Ben"]
    assert len(view.nodes("Person")) == 2
    assert [(one.action, one.branch, one.allowed) for one in decisions] == [("read", "main", True)]
    with pytest.raises(PolicyDenied):
        maria.as_actor("eve", observe=decisions.append).snapshot()
    assert [one.allowed for one in decisions] == [True, False]


def test_every_verb_of_a_graph_is_in_the_table() -> None:
    public = {name for name, _ in inspect.getmembers(Graph) if not name.startswith("_")}
    assert public == set(VERBS), "say what a new verb asks for, and ask for it"


@pytest.mark.parametrize("verb", [name for name, (action, _) in VERBS.items() if action])
def test_a_verb_is_denied_to_an_unauthorized_actor_and_to_none(verb: str, maria: Graph) -> None:
    action, call = VERBS[verb]
    for graph in (maria.as_actor("eve"), maria.as_actor(None)):
        with pytest.raises(PolicyDenied) as caught:
            call(graph)
        assert caught.value.action == action


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_verb_is_allowed_to_who_may(verb: str, maria: Graph) -> None:
    maria.create_branch("old")
    maria.tag("old")
    maria.set_consumer("old")
    settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
    again = omnigraph.open(maria.uri, actor="maria", policy=POLICY, settings=settings)
    VERBS[verb][1](again)


def test_nothing_is_evaluated_without_a_policy(place: Path) -> None:
    graph = omnigraph.open(place)
    assert graph.policy is None
    assert len(graph.query(ALL_PEOPLE).rows) == 2
    graph.mutate(RENAME)


def test_without_a_bundle_known_actors_may_read(place: Path) -> None:
    graph = omnigraph.open(place, actor="anyone", policy=NoPolicy.DEFAULT_DENY)
    assert len(graph.query(ALL_PEOPLE).rows) == 2
    with pytest.raises(PolicyDenied):
        graph.mutate(RENAME)
    with pytest.raises(PolicyDenied):
        list(graph.export())
    with pytest.raises(PolicyDenied):
        graph.as_actor(None).query(ALL_PEOPLE)
    omnigraph.open(place, policy=NoPolicy.OPEN).mutate(RENAME)


def test_a_denied_write_changes_nothing(maria: Graph) -> None:
    before = head(maria)
    rita = maria.as_actor("rita")
    for write in ("mutate", "load", "create_branch", "delete_branch", "tag", "optimize"):
        with pytest.raises(PolicyDenied):
            VERBS[write][1](rita)
    assert head(maria) == before
    assert maria.branches() == ["main"]
    assert maria.tags() == []


def test_protected_branches_are_distinguished(maria: Graph) -> None:
    maria.create_branch("dev")
    will = maria.as_actor("will")
    assert will.mutate(RENAME, branch="dev").affected_nodes == 1
    for branch in ("main", " main "):
        with pytest.raises(PolicyDenied):
            will.mutate(RENAME, branch=branch)
    with pytest.raises(PolicyDenied):
        will.load(RECORDS[:1], "merge", branch="other", base="main")
    assert maria.branches() == ["main", "dev"]


def test_the_actor_of_a_call_is_the_one_that_is_authorized(maria: Graph) -> None:
    with pytest.raises(PolicyDenied) as caught:
        maria.mutate(RENAME, actor="rita")
    assert caught.value.actor == "rita"
    assert maria.as_actor("rita").mutate(RENAME, actor="maria").commit.actor_id == "maria"


def test_a_pickled_handle_stays_under_its_policy(bot: Graph) -> None:
    again = pickle.loads(pickle.dumps(bot))
    assert (again.actor, again.policy) == ("bot", POLICY)
    with pytest.raises(PolicyDenied):
        again.query("query q() { match { $p: Person } return { $p.email } }")


def test_a_commit_that_may_not_be_read_is_as_one_that_does_not_exist(maria: Graph) -> None:
    rules = RULES.replace("actions: [read] }", "actions: [read], branch_scope: unprotected }")
    rita = maria.as_actor("rita", policy=bundle(rules))
    unknown = "01J9Z3N8Q4X7Y2K5M6P0R1S3T8"
    known = head(maria)
    answers = []
    for commit in (known, unknown):
        with pytest.raises(CommitNotFound) as caught:
            rita.commit_changes(commit)
        answers.append(str(caught.value.wire()).replace(commit, "X"))
    assert answers[0] == answers[1]
    assert maria.commit_changes(known).changes


# --- what is hidden ---------------------------------------------------------------------------


HIDDEN_QUERIES = {
    "return": "match { $p: Person } return { $p.email }",
    "inline": 'match { $p: Person { email: "a" } } return { $p.name }',
    "filter": 'match { $p: Person  $p.email = "a" } return { $p.name }',
    "null": "match { $p: Person  $p.email is null } return { $p.name }",
    "text": 'match { $p: Person  $p.email contains "a" } return { $p.name }',
    "order": "match { $p: Person } return { $p.name } order { $p.email }",
    "aggregate": "match { $p: Person } return { max($p.email) as m }",
    "group": "match { $p: Person } return { $p.email, count($p) as n }",
    "negation": 'match { $p: Person  not { $p knows $q  $q.email = "a" } } return { $p.name }',
    "object": "match { $p: Person } return { $p { name, email } as one }",
    "interface": "match { $p: Reachable } return { $p.email }",
    "inferred": "match { $p knows $q } return { $q.email }",
}


@pytest.mark.parametrize("query", HIDDEN_QUERIES.values(), ids=list(HIDDEN_QUERIES))
def test_a_query_that_names_a_hidden_property_is_denied(query: str, bot: Graph) -> None:
    text = f"query q() {{ {query} }}"
    bot.as_actor("maria").query(text)
    with pytest.raises(PolicyDenied) as caught:
        bot.query(text)
    assert "Person.email" in caught.value.hidden
    assert caught.value.wire()["policy_denied"]["hidden"] == list(caught.value.hidden)
    with pytest.raises(PolicyDenied):
        bot.explain(text)
    with pytest.raises(PolicyDenied):
        bot.at("2").query(text)


@pytest.mark.parametrize(
    "query",
    [
        "match { $s: Salary } return { count($s) as n }",
        "match { $p: Person  $p earns $s } return { $p.name }",
        "match { $p: Person  not { $p earns $s } } return { $p.name }",
    ],
)
def test_a_query_that_names_a_hidden_type_is_denied(query: str, bot: Graph) -> None:
    with pytest.raises(PolicyDenied) as caught:
        bot.query(f"query q() {{ {query} }}")
    assert "Salary" in caught.value.hidden


def test_a_mistake_stays_a_mistake(bot: Graph) -> None:
    with pytest.raises(CompileError, match="nom"):
        bot.query("query q() { match { $p: Person } return { $p.nom, $p.email } }")
    with pytest.raises(CompileError, match="Persn"):
        bot.query("query q() { match { $p: Persn } return { $p.name } }")


def test_visible_rows_are_read_as_without_a_policy(bot: Graph) -> None:
    query = "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.age } }"
    assert bot.query(query).rows == [{"p.name": "Ada", "q.age": 41}]
    company = "query q() { match { $c: Company } return { $c.email } }"
    assert bot.query(company).rows == [{"c.email": "hi@wave.example"}]
    named = "query q() { match { $r: Reachable } return { $r.id } order { $r.id } }"
    assert [row["r.id"] for row in bot.query(named).rows] == ["Ada", "Ben", "Wave"]


def test_whole_entities_are_given_without_what_is_hidden(bot: Graph) -> None:
    rows = bot.query('query q() { match { $p: Person { name: "Ada" } } return { $p } }').rows
    assert "email" not in str(rows)
    assert "ada@" not in str(rows)
    table = bot.nodes("Person").to_arrow()
    assert table.column_names == ["id", "age", "bio", "name", "taste"]
    assert "email" not in bot.catalog.nodes["Person"].by_name
    assert {table.table_key for table in bot.snapshot().tables} == {
        *("node:Person", "node:Company", "edge:Knows", "edge:WorksAt")
    }


def secrets_in(found: object) -> list[str]:
    text = str(found)
    return [
        word for word in ("ada@", "ben@", "Salary", "ada-2024", "Earns", "AAAA") if word in text
    ]


def test_exports_and_copies_leave_out_what_is_hidden(bot: Graph, tmp_path: Path) -> None:
    for records in (list(bot.export()), list(bot.baseline().records())):
        assert len(records) == 5
        assert secrets_in(records) == []
    assert secrets_in(b"".join(bot.at().export_jsonl())) == []
    done = bot.at().export_files(tmp_path / "out")
    assert done.rows == 5
    for file in done.files:
        assert secrets_in(Path(file.path).read_text()) == []
    for call in (
        lambda: bot.export(["Salary"]),
        lambda: bot.baseline(types=["Salary"]),
        lambda: bot.at().export_jsonl(["Earns"]),
    ):
        with pytest.raises(PolicyDenied):
            call()


def test_a_hidden_blob_is_not_read(bot: Graph) -> None:
    with pytest.raises(PolicyDenied) as caught:
        bot.read_blob("Person", "Ada", "photo")
    assert caught.value.hidden == ("Person.photo",)
    assert bot.as_actor("maria").read_blob("Person", "Ada", "photo").read() == b"\0\0\0"
    with pytest.raises(BadRequest, match="no property"):
        bot.read_blob("Person", "Ada", "picture")


def test_changes_disclose_nothing_of_what_is_hidden(maria: Graph, bot: Graph) -> None:
    start = head(maria)
    maria.mutate('query q() { update Person set { email: "new@example.org" } where name = "Ada" }')
    maria.mutate('query q() { update Person set { age: 37 } where name = "Ada" }')
    maria.mutate('query q() { insert Salary { name: "b", amount: 2 } }')
    assert [len(one.changes) for one in maria.changes(f"after:{start}").blocks] == [1, 1, 1]
    blocks = bot.changes(f"after:{start}").blocks
    assert [len(one.changes) for one in blocks] == [0, 1, 0]
    assert "email" not in blocks[1].changes[0].after.properties
    assert [len(bot.commit_changes(one.commit.commit_id).changes) for one in blocks] == [0, 1, 0]
    diff = list(bot.diff(start, images=True))
    assert [(one.type_name, one.id) for one in diff] == [("Person", "Ada")]
    assert "example.org" not in str(diff)
    history = bot.entity_history("Person", "Ada").versions
    assert [(one.op, one.image.properties["age"]) for one in history] == [
        ("update", 37),
        ("insert", 36),
    ]
    assert "example.org" not in str(history)
    for call in (
        lambda: bot.changes("beginning", types=["Salary"]),
        lambda: bot.diff("1", types=["Salary"]),
        lambda: bot.commit_changes(start, types=["Salary"]),
        lambda: bot.entity_history("Salary", "b"),
    ):
        with pytest.raises(PolicyDenied):
            call()


def test_a_mutation_may_not_look_at_what_is_hidden(bot: Graph) -> None:
    for statement in (
        'update Person set { age: 1 } where email = "ada@example.org"',
        'delete Person where email contains "ada"',
        "update Person set { age: 1 } where email is null",
        'update Salary set { amount: 1 } where name = "ada-2024"',
        'delete Salary where name = "ada-2024"',
        'delete Earns where from = "Ada"',
    ):
        with pytest.raises(PolicyDenied):
            bot.mutate(f"query q() {{ {statement} }}")
    assert bot.mutate(RENAME).affected_nodes == 1


def test_a_mutation_may_write_what_is_hidden(bot: Graph) -> None:
    bot.mutate('query q() { update Person set { email: "x@example.org" } where name = "Ada" }')
    bot.mutate('query q() { insert Salary { name: "new", amount: 7 } }')
    emails = "query q() { match { $p: Person } return { $p.email } order { $p.name } }"
    found = bot.as_actor("maria").query(emails).rows
    assert [row["p.email"] for row in found] == ["x@example.org", "ben@example.org"]


def test_an_actor_without_the_right_to_read_may_still_change(maria: Graph) -> None:
    maria.create_branch("dev")
    done = maria.as_actor("will").mutate(
        'query q() { update Person set { age: 1 } where email = "ada@example.org" }', branch="dev"
    )
    assert done.affected_nodes == 1


def test_conflicts_of_a_merge_show_nothing_hidden(maria: Graph, bot: Graph) -> None:
    maria.create_branch("dev")
    for branch in ("main", "dev"):
        text = f'update Person set {{ email: "{branch}@example.org", age: {len(branch)} }}'
        maria.mutate(f'query q() {{ {text} where name = "Ada" }}', branch=branch)
    assert "dev@example.org" in str(maria.merge("dev", dry_run=True).wire())
    found = bot.merge("dev", dry_run=True).wire()
    assert len(found["conflicts"]) == 1
    assert found["conflicts"][0]["source"]["age"] == 3
    assert "example.org" not in str(found)
    with pytest.raises(MergeConflicts) as caught:
        bot.merge("dev")
    assert "example.org" not in str(caught.value.wire())


def test_a_rule_that_shows_more_wins(maria: Graph) -> None:
    rules = RULES.replace("agents: [bot]", "agents: [bot]\n  trusted: [bot]") + (
        "  - id: trusted\n"
        "    allow: { actors: { group: trusted }, actions: [read], except: [Person.photo] }\n"
    )
    bot = maria.as_actor("bot", policy=bundle(rules))
    query = "query q() { match { $p: Person } return { $p.email } order { $p.email } limit 1 }"
    assert bot.query(query).rows == [{"p.email": "ada@example.org"}]
    with pytest.raises(PolicyDenied):
        bot.read_blob("Person", "Ada", "photo")
    assert secrets_in(list(bot.export())) == [], "another action has rules of its own"


def rules_without(*names: str):
    return bundle(RULES.replace("[Person.email, Person.photo, Salary]", f"[{', '.join(names)}]"))


def test_a_hidden_key_hides_its_type(maria: Graph) -> None:
    bot = maria.as_actor("bot", policy=rules_without("Person.name"))
    with pytest.raises(PolicyDenied):
        bot.query("query q() { match { $p: Person } return { $p.age } }")
    assert {one.get("type") or one["edge"] for one in bot.export()} == {"Company", "Salary"}


def test_a_vector_of_a_hidden_text_is_hidden(maria: Graph) -> None:
    bot = maria.as_actor("bot", policy=rules_without("Person.bio"))
    with pytest.raises(PolicyDenied) as caught:
        bot.query("query q() { match { $p: Person } return { $p.taste } }")
    assert caught.value.hidden == ("Person.taste",)
    near = "match { $p: Person } return { $p.name } order { nearest($p.taste, [1.0, 0.0]) } limit 1"
    with pytest.raises(PolicyDenied):
        bot.query(f"query q() {{ {near} }}")
    with pytest.raises(PolicyDenied):
        bot.query('query q() { match { $p: Person  search($p.bio, "tides") } return { $p.name } }')


def test_an_interface_hides_what_its_types_have(maria: Graph) -> None:
    bot = maria.as_actor("bot", policy=rules_without("Reachable.email"))
    for type_name in ("Person", "Company", "Reachable"):
        with pytest.raises(PolicyDenied):
            bot.query(f"query q() {{ match {{ $p: {type_name} }} return {{ $p.email }} }}")
    bot = maria.as_actor("bot", policy=rules_without("Reachable"))
    assert {one.get("type") or one["edge"] for one in bot.export()} == {"Salary"}


def test_a_policy_that_names_what_is_not_there_is_refused(place: Path, maria: Graph) -> None:
    for name in ("Person.emial", "Persn", "Knows.until"):
        with pytest.raises(BadRequest, match=f"leaves out {name}"):
            omnigraph.open(place, actor="bot", policy=rules_without(name))
        with pytest.raises(BadRequest):
            maria.as_actor("bot", policy=rules_without(name))


def test_earlier_states_hide_the_same(maria: Graph, bot: Graph) -> None:
    maria.mutate('query q() { update Person set { age: 5 } where name = "Ada" }')
    for place in ("2", "main", maria.commits()[1].commit_id):
        view = bot.at(place)
        assert "email" not in view.nodes("Person").to_arrow().column_names
        assert secrets_in(list(view.export())) == []
        with pytest.raises(PolicyDenied):
            view.nodes("Salary")
