"""All settings: environment variable, default, type, meaning, and the work they apply to.

Only entry points read the environment: a command, a server or a Spark driver builds one
`Settings` with `Settings.from_environment(os.environ)` and passes it on. `SETTINGS` lists the
declarations; the reference page and `omnigraph config settings` are generated from it.
"""

from __future__ import annotations

from typing import Any

from omnigraph.settings.environment import Setting, list_settings
from omnigraph.settings.graph_settings import *
from omnigraph.settings.graph_settings import Settings as Settings
from omnigraph.settings.process_settings import CommandLineSettings as CommandLineSettings
from omnigraph.settings.process_settings import LogLevels as LogLevels
from omnigraph.settings.process_settings import ServerSettings as ServerSettings

SETTINGS: tuple[Setting[Any], ...] = (
    *list_settings(Settings),
    *list_settings(CommandLineSettings),
    *list_settings(ServerSettings),
)
