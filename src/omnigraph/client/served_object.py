"""Behaviour shared by served objects: refused verbs, and errors with the caller's source names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import msgspec

from omnigraph.errors import (
    BadRequest,
    CompileError,
    ConstraintViolated,
    KeyConflict,
    NotServed,
    OmniError,
    RowsRejected,
)
from omnigraph.language.source import SourceText

_IN_STORAGE = "run it where the graph is stored, on `omnigraph.open`"
_BY_REVISION = "the client knows states only by their ids, which `count` has"

UNSERVED: Mapping[str, str] = {
    "as_actor": "a server takes the actor from the token: connect with another one",
    "after": _BY_REVISION,
    "batches": "`to_arrow` gives the changes of each type as a table",
    "before": _BY_REVISION,
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
    """An object whose unsupported members raise `NotServed` with an alternative."""

    def __getattr__(self, name: str) -> NoReturn:
        if name in UNSERVED:
            refuse_verb(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def require_default(given: Mapping[str, tuple[object, object]], verb: str) -> None:
    """Refuse arguments that a server does not support, unless they have their default.

    Args:
        given: The value and the default of each argument, by name.
        verb: The verb they were given to.
    """
    for name, (value, default) in given.items():
        if value != default:
            raise NotServed(f"'{name}' of {verb}", "leave it out, or open the graph in storage")


def refuse_actor(actor: str | None) -> None:
    """Refuse an actor argument, which would have no effect."""
    if actor is not None:
        raise BadRequest("a server takes the actor from the token; do not name one")


@contextmanager
def with_source_name(
    text: SourceText, others: Mapping[str, SourceText] | None = None
) -> Iterator[None]:
    """Replace the server's name of a source by the caller's in errors raised in the block.

    `others` are further sources of the request, by their name on the server.
    """
    try:
        yield
    except CompileError as error:
        known = others or {}
        raise CompileError(
            [
                msgspec.structs.replace(one, source=known.get(one.source, text).name)
                for one in error.diagnostics
            ]
        ) from error.__cause__
    except OmniError as error:
        _rename_position(error, text)
        raise


def _rename_position(error: OmniError, text: SourceText) -> None:
    """Replace the source name in the location of an error."""
    position = getattr(error, "position", None)
    if not isinstance(position, str):
        return
    found = re.search(r"(:\d+:\d+)?$", position)
    assert found is not None, "every text has an end"
    named = f"{text.name}{found[0]}"
    error.message = error.message.replace(position, named)
    error.args = (error.message,)
    vars(error)["position"] = named


@contextmanager
def with_file_name(file: str | None) -> Iterator[None]:
    """Add the caller's file name to errors about rows raised in the block."""
    try:
        yield
    except RowsRejected as error:
        if file is None:
            raise
        problems = [msgspec.structs.replace(one, file=file) for one in error.problems]
        raise RowsRejected(problems, error.total) from error.__cause__
    except ConstraintViolated as error:
        if file is None:
            raise
        broken = [msgspec.structs.replace(one, file=file) for one in error.violations]
        raise ConstraintViolated(broken, error.total) from error.__cause__
    except KeyConflict as error:
        if file is None:
            raise
        first_file = None if error.first_line is None else file
        raise KeyConflict(
            error.table_key, error.id, error.line, file, error.first_line, first_file
        ) from error.__cause__
