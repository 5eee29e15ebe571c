"""The main job, run as its user runs it."""

import subprocess
import sys

import omnigraph
from omnigraph.demo.papers import Literature


def test_the_demo_tells_its_story_and_leaves_the_graph(tmp_path):
    place = tmp_path / "demo.omni"
    command = [sys.executable, "-m", "omnigraph.demo", str(place), "--papers", "600"]
    done = subprocess.run(
        [*command, "--engine", "local"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "nothing wrong" in done.stdout
    graph = omnigraph.open(place, read_only=True)
    assert graph.branches() == ["main", "review"]
    assert sum(table.row_count for table in graph.snapshot().tables) > 4_000


def test_the_same_seed_makes_the_same_literature(tmp_path):
    texts = [
        [place.read_bytes() for place in Literature(200).write(tmp_path / name)] for name in "ab"
    ]
    assert texts[0] == texts[1]
