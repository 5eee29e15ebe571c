"""Running the real command in a child process."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from commands.quick_command import quick_command


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def omnigraph(tmp_path: Path):
    """A function that runs `omnigraph` with arguments and gives what it printed."""

    def run(*arguments: str, stdin: str | bytes = "", cwd: Path = tmp_path) -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            quick_command(*arguments),
            input=data,
            capture_output=True,
            cwd=cwd,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
            check=False,
            timeout=600,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "music.pg"
    path.write_text(
        "node Artist { slug: String @key  name: String @index  born: I32? }\n"
        "node Album { slug: String @key  title: String }\n"
        "edge Made: Artist -> Album\n"
    )
    return path


@pytest.fixture
def query_file(tmp_path: Path) -> Path:
    path = tmp_path / "music.gq"
    path.write_text(
        "query albums($s: String) {\n"
        "  match { $a: Artist { slug: $s }  $a made $b }\n"
        "  return { $b.title }\n"
        "}\n"
        'query born() { update Artist set { born: 1970 } where slug = "ada" }\n'
    )
    return path
