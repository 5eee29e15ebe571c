"""The examples at the end of help texts are shown, and run one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from commands.quick_command import write_program
from omnigraph.cli.examples import EXAMPLES
from omnigraph.cli.main import omnigraph

FILES = {
    "music.pg": "node Artist { slug: String @key  name: String  born: I32? }\n"
    "node Album { slug: String @key  title: String  rating: F64?  cover: Blob?\n"
    '             vibe: Vector(3)? @embed("title") }\n'
    "edge Made: Artist -> Album\n",
    "music.jsonl": '{"type": "Artist", "data": {"slug": "ada", "name": "Ada"}}\n'
    '{"type": "Album", "data": {"slug": "tides", "title": "Tides", "cover": "base64:AAAA"}}\n'
    '{"edge": "Made", "from": "ada", "to": "tides"}\n',
    "music.gq": "query artists() { match { $a: Artist } return { $a.name } }\n"
    "query albums($artist: String) {\n"
    "  match { $a: Artist { slug: $artist }  $a made $b }\n  return { $b.title }\n}\n"
    "query rate($rating: F64) "
    '{ update Album set { rating: $rating } where slug = "tides" }\n',
    "fill.gq": 'query fill() { update Artist set { nick: "A" } where slug = "ada" }\n',
    "artists.csv": "slug,name\nben,Ben\n",
    "spec.json": '{"dimension": 3, "types": {"Album": {"target": "vibe", "fields": ["title"]}}}',
    "music.policy.yaml": "version: 1\ngroups: {agents: [bot]}\nprotected_branches: [main]\n"
    "rules: [{id: read, allow: {actors: {group: agents}, actions: [read], except: [Album]}}]\n",
    "music.cases.yaml": "version: 1\n"
    "cases: [{id: no writes, actor: bot, action: change, branch: main, expect: deny}]\n",
    "deploy/cluster.yaml": "version: 1\ngraphs: {music: {schema: ../music.pg}}\n",
    "older/cluster.yaml": "version: 1\ngraphs: {music: {schema: ../music.pg}}\n",
    "parts/one.jsonl": '{"type": "Artist", "data": {"slug": "cy", "name": "Cy"}}\n',
}
CONFIG = """\
servers: {lab: {url: https://graph.example.org}}
profiles: {music: {store: music.omni}}
aliases: {albums-of: {store: music.omni, file: folder/music.gq, query: albums, args: [artist]}}
"""
FILES["next.pg"] = FILES["music.pg"].replace("born: I32?", "born: I32?  nick: String?")

ELSEWHERE = ("serve", "graphs list", "cluster approve", "cluster force-unlock")
"""A command that runs until it is stopped, and one that needs it; tests/server has both.
Two that need a cluster in a certain state; tests/cluster has them."""


@pytest.mark.parametrize("verb", EXAMPLES)
def test_a_help_text_ends_with_its_examples(verb: str) -> None:
    command: click.Command | None = omnigraph
    for name in verb.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    # A command remembers the option its help was requested by, which other tests would see.
    names = omnigraph.context_settings["help_option_names"]
    context = click.Context(command, info_name=verb, terminal_width=200, help_option_names=names)
    shown = command.get_help(context)
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[-len(EXAMPLES[verb]) :] == list(EXAMPLES[verb])


def test_every_command_has_examples() -> None:
    assert visible() == set(EXAMPLES)


def visible(group: click.Group = omnigraph, path: str = "") -> set[str]:
    found: set[str] = set()
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        own = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            found |= visible(command, own)
        elif command is not None and not command.hidden:
            found.add(own)
    return found


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_every_example_runs(tmp_path: Path) -> None:
    folder, program = tmp_path / "folder", tmp_path / "bin" / "omnigraph"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "config.yaml").write_text(CONFIG)
    program.parent.mkdir()
    write_program(program)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "OMNIGRAPH_HOME": str(tmp_path),
        "OMNIGRAPH_LOAD_ENGINE": "local",
        "OMNIGRAPH_EMBED_PROVIDER": "mock",
        "TOKEN": "secret",
    }
    ending = [lines for verb, lines in EXAMPLES.items() if verb not in ELSEWHERE]
    for line in [line for lines in ending for line in lines]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert (folder / "cover.jpg").read_bytes() == b"\0\0\0"
