"""`omnigraph completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.examples import render_examples

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=render_examples("completion"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the code that lets SHELL complete commands, options, files and names.

    \b
    bash  in ~/.bashrc: eval "$(omnigraph completion bash)"
    zsh   in ~/.zshrc, after compinit: eval "$(omnigraph completion zsh)"
    fish  once: omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish
    """  # noqa: D301 - click keeps the lines behind this character as they are
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    root = click.get_current_context().find_root().command
    code = kind(root, {}, "omnigraph", "_OMNIGRAPH_COMPLETE").source()
    if shell == "fish":
        # Only the first comma ends a field: descriptions have commas of their own.
        code = code.replace('string split ","', 'string split --max 1 ","')
    click.echo(code)
