"""`omnigraph shell`."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.client.operator_config import find_config_folder


@click.command(epilog=render_examples("shell"))
@add_graph_options(positional=True, writes=True)
@click.option("--branch", default="main", show_default=True, help="The branch to start on.")
@click.option("--read-only", is_flag=True, help="Refuse mutations.")
def shell(scope: CommandTarget, branch: str, read_only: bool) -> int:
    """Type queries and mutations at a prompt, or pipe them in.

    Piped statements stop at the first mistake. The history is kept next to the configuration.
    """
    from omnigraph.cli.shell import Shell, run_interactively, run_script
    from omnigraph.cli.shell_input import use_readline

    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    opened = Shell(scope.open(read_only=read_only), scope.config, branch)
    opened.graph.snapshot(branch)
    if not sys.stdin.isatty():
        return run_script(opened)
    use_readline(opened.completer(), find_config_folder() / "history")
    run_interactively(opened)
    return 0
