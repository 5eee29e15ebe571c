"""The page of all errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from generator.page_note import NOTE
from omnigraph import errors


def list_error_classes(
    base: type[errors.OmniError] = errors.OmniError,
) -> Iterator[type[errors.OmniError]]:
    """Every error class below `base`, in the order of the source."""
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from list_error_classes(child)


def render_error_page() -> str:
    rows = ["| Code | Class | HTTP | Wire `code` | Exit | Meaning |", "|---|---|---|---|---|---|"]
    for one in list_error_classes():
        meaning = (inspect.getdoc(one) or "").split("\n\n")[0].replace("\n", " ")
        inherited = one.__doc__ is None
        rows.append(
            f"| `{one.code}` | `{one.__name__}` | {one.http_status} | "
            f"{one.wire_code} | {one.exit_code} | {'' if inherited else meaning} |"
        )
    tree = inspect.getdoc(errors) or ""
    return f"""# Errors

{NOTE}
Every error the system raises on purpose is an `omnigraph.errors.OmniError`. Match on the class or on `code`; the wording may
change. Every fact an error carries is an attribute and a member of `wire()`, the JSON body of the command line and the server.
Wrong usage of a command exits with 2, a lost race under `expected_head` with 4, everything else that fails with 1.

```text
{tree}
```

{chr(10).join(rows)}
"""
