"""The workflow files that pages show are YAML, and their steps are commands that there are."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from omnigraph.cli.main import omnigraph

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```yaml\n(?P<text>.*?)^```", re.M | re.S)
WORKFLOWS = [
    pytest.param(match["text"], id=str(page.relative_to(ROOT)))
    for page in sorted(ROOT.glob("docs/**/*.md"))
    for match in BLOCK.finditer(page.read_text())
    if "\njobs:\n" in match["text"]
]


def test_there_is_one() -> None:
    assert WORKFLOWS


@pytest.mark.parametrize("text", WORKFLOWS)
def test_every_step_is_understood(text: str) -> None:
    jobs = yaml.safe_load(text)["jobs"]
    steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    lines = [shlex.split(line) for step in steps for line in step.splitlines()]
    ours = [words[1:] for words in lines if words[0] == "omnigraph"]
    assert ours
    for words in ours:
        understand(words)


def understand(words: list[str]) -> None:
    """Parse a command without running it."""
    command: click.Command | None = omnigraph
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words[0])
        words = words[1:]
    assert command is not None
    # A command remembers its first help option, so that one must be the real one.
    with command.make_context("omnigraph", words, **omnigraph.context_settings):
        pass
