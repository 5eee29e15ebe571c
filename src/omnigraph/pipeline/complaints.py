"""What Spark said when something failed, in one line."""

from __future__ import annotations


def reason_of(error: Exception) -> str:
    """The one line of what Spark said that tells most, without the trace of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    named = [line for line in lines if _names_an_error(line)]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)


def _names_an_error(line: str) -> bool:
    name = line.partition(":")[0]
    return name.replace(".", "").isidentifier() and name.endswith(("Error", "Failure", "Exception"))
