"""A cluster in a bucket: applied, served and addressed by its storage root alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from commands.quick_command import quick_command
from server.cluster_files import GRAPH_RULES, ClusterFolder, serving_cluster
from server.serving import ADD
from server.test_cluster_serving import reload, run_stored

pytestmark = pytest.mark.object_store


def test_a_cluster_in_a_bucket_is_served_and_addressed_by_its_root(
    tmp_path: Path, s3_server
) -> None:
    root, reach = s3_server.new_root().replace("/graph", "/town"), s3_server.environment
    folder = ClusterFolder(tmp_path / "town", storage=root, environment=reach)
    folder.declare_graph("people")
    folder.declare_policy("rules", GRAPH_RULES, "people")
    folder.apply()
    assert sorted(one.name for one in folder.path.iterdir() if one.is_dir()) == ["queries"]
    with serving_cluster(root, **reach) as server:
        assert server.post("mutate", {"query": ADD, "params": {"name": "Ada"}}).status == 200
        folder.declare_graph("places")
        folder.apply()
        reload(server)
        assert server.get("/graphs/places/schema").status == 200
        assert run_stored(server, "names").body["rows"] == [{"p.name": "Ada"}]
    done = subprocess.run(
        quick_command("query", "names", "--cluster", root, "--graph", "people"),
        capture_output=True,
        text=True,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path), **reach},
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "Ada" in done.stdout
