"""What Spark said when something failed.

Errors of executors reach the driver as text and nothing else, so here, and nowhere else, something
is read off their wording.
"""

from __future__ import annotations

import re


def extract_reason(error: Exception) -> str:
    """The one line of what Spark said that tells most, without the trace of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    named = [line for line in lines if _is_error_line(line)]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)


def _is_error_line(line: str) -> bool:
    name = line.partition(":")[0]
    return name.replace(".", "").isidentifier() and name.endswith(("Error", "Failure", "Exception"))


def find_missing_module(error: Exception) -> str | None:
    """The module that an executor could not import, if that was the failure."""
    found = re.search(r"No module named '(\w+)", str(error))
    return found[1] if found is not None else None


def find_raised_text(error: Exception, start: str) -> str | None:
    """What `raise_error` was given in a query, if it is this text and a word."""
    found = re.search(re.escape(start) + r" \w+", str(error))
    return found[0] if found is not None else None
