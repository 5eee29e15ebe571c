"""States of a cluster that a server refuses to serve, each with its code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from omnigraph.cluster.applied_cluster import find_graph_uri, read_serving_snapshot
from omnigraph.cluster.cluster_files import STATE_FILE
from omnigraph.cluster.control_records import LEDGER, StateLedger
from omnigraph.errors import ClusterError
from omnigraph.server.serving_config import ClusterSource
from omnigraph.settings import Settings
from omnigraph.storage.sealed_records import SEAL
from server.cluster_files import GRAPH_RULES, SERVER_RULES, ClusterFolder
from server.serving import boot

PROVIDER = "provider.embedding.mocked"
SIDECAR = "01J9Z3N8Q4X7Y2K5M6P0R1S3T8.json"


@pytest.fixture(scope="module")
def applied(tmp_path_factory) -> Path:
    """A cluster with one of everything, applied."""
    folder = ClusterFolder(tmp_path_factory.mktemp("applied") / "town")
    folder.declare_graph("people")
    folder.providers = {"mocked": {"kind": "mock"}}
    folder.graphs["people"]["embedding_provider"] = "mocked"
    folder.declare_policy("rules", GRAPH_RULES, "people")
    folder.declare_policy("operators", SERVER_RULES, "cluster")
    folder.apply()
    return folder.path


@pytest.fixture
def control(applied: Path, tmp_path: Path) -> Path:
    """Return the applied state, to be damaged: the folder beside the graphs."""
    shutil.copytree(applied / "__cluster", tmp_path / "root" / "__cluster")
    return tmp_path / "root" / "__cluster"


def edit(control: Path, change: Callable[[dict], None]) -> None:
    """Change the resources of the ledger, and seal it again."""
    file = control / "state.json"
    body = json.loads(file.read_bytes())
    change(body["applied_revision"]["resources"])
    del body[SEAL], body["version"]
    ledger = msgspec.convert(body, StateLedger)
    ledger.applied_revision.refresh_digests()
    file.write_bytes(LEDGER.encode(ledger))
    LEDGER.decode(file.read_bytes(), STATE_FILE)


def remove(control: Path, pattern: str) -> None:
    for file in control.glob(pattern):
        file.unlink()


def damage(control: Path, pattern: str) -> None:
    for file in control.glob(pattern):
        file.write_text(file.read_text() + "\n# another line")


def leave_sidecar(control: Path, **changed: object) -> None:
    (control / "recoveries").mkdir(exist_ok=True)
    body = {
        "schema_version": 1,
        "operation_id": SIDECAR.removesuffix(".json"),
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "kind": "schema_apply",
        "graph_id": "people",
        "graph_uri": "x",
        **changed,
    }
    (control / "recoveries" / SIDECAR).write_text(json.dumps(body))


def rewrite(control: Path, old: str, new: str) -> None:
    """Edit the text of the ledger."""
    text = (control / "state.json").read_text()
    assert old in text
    (control / "state.json").write_text(text.replace(old, new))


BREAKAGES: dict[str, Callable[[Path], None]] = {
    "cluster_state_missing": lambda control: (control / "state.json").unlink(),
    "cluster_empty": lambda control: edit(control, dict.clear),
    "cluster_no_healthy_graphs": leave_sidecar,
    "catalog_payload_missing": lambda control: remove(control, "resources/query/**/*.gq"),
    "catalog_payload_digest_mismatch": lambda control: damage(control, "resources/policy/*/*.yaml"),
    "policy_bindings_missing": lambda control: edit(
        control, lambda found: found["policy.rules"].pop("applies_to")
    ),
    "embedding_provider_missing": lambda control: edit(control, lambda found: found.pop(PROVIDER)),
    "embedding_provider_profile_missing": lambda control: edit(
        control, lambda found: found[PROVIDER].pop("embedding_profile")
    ),
    "embedding_provider_digest_mismatch": lambda control: edit(
        control, lambda found: found[PROVIDER]["embedding_profile"].update(model="other")
    ),
    "external_blob_policy_digest_mismatch": lambda control: rewrite(
        control, '"embedding_provider": "', '"embedding_provider": "provider.embedding.x'
    ),
    "invalid_state_json": lambda control: rewrite(control, "{", "["),
    "unsupported_state_version": lambda control: rewrite(control, '"version": 1', '"version": 99'),
    "invalid_recovery_sidecar": lambda control: leave_sidecar(control, graph_id="no id"),
    "unsupported_recovery_sidecar_version": lambda control: leave_sidecar(
        control, schema_version=99
    ),
}


def test_an_intact_state_is_read(control: Path) -> None:
    found = read_serving_snapshot(str(control.parent))
    assert [one.id for one in found.graphs] == ["people"]
    graph = found.graphs[0]
    assert graph.embedding is not None
    assert (len(graph.queries), graph.embedding.kind) == (1, "mock")
    source = ClusterSource.at(str(control.parent), Settings())
    assert source.read().fingerprint == source.find_fingerprint()


def test_edits_of_the_folder_do_not_affect_a_server(applied: Path) -> None:
    source, file = ClusterSource.at(str(applied), Settings()), applied / "cluster.yaml"
    kept = file.read_text()
    file.write_text("half a file: [")
    try:
        assert source.read().fingerprint == source.find_fingerprint()
        again = ClusterSource.at(source.address, Settings())
        assert again.read().fingerprint == source.find_fingerprint()
    finally:
        file.write_text(kept)


@pytest.mark.parametrize("code", BREAKAGES)
def test_a_damaged_state_is_refused_with_its_code(control: Path, code: str) -> None:
    BREAKAGES[code](control)
    with pytest.raises(ClusterError) as caught:
        ClusterSource.at(str(control.parent), Settings()).read()
    assert code in caught.value.codes


def test_a_graph_that_was_not_applied_is_reported_with_those_that_were(control: Path) -> None:
    with pytest.raises(ClusterError, match="applied: people") as caught:
        find_graph_uri(str(control.parent), "other")
    assert caught.value.codes == ("graph_not_applied",)


def test_a_server_that_does_not_start_reports_every_mistake(control: Path) -> None:
    remove(control, "resources/query/**/*.gq")
    damage(control, "resources/policy/rules/*.yaml")
    done = boot("--cluster", str(control.parent), "--unauthenticated", "--workers", "2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[catalog_payload_missing] query.people.names: " in done.stderr
    assert "[catalog_payload_digest_mismatch] policy.rules: " in done.stderr
    assert "Traceback" not in done.stderr
