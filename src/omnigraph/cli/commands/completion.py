"""`omnigraph completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.examples import examples

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the code that lets SHELL complete commands and options.

    For bash: eval "$(omnigraph completion bash)" in ~/.bashrc.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "omnigraph", "_OMNIGRAPH_COMPLETE").source())
