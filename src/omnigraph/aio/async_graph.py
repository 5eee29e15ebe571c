"""The asynchronous graph and its objects: one wrapper turns the verbs into coroutines.

The signatures are in `async_graph.pyi`, generated from those of the embedded graph.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from omnigraph.engine_threads import AbortSwitch, CancelledReads, EngineCalls

_UNSERVED_WRITES = frozenset(
    {
        *("embed", "delete", "rename", "optimize", "ensure_indices"),
        *("repair", "cleanup", "maintain", "recover", "close"),
    }
)


@cache
def list_writes() -> frozenset[str]:
    """List the verbs that are finished although the task that waits for them is cancelled."""
    from omnigraph.operations.operation_table import ROUTES  # noqa: PLC0415 - not on import

    return _UNSERVED_WRITES | {route.verb for route in ROUTES if route.is_write and route.verb}


async def open(uri: str | Path, **given: Any) -> AsyncGraph:  # noqa: ANN401 - see the stub
    """Open a graph; see `omnigraph.open`."""
    from omnigraph.graph.graph import open as open_graph  # noqa: PLC0415 - loads the engine

    calls = EngineCalls()
    return AsyncGraph(await calls.read(lambda: open_graph(uri, **given)), calls)


async def connect(url: str, **given: Any) -> AsyncGraph:  # noqa: ANN401
    """Connect to a graph of a server; see `omnigraph.connect`."""
    from omnigraph.client.served_graph import connect as connect_graph  # noqa: PLC0415

    calls = EngineCalls()
    return AsyncGraph(await calls.read(lambda: connect_graph(url, **given)), calls)


class AsyncObject:
    """An object of the engine whose methods are coroutines.

    A member that needs no engine is returned unchanged, an iterator becomes an asynchronous one,
    and any other property is awaited.
    """

    PLAIN: ClassVar[frozenset[str]] = frozenset()
    ITERATED: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, target: Any, calls: EngineCalls) -> None:  # noqa: ANN401
        self._target, self._calls = target, calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in self.PLAIN:
            return getattr(self._target, name)
        if isinstance(getattr(type(self._target), name, None), property | cached_property):
            return self._calls.read(lambda: getattr(self._target, name))
        verb: Callable[..., Any] = getattr(self._target, name)
        if name in self.ITERATED:
            return lambda *args, **given: self._calls.iterate(partial(verb, *args, **given))
        return partial(self._call, name, verb)

    async def _call(self, name: str, verb: Callable[..., Any], *args: Any, **given: Any) -> Any:  # noqa: ANN401
        switch = AbortSwitch()
        work = partial(verb, *args, **self._add_limits(name, given, switch))
        run = (
            self._calls.write if name in list_writes() else partial(self._calls.read, switch=switch)
        )
        return self._wrap(await run(lambda: _read_whole(work())))

    def _add_limits(self, name: str, given: dict[str, Any], switch: AbortSwitch) -> dict[str, Any]:
        """Add the limits that cancel an embedded query; a served one ends with its connection."""
        from omnigraph.client.served_object import ServedObject  # noqa: PLC0415

        if name != "query" or isinstance(self._target, ServedObject) or "limits" in given:
            return given
        return {**given, "limits": CancelledReads(switch)}

    def _wrap(self, found: Any) -> Any:  # noqa: ANN401
        """Wrap an object that is bound to the engine in its asynchronous class."""
        for names, kind in _WRAPPED.items():
            if any(one.__name__ in names for one in type(found).__mro__):
                return kind(found, self._calls)
        return found


def _read_whole(found: Any) -> Any:  # noqa: ANN401
    """Read all rows of a query result, so that no later access waits for the engine."""
    if any(one.__name__ == "QueryResult" for one in type(found).__mro__):
        found.to_arrow()
    return found


class AsyncQueries(AsyncObject):
    """An object that runs queries."""

    def query_batches(self, *args: Any, **given: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        """Stream the rows of a query in batches, one in memory at a time."""
        switch = AbortSwitch()
        limited = self._add_limits("query", given, switch)
        run = partial(self._target.query, *args, **limited)
        return self._calls.iterate(lambda: run().batches(), switch)


class AsyncGraph(AsyncQueries):
    """A graph whose verbs are coroutines; see `omnigraph.Graph`."""

    PLAIN = frozenset({"uri", "actor", "policy", "read_only", "settings", "recovered_on_open"})
    ITERATED = frozenset({"export"})

    def branch(self, name: str) -> AsyncBranch:
        """Return one branch, which has the verbs of the graph."""
        return AsyncBranch(self._target.branch(name), self._calls)

    async def close(self) -> None:
        """Wait for background maintenance to finish, and end the threads."""
        await self._calls.write(self._target.close)
        self._calls.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()


class AsyncBranch(AsyncQueries):
    """One branch of a graph; see `omnigraph.Branch`."""

    PLAIN = AsyncGraph.PLAIN - {"recovered_on_open"} | {"name", "revision"}
    ITERATED = AsyncGraph.ITERATED


class AsyncView(AsyncQueries):
    """One immutable state of a graph; see `omnigraph.GraphView`."""

    PLAIN = frozenset({"commit_id", "revision", "view"})
    ITERATED = frozenset({"export", "export_jsonl"})


class AsyncTypeRows(AsyncObject):
    """The rows of a type."""

    PLAIN = frozenset({"columns", "arrow_schema"})
    ITERATED = frozenset({"batches"})

    def __len__(self) -> int:
        return len(self._target)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._calls.iterate(lambda: iter(self._target))


class AsyncBlob(AsyncObject):
    """A blob, or a range of one; see `omnigraph.Blob`."""

    PLAIN = frozenset({"stat", "range", "size", "etag", "content_range"})
    ITERATED = frozenset({"chunks"})

    def __len__(self) -> int:
        return len(self._target)


class AsyncBaseline(AsyncObject):
    """A copy of a branch; see `omnigraph.Baseline`."""

    PLAIN = frozenset({"snapshot_commit_id", "resume_cursor", "wire"})
    ITERATED = frozenset({"jsonl", "records"})


class AsyncDiff(AsyncObject):
    """The differences between two states; see `omnigraph.Diff`."""

    ITERATED = frozenset({"batches"})

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._calls.iterate(lambda: iter(self._target))


_WRAPPED: dict[tuple[str, ...], type[AsyncObject]] = {
    ("Branch", "ServedBranch"): AsyncBranch,
    ("GraphView", "ServedView"): AsyncView,
    ("TypeRows",): AsyncTypeRows,
    ("Blob",): AsyncBlob,
    ("Baseline",): AsyncBaseline,
    ("Diff",): AsyncDiff,
}
"""Asynchronous classes by the name of the wrapped one, so that unused ones are not loaded."""
