"""A server of a cluster: what it serves, what a reload takes over, and what stays as it was."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import BadRequest
from omnigraph.server.serve_options import ServeFlags, read_options
from server.cluster_files import (
    GRAPH_RULES,
    NAMES,
    SERVER_RULES,
    TOKENS,
    ClusterFolder,
    count_query,
    serving_cluster,
)
from server.serving import ADD, SCHEMA, Server, boot

NEVER = ("OMNIGRAPH_LOG", "info,omnigraph.request=warning")


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterFolder:
    """A folder that declares a graph of people under rules, and who may list graphs."""
    folder = ClusterFolder(tmp_path / "town")
    folder.declare_graph("people")
    folder.declare_policy("rules", GRAPH_RULES, "people")
    folder.declare_policy("operators", SERVER_RULES, "cluster")
    return folder


def wait_until(holds, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def reload(server: Server) -> None:
    """Have everything read again, and wait for what comes of it."""
    said = server.log.count("reloaded"), server.log.count("reload refused")
    server.signal(signal.SIGHUP)
    wait_until(lambda: (server.log.count("reloaded"), server.log.count("reload refused")) != said)


def count_graphs(server: Server) -> tuple[int, int]:
    ready = server.get("/readyz").body
    return ready["served_graph_count"], ready["quarantined_graph_count"]


def run_stored(server: Server, name: str, graph: str = "people", **given):
    return server.post(f"/graphs/{graph}/queries/{name}", {}, **given)


def test_what_is_applied_is_served_and_a_reload_takes_over_what_is_applied_next(cluster) -> None:
    applied = cluster.apply()
    with serving_cluster(cluster.path) as server:
        listed = server.get("/graphs").body
        assert [one["graph_id"] for one in listed["graphs"]] == ["people"]
        assert server.get("/graphs", token=TOKENS["bot"]).status == 403
        first = server.get("/readyz").body
        assert (
            first["state_revision"] == cluster.run("status")["state_observations"]["state_revision"]
        )
        assert applied["state_written"]
        assert server.post("mutate", {"query": ADD, "params": {"name": "Ada"}}).status == 200
        assert run_stored(server, "names").body["rows"] == [{"p.name": "Ada"}]
        assert run_stored(server, "names", token=TOKENS["bot"]).status == 404

        cluster.declare_graph("places", schema="node Person { name: String @key }")
        cluster.declare_graph("people", NAMES + count_query("how_many"))
        cluster.declare_policy(
            "rules", GRAPH_RULES.replace("[read] }", "[read, invoke_query] }"), "people", "places"
        )
        cluster.apply()
        assert server.get("/graphs/places/schema").status == 404, "nobody asked for a reload"
        reload(server)
        assert [one["graph_id"] for one in server.get("/graphs").body["graphs"]] == [
            "people",
            "places",
        ]
        assert run_stored(server, "how_many", token=TOKENS["bot"]).body["rows"] == [{"n": 1}]
        assert run_stored(server, "names", "places").body["rows"] == []
        second = server.get("/readyz").body
        assert second["state_revision"] > first["state_revision"]
        assert second["booted_serving_digest"] != first["booted_serving_digest"]

        cluster.declare_policy("rules", GRAPH_RULES, "people")
        cluster.delete_graph("places")
        reload(server)
        assert "graph no longer served" in server.log
        assert server.get("/graphs/places/schema").status == 404
        assert run_stored(server, "names", token=TOKENS["bot"]).status == 404
        assert run_stored(server, "names").body["rows"] == [{"p.name": "Ada"}]
        assert count_graphs(server) == (1, 0)


def test_workers_take_over_what_is_applied_by_themselves(cluster) -> None:
    cluster.apply()
    with serving_cluster(cluster.path, "--workers", "2", poll="0.2") as server:
        cluster.declare_graph("places")
        cluster.apply()
        revision = cluster.run("status")["state_observations"]["state_revision"]
        wait_until(lambda: server.log.count(f"revision={revision}") == 2)
        for _ in range(8):  # whoever of the two answers
            assert server.get("/graphs/places/schema").status == 200
        assert "reload refused" not in server.log


def test_a_schema_is_changed_in_the_files_and_not_through_the_server(cluster) -> None:
    cluster.apply()
    wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    with serving_cluster(cluster.path) as server:
        body = {"schema_source": wider}
        assert server.post("schema/apply", body, token=TOKENS["bot"]).status == 403
        refused = server.post("schema/apply", body)
        assert (refused.status, refused.body["kind"]) == (409, "schema_of_cluster")
        assert server.post("schema/plan", body).status == 200
        town = "query town() { match { $p: Person } return { $p.city } }\n"
        cluster.declare_graph("people", NAMES + town, wider)
        cluster.apply()
        assert "city" in server.get("schema").body["schema_source"], "rows and schema are live"
        reload(server)
        assert run_stored(server, "town").body["rows"] == []


def test_a_graph_that_cannot_be_served_is_quarantined_and_comes_back(cluster) -> None:
    cluster.declare_graph("places")
    cluster.apply()
    root = cluster.path / "graphs" / "places.omni"
    shutil.move(root / "__manifest", cluster.path / "kept")
    with serving_cluster(cluster.path, poll="0.2") as server:
        assert count_graphs(server) == (1, 1)
        quarantined = server.get("/graphs").body["quarantined"]
        assert [one["graph_id"] for one in quarantined] == ["places"]
        assert server.get("/graphs/places/schema").status == 404
        assert server.get("schema").status == 200
        shutil.move(cluster.path / "kept", root / "__manifest")
        wait_until(lambda: server.get("/graphs/places/schema").status == 200)
        assert count_graphs(server) == (2, 0)
        assert server.log.count("graph quarantined") == 1, "it is not said with every look"


def test_a_graph_whose_schema_drifted_from_its_queries_is_quarantined(cluster) -> None:
    cluster.declare_graph("places", count_query("how_many"))
    cluster.apply()
    with serving_cluster(cluster.path) as server:
        assert count_graphs(server) == (2, 0)
        with omnigraph.open(cluster.path / "graphs" / "places.omni") as graph:
            graph.apply_schema("node Other { name: String @key }", allow_data_loss=True)
        reload(server)
        assert count_graphs(server) == (1, 1)
        assert "stored query 'how_many'" in server.log
        assert server.get("/graphs/places/schema").status == 404
        assert server.get("schema").status == 200


def test_a_state_that_cannot_be_read_as_a_whole_changes_nothing(cluster) -> None:
    cluster.apply()
    with serving_cluster(cluster.path, poll="0.2") as server:
        before = server.get("/readyz").body
        kept = cluster.state_file.read_bytes()
        cluster.state_file.write_bytes(kept.replace(b'"state_revision": ', b'"state_revision": 1'))
        wait_until(lambda: "reload refused" in server.log)
        server.signal(signal.SIGHUP)
        assert run_stored(server, "names").status == 200
        assert server.get("/readyz").body == before
        cluster.state_file.write_bytes(kept)
        cluster.declare_graph("places")
        cluster.apply()
        wait_until(lambda: server.get("/graphs/places/schema").status == 200)
        assert server.log.count("reload refused") == 1, "it is not said with every look"


def test_a_graph_is_served_as_before_while_its_change_is_unfinished(cluster) -> None:
    cluster.declare_graph("places")
    cluster.apply()
    with serving_cluster(cluster.path) as server:
        leave_unfinished(cluster, "places")
        reload(server)
        assert "graph served as before" in server.log
        assert server.get("/graphs/places/schema").status == 200
        assert count_graphs(server) == (2, 0)
        with serving_cluster(cluster.path) as other:
            assert count_graphs(other) == (1, 1)
            assert other.get("/graphs/places/schema").status == 404
            assert other.get("schema").status == 200


def leave_unfinished(cluster: ClusterFolder, graph_id: str) -> None:
    """Leave what an apply leaves that ended within a change of a schema."""
    sidecar = {
        "schema_version": 1,
        "operation_id": "01J9Z3N8Q4X7Y2K5M6P0R1S3T8",
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "actor": "maria",
        "kind": "schema_apply",
        "graph_id": graph_id,
        "graph_uri": str(cluster.path / "graphs" / f"{graph_id}.omni"),
        "observed_manifest_version": 1,
        "expected_manifest_version": None,
        "desired_schema_digest": "00",
        "state_cas_base": "sha256:00",
        "approval_id": None,
    }
    folder = cluster.state_file.parent / "recoveries"
    folder.mkdir(exist_ok=True)
    (folder / f"{sidecar['operation_id']}.json").write_text(json.dumps(sidecar))


def test_texts_are_embedded_by_the_profile_of_their_graph(cluster) -> None:
    schema = 'node Note { slug: String @key  text: String  v: Vector(4)? @embed("text") }'
    near = (
        "query near($t: String) { match { $n: Note } "
        "order { nearest($n.v, $t) } limit 1 return { $n.slug } }\n"
    )
    cluster.declare_graph("notes", near, schema)
    cluster.providers = {
        "mocked": {"kind": "mock"},
        "real": {"kind": "openai", "api_key": "${NOTES_KEY}"},
    }
    cluster.graphs["notes"]["embedding_provider"] = "mocked"
    cluster.policies = {}
    cluster.apply()
    with serving_cluster(cluster.path, OMNIGRAPH_EMBED_PROVIDER="openai") as server:
        with omnigraph.open(cluster.path / "graphs" / "notes.omni") as graph:
            graph.load([{"type": "Note", "data": {"slug": "a", "text": "x", "v": [1, 0, 0, 0]}}])
        asked = {"query": near, "params": {"t": "x"}}
        found = server.post("/graphs/notes/query", asked)
        assert (found.status, found.body.get("rows")) == (200, [{"n.slug": "a"}]), found.body
        cluster.graphs["notes"]["embedding_provider"] = "real"
        cluster.apply()
        reload(server)
        assert "NOTES_KEY is not set" in server.log
        assert server.get("/graphs/notes/schema").status == 404
        assert server.get("schema").status == 200


def test_a_cluster_says_everything_that_is_served_and_takes_no_other_word() -> None:
    for flags in ({"stores": ("x",)}, {"policies": ("p.yaml",)}, {"queries": ("q.gq",)}):
        with pytest.raises(BadRequest, match="--cluster cannot be combined with"):
            read_options(ServeFlags(cluster="town", **flags), {})


@pytest.mark.parametrize("workers", ["1", "2"])
def test_nothing_is_served_of_a_cluster_to_which_nothing_was_applied(cluster, workers) -> None:
    cluster.save()
    done = boot("--cluster", str(cluster.path), "--unauthenticated", "--workers", workers)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cluster_state_missing" in done.stderr
    assert "Traceback" not in done.stderr
