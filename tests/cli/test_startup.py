"""Help and version answer without loading the engine."""

import subprocess
import sys

import pytest

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
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0"]


def test_the_package_itself_loads_nothing_heavy_until_it_is_used() -> None:
    code = f"import sys, omnigraph; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_a_query_loads_only_what_queries_need() -> None:
    unwanted = ("polars", "pyspark", "pandas", "yaml", "http.client", "rich")
    code = (
        f"import sys, omnigraph.graph.graph; print(*sorted(set(sys.modules) & set({unwanted!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == []
