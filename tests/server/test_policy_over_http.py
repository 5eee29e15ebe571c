"""Policies over HTTP: who may do what, what stays hidden, and which bundle holds where."""

import json
import signal

import pytest

import omnigraph
from omnigraph.errors import BadRequest
from omnigraph.server.serving_config import PolicyFile, PolicyFiles, ServeFlags, read_options
from policy import guarded_people
from policy.guarded_people import ACTORS, SCHEMA
from server.serving import ADD, ALL, boot, serving
from waiting import wait_until

TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
EVERY_TOKEN = {TOKENS: json.dumps({actor: f"token-of-{actor}" for actor in ACTORS})}
RECORDS = [
    {
        "type": "Person",
        "data": {"name": "Ada", "age": 36, "email": "ada@x", "photo": "base64:cGl4ZWxz"},
    },
    {"type": "Person", "data": {"name": "Ben", "email": "ben@x"}},
    {"type": "Salary", "data": {"name": "ada-2024", "amount": 100}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
]
RULES = f"""\
{guarded_people.RULES}
  - id: writers
    allow: {{ actors: {{ group: others }}, actions: [change], branch_scope: any }}
"""
SERVER_RULES = """\
version: 1
groups: { operators: [maria] }
rules:
  - { id: list, allow: { actors: { group: operators }, actions: [graph_list] } }
"""
PHOTO = "blob?entity=node&type=Person&id=Ada&property=photo"


def make_graph(place):
    with omnigraph.init(place, SCHEMA, actor="loader") as graph:
        graph.load(RECORDS, "append")
        graph.create_branch("dev")
        graph.mutate(ADD, params={"name": "Dev"}, branch="dev")
    return place


def serve_under(folder, rules=RULES, *, server_rules=None):
    """A server of a new graph under a bundle, with a token for every actor."""
    place, bundle = make_graph(folder / "people.omni"), folder / "people.policy.yaml"
    bundle.write_text(rules)
    flags = ["--policy", str(bundle)]
    if server_rules is not None:
        (folder / "server.policy.yaml").write_text(server_rules)
        flags += ["--server-policy", str(folder / "server.policy.yaml")]
    given = {**EVERY_TOKEN, "OMNIGRAPH_AUDIT_FILE": str(folder / "audit.jsonl")}
    return serving(place, flags=tuple(flags), **given)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server under the rules, for tests that change nothing."""
    with serve_under(tmp_path_factory.mktemp("guarded"), server_rules=SERVER_RULES) as server:
        yield server


@pytest.fixture
def changing(tmp_path):
    """Another one, for a test that changes something."""
    with serve_under(tmp_path) as server:
        yield server


def token_of(actor: str) -> dict[str, str]:
    return {"token": f"token-of-{actor}"}


def is_denied(answer, action: str) -> bool:
    """Return whether an answer is a denial of this action, in the form every denial has."""
    if answer.status != 403:
        return False
    body = answer.body
    assert (body["code"], body["kind"]) == ("forbidden", "policy_denied")
    assert f"policy denied action '{action}'" in body["error"]
    return body["policy_denied"]["action"] == action


# --- writing --------------------------------------------------------------------------------------


def test_an_actor_whom_the_rules_allow_it_writes_and_is_recorded(changing) -> None:
    maria, bot = token_of("maria"), token_of("bot")
    made = changing.post("mutate", {"query": ADD, "params": {"name": "Cy"}}, **maria)
    assert made.status == 200
    assert made.body["commit"]["actor_id"] == "maria"
    created = changing.post("branches", {"name": "proposal"}, **bot)
    assert (created.status, created.body["actor_id"]) == (200, "bot")
    lines = {"data": '{"type": "Person", "data": {"name": "Di"}}', "branch": "proposal"}
    loaded = changing.post("load", lines, **bot)
    assert (loaded.status, loaded.body["actor_id"]) == (200, "bot")
    merged = changing.post("branches/merge", {"source": "proposal"}, **maria)
    assert (merged.status, merged.body["actor_id"]) == (200, "maria")
    gone = changing.ask("DELETE", "branches/proposal", **bot)
    assert (gone.status, gone.body["actor_id"]) == (200, "bot")
    wider = SCHEMA.replace("amount: I64", "amount: I64  note: String?")
    assert changing.post("schema/apply", {"schema_source": wider}, **maria).status == 200
    rows = changing.post("query", {"query": ALL}, **maria).body["rows"]
    assert [row["p.name"] for row in rows] == ["Ada", "Ben", "Cy", "Di"]


def test_an_actor_whom_no_rule_allows_it_changes_nothing(guarded) -> None:
    add = {"query": ADD, "params": {"name": "Cy"}}
    lines = {"data": '{"type": "Person", "data": {"name": "Cy"}}'}
    before = guarded.get("commits", **token_of("maria")).body
    ndjson = {"Content-Type": "application/x-ndjson"}
    octets = {"Content-Type": "application/octet-stream"}
    for actor in ("bot", "side", "eve"):
        who = token_of(actor)
        assert is_denied(guarded.post("mutate", add, **who), "change")
        assert is_denied(guarded.post("load", lines, **who), "change")
        assert is_denied(guarded.ask("POST", "load/ndjson", b"", headers=ndjson, **who), "change")
        assert is_denied(guarded.ask("PUT", PHOTO, b"x", headers=octets, **who), "change")
        assert is_denied(guarded.post("branches", {"name": "main"}, **who), "branch_create")
        assert is_denied(guarded.ask("DELETE", "branches/main", **who), "branch_delete")
        assert is_denied(guarded.post("branches/merge", {"source": "dev"}, **who), "branch_merge")
        assert is_denied(
            guarded.post("schema/apply", {"schema_source": SCHEMA}, **who), "schema_apply"
        )
    for actor in ("side", "will", "eve"):
        who = token_of(actor)
        forking = {**lines, "branch": "fork", "from": "dev"}
        assert is_denied(guarded.post("load", forking, **who), "branch_create")
        assert is_denied(guarded.ask("DELETE", "branches/dev", **who), "branch_delete")
    assert guarded.get("commits", **token_of("maria")).body == before
    assert guarded.get("branches", **token_of("maria")).body["branches"] == ["dev", "main"]


def test_the_right_to_write_is_not_the_right_to_read(changing) -> None:
    will = token_of("will")
    keyed = {"Idempotency-Key": "one"}
    add = {"query": ADD, "params": {"name": "Cy"}}
    made = changing.post("mutate", add, headers=keyed, **will)
    assert made.status == 200
    again = changing.post("mutate", add, headers=keyed, **will)
    assert again.headers["omnigraph-replayed"] == "true"
    assert changing.get("writes/one", **will).body["commit"] == made.body["commit"]
    existing = {"data": '{"type": "Person", "data": {"name": "Di"}}', "branch": "dev"}
    assert changing.post("load", {**existing, "from": "main"}, **will).status == 200
    octets = {"Content-Type": "application/octet-stream"}
    assert is_denied(changing.ask("PUT", PHOTO, b"x", headers=octets, **will), "read")
    assert is_denied(changing.post("query", {"query": ALL}, **will), "read")
    assert is_denied(changing.post("export", **will), "export")


def test_an_actor_that_may_merge_and_not_delete_does_not_merge_with_deletion(tmp_path) -> None:
    rules = RULES.replace("branch_delete, branch_merge,", "branch_merge,")
    with serve_under(tmp_path, rules) as server:
        merge = {"source": "dev", "delete_branch": True}
        assert is_denied(server.post("branches/merge", merge, **token_of("maria")), "branch_delete")
        listed = server.get("branches", **token_of("maria")).body["branches"]
        assert listed == ["dev", "main"]
        assert len(server.get("commits", **token_of("maria")).body["commits"]) == 2


# --- reading --------------------------------------------------------------------------------------


def list_reads(branch: str) -> list[tuple[str, str, str, object]]:
    """Every route that reads a branch: action, method, path and body."""
    return [
        ("read", "GET", f"snapshot?branch={branch}", None),
        ("read", "POST", "query", {"query": ALL, "branch": branch}),
        ("read", "GET", f"commits?branch={branch}", None),
        ("read", "GET", f"changes?branch={branch}&start=beginning", None),
        ("read", "GET", f"{PHOTO}&branch={branch}", None),
        ("read", "HEAD", f"{PHOTO}&branch={branch}", None),
        ("export", "POST", "export", {"branch": branch}),
        ("export", "POST", "changes/baseline", {"branch": branch}),
    ]


def test_a_branch_is_read_only_by_those_whom_the_rules_allow_it(guarded) -> None:
    for branch, actor, is_allowed in (
        ("main", "maria", True),
        ("dev", "maria", True),
        ("main", "side", False),
        ("dev", "side", True),
        ("main", "will", False),
        ("dev", "eve", False),
    ):
        for action, method, path, body in list_reads(branch):
            answer = guarded.ask(method, path, body, **token_of(actor))
            if is_allowed:
                assert answer.status == 200, (actor, path, answer.data)
            elif method == "HEAD":
                assert (answer.status, answer.data) == (403, b"")
            else:
                assert is_denied(answer, action), (actor, path)


def test_routes_without_a_branch_are_not_for_rules_about_branches(guarded) -> None:
    head = guarded.get("commits", **token_of("maria")).body["commits"][0]["graph_commit_id"]
    for path in ("schema", "branches", f"commits/{head}"):
        assert guarded.get(path, **token_of("bot")).status == 200
        assert is_denied(guarded.get(path, **token_of("side")), "read")
        assert is_denied(guarded.get(path, **token_of("eve")), "read")


def test_a_snapshot_is_read_on_behalf_of_its_branch(guarded) -> None:
    def ask(actor: str, snapshot: str):
        return guarded.post("query", {"query": ALL, "snapshot": snapshot}, **token_of(actor))

    heads = {
        branch: guarded.get(f"commits?branch={branch}", **token_of("maria")).body["commits"][0]
        for branch in ("main", "dev")
    }
    main, dev = (heads[branch]["graph_commit_id"] for branch in ("main", "dev"))
    unknown = "0" * 26
    assert [ask("maria", one).status for one in (main, dev, unknown)] == [200, 200, 404]
    assert [ask("side", one).status for one in (main, dev, unknown)] == [403, 200, 403]
    blob = guarded.get(f"{PHOTO}&snapshot={main}", **token_of("maria"))
    assert (blob.status, blob.data) == (200, b"pixels")
    assert is_denied(guarded.get(f"{PHOTO}&snapshot={main}", **token_of("side")), "read")
    assert guarded.get(f"{PHOTO}&snapshot={dev}", **token_of("side")).status == 200


def test_the_changes_of_a_forbidden_commit_are_as_those_of_an_unknown_one(guarded) -> None:
    head = guarded.get("commits", **token_of("maria")).body["commits"][0]["graph_commit_id"]
    assert guarded.get(f"commits/{head}/changes", **token_of("maria")).status == 200
    unknown = "0" * 26
    for actor in ("side", "eve"):
        given = {"headers": {"X-Request-Id": "same"}, **token_of(actor)}
        forbidden = guarded.get(f"commits/{head}/changes", **given)
        missing = guarded.get(f"commits/{unknown}/changes", **given)
        assert forbidden.status == missing.status == 404
        assert forbidden.data.decode().replace(head, unknown) == missing.data.decode()
        same = {"date": ""}
        assert {**forbidden.headers, **same} == {**missing.headers, **same}


def test_a_padded_branch_name_is_the_branch(guarded) -> None:
    bot, side, padded = token_of("bot"), token_of("side"), "%20main%20"
    for action, method, path, body in list_reads(padded):
        named = {**body, "branch": " main "} if body else None
        answer = guarded.ask(method, path, named, **side)
        assert answer.status == 403
        assert method == "HEAD" or is_denied(answer, action)
    add = {"query": ADD, "params": {"name": "Cy"}, "branch": " main "}
    lines = {"data": '{"type": "Person", "data": {"name": "Cy"}}', "branch": "main "}
    octets = {"Content-Type": "application/octet-stream"}
    ndjson = {"Content-Type": "application/x-ndjson"}
    for answer, action in (
        (guarded.post("mutate", add, **bot), "change"),
        (guarded.post("load", lines, **bot), "change"),
        (guarded.ask("POST", f"load/ndjson?branch={padded}", b"", headers=ndjson, **bot), "change"),
        (guarded.ask("PUT", f"{PHOTO}&branch={padded}", b"x", headers=octets, **bot), "change"),
        (guarded.post("branches", {"name": " main"}, **bot), "branch_create"),
        (guarded.ask("DELETE", f"branches/{padded}", **bot), "branch_delete"),
        (guarded.post("branches/merge", {"source": "dev", "target": " main"}, **bot), None),
    ):
        assert is_denied(answer, action or "branch_merge")


# --- what stays hidden ----------------------------------------------------------------------------


def test_a_query_that_names_what_is_hidden_is_refused_with_the_name(guarded) -> None:
    email = {"query": "query q() { match { $p: Person } return { $p.email } }"}
    answer = guarded.post("query", email, **token_of("bot"))
    assert is_denied(answer, "read")
    assert answer.body["policy_denied"]["hidden"] == ["Person.email"]
    where = {"query": 'query q() { match { $p: Person { email: "ada@x" } } return { $p.name } }'}
    streamed = {"headers": {"Accept": "application/x-ndjson"}}
    assert is_denied(guarded.post("query", where, **streamed, **token_of("bot")), "read")
    assert guarded.post("query", where, **token_of("maria")).body["row_count"] == 1
    assert guarded.post("query", {"query": ALL}, **token_of("bot")).body["row_count"] == 2


def test_exports_feeds_and_snapshots_come_without_what_is_hidden(guarded) -> None:
    head = guarded.get("commits", **token_of("maria")).body["commits"][0]["graph_commit_id"]
    asked = [
        ("POST", "export", {}),
        ("POST", "changes/baseline", {}),
        ("GET", "changes?start=beginning", None),
        ("GET", f"commits/{head}/changes", None),
    ]
    for method, path, body in asked:
        whole = guarded.ask(method, path, body, **token_of("maria"))
        part = guarded.ask(method, path, body, **token_of("bot"))
        assert whole.status == part.status == 200
        for word in (b"ada@x", b"Salary", b"ada-2024", b"photo"):
            assert word in whole.data, path
            assert word not in part.data, path
        assert b"Ada" in part.data
    listed = guarded.get("snapshot", **token_of("bot")).data
    assert b"Person" in listed
    assert b"Salary" not in listed
    named = guarded.post("export", {"type_names": ["Salary"]}, **token_of("bot"))
    assert is_denied(named, "export")
    assert is_denied(guarded.get("changes?type=Salary", **token_of("bot")), "read")


def test_a_hidden_blob_is_not_delivered(guarded) -> None:
    answer = guarded.get(PHOTO, **token_of("bot"))
    assert is_denied(answer, "read")
    assert answer.body["policy_denied"]["hidden"] == ["Person.photo"]
    assert "etag" not in answer.headers
    assert guarded.get(PHOTO, **token_of("maria")).data == b"pixels"


def test_decisions_are_logged_with_their_rule_and_denials_are_audited(tmp_path) -> None:
    with serve_under(tmp_path) as server:
        hidden = {"query": "query q() { match { $p: Person } return { $p.email } }"}
        given = {"headers": {"X-Request-Id": "hidden-1"}, **token_of("bot")}
        assert is_denied(server.post("query", hidden, **given), "read")
        assert is_denied(server.post("mutate", {"query": ADD}, **token_of("bot")), "change")
        assert "rule=agents-read" in server.log
        head = server.get("commits", **token_of("maria")).body["commits"][0]["graph_commit_id"]
        masked = {"headers": {"X-Request-Id": "masked-1"}, **token_of("side")}
        assert server.get(f"commits/{head}/changes", **masked).status == 404
        assert server.get(f"snapshot?at={head}", **token_of("bot")).status == 200
        decided = [line for line in server.log.splitlines() if "policy decision" in line]
        assert len([line for line in decided if "masked-1" in line]) == 1
        audit = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    denied = [line for line in audit if line["event"] == "denied"]
    assert [(line["action"], line["actor"]) for line in denied] == [
        ("read", "bot"),
        ("change", "bot"),
        ("read", "side"),
    ]
    assert denied[0]["request_id"] == "hidden-1"
    assert denied[0]["hidden"] == ["Person.email"]


# --- which bundle holds ---------------------------------------------------------------------------


def test_graphs_are_listed_only_to_those_whom_the_server_bundle_allows_it(guarded) -> None:
    assert [one["graph_id"] for one in guarded.get("/graphs", **token_of("maria")).body["graphs"]]
    for actor in ("bot", "eve"):
        assert is_denied(guarded.get("/graphs", **token_of(actor)), "graph_list")


def test_a_graph_without_a_bundle_can_only_be_read_beside_one_that_has_one(tmp_path) -> None:
    first, second = (make_graph(tmp_path / f"{name}.omni") for name in ("people", "other"))
    bundle = tmp_path / "p.yaml"
    bundle.write_text(RULES)
    flags = ("--policy", f"{bundle}=people")
    add = {"query": ADD, "params": {"name": "Cy"}}
    with serving(first, second, flags=flags, **EVERY_TOKEN) as server:
        assert server.post("mutate", add, **token_of("maria")).status == 200
        assert is_denied(server.post("/graphs/other/mutate", add, **token_of("maria")), "change")
        assert server.get("/graphs/other/schema", **token_of("eve")).status == 200
        assert is_denied(server.get("schema", **token_of("eve")), "read")
        assert is_denied(server.get("/graphs", **token_of("maria")), "graph_list")
        assert server.get("schema").status == 401


def test_a_policy_needs_tokens(tmp_path) -> None:
    bundle = tmp_path / "p.yaml"
    bundle.write_text(RULES)
    store = ("--store", str(tmp_path / "none.omni"))
    for flags in (("--policy", str(bundle)), ("--policy", str(bundle), "--unauthenticated")):
        done = boot(*store, *flags)
        assert done.returncode == 1
        assert "there is a policy but no token" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nruels: []\n", "ruels"),
        (RULES.replace("Person.email", "Person.emial"), "Person.emial"),
        (None, "cannot read"),
    ],
)
def test_a_graph_whose_bundle_cannot_be_used_is_quarantined(tmp_path, text, said) -> None:
    first, second = (make_graph(tmp_path / f"{name}.omni") for name in ("people", "other"))
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(RULES)
    if text is not None:
        bad.write_text(text)
    flags = ("--policy", str(good), "--policy", f"{bad}=other")
    with serving(first, second, flags=flags, **EVERY_TOKEN) as server:
        assert server.get("schema", **token_of("maria")).status == 200
        assert server.get("/graphs/other/schema", **token_of("maria")).status == 404
        assert said in server.log
        bad.write_text(RULES)
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.get("/graphs/other/schema", **token_of("maria")).status == 200)


def test_a_server_bundle_that_cannot_be_used_keeps_it_from_starting(tmp_path) -> None:
    place, bundle = make_graph(tmp_path / "people.omni"), tmp_path / "p.yaml"
    bundle.write_text(RULES)  # a bundle of a graph is not one of a server
    done = boot("--store", str(place), "--server-policy", str(bundle), **EVERY_TOKEN)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "p.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_bundles_are_read_again_on_a_signal_and_a_bad_one_changes_nothing(tmp_path) -> None:
    bundle = tmp_path / "people.policy.yaml"
    with serve_under(tmp_path) as server:

        def reads(actor: str) -> bool:
            return server.get("schema", **token_of(actor)).status == 200

        assert (reads("bot"), reads("eve")) == (True, False)
        bundle.write_text(RULES.replace("agents: [bot]", "agents: [eve]"))
        server.signal(signal.SIGHUP)
        wait_until(lambda: reads("eve"))
        assert not reads("bot")
        for number, broken in enumerate(("version: 2", RULES.replace("Salary", "Celery")), 1):
            bundle.write_text(broken)
            server.signal(signal.SIGHUP)
            wait_until(lambda wanted=number: server.log.count("reload refused") == wanted)
            assert (reads("bot"), reads("eve")) == (False, True)


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (("p.yaml=other",), "graph 'other', which is not served"),
        (("p.yaml", "q.yaml"), "two policies with no id"),
        (("p.yaml=people", "q.yaml=people"), "two policies with the id 'people'"),
        (("p.yaml=pe ople",), "cannot be the id of a graph"),
    ],
)
def test_policies_that_are_for_no_graph_or_for_one_twice_are_refused(policies, said) -> None:
    with pytest.raises(BadRequest, match=said):
        read_options(ServeFlags(stores=("x/people.omni",), policies=policies), {})


def test_a_policy_is_for_the_graph_that_is_named_with_it_or_for_all_others() -> None:
    parsed = [PolicyFile.parse(text) for text in ("p.yaml", "a=b/p.yaml", "p.yaml=team-a")]
    assert parsed == [
        PolicyFile("p.yaml"),
        PolicyFile("a=b/p.yaml"),
        PolicyFile("p.yaml", "team-a"),
    ]
    assert not PolicyFiles()
    assert PolicyFiles(of_server="p.yaml")
