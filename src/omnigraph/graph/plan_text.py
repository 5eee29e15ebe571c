"""The plan of a query as text, which notebooks show line by line."""

from __future__ import annotations

import html


class PlanText(str):
    """A plan as text; notebooks keep its lines and its indentation."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"
