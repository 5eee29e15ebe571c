"""Load records as one commit: the verb, and the choice of the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.graph.engines import EngineOptions, LoadEngineName, ModeName
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.revisions import RevisionLike
from omnigraph.output_files import OutputFile, output_file
from omnigraph.pipeline.spark_environment import find_java
from omnigraph.pipeline.spark_session import find_active_session, is_local
from omnigraph.policy.decision import Action
from omnigraph.settings import LoadEngine, Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.wire.write_results import LoadResult

if TYPE_CHECKING:
    from omnigraph.execution.load_input import LoadMode
    from omnigraph.graph.conversion.load_inputs import Input, LoadInput
    from omnigraph.graph.load_changes import GraphLoadRequest
    from omnigraph.writer.driver import Writer

START_FACTOR = 8
"""Starting Spark costs as much as it saves on this many times the input."""


class LoadVerbs(GraphHandle):
    """Loading rows into a branch."""

    def load(
        self,
        records: Input,
        mode: LoadMode | ModeName,
        *,
        branch: str | None = None,
        base: str | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: LoadEngineName | None = None,
        format: str | None = None,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        select: Sequence[str] = (),
        match: Sequence[str] = (),
        partial: bool = False,
        on_error: str = "fail",
        rejects: str | Path | OutputFile | None = None,
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        delimiter: str | None = None,
    ) -> LoadResult:
        """Load rows as one commit or not at all.

        Args:
            records: A file of JSON lines, its bytes, or records; with the pipeline also several
                files, folders and patterns, Parquet and CSV, an Arrow table, a Spark data frame,
                or a frame of pandas, Polars or any other library that hands out Arrow data.
            mode: `append`, `merge` or `overwrite`.
            branch: The branch to load into.
            base: Create the branch from this one first, if it does not exist.
            expected_head: Only if the branch is at this commit.
            actor: Who the commit is recorded for.
            message: A text kept with the commit.
            engine: `local`, in this process, `spark`, or `auto`, by the amount of input and whether
                Spark is up. The result says which, and why. By default as the settings say.
            format: `jsonl`, `parquet`, `csv` or `tsv`; by the names of the files otherwise.
            type: The type of the rows of a table, or of plain dictionaries; records name their
                types themselves.
            columns: Which column of a table holds which property, by its name; also for `id`,
                `from` and `to`. The others hold the property of their own name.
            select: The columns of a table to read; by default all, and then all must be known.
            match: The columns by which a merge finds edges that have no ids, such as
                `["from", "to"]`. By default those of an `@unique` with both ends; without one,
                such edges are new ones.
            partial: A merge keeps what a record leaves out.
            on_error: `fail` rejects the load on bad rows, `skip` skips them.
            rejects: A file for the rejected records; one that appears while the load runs is not
                replaced.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: Names the load: it is made once, however often it is asked for.
            delimiter: What separates the columns of a text file; a comma, or a tab in `.tsv`.

        >>> done = graph.load(
        ...     [
        ...         {"type": "Person", "data": {"name": "Cy", "age": 41}},
        ...         {"edge": "Knows", "from": "Cy", "to": "Ada"},
        ...     ],
        ...     "append",
        ... )
        >>> done.nodes, done.edges, done.commit.actor_id
        ({'Person': 1}, {'Knows': 1}, 'maria')
        """
        from omnigraph.execution.load_input import LoadOptions
        from omnigraph.graph.conversion.load_inputs import as_input
        from omnigraph.graph.load_changes import GraphLoadRequest

        branch = self._choose(branch)
        self._allow_load(branch, base, actor)
        options = LoadOptions(
            mode=_parse_mode(mode),
            format=format,
            type=type,
            columns=columns or {},
            select=tuple(select),
            match=tuple(match),
            partial=partial,
            on_error=on_error,
            rejects=None if rejects is None else output_file(rejects),
            delimiter=delimiter,
        )
        views, schema_of = self._open.views, base or branch
        given, options = as_input(records, options, lambda: views.read_newest(schema_of).catalog)
        # A branch that is made first is at the head of its base.
        head = self._find_commit_id(expected_head, schema_of)
        request = GraphLoadRequest(
            options,
            self._make_write_options(branch, actor, message, head, idempotency_key),
            base=base,
        )
        runs_on = EngineOptions(engine=engine, session=session, spark_conf=spark_conf or {})
        return _load_input(self._open.writer, given, request, runs_on)

    def _allow_load(self, branch: str, base: str | None, actor: str | None) -> None:

        from omnigraph.graph.load_changes import has_branch

        self._open.require_writable()
        if base is not None and not has_branch(self._open.views.root, branch):
            self._guard.allow(Action.BRANCH_CREATE, branch=base, target_branch=branch, actor=actor)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)


def _parse_mode(mode: LoadMode | str) -> LoadMode:

    from omnigraph.execution.load_input import LoadMode

    try:
        return LoadMode(mode)
    except ValueError as error:
        raise BadRequest(f"mode '{mode}' is not one of {', '.join(LoadMode)}") from error


def _load_input(
    writer: Writer,
    given: LoadInput,
    request: GraphLoadRequest,
    runs_on: EngineOptions,
) -> LoadResult:
    """Choose the engine and the form of the input, then load it."""
    from omnigraph.graph.conversion.load_inputs import identify_input, plan_input
    from omnigraph.graph.load_changes import load

    root = writer.branches.root
    chosen = choose_engine(given, runs_on, root)
    planned = plan_input(given, chosen.engine, request.options)
    if request.write.idempotency_key is not None:
        content = identify_input(planned, root.settings.aws)
        request = replace(request, key=request.make_key(content))
    loaded = load(writer, planned, request, replace(runs_on, engine=chosen.engine))
    return msgspec.structs.replace(loaded, engine_reason=chosen.reason)


# --- the choice of the engine ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine of a load, and the reason for it."""

    engine: str
    reason: str


def choose_engine(given: LoadInput, runs_on: EngineOptions, root: GraphRoot) -> EngineChoice:
    """Choose where to run a load.

    Raises:
        BadRequest: there is no such engine, or a file cannot be read.
    """
    from omnigraph.pipeline.input_splits import FrameSource

    if isinstance(given, FrameSource):
        return EngineChoice("spark", "the rows are a Spark data frame")
    asked = runs_on.engine or str(root.settings.load_engine)
    if asked not in tuple(LoadEngine):
        raise BadRequest(f"engine '{asked}' is not one of {', '.join(LoadEngine)}")
    if asked != LoadEngine.AUTO:
        return EngineChoice(asked, "asked for" if runs_on.engine else "OMNIGRAPH_LOAD_ENGINE")
    if runs_on.session is not None:
        return EngineChoice("spark", "a Spark session was given")
    if runs_on.spark_conf:
        return EngineChoice("spark", "Spark options were given")
    size = _measure_input(given, root.settings)
    if size is None:
        return EngineChoice("local", "the size of a stream is not known")
    return _choose_by_size(size, given, root)


def _choose_by_size(size: int, given: LoadInput, root: GraphRoot) -> EngineChoice:
    settings = root.settings
    least, shown = settings.spark.load_bytes, f"{_show_mebibytes(size)} of input"
    if size < least:  # whatever Spark there is; looking for it has a price
        limit = _show_mebibytes(least)
        return EngineChoice("local", f"{shown}; Spark is used from {limit} on")
    is_started = _is_spark_up(settings)
    if not is_started and size < least * START_FACTOR:
        limit = _show_mebibytes(least * START_FACTOR)
        return EngineChoice("local", f"{shown}; Spark is started from {limit} on")
    obstacle = _find_obstacle(given, root)
    if obstacle is not None:
        return EngineChoice("local", f"{shown}, but {obstacle}")
    return EngineChoice("spark", shown)


def _measure_input(given: LoadInput, settings: Settings) -> int | None:
    """Estimate the bytes of plain records; None if nobody knows yet."""
    from omnigraph.execution.record_load import RecordInput
    from omnigraph.pipeline.input_splits import FileSource, TableSource, measure_files

    match given:
        case RecordInput():
            return len(given.data)
        case TableSource():
            return int(given.table.nbytes)
        case FileSource():
            return measure_files(given.places, settings.aws)
        case _:
            return None


def _is_spark_up(settings: Settings) -> bool:
    """Return whether there is a session, or a cluster that was named."""
    return bool(find_active_session() or settings.spark.remote or settings.spark.master)


def _find_obstacle(given: LoadInput, root: GraphRoot) -> str | None:
    """Return the reason why Spark cannot run the load, or None."""
    from omnigraph.pipeline.input_splits import FileSource

    active, settings = find_active_session(), root.settings
    if active is None:
        if find_spec("pyspark") is None:
            return "PySpark is not installed"
        if not settings.spark.remote and not _has_java():
            return "Java was not found"
    if active is not None:
        is_elsewhere = not is_local(active)
    else:
        is_elsewhere = bool(settings.spark.remote) or not _is_on_this_machine(settings)
    files = given.places if isinstance(given, FileSource) else ()
    places = [root.uri, *map(str, files)]
    if is_elsewhere and any("://" not in one or one.startswith("file:") for one in places):
        return "Spark runs elsewhere and may not reach files of this machine"
    return None


def _is_on_this_machine(settings: Settings) -> bool:
    return (settings.spark.master or "local").partition("[")[0] == "local"


def _has_java() -> bool:
    try:
        find_java(os.environ)
    except BadRequest:
        return False
    return True


def _show_mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f}".removesuffix(".0") + " MiB"
