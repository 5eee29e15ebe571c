"""HTML for notebooks: plain tables, everything escaped, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def render_html_table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], note: str = ""
) -> str:
    """A table with a note below it."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
