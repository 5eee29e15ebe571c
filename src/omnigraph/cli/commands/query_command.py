"""`omnigraph query`, `omnigraph mutate` and `omnigraph alias`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import (
    force_option,
    read_parameters,
    read_query,
    read_source,
    require_free,
)
from omnigraph.cli.result_formats import (
    BINARY_FORMATS,
    FORMATS,
    find_format,
    render_mutation,
    write_answer,
)
from omnigraph.cli.scope_resolution import RequestedScope, resolve_scope
from omnigraph.cli.shared_options import (
    TIMEOUT,
    CommandTarget,
    add_graph_options,
    check_revision,
    message_option,
    open_view,
    parse_spark_options,
    report_spark_start,
    revision_options,
    with_timeout,
)
from omnigraph.cli.shell_completion import FILE, complete_alias
from omnigraph.cli.terminal import json_option, note, print_result
from omnigraph.client.operator_config import (
    OUTPUT_FORMATS,
    Alias,
    OperatorConfig,
    find_config_folder,
    read_config,
)
from omnigraph.errors import CompileError
from omnigraph.language.lexer import Token, TokenKind, tokenize
from omnigraph.language.source import Problems, SourceText
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.client.served_graph import ServedGraph
    from omnigraph.graph.engines import EngineName
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.queries import QueryResult
    from omnigraph.wire.write_results import MutationResult


NAME = "statement"
"""The name of a query without a name."""
_WHOLE_NUMBERS = ("I64", "I32", "U64", "U32", "F64", "F32")
_NUMBERS = ("F64", "F32")
_TEXTS = ("String", "Date", "DateTime", "Blob")


def read_tokens(text: str) -> tuple[list[Token], Problems]:
    """Return the tokens of a text, and the mistakes of the lexer."""
    problems = Problems(SourceText(text, "<statement>"), "parse")
    return tokenize(problems.source, problems), problems


def is_bare(text: str) -> bool:
    """Return whether a text is a query body without a header."""
    first = read_tokens(text)[0][0]
    return first.kind is not TokenKind.END and first.value != "query"


def select_parameters(text: str, params: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return the parameters that a text names."""
    if not params:
        return None
    named = {token.value[1:] for token in read_tokens(text)[0] if token.kind is TokenKind.VARIABLE}
    return {name: value for name, value in params.items() if name in named} or None


def complete_query(
    text: str,
    name: str,
    params: Mapping[str, object] | None,
    count_mistakes: Callable[[str], int],
) -> str:
    """Return the text as a query; a body alone gets a name, and its parameters types.

    What went wrong in it stays on its line. The type of a parameter is the first that its value
    could have and that leaves the fewest mistakes.
    """
    body = text.strip()
    if not is_bare(body):
        return body
    candidates = {
        parameter: list_types(value)
        for parameter, value in (select_parameters(body, params) or {}).items()
    }
    chosen = {parameter: types[0] for parameter, types in candidates.items()}
    for parameter, types in candidates.items():
        if len(types) > 1:
            chosen[parameter] = min(
                types,
                key=lambda kind: count_mistakes(wrap(body, name, {**chosen, parameter: kind})),
            )
    return wrap(body, name, chosen)


class ExplainableView(Protocol):
    """A view that can explain a query, embedded or served."""

    def explain_json(self, query: str) -> Mapping[str, object]: ...


def count_mistakes(view: ExplainableView, text: str) -> int:
    """Count the mistakes of a query there."""
    try:
        view.explain_json(text)
    except CompileError as error:
        return len(error.diagnostics)
    return 0


def complete_source(
    source: SourceText,
    name: str | None,
    params: Mapping[str, object] | None,
    open_view: Callable[[], ExplainableView],
) -> SourceText:
    """Return the text of the command line as a complete query.

    The view is opened only if there are parameters whose types it can tell.
    """
    if not is_bare(source.text):
        return source
    view = cache(open_view)
    text = complete_query(
        source.text, name or NAME, params, lambda text: count_mistakes(view(), text)
    )
    return SourceText(text, source.name)


def list_types(value: object) -> tuple[str, ...]:
    """Return the types that a parameter with this value can have, the likely ones first."""
    match value:
        case bool():
            return ("Bool",)
        case int():
            return _WHOLE_NUMBERS
        case float():
            return _NUMBERS
        case str():
            return _TEXTS
        case None:
            return tuple(f"{kind}?" for kind in (*_TEXTS, *_WHOLE_NUMBERS, "Bool"))
        case [first, *_]:
            is_vector = all(isinstance(one, int | float) for one in value)
            vector = (f"Vector({len(value)})",) if is_vector else ()
            return (*(f"[{kind}]" for kind in list_types(first)), *vector)
        case _:
            return ("[String]",)


def wrap(body: str, name: str, types: Mapping[str, str] | None = None) -> str:
    """Wrap a body as a query with these parameters; line numbers are unchanged."""
    declared = ", ".join(f"${parameter}: {kind}" for parameter, kind in (types or {}).items())
    return f"query {name}({declared}) {{ {body}\n}}"


At = tuple[str | None, str | None, str | None]
"""The given branch, revision and snapshot."""


def is_stored(scope: CommandTarget, name: str | None, path: str | None, text: str | None) -> bool:
    """Return whether a stored query is to be run: a name without a text."""
    if path is not None or text is not None or not scope.has_stored_queries:
        return False
    if name is None:
        raise click.UsageError(
            "give the query: its text with --query FILE or -e, or the name of a stored one"
        )
    return True


def invoke_read(
    scope: CommandTarget, name: str | None, parameters: Mapping[str, object] | None, at: At
) -> QueryResult:
    """Run a stored query and return its rows."""
    from omnigraph.graph.queries import QueryResult

    branch, revision, snapshot = at
    graph = scope.reach_stored(read_only=True)
    if revision is not None:
        snapshot = graph.at(revision, branch=branch or "main").info().snapshot_id
    result = graph.invoke(
        name or "",
        parameters,
        branch=branch if snapshot is None else None,
        snapshot=snapshot,
        expect_mutation=False,
    )
    assert isinstance(result, QueryResult), "a mutation was refused"
    return result


def invoke_mutation(
    graph: Graph | ServedGraph,
    name: str | None,
    parameters: Mapping[str, object] | None,
    branch: str,
    expected_head: str | None,
    message: str | None = None,
) -> MutationResult:
    """Run a stored mutation and return its result."""
    from omnigraph.wire.write_results import MutationResult

    result = graph.invoke(
        name or "",
        parameters,
        branch=branch,
        expect_mutation=True,
        expected_head=expected_head,
        message=message,
    )
    assert isinstance(result, MutationResult), "a read was refused"
    return result


@click.command(epilog=render_examples("query"))
@click.argument("name", required=False)
@add_graph_options(positional=True, writes=False, served=True)
@click.option(
    "--query", "query_path", type=FILE, metavar="FILE", help="The queries (.gq); - for stdin."
)
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@revision_options
@click.option("--engine", type=click.Choice(ENGINES), default="local", help="Where the query runs.")
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option(
    "--format",
    "chosen",
    type=click.Choice(FORMATS),
    help="The output format; by default, by the name of --out.",
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("--out", type=FILE, metavar="PATH", help="Write to a file instead of stdout.")
@force_option
def query(
    scope: CommandTarget,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    out: str | None,
    force: bool,
) -> None:
    """Run read query NAME; a text with one query needs no name.

    What -e gives may be the body alone: match { … } return { … }. Without a text, NAME is a
    stored query of the server or cluster.

    A query that ranks or searches text runs in this process even with --engine spark.
    """
    check_revision(branch, at, snapshot)
    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    if chosen in BINARY_FORMATS and out is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError(
            f"--format {chosen} cannot be written to a terminal; give --out PATH"
        )
    require_free(out, force=force)
    parameters = read_parameters(params, params_file)
    if is_stored(scope, name, query_path, text):
        result = invoke_read(scope, name, parameters, (branch, at, snapshot))
    else:
        source = read_query(query_path, text)
        view = open_view(scope, branch, at, snapshot)
        if text is not None:
            source = complete_source(source, name, parameters, lambda: view)
        conf = parse_spark_options(spark_conf)
        with report_spark_start(engine):
            result = view.query(source, name, parameters, engine=engine, spark_conf=conf)
    shape = "json" if as_json else chosen or find_format(out) or scope.config.output
    write_answer(result, shape, out, scope.config, force=force)


@click.command(epilog=render_examples("mutate"))
@click.argument("name", required=False)
@add_graph_options(positional=True, writes=True, served=True)
@click.option(
    "--query", "query_path", type=FILE, metavar="FILE", help="The queries (.gq); - for stdin."
)
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@click.option("--branch", default="main", show_default=True, help="The branch to change.")
@click.option("--if-commit", "expected", metavar="ID", help="Only if the branch is at this commit.")
@message_option
@json_option
def mutate(
    scope: CommandTarget,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    expected: str | None,
    message: str | None,
    as_json: bool,
) -> None:
    """Run mutation NAME as one commit; a text with one query needs no name.

    What -e gives may be the statements alone: insert …, merge …, update …, delete …. Without a
    text, NAME is a stored query of the server or cluster.
    """
    parameters = read_parameters(params, params_file)
    stored = is_stored(scope, name, query_path, text)
    query = None if stored else read_query(query_path, text)
    graph = scope.reach_stored(read_only=False) if stored else scope.reach(read_only=False)
    if query is not None and text is not None:
        query = complete_source(query, name, parameters, lambda: graph.at(branch=branch))
    scope.echo("mutate")
    if query is None:
        result = invoke_mutation(graph, name, parameters, branch, expected, message)
    else:
        result = graph.mutate(
            query, name, parameters, branch=branch, expected_head=expected, message=message
        )
    actor = (f"actor_id: {result.actor_id}",) if result.actor_id else ()
    print_result(result, (render_mutation(result), *actor), as_json=as_json)


SCOPE_FLAGS = ("--server", "--graph", "--store", "--uri", "--cluster", "--profile", "--as")


class _AliasCommand(click.Command):
    """A command that refuses the flags of a scope by name: an alias has its own."""

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
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
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
    from omnigraph.graph.queries import QueryResult

    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    scope, found = _resolve(name, quiet=quiet)
    scope = scope if timeout_s is None else with_timeout(scope, timeout_s)
    given = read_parameters(params, params_file) or {}
    parameters = {**found.params, **_find_alias(found, args), **given}
    if found.mutate:
        scope.echo(f"alias {name}")
    result = _run(scope, found, parameters)
    if isinstance(result, QueryResult):
        shape = "json" if as_json else chosen or found.format or scope.config.output
        write_answer(result, shape, None, scope.config)
    else:
        print_result(result, render_mutation(result), as_json=as_json)


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
    asked = RequestedScope((found.store,), found.server, found.graph)
    return resolve_scope(asked, served=True, quiet=quiet), found


def _find_file(config: OperatorConfig, found: Alias) -> str:
    """Return the file of an alias; a relative path starts at the configuration."""
    assert found.file is not None and config.path is not None, "it was read from there"  # noqa: PT018
    return str(config.path.parent / Path(found.file).expanduser())


def _find_alias(found: Alias, args: tuple[str, ...]) -> Mapping[str, object]:
    if len(args) > len(found.args):
        taken = f"takes {', '.join(found.args)}" if found.args else "takes no arguments"
        raise click.UsageError(f"alias '{found.name}' {taken}; {len(args)} were given")
    return {name: _parse_value(text) for name, text in zip(found.args, args, strict=False)}


def _parse_value(text: str) -> object:
    from omnigraph.errors import OmniError
    from omnigraph.types.json_value import parse_json

    try:
        return parse_json(text)
    except OmniError:
        return text
