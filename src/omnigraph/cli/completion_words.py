"""What a shell offers while a command is being typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

from omnigraph.client.operator_config import OperatorConfig, find_config_folder, read_config
from omnigraph.errors import OmniError

Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILE = click.Path(allow_dash=True, readable=False)
"""A file on the command line; whether it can be read is checked when it is read."""


def complete_store(
    context: click.Context,  # noqa: ARG001 - click passes all three
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Folders: a graph on this machine is one."""
    return [CompletionItem(incomplete, type="dir")]


def _list_names(part: Callable[[OperatorConfig], Iterable[str]]) -> Completion:
    """Names in a part of the configuration."""

    def complete(
        context: click.Context,  # noqa: ARG001
        parameter: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> list[CompletionItem]:
        names = sorted(part(read_config_quietly()))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


def read_config_quietly() -> OperatorConfig:
    """The configuration; while somebody types is no time to complain about it."""
    try:
        return read_config(find_config_folder(), lambda message: None)  # noqa: ARG005
    except OmniError:
        return OperatorConfig()


complete_profile = _list_names(lambda config: config.profiles)
complete_alias = _list_names(lambda config: config.aliases)
complete_server = _list_names(lambda config: config.servers)
complete_cluster = _list_names(lambda config: config.clusters)
