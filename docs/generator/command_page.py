"""The page of all commands, with the help that each one prints."""

from __future__ import annotations

from collections.abc import Iterator

import click

from generator.page_note import NOTE
from omnigraph.cli.main import omnigraph


def list_leaf_commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from list_leaf_commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def render_help(path: str, command: click.Command) -> str:
    context = click.Context(
        command,
        info_name=path,
        max_content_width=100,
        terminal_width=100,
        help_option_names=omnigraph.context_settings["help_option_names"],
    )
    return command.get_help(context)


def render_command_page() -> str:
    sections = [f"## `omnigraph`\n\n```text\n{render_help('omnigraph', omnigraph)}\n```\n"]
    sections += [
        f"## `{path}`\n\n```text\n{render_help(path, command)}\n```\n"
        for path, command in list_leaf_commands(omnigraph, "omnigraph")
        if not command.hidden
    ]
    return f"""# The command line

{NOTE}
Payloads go to stdout and nothing else does; notes, warnings and errors go to stderr. With `--json` stdout is one JSON
document, on success and on failure; [its members](documents.md) have a page. Progress of long work is drawn on stderr where that is a terminal, unless `--quiet` is given.
Files are written whole or not at all. `NO_COLOR` turns colours off; there are none outside terminals.

A graph is named by an argument, `--store` or `--uri`, or comes from a profile (`--profile`, else `OMNIGRAPH_PROFILE`) or
`defaults.store` of the operator's `config.yaml`. `--store`, `--uri`, `--profile`, `--as`, `--json`, `--quiet` and `--yes` may also stand
before the verb, and every command takes `--quiet` and `--yes`. Deleting or overwriting a graph that is not on this machine asks first,
or needs `--yes`. `-` in place of a file is standard input or output; records that are printed leave no room for a document, so `--json`
asks for a file there.

`read`, `change`, `check` and `ingest` are old names of `query`, `mutate`, `lint` and `load`; they work and say so. [Make the command line
yours](../how-to/command-line.md) is about profiles, aliases, scripts and completion.

| Exit | When |
|---|---|
| 0 | success |
| 1 | the command failed, or whoever read its output went away; `lint` found mistakes |
| 2 | wrong usage |
| 4 | the branch was not at the expected commit |
| 130 | interrupted |

{chr(10).join(sections)}
"""
