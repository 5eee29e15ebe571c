"""The main job, run as its user runs it."""

import subprocess
import sys

import omnigraph
from omnigraph.demo.papers import Literature


def test_the_demo_prints_its_story_and_leaves_the_graph(tmp_path):
    place = tmp_path / "demo.omni"
    command = [sys.executable, "-m", "omnigraph.demo", str(place), "--papers", "600"]
    done = subprocess.run(
        [*command, "--engine", "local"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "nothing wrong" in done.stdout
    assert "conflict: Paper 'paper-7' was changed on both sides" in done.stdout
    assert "no difference" in done.stdout
    graph = omnigraph.open(place, read_only=True)
    assert graph.branches() == ["main", "review"]
    assert sum(table.row_count for table in graph.snapshot().tables) > 4_000


def test_the_same_seed_makes_the_same_literature(tmp_path):
    texts = [
        [place.read_bytes() for place in Literature(200).write(tmp_path / name)] for name in "ab"
    ]
    assert texts[0] == texts[1]


def test_the_demo_removes_nothing_it_did_not_make(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    done = run_demo(mine)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "was not made by the demo" in done.stderr
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_a_failure_of_the_demo_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_demo(tmp_path / "file" / "demo.omni")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert run_demo(tmp_path / "x", "--papers", "1").returncode == 2


def run_demo(place, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "omnigraph.demo", str(place), "--engine", "local", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
