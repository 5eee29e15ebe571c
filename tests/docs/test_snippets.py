"""Every example of the documentation runs, page by page, each in a folder of its own.

Blocks of Python and of shell commands run in the order of the page. What cannot run here (a bucket,
a terminal, an hour of work) is written as `console` there.
"""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands.quick_command import write_program

ROOT = Path(__file__).parents[2]
NOT_RUN = {"docs/internals/benchmarks.md"}
"""Pages whose commands are about this checkout and take long."""
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if re.search(r"^ *```(python|sh)\n", page.read_text(), re.M)
    and str(page.relative_to(ROOT)) not in NOT_RUN
]
BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>python|sh)\n(?P<code>.*?)^ *```", re.M | re.S)


@pytest.fixture
def shell(tmp_path: Path):
    """Run lines as a person would type them, stopping at the first that fails."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "omnigraph"
    write_program(program)
    folder = tmp_path / "folder"
    folder.mkdir()
    dev = folder / "dev"  # as in a checkout
    dev.write_text(f'#!/bin/sh\n[ "$1" = run ] && shift && exec {program} "$@"\n')
    dev.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "OMNIGRAPH_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
    }
    environment.pop("OMNIGRAPH_PROFILE", None)

    def run(code: str) -> None:
        done = subprocess.run(
            ["sh", "-eu", "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"

    return SimpleNamespace(run=run, folder=folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.folder)
    scope: dict[str, object] = {"__name__": "example"}
    text = page.read_text()
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        code = re.sub(f"^{match['indent']}", "", match["code"], flags=re.M)
        if match["language"] == "python":
            exec(compile("\n" * line + code, str(page), "exec"), scope)
        else:
            shell.run(code)
