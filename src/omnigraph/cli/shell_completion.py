"""Words a shell offers while a command is typed.

Files, profiles, branches, commits, tags, types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem

from omnigraph.client.operator_config import (
    OperatorConfig,
    find_active_profile,
    find_config_folder,
    read_config,
)

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILE = click.Path(allow_dash=True, readable=False)
"""A file on the command line; whether it can be read is checked when it is read."""


def complete_store(
    context: click.Context,  # noqa: ARG001 - click passes all three
    parameter: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Complete folders, since a local graph is one."""
    return [CompletionItem(incomplete, type="dir")]


def _list_names(part: Callable[[OperatorConfig], Iterable[str]]) -> Completion:
    """Complete names of a section of the configuration."""

    def complete(
        context: click.Context,  # noqa: ARG001
        parameter: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> list[CompletionItem]:
        names = sorted(part(read_config_quietly()))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


def read_config_quietly() -> OperatorConfig:
    """Read the configuration without warnings, for completion."""
    from omnigraph.errors import OmniError

    try:
        return read_config(find_config_folder(), lambda message: None)  # noqa: ARG005
    except OmniError:
        return OperatorConfig()


complete_profile = _list_names(lambda config: config.profiles)
complete_alias = _list_names(lambda config: config.aliases)
complete_server = _list_names(lambda config: config.servers)
complete_cluster = _list_names(lambda config: config.clusters)


_MAX_SHOWN_COMMITS = 20
_SCHEMA = "_schema.pg"
"""File whose presence marks a folder as a graph."""

Words = Callable[["Graph"], Iterator[CompletionItem]]


def _list_branches(graph: Graph) -> Iterator[CompletionItem]:
    return (CompletionItem(name) for name in graph.branches())


def _list_commits(graph: Graph) -> Iterator[CompletionItem]:
    for commit in graph.commits()[:_MAX_SHOWN_COMMITS]:
        yield CompletionItem(commit.commit_id, help=commit.actor_id)


def _list_tags(graph: Graph) -> Iterator[CompletionItem]:
    return (CompletionItem(tag.name) for tag in graph.tags())


def _list_revisions(graph: Graph) -> Iterator[CompletionItem]:
    """Complete a revision: branches, tags and commits."""
    yield from _list_branches(graph)
    yield from _list_tags(graph)
    yield from _list_commits(graph)


def _list_types(graph: Graph) -> Iterator[CompletionItem]:
    for type_ in graph.catalog.by_table_key.values():
        yield CompletionItem(type_.name, help=str(type_.kind))


_OPTIONS: dict[str, Words] = {
    "--branch": _list_branches,
    "--into": _list_branches,
    "--at": _list_revisions,
    "--snapshot": _list_commits,
    "--commit": _list_commits,
    "--if-commit": _list_commits,
    "--type": _list_types,
}
_ARGUMENTS: dict[str, Words] = {
    "branch_name": _list_branches,
    "tag_name": _list_tags,
    "commit_id": _list_revisions,
    "before": _list_revisions,
    "after": _list_revisions,
    "type_name": _list_types,
}
_BY_METAVAR: dict[str, Words] = {"BRANCH": _list_branches, "SOURCE": _list_branches}


def add_graph_completions(command: click.Command) -> None:
    """Add completions from the graph to the parameters of a command."""
    for parameter in command.params:
        words = _find_words(parameter)
        if words is not None and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _complete_with(words)


def _find_words(parameter: click.Parameter) -> Words | None:
    if isinstance(parameter, click.Option):
        for name in parameter.opts:
            if name in _OPTIONS:
                return _OPTIONS[name]
    elif parameter.name in _ARGUMENTS:
        return _ARGUMENTS[parameter.name]
    return _BY_METAVAR.get(str(parameter.metavar))


def _complete_with(
    words: Words,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(
        context: click.Context,
        parameter: click.Parameter,  # noqa: ARG001 - click passes all three
        incomplete: str,
    ) -> list[CompletionItem]:
        from omnigraph.errors import OmniError
        from omnigraph.graph.graph import open as open_graph

        path = _find_graph(context)
        if path is None:
            return []
        try:
            found = list(words(open_graph(path, read_only=True)))
        except (OmniError, OSError):
            return []  # completion never prints errors
        return [one for one in found if str(one.value).startswith(incomplete)]

    return complete


def _find_graph(context: click.Context) -> Path | None:
    """Return the folder of the graph named on the line or by the configuration."""
    # Behind an option whose value is being typed, arguments have not been given their names yet.
    named = [value for value in context.params.values() if isinstance(value, str)]
    named += context.args
    config = read_config_quietly()
    profile = context.params.get("profile") or find_active_profile()
    if profile in config.profiles:
        named.append(config.profiles[str(profile)].store or "")
    named.append(config.default_store or "")
    for name in named:
        path = Path(name.removeprefix("file://"))
        if name and "://" not in str(path) and (path / _SCHEMA).is_file():
            return path
    return None
