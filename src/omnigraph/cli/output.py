"""What commands print: payloads on stdout, everything else on stderr."""

from __future__ import annotations

import json

import click

from omnigraph.cli.terminal import make_room


def print_json(document: object) -> None:
    """One JSON document: two-space indent, UTF-8 as it is, one newline at the end."""
    click.echo(encode_json(document))


def encode_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def note(message: str) -> None:
    """A remark for the person at the terminal, never part of the payload."""
    make_room()
    click.echo(message, err=True)
