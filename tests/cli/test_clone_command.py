"""`omnigraph clone`, run as a user runs it."""

import json
from pathlib import Path


def test_a_clone_is_created_reported_and_never_written_over_a_graph(
    omnigraph, schema_file: Path, tmp_path: Path
) -> None:
    assert omnigraph("init", "music.omni", "--schema", str(schema_file)).code == 0
    assert omnigraph("branch", "create", "review", "music.omni").code == 0
    done = omnigraph("clone", "music.omni", "copy.omni")
    assert done.code == 0, done.err
    assert (
        done.out.splitlines()[0] == f"cloned {tmp_path / 'music.omni'} to {tmp_path / 'copy.omni'}"
    )
    assert done.out.splitlines()[1].endswith("branches: main, review")
    again = omnigraph("clone", "music.omni", "copy.omni", "--force")
    assert again.code != 0
    assert "already holds a graph" in again.err
    small = omnigraph("clone", "copy.omni", "s.omni", "--branch", "main", "--shallow", "--json")
    assert json.loads(small.out)["branches"] == ["main"]
    assert omnigraph("verify", "s.omni", "--deep").code == 0


def test_an_unfinished_clone_says_what_to_do(omnigraph, schema_file: Path, tmp_path: Path) -> None:
    omnigraph("init", "music.omni", "--schema", str(schema_file))
    (tmp_path / "copy.omni").mkdir()
    (tmp_path / "copy.omni" / "__clone_claim.json").write_text('{"source": "music.omni"}')
    refused = omnigraph("snapshot", "copy.omni")
    assert refused.code != 0
    assert "run the clone again with --force" in refused.err
    assert omnigraph("clone", "music.omni", "copy.omni", "--force").code == 0
    assert omnigraph("snapshot", "copy.omni").code == 0
