"""Serving of a cluster: the applied state, reloads, and definitions that stay in use."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import BadRequest
from omnigraph.server.hosted_graphs import HostedGraphs
from omnigraph.server.service import configure
from omnigraph.server.serving_config import ServeFlags, read_options
from omnigraph.settings import EmbedProvider
from server.cluster_files import (
    GRAPH_RULES,
    NAMES,
    SERVER_RULES,
    TOKENS,
    ClusterFolder,
    count_query,
    serving_cluster,
)
from server.serving import ADD, SCHEMA, Server
from waiting import wait_until


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterFolder:
    """Declare a graph of people with a policy, and a policy for listing graphs."""
    folder = ClusterFolder(tmp_path / "town")
    folder.declare_graph("people")
    folder.declare_policy("rules", GRAPH_RULES, "people")
    folder.declare_policy("operators", SERVER_RULES, "cluster")
    return folder


def reload(server: Server) -> None:
    """Reload all definitions, and wait for the outcome."""
    said = server.log.count("reloaded"), server.log.count("reload refused")
    server.signal(signal.SIGHUP)
    wait_until(lambda: (server.log.count("reloaded"), server.log.count("reload refused")) != said)


def count_graphs(server: Server) -> tuple[int, int]:
    ready = server.get("/readyz").body
    return ready["served_graph_count"], ready["quarantined_graph_count"]


def run_stored(server: Server, name: str, graph: str = "people", **given):
    return server.post(f"/graphs/{graph}/queries/{name}", {}, **given)


def test_the_applied_state_is_served_and_a_reload_loads_the_next_one(cluster) -> None:
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
        assert server.get("/graphs/places/schema").status == 404, "no reload was requested"
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

        wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
        asked = {"schema_source": wider}
        assert server.post("schema/apply", asked, token=TOKENS["bot"]).status == 403
        refused = server.post("schema/apply", asked)
        assert (refused.status, refused.body["kind"]) == (409, "schema_of_cluster")
        assert server.post("schema/plan", asked).status == 200
        town = "query town() { match { $p: Person } return { $p.city } }\n"
        cluster.declare_graph("people", NAMES + town, wider)
        cluster.declare_policy("rules", GRAPH_RULES, "people")
        cluster.delete_graph("places")
        assert "city" in server.get("schema").body["schema_source"], "schemas are live"
        reload(server)
        assert "graph no longer served" in server.log
        assert server.get("/graphs/places/schema").status == 404
        assert run_stored(server, "names", token=TOKENS["bot"]).status == 404
        assert run_stored(server, "town").body["rows"] == [{"p.city": None}]
        assert count_graphs(server) == (1, 0)


def test_workers_poll_for_the_next_applied_state(cluster) -> None:
    """Keep the served definitions while they cannot be read; a broken graph is opened again."""
    cluster.declare_graph("places")
    cluster.apply()
    root, kept = cluster.path / "graphs" / "places.omni", cluster.path / "kept"
    shutil.move(root / "__manifest", kept)
    with serving_cluster(cluster.path, "--workers", "2", poll="0.2") as server:
        assert count_graphs(server) == (1, 1)
        quarantined = server.get("/graphs").body["quarantined"]
        assert [one["graph_id"] for one in quarantined] == ["places"]
        assert server.get("/graphs/places/schema").status == 404
        shutil.move(kept, root / "__manifest")
        wait_until(lambda: server.log.count("quarantined=0") == 2)
        assert server.log.count("graph quarantined") == 2, "each worker says it once"

        before, ledger = server.get("/readyz").body, cluster.state_file.read_bytes()
        cluster.replace_state(ledger.replace(b"people", b"peolpe"))
        wait_until(lambda: server.log.count("reload refused") == 2)
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.log.count("reload refused") == 4)
        assert run_stored(server, "names").status == 200
        assert server.get("/readyz").body == before
        cluster.replace_state(ledger)
        cluster.declare_graph("more")
        cluster.apply()
        revision = cluster.run("status")["state_observations"]["state_revision"]
        wait_until(lambda: server.log.count(f"revision={revision}") >= 2)
        wait_until(lambda: all(server.get("/graphs/more/schema").status == 200 for _ in range(8)))
        assert server.log.count("reload refused") == 4, "the same is not said with every look"


def read_serving(cluster: ClusterFolder, known: HostedGraphs | None = None) -> HostedGraphs:
    """Return the graphs that a worker would serve now."""
    flags = ServeFlags(cluster=str(cluster.path))
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    return configure(read_options(flags, given), known).graphs


def test_a_graph_whose_schema_drifted_from_its_queries_is_quarantined(cluster) -> None:
    cluster.declare_graph("places", count_query("how_many"))
    cluster.apply()
    known = read_serving(cluster)
    assert list(known.served) == ["people", "places"]
    with omnigraph.open(cluster.path / "graphs" / "places.omni") as graph:
        graph.apply_schema("node Other { name: String @key }", allow_drop_all=True)
    for before in (known, None):  # whether it was served before makes no difference
        found = read_serving(cluster, before)
        assert list(found.served) == ["people"]
        assert "stored query 'how_many'" in found.quarantined["places"]


def test_a_graph_is_served_as_before_while_its_change_is_unfinished(cluster) -> None:
    cluster.declare_graph("places")
    cluster.apply()
    known = read_serving(cluster)
    leave_unfinished(cluster, "places")
    found = read_serving(cluster, known)
    assert found.served["places"] is known.served["places"]
    assert (list(found.outdated), dict(found.quarantined)) == (["places"], {})
    fresh = read_serving(cluster)
    assert (list(fresh.served), list(fresh.quarantined)) == (["people"], ["places"])


def test_a_graph_that_is_defined_as_before_is_not_opened_again(cluster) -> None:
    cluster.apply()
    known = read_serving(cluster)
    cluster.declare_graph("people", NAMES + count_query("how_many"))
    cluster.apply()
    found = read_serving(cluster, known)
    assert found.served["people"].unguarded is known.served["people"].unguarded
    assert [one.name for one in found.served["people"].queries] == ["how_many", "names"]


def leave_unfinished(cluster: ClusterFolder, graph_id: str) -> None:
    """Leave the intent of an apply that was killed during a schema change."""
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


def test_texts_are_embedded_by_the_profile_of_their_graph(cluster, monkeypatch) -> None:
    monkeypatch.delenv("NOTES_KEY", raising=False)
    cluster.declare_graph("notes")
    key = {"api_key": "${NOTES_KEY}", "base_url": "https://embed.example.org", "model": "m"}
    cluster.providers = {"mocked": {"kind": "mock"}, "real": {"kind": "openai", **key}}
    cluster.graphs["notes"]["embedding_provider"] = "mocked"
    cluster.apply()
    known = read_serving(cluster)
    settings = {id: one.unguarded.settings.embed for id, one in known.served.items()}
    assert (settings["notes"].provider, settings["people"].provider) == (
        EmbedProvider.MOCK,
        EmbedProvider.OPENAI_COMPATIBLE,
    )
    cluster.graphs["notes"]["embedding_provider"] = "real"
    cluster.apply()
    assert "NOTES_KEY is not set" in read_serving(cluster, known).quarantined["notes"]
    monkeypatch.setenv("NOTES_KEY", "secret")
    embed = read_serving(cluster, known).served["notes"].unguarded.settings.embed
    assert (embed.provider, embed.openai_api_key, embed.openrouter_api_key) == (
        EmbedProvider.OPENAI,
        "secret",
        None,
    )
    assert (embed.base_url, embed.model) == ("https://embed.example.org", "m")


def test_a_cluster_excludes_other_flags_of_what_is_served() -> None:
    for flags in ({"stores": ("x",)}, {"policies": ("p.yaml",)}, {"queries": ("q.gq",)}):
        with pytest.raises(BadRequest, match="--cluster cannot be combined with"):
            read_options(ServeFlags(cluster="town", **flags), {})
