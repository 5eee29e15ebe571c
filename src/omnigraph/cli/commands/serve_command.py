"""`omnigraph serve`."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from omnigraph.cli.completion_words import complete_store
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note
from omnigraph.cli.process_settings import describe_unknown_settings

_PACKAGES = ("uvicorn", "starlette", "httptools", "structlog", "prometheus_client")


@click.command(epilog=render_examples("serve"))
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="URI[=ID]",
    shell_complete=complete_store,
    help="A graph to serve, and its id; by default the name of its folder. Repeatable.",
)
@click.option(
    "--cluster",
    metavar="DIR|URI",
    shell_complete=complete_store,
    help="Serve what is applied to a cluster, given by its folder or storage root: its graphs, "
    "policies, stored queries and embedding profiles.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE[=ID]",
    help="A policy bundle and the graph it applies to; without an id, every graph that has no "
    "other. Repeatable.",
)
@click.option(
    "--server-policy",
    metavar="FILE",
    help="A policy bundle of scope cluster: who may list the graphs.",
)
@click.option(
    "--queries",
    multiple=True,
    metavar="PATH[=ID]",
    help="A file or folder of stored queries and the graph they belong to; without an id, every "
    "graph. Repeatable.",
)
@click.option("--bind", metavar="HOST:PORT", help="Where to listen; 127.0.0.1:8080 by default.")
@click.option(
    "--unauthenticated",
    is_flag=True,
    help="Serve without tokens: anyone who can reach the port may read and write.",
)
@click.option(
    "--require-all-graphs", is_flag=True, help="Do not start unless every graph can be opened."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes answer requests.",
)
@click.option(
    "--cors-origin",
    "cors_origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin such as https://app.example.org whose pages may use the server from a "
    "browser. Repeatable; none by default.",
)
@click.option(
    "--metrics-bind", metavar="HOST:PORT", help="Where metrics can be read; off by default."
)
@click.option(
    "--shutdown-grace-seconds",
    metavar="S",
    help="How long requests may take to finish after a signal to stop; 25 by default.",
)
def serve(
    stores: tuple[str, ...],
    cluster: str | None,
    policies: tuple[str, ...],
    server_policy: str | None,
    queries: tuple[str, ...],
    bind: str | None,
    unauthenticated: bool,
    require_all_graphs: bool,
    workers: int,
    cors_origins: tuple[str, ...],
    metrics_bind: str | None,
    shutdown_grace_seconds: str | None,
) -> int:
    """Serve graphs over HTTP: those of --store, or those of a cluster.

    Tokens come from OMNIGRAPH_SERVER_BEARER_TOKENS_FILE and its relatives. stdout gets one line,
    OMNIGRAPH_LISTEN_ADDR=HOST:PORT, once requests are answered; the log goes to stderr. SIGTERM
    lets requests finish, SIGHUP reads tokens, policies, stored queries and what is applied to the
    cluster again and tries again to open what could not be opened.
    """
    _require_packages()
    for problem in describe_unknown_settings():
        note(f"warning: {problem}")
    from omnigraph.server.http_server import run_alone
    from omnigraph.server.serve_options import ServeFlags, read_options
    from omnigraph.server.worker_processes import run_workers

    given = {
        "bind": bind,
        "is_unauthenticated": "true" if unauthenticated else None,
        "requires_all_graphs": "true" if require_all_graphs else None,
        "cors_origins": ",".join(cors_origins) or None,
        "metrics_bind": metrics_bind,
        "grace_s": shutdown_grace_seconds,
    }
    settings = {name: text for name, text in given.items() if text is not None}
    flags = ServeFlags(
        stores=stores,
        cluster=cluster,
        workers=workers,
        settings=settings,
        policies=policies,
        server_policy=server_policy,
        queries=queries,
    )
    options = read_options(flags, os.environ)
    return run_alone(options) if workers == 1 else run_workers(options, flags)


def _require_packages() -> None:
    from omnigraph.errors import MissingPackage

    for name in _PACKAGES:
        if find_spec(name) is None:
            raise MissingPackage(name, "the server", "pip install 'omnigraph[server]'")
