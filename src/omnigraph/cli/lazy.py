"""A click group whose commands are imported only when they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

import click


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives and the line that help shows for it."""

    module: str
    attribute: str
    summary: str
    hidden: bool = False


FLAGS_OF_ALL = {
    "--yes": "Do not ask for confirmation.",
    "--quiet": "Print nothing but the payload.",
}
"""Scripts may give these to any command; where there is no use for one, it does nothing."""


NO_GRAPH = frozenset({"clone", "policy", "init"})
"""Commands whose words are not those of a graph that is there."""


class LazyGroup(click.Group):
    """Lists its commands from a table, so that help needs none of their modules."""

    def __init__(
        self, *, entries: Mapping[str, Entry], legend: str = "", **settings: object
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.entries, self.legend = entries, legend

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute}"
        for one in command.commands.values() if isinstance(command, click.Group) else (command,):
            _take_flags_of_all(one)
        if ctx.resilient_parsing:  # a shell asks what may be typed
            offer_words(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in self.entries and not name.startswith("-"):
            close = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        shown = [(name, e.summary) for name, e in self.entries.items() if not e.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.legend:
            formatter.write("\n" + self.legend)


def offer_words(command: click.Command) -> None:
    """Let a shell complete what the commands of an entry take from a graph."""
    from omnigraph.cli.graph_completion import offer_graph_words

    if command.name in NO_GRAPH:
        return
    for one in command.commands.values() if isinstance(command, click.Group) else (command,):
        offer_graph_words(one)


def _take_flags_of_all(command: click.Command) -> None:
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params += [
        click.Option([flag], is_flag=True, expose_value=False, hidden=True, help=meaning)
        for flag, meaning in FLAGS_OF_ALL.items()
        if flag not in taken
    ]
