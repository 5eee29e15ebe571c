"""Load records as one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.graph.engines import EngineOptions, LoadEngineName, ModeName, choose_engine
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.revisions import RevisionLike
from omnigraph.output_files import OutputFile, output_file
from omnigraph.policy.decision import Action
from omnigraph.wire.write_results import LoadResult

if TYPE_CHECKING:
    from omnigraph.execution.load_options import LoadMode
    from omnigraph.graph.apply_load import GraphLoadRequest
    from omnigraph.graph.conversion.load_inputs import Input, LoadInput
    from omnigraph.writer.driver import Writer


class LoadVerbs(GraphHandle):
    """Load rows into a branch."""

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
            actor: The actor the commit is recorded for.
            message: A text stored with the commit.
            engine: `local`, in this process, `spark`, or `auto`, by the amount of input and whether
                Spark is up. The result says which, and why. By default as the settings say.
            format: `jsonl`, `parquet`, `csv` or `tsv`; by the names of the files otherwise.
            type: The type of the rows of a table, or of plain dictionaries; records name their
                types themselves.
            columns: The column of each property, by property name; also for `id`, `from` and `to`.
                Other columns are matched to the property of their own name.
            select: The columns of a table to read; by default all, and then all must be known.
            match: The columns by which a merge finds edges that have no ids, such as
                `["from", "to"]`. By default those of an `@unique` with both ends; without one,
                such edges are new ones.
            partial: A merge retains the properties that a record omits.
            on_error: `fail` rejects the load on bad rows, `skip` skips them.
            rejects: A file for the rejected records; one that appears while the load runs is not
                replaced.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: Identifies the load, so that it is executed once.
            delimiter: The column separator of text files; a comma, or a tab in `.tsv`.

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
        from omnigraph.execution.load_options import LoadOptions
        from omnigraph.graph.apply_load import GraphLoadRequest
        from omnigraph.graph.conversion.load_inputs import as_input

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

        from omnigraph.graph.apply_load import has_branch

        self._open.require_writable()
        if base is not None and not has_branch(self._open.views.root, branch):
            self._guard.allow(Action.BRANCH_CREATE, branch=base, target_branch=branch, actor=actor)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)


def _parse_mode(mode: LoadMode | str) -> LoadMode:

    from omnigraph.execution.load_options import LoadMode

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
    from omnigraph.graph.apply_load import load
    from omnigraph.graph.conversion.load_inputs import identify_input, plan_input

    root = writer.branches.root
    chosen = choose_engine(given, runs_on, root)
    planned = plan_input(given, chosen.engine, request.load)
    if request.options.idempotency_key is not None:
        content = identify_input(planned, root.settings.aws)
        request = replace(request, key=request.make_key(content))
    loaded = load(writer, planned, request, replace(runs_on, engine=chosen.engine))
    return msgspec.structs.replace(loaded, engine_reason=chosen.reason)
