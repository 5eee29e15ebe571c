"""The settings that only the command line reads."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.environment import FLAG, TEXT, SettingGroup, declare_setting

_COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class CommandLineSettings(SettingGroup):
    """What only the command line reads."""

    home: str = declare_setting(
        "OMNIGRAPH_HOME",
        "~/.omnigraph",
        TEXT,
        "Folder of the operator's `config.yaml`.",
        applies=_COMMAND_LINE,
    )
    profile: str | None = declare_setting(
        "OMNIGRAPH_PROFILE",
        None,
        TEXT,
        "Profile a command takes when it is given neither a graph nor `--profile`.",
        applies=_COMMAND_LINE,
    )
    bearer_token: str | None = declare_setting(
        "OMNIGRAPH_BEARER_TOKEN",
        None,
        TEXT,
        "Token for a server that has none of its own. A server declared as `lab` has its own in "
        "`OMNIGRAPH_TOKEN_LAB` or by `omnigraph login lab`.",
        applies=_COMMAND_LINE,
        is_secret=True,
    )
    traceback: bool = declare_setting(
        "OMNIGRAPH_TRACEBACK",
        False,
        FLAG,
        "`true` shows where in the code a command failed that should not have.",
        applies=_COMMAND_LINE,
    )
