"""`omnigraph alias`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.answers import render_mutation, write_answer
from omnigraph.cli.command_target import TIMEOUT, CommandTarget, limit_silence
from omnigraph.cli.completion_words import FILE, complete_alias
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_parameters, read_source
from omnigraph.cli.output import note, print_json
from omnigraph.cli.scope_resolution import AskedScope, resolve_scope
from omnigraph.client.operator_config import (
    OUTPUT_FORMATS,
    Alias,
    OperatorConfig,
    find_config_folder,
    read_config,
)

if TYPE_CHECKING:
    from omnigraph.graph.query_result import QueryResult
    from omnigraph.graph.results import MutationResult

SCOPE_FLAGS = ("--server", "--graph", "--store", "--uri", "--cluster", "--profile", "--as")


class _AliasCommand(click.Command):
    """An alias says itself where it runs: every flag that would say it again is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        given = {one.partition("=")[0] for one in args[:end]}
        misplaced = [flag for flag in SCOPE_FLAGS if flag in given]
        if misplaced:
            raise click.UsageError(
                f"No such option {', '.join(misplaced)} for alias: an alias says itself where it "
                "runs; run the query itself with `omnigraph query` to choose another graph",
                ctx,
            )
        return super().parse_args(ctx, args)


@click.command(cls=_AliasCommand, epilog=render_examples("alias"))
@click.argument("name", shell_complete=complete_alias)
@click.argument("args", nargs=-1, metavar="[ARG]...")
@click.option("--params", metavar="JSON", help="Further parameters as a JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@click.option("--format", "chosen", type=click.Choice(OUTPUT_FORMATS), help="The output format.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@TIMEOUT
@click.option("--quiet", is_flag=True, help="Do not print what is being changed.")
def alias(
    name: str,
    args: tuple[str, ...],
    params: str | None,
    params_file: str | None,
    chosen: str | None,
    as_json: bool,
    timeout_s: float | None,
    quiet: bool,
) -> None:
    """Run the query that NAME stands for in the operator's configuration.

    Arguments are the parameters the alias lists, in its order; each is read as JSON, or as text
    if it is none.
    """
    from omnigraph.graph.query_result import QueryResult

    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    scope, found = _resolve(name, quiet=quiet)
    scope = scope if timeout_s is None else limit_silence(scope, timeout_s)
    given = read_parameters(params, params_file) or {}
    parameters = {**found.params, **_find_alias(found, args), **given}
    if found.mutate:
        scope.echo(f"alias {name}")
    result = _run(scope, found, parameters)
    if isinstance(result, QueryResult):
        shape = "json" if as_json else chosen or found.format or scope.config.output
        write_answer(result, shape, None, scope.config)
    elif as_json:
        print_json(result.wire())
    else:
        click.echo(render_mutation(result))


def _run(
    scope: CommandTarget, found: Alias, parameters: Mapping[str, object]
) -> QueryResult | MutationResult:
    """Run the query of a file, or the one that a server stores."""
    graph = scope.reach(read_only=not found.mutate)
    if found.server is not None:
        assert found.query is not None, "an alias of a server names its query"
        return graph.invoke(found.query, parameters, expect_mutation=found.mutate)
    source = read_source(_find_file(scope.config, found))
    if found.mutate:
        return graph.mutate(source, found.query, parameters)
    return graph.query(source, found.query, parameters)


def _resolve(name: str, *, quiet: bool) -> tuple[CommandTarget, Alias]:
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    found = config.alias(name)
    asked = AskedScope((found.store,), found.server, found.graph)
    return resolve_scope(asked, served=True, quiet=quiet), found


def _find_file(config: OperatorConfig, found: Alias) -> str:
    """The file of an alias; a relative one is next to the configuration."""
    assert found.file is not None and config.path is not None, "it was read from there"  # noqa: PT018
    return str(config.path.parent / Path(found.file).expanduser())


def _find_alias(found: Alias, args: tuple[str, ...]) -> Mapping[str, object]:
    if len(args) > len(found.args):
        taken = f"takes {', '.join(found.args)}" if found.args else "takes no arguments"
        raise click.UsageError(f"alias '{found.name}' {taken}; {len(args)} were given")
    return {name: _parse_value(text) for name, text in zip(found.args, args, strict=False)}


def _parse_value(text: str) -> object:
    from omnigraph.errors import OmniError
    from omnigraph.types.strict_json import parse_json

    try:
        return parse_json(text)
    except OmniError:
        return text
