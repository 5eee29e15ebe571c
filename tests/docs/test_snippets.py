"""Every example of the documentation runs, page by page, each in a folder of its own.

Blocks of Python and of shell commands run in the order of the page. A block of `text` directly
under one of them is what it prints; `…` stands for anything within a line, and as a line of its own
for any lines. What cannot run here (a bucket, a terminal, an hour of work) is written as `console`.
"""

import io
import os
import re
import subprocess
from contextlib import redirect_stdout
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
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>python|sh)\n(?P<code>.*?)^ *```\n"
    r"(?:\n+ *```text\n(?P<printed>.*?)^ *```$)?",
    re.M | re.S,
)
TWICE = {"README.md"}
"""Pages that say their examples can be run again."""


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

    def run(code: str) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", code],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}"
        return done.stdout

    return SimpleNamespace(run=run, folder=folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.folder)
    for _ in range(2 if str(page.relative_to(ROOT)) in TWICE else 1):
        run_page(page, shell)


def run_page(page: Path, shell) -> None:
    scope: dict[str, object] = {"__name__": "example"}
    text = page.read_text()
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        code, expected = (unindent(match[part], match["indent"]) for part in ("code", "printed"))
        if match["language"] == "python":
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + code, str(page), "exec"), scope)
            shown = printed.getvalue()
        else:
            shown = shell.run(code)
        if expected:
            assert fits(shown, expected), f"{page.name}:{line} prints\n{shown}"


def unindent(text: str | None, indent: str) -> str:
    return re.sub(f"^{indent}", "", text or "", flags=re.M)


def fits(shown: str, expected: str) -> bool:
    """Return whether an output equals the text a page shows of it, line ends aside."""
    patterns = [
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in map(str.rstrip, expected.splitlines())
    ]
    return re.fullmatch("".join(patterns), shown) is not None


@pytest.mark.parametrize(
    ("shown", "expected", "is_so"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nc\n", "a\nb\n", False),
        ("a\nb\nc\n", "a\nb\n", False),
        ("commit 01K\n", "commit …\n", True),
        ("a 1 b\nc\n", "a … b\nc\n", True),
        ("a\nx\ny\nb\n", "a\n…\nb\n", True),
        ("a\nb\n", "a\n…\nb\n", True),
        ("a\nx\n", "a\n…\nb\n", False),
        ("[1]  \n", "[1]\n", True),
    ],
)
def test_the_output_on_a_page_is_compared_line_by_line(shown: str, expected: str, is_so) -> None:
    assert fits(shown, expected) is is_so
