"""Options of every command that loads rows: `load` and `import`."""

from __future__ import annotations

from functools import partial

import click

from omnigraph.cli.completion_words import FILE
from omnigraph.settings import LOAD_ENGINES

mode_option = partial(
    click.option,
    "--mode",
    type=click.Choice(("append", "merge", "overwrite")),
    help="append: every id is new; merge: replace by id; overwrite: replace whole types.",
)
"""Called with what differs: whether it must be given."""
branch_option = click.option(
    "--branch", default="main", show_default=True, help="The branch to load into."
)
engine_option = click.option(
    "--engine",
    type=click.Choice(LOAD_ENGINES),
    help="local: in this process; spark: on Spark; auto: by the amount of input. By default, what "
    "OMNIGRAPH_LOAD_ENGINE says, or auto.",
)
delimiter_option = click.option(
    "--delimiter",
    metavar="C",
    help="The column separator of text files; a comma by default, a tab in .tsv.",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(("fail", "skip")),
    default="fail",
    show_default=True,
    help="fail: load nothing if a row is bad; skip: leave bad rows out.",
)
rejects_option = click.option(
    "--rejects", type=FILE, metavar="PATH", help="Write every rejected record to this file."
)
