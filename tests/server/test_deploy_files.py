"""The files of deploy/ name commands, flags and settings that exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from omnigraph.cli.commands.serve_command import serve
from omnigraph.cli.main import omnigraph
from omnigraph.settings import SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "systemd" / "omnigraph.service").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
CONTAINER = (DEPLOY / "container" / "Containerfile").read_text()
ENTRYPOINT = DEPLOY / "container" / "entrypoint.sh"
OF_CONTAINER = {"OMNIGRAPH_STORE", "OMNIGRAPH_CLUSTER"}
"""Read by the entry point alone."""


def require_accepted(arguments: list[str]) -> None:
    """Raise unless `omnigraph serve` would understand these."""
    with serve.make_context("serve", list(arguments), **omnigraph.context_settings):
        pass


def test_the_unit_starts_the_server_with_flags_it_has() -> None:
    line = re.search(r"^ExecStart=((?:.*\\\n)*.*)", UNIT, re.M)[1].replace("\\\n", " ")
    program, *arguments = shlex.split(line)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert Path(program).name in scripts
    require_accepted(arguments)
    assert "ExecReload=/bin/kill -HUP $MAINPID" in UNIT


def test_the_server_of_the_compose_file_has_flags_it_knows_and_files_that_exist() -> None:
    server = COMPOSE["services"]["server"]
    require_accepted(server["command"])
    assert (
        DEPLOY / "compose" / server["build"]["context"] / server["build"]["dockerfile"]
    ).exists()
    given = set(server["secrets"])
    assert given == set(COMPOSE["secrets"])


@pytest.mark.parametrize("file", sorted(p for p in DEPLOY.rglob("*") if p.is_file()), ids=str)
def test_settings_that_are_named_exist(file: Path) -> None:
    named = set(re.findall(r"OMNIGRAPH_[A-Z_]+[A-Z]", file.read_text()))
    assert named <= {one.name for one in SETTINGS} | OF_CONTAINER


def test_the_files_of_the_container_exist_and_it_is_not_run_by_root() -> None:
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.+) \S+$", CONTAINER, re.M):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    assert re.findall(r"^USER (\w+)", CONTAINER, re.M) == ["omnigraph"]
    assert "EXPOSE 8080" in CONTAINER
    assert "/healthz" in CONTAINER


@pytest.fixture
def run_entrypoint(tmp_path):
    """Runs the entry point with a program that shows what it was started with."""
    stand_in = tmp_path / "omnigraph-server"
    stand_in.write_text('#!/bin/sh\necho "$OMNIGRAPH_BIND ${OMNIGRAPH_STORE-unset} $@"\n')
    stand_in.chmod(0o755)

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run(
            [str(ENTRYPOINT), *arguments],
            capture_output=True,
            text=True,
            env={"PATH": path, **environment},
            check=False,
            timeout=600,
        )

    return run


def test_the_entry_point_takes_arguments_or_the_environment_or_says_what_is_missing(
    run_entrypoint,
) -> None:
    given = run_entrypoint("--store", "a b", OMNIGRAPH_BIND="1.2.3.4:5")
    assert given.stdout == "1.2.3.4:5 unset --store a b\n"
    named = run_entrypoint(OMNIGRAPH_STORE="/data/a.omni s3://b/c=d")
    assert named.stdout == "0.0.0.0:8080 unset --store /data/a.omni --store s3://b/c=d\n"
    cluster = run_entrypoint(OMNIGRAPH_CLUSTER="s3://b/town")
    assert cluster.stdout == "0.0.0.0:8080 unset --cluster s3://b/town\n"
    nothing = run_entrypoint()
    assert (nothing.returncode, nothing.stdout) == (64, "")
    assert "OMNIGRAPH_STORE" in nothing.stderr
