"""`omnigraph fmt`."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source, write_whole
from omnigraph.cli.output import print_json

_SCHEMA, _QUERIES = ".pg", ".gq"


@click.command(epilog=render_examples("fmt"))
@click.argument("paths", type=FILE, nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def fmt(paths: tuple[str, ...], check: bool, as_json: bool) -> int:
    """Rewrite schema (.pg) and query (.gq) files in one layout; comments stay.

    No file is written if one of them has mistakes.
    """
    texts = {path: _format(path) for path in paths}
    changed = [path for path, (before, after) in texts.items() if before != after]
    if not check:
        for path in changed:
            mode = Path(path).stat().st_mode
            write_whole(path, [texts[path][1].encode()], force=True)
            Path(path).chmod(mode)
    if as_json:
        print_json({"files": [{"path": path, "changed": path in changed} for path in texts]})
    else:
        for path in changed:
            click.echo(f"would reformat {path}" if check else f"reformatted {path}")
    return 1 if check and changed else 0


def _format(path: str) -> tuple[str, str]:
    from omnigraph.language.format import format_queries, format_schema

    formatters = {_SCHEMA: format_schema, _QUERIES: format_queries}
    formatter = formatters.get(Path(path).suffix)
    if formatter is None:
        raise click.UsageError(f"'{path}' is neither a schema (.pg) nor a query file (.gq)")
    source = read_source(path)
    return source.text, formatter(source)
