"""What a shell offers while a command is being typed."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from omnigraph.cli.config import OperatorConfig, config_folder, read_config
from omnigraph.errors import OmniError

FILE = click.Path(allow_dash=True, readable=False)
"""A file on the command line; whether it can be read is found out by whoever reads it."""


def complete_store(
    context: click.Context,  # noqa: ARG001 - click passes all three
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Folders: a graph on this machine is one."""
    return [CompletionItem(incomplete, type="dir")]


def complete_profile(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    return _starting(_config().profiles, incomplete)


def complete_alias(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    return _starting(_config().aliases, incomplete)


def complete_server(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    return _starting(_config().servers, incomplete)


def _starting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _config() -> OperatorConfig:
    """The configuration; while somebody types is no time to complain about it."""
    try:
        return read_config(config_folder(), lambda message: None)  # noqa: ARG005
    except OmniError:
        return OperatorConfig()
