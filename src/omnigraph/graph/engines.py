"""Where bulk work, queries and maintenance may run."""

from __future__ import annotations

from omnigraph.errors import BadRequest
from omnigraph.settings import ENGINES


def require_engine(engine: str) -> None:
    """Raise unless there is an engine of this name."""
    if engine not in ENGINES:
        raise BadRequest(f"engine '{engine}' is not one of {', '.join(sorted(ENGINES))}")
