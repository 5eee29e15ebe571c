"""`omnigraph init`."""

from __future__ import annotations

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import note, print_json


@click.command()
@click.argument("uri")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The schema (.pg).")
@click.option("--force", is_flag=True, help="Replace schema files a failed attempt left.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def init(uri: str, schema_path: str, force: bool, as_json: bool) -> None:
    """Create an empty graph at URI with a schema."""
    import os

    from omnigraph.catalog.build import compile_schema
    from omnigraph.catalog.identify import notes_at_creation
    from omnigraph.graph.graph import init as create
    from omnigraph.settings import Settings

    schema = read_source(schema_path)
    draft = compile_schema(schema)
    for warning in (*draft.warnings, *notes_at_creation(draft)):
        note(warning.render())
    settings = Settings.from_environment(os.environ)
    graph = create(uri, schema, force=force, settings=settings)
    if as_json:
        print_json({"uri": graph.uri, "initialized": True})
    else:
        click.echo(f"initialized {graph.uri}")
