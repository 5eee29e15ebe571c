"""What a graph can do only where it is stored, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from omnigraph.errors import BadRequest, NotServed

_IN_STORAGE = "run it where the graph is stored, on `omnigraph.open`"
_BY_PLACE = "the client knows states only by their ids, which `wire_stats` has"

UNSERVED: Mapping[str, str] = {
    "as_actor": "a server takes the actor from the token: connect with another one",
    "after": _BY_PLACE,
    "batches": "`to_arrow` gives the changes of each type as a table",
    "before": _BY_PLACE,
    "catalog": "`schema` gives the schema as it was written",
    "cleanup": _IN_STORAGE,
    "embed": _IN_STORAGE,
    "ensure_indices": _IN_STORAGE,
    "export_files": "`export_jsonl` gives the records",
    "maintain": _IN_STORAGE,
    "optimize": _IN_STORAGE,
    "plan": _IN_STORAGE,
    "policy": "the server has it, and decides",
    "profile": _IN_STORAGE,
    "recover": _IN_STORAGE,
    "recovered_on_open": _IN_STORAGE,
    "recovery_list": _IN_STORAGE,
    "recovery_pending": _IN_STORAGE,
    "repair": _IN_STORAGE,
    "settings": "the server has its own",
    "to_networkx": "the result of a query has it too",
    "to_pyg": _IN_STORAGE,
    "to_spark": "`to_arrow` gives the rows, which Spark can take",
    "verify": _IN_STORAGE,
    "view": "it reads tables, which only the server reaches",
    "with_queries": "the server has the stored queries",
}
"""Attributes of embedded graphs, branches, views and their results that have no route."""


def refuse_verb(name: str) -> NoReturn:
    raise NotServed(f"'{name}'", UNSERVED[name])


class ServedObject:
    """An object that says of a missing member if it is merely not served."""

    def __getattr__(self, name: str) -> NoReturn:
        if name in UNSERVED:
            refuse_verb(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def require_default(given: Mapping[str, tuple[object, object]], verb: str) -> None:
    """Refuse arguments that a server does not take, where they ask for something.

    Args:
        given: By the name of an argument, what was given and what it is by default.
        verb: What they were given to.
    """
    for name, (value, default) in given.items():
        if value != default:
            raise NotServed(f"'{name}' of {verb}", "leave it out, or open the graph in storage")


def refuse_actor(actor: str | None) -> None:
    """Raise if an actor is named, which would silently have no effect."""
    if actor is not None:
        raise BadRequest("a server takes the actor from the token; do not name one")
