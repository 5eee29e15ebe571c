"""The page of all settings."""

from __future__ import annotations

from typing import Any

from generator.page_note import NOTE
from omnigraph.settings import SETTINGS
from omnigraph.settings.environment import Setting


def render_default(one: Setting[Any]) -> str:
    default = f"`{text}`" if (text := one.show(one.default)) else "–"
    return f"{default}, also for anything else" if one.is_lenient else default


def render_settings_page() -> str:
    rows = [
        f"| `{one.name}` | {one.kind.label} | {render_default(one)} | {one.applies} | {one.help} |"
        for one in SETTINGS
    ]
    return f"""# Settings

{NOTE}
Environment variables, read once where a program starts: the command line reads them itself, a Python program passes
`Settings.from_environment(os.environ)`.

A variable that cannot be understood is refused, except where the table says that anything else means the default.
`omnigraph config settings` shows what applies now and which `OMNIGRAPH_…` variables nothing reads; commands warn about those.

| Variable | Type | Default | Applies to | Meaning |
|---|---|---|---|---|
{chr(10).join(rows)}
"""
