"""What is said about a commit, on every command that makes one."""

from __future__ import annotations

import click

message_option = click.option(
    "-m", "--message", metavar="TEXT", help="Keep this text with the commit."
)
