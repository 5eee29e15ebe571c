"""Help and version answer without loading the engine."""

import subprocess
import sys

import pytest

import omnigraph

HEAVY = ("lance", "pyarrow", "polars", "pyspark", "numpy", "msgspec", "rich", "obstore")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["version"], ["--version"], ["schema", "--help"]]
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    code = (
        "import sys, io, contextlib\n"
        "from omnigraph.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    code = run({arguments!r})\n"
        f"print(code, *sorted(set(sys.modules) & set({HEAVY!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == ["0"]


def test_the_package_itself_loads_nothing_heavy_until_it_is_used() -> None:
    code = f"import sys, omnigraph; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == []


UNWANTED = (
    *("polars", "pyspark", "pandas", "yaml", "http.client", "rich"),
    *(
        "omnigraph.catalog.build",
        "omnigraph.embedding",
        "omnigraph.plan.query_lint",
    ),
    *("omnigraph.storage.lease_fence", "omnigraph.storage.transaction"),
)
QUERY = """
query older($age: I32) {
  match { $p: Person  $p.age > $age  $p knows $q }
  return { $p.name, $q.age }
  order { $p.name }
}
"""
LIBRARY = """
import omnigraph
print(omnigraph.open({place!r}).query({query!r}, params={{"age": 30}}).rows)
"""
COMMAND = """
from omnigraph.cli.main import run
run(["query", {place!r}, "-e", {query!r}, "--params", '{{"age": 30}}', "--json"])
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    graph = omnigraph.init(
        tmp_path_factory.mktemp("people") / "people.omni",
        "node Person { name: String @key  age: I32 @index }\nedge Knows: Person -> Person",
    )
    ages = {"Ada": 36, "Ben": 12}
    rows = [{"type": "Person", "data": {"name": n, "age": age}} for n, age in ages.items()]
    graph.load([*rows, {"edge": "Knows", "from": "Ada", "to": "Ben"}], "append")
    return graph


@pytest.mark.parametrize("program", [LIBRARY, COMMAND], ids=["library", "command"])
def test_a_query_loads_only_what_queries_need(program: str, people: omnigraph.Graph) -> None:
    """Count the modules after the rows are printed, however late each was imported."""
    listing = f"print(*sorted(set(sys.modules) & set({UNWANTED!r})), file=sys.stderr)"
    code = "\n".join(["import sys", program.format(place=people.uri, query=QUERY), listing])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Ada" in done.stdout
    assert done.stderr.split() == []
