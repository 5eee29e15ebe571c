"""The settings of the process a command runs in, and a warning about those nothing reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.cli.output import note

if TYPE_CHECKING:
    from omnigraph.settings import Settings


def read_settings(*, quietly: bool = False) -> Settings:
    """What the environment asks for; a variable that looks like ours and is not is warned about.

    A command that looks for something before its main work reads them `quietly` for that.
    """
    from omnigraph.settings import Settings

    for problem in () if quietly else describe_unknown_settings():
        note(f"warning: {problem}")
    return Settings.from_environment(os.environ)


def describe_unknown_settings() -> Iterator[str]:
    """A sentence for each variable that is named like a setting and is none."""
    from omnigraph.environment import find_unknown_variables
    from omnigraph.settings import SETTINGS

    for name, meant in find_unknown_variables(os.environ, SETTINGS):
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no such setting {name}{hint}"
