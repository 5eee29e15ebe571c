"""Where bulk work, queries and maintenance may run."""

from __future__ import annotations

from omnigraph.errors import BadRequest
from omnigraph.settings import LOAD_ENGINES


def require_engine(engine: str) -> None:
    """Raise unless there is an engine of this name."""
    if engine not in LOAD_ENGINES:
        raise BadRequest(f"engine '{engine}' is not one of {', '.join(sorted(LOAD_ENGINES))}")
