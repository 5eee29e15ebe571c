"""Schema and query files in the one layout their printers write, comments included."""

from __future__ import annotations

from omnigraph.language.comments import restore_comments
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.query.query_printer import print_query_file
from omnigraph.language.schema.schema_parser import parse_schema
from omnigraph.language.schema.schema_printer import print_schema
from omnigraph.language.source import SourceText


def format_schema(source: SourceText) -> str:
    """The text of a schema file in its usual layout.

    Raises:
        CompileError: the text has mistakes.
    """
    tree = parse_schema(source)
    text = restore_comments(source, print_schema(tree))
    assert parse_schema(SourceText(text)) == tree, "formatting must not change what a text means"
    return text


def format_queries(source: SourceText) -> str:
    """The text of a query file in its usual layout.

    Raises:
        CompileError: the text has mistakes.
    """
    tree = parse_query_file(source)
    text = restore_comments(source, print_query_file(tree))
    assert parse_query_file(SourceText(text)) == tree, "as for schemas"
    return text
