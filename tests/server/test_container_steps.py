"""The steps that build the image of the container, carried out in a clean folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "deploy" / "container"
TIMEOUT_S = 3_000


def read_build_stage() -> str:
    """The first of the two stages; the second one only copies what it made."""
    stages = re.split(r"^(?=FROM )", (CONTAINER / "Containerfile").read_text(), flags=re.M)
    return stages[1]


def copy_sources(stage: str, folder: Path) -> None:
    """Copy the sources the stage copies, and nothing else of the project."""
    for line in re.findall(r"^COPY (.+)$", stage, re.M):
        *names, target = line.split()
        for name in names:
            if (ROOT / name).is_dir():
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / target, ignore=skipped)
            else:
                (folder / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / target)


def run_steps(stage: str, folder: Path, installed: Path) -> None:
    """Its commands, with other places for what it installs and for the interpreter."""
    for step in re.findall(r"^RUN ((?:.*\\\n)*.*)", stage, re.M):
        command = step.replace("\\\n", " ").replace("/opt/omnigraph", str(installed))
        command = re.sub(r"^python ", f"{sys.executable} ", command)
        subprocess.run(["sh", "-c", command], cwd=folder, check=True, timeout=TIMEOUT_S)


@pytest.mark.slow
def test_the_steps_install_a_server_that_starts(tmp_path: Path) -> None:
    """Downloads every package of the lock, as building the image does."""
    stage, installed = read_build_stage(), tmp_path / "installed"
    copy_sources(stage, tmp_path / "source")
    run_steps(stage, tmp_path / "source", installed)
    path = f"{installed / 'bin'}:{os.environ['PATH']}"
    given = {"PATH": path, "HOME": str(tmp_path), "OMNIGRAPH_BIND": "127.0.0.1:0"}
    (tmp_path / "s.pg").write_text("node Person { name: String @key }")
    init = ["omnigraph", "init", "people.omni", "--schema", "s.pg"]
    subprocess.run(init, cwd=tmp_path, env=given, check=True, timeout=TIMEOUT_S)
    given |= {"OMNIGRAPH_STORE": "people.omni", "OMNIGRAPH_UNAUTHENTICATED": "true"}
    command = [str(CONTAINER / "entrypoint.sh")]
    with subprocess.Popen(command, cwd=tmp_path, env=given, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().decode().strip().partition("=")[2]
            for route in ("healthz", "graphs/people/schema"):
                with urlopen(f"http://{address}/{route}", timeout=TIMEOUT_S) as answer:
                    assert answer.status == 200
        finally:
            server.terminate()
        assert server.wait(TIMEOUT_S) == 0
    shutil.rmtree(installed)  # it is large, and folders of tests are kept for a while
