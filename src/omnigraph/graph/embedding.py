"""Embed texts: of records in files, and of the rows of a graph as one commit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.graph.engines import EngineName, open_tasks
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.policy.decision import Action
from omnigraph.result import Result
from omnigraph.settings import Settings
from omnigraph.storage.layout import normalize_branch
from omnigraph.writer.change import WriteOptions

if TYPE_CHECKING:
    from omnigraph.embedding.embed_files import EmbedRequest, EmbedSpec, EmbedSummary
    from omnigraph.pipeline.bulk_embed import GraphEmbedding
    from omnigraph.writer.driver import Writer


class EmbedVerbs(GraphHandle):
    """Fill the vectors of a branch."""

    def embed(
        self,
        types: Sequence[str] = (),
        *,
        spec: str | Path | Mapping[str, object] | None = None,
        branch: str | None = None,
        reembed_all: bool = False,
        per_minute: float | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> GraphEmbedSummary:
        """Fill the vectors that are NULL, as one commit.

        Writes compute vectors themselves where a provider is configured; this fills those of rows
        that were written without one.

        Args:
            types: Only these; by default every type for which the schema or the spec declares the
                source of vectors.
            spec: The sources of the vectors, instead of those declared by `@embed`.
            branch: The branch to work on.
            reembed_all: Replace all vectors, not only those that are NULL.
            per_minute: The maximum number of texts to send to the provider per minute.
            actor: Who the commit is recorded for.
            message: A text kept with the commit.
            engine: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
        >>> schema = 'node Note { slug: String @key  text: String  v: Vector(3)? @embed("text") }'
        >>> notes = omnigraph.init("notes.omni", schema, settings=settings)
        >>> _ = notes.load([{"type": "Note", "data": {"slug": "a", "text": "tides"}}], "append")
        >>> notes.embed().embedded, notes.embed(reembed_all=True).embedded
        (0, 1)
        """
        self._open.require_writable()
        self._guard.allow(Action.CHANGE, branch=self._choose(branch), actor=actor)
        from omnigraph.embedding.embedder_choice import open_embedder
        from omnigraph.pipeline.bulk_embed import GraphEmbedding

        parsed = None if spec is None else _parse_spec(spec)
        _require_pace(per_minute)
        settings = self._open.views.root.settings
        open_embedder(settings.embed)  # a missing key is reported before anything is started
        embedding = GraphEmbedding(
            open_tasks(engine, settings, session, spark_conf),
            tuple(types),
            parsed,
            reembed_all=reembed_all,
            per_minute=per_minute,
        )
        options = self._make_write_options(branch, actor, message)
        return _embed_graph(self._open.writer, embedding, options)


@dataclass(frozen=True, slots=True)
class _Files:
    input: Path
    output: Path
    spec: EmbedSpec


def embed(
    *,
    seed: str | Path | None = None,
    input: str | Path | None = None,
    output: str | Path | None = None,
    spec: str | Path | Mapping[str, object] | None = None,
    clean: bool = False,
    reembed_all: bool = False,
    types: Sequence[str] = (),
    select: Sequence[str] = (),
    resume: bool = False,
    per_minute: float | None = None,
    settings: Settings | None = None,
    engine: str = "local",
    session: object | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> EmbedSummary:
    """Embed the texts of records in a file of JSON lines and write all of them to another.

    Args:
        seed: A manifest that names input, output and spec; instead of those three.
        input: The records.
        output: The file to write; may be the input itself. It is replaced whole or not at all.
        spec: A JSON file, or its content, that declares the source fields of each vector.
        clean: Remove the vectors instead; no provider is called.
        reembed_all: Embed every selected record, not only those without a vector.
        types: Only records of these types.
        select: Only records with this field value, each as `[Type:]field=value`.
        resume: Keep finished work on failure, and continue from it the next time.
        per_minute: The maximum number of requests to the provider per minute.
        settings: The embedding settings; from the process environment by default.
        engine: `local`, one text after another here, or `spark`, in batches on executors, which
            must reach the files under the same names.
        session: A Spark session of the caller's.
        spark_conf: Spark options for a session that is made here.

    >>> from pathlib import Path
    >>> _ = Path("in.jsonl").write_text('{"type": "Album", "data": {"title": "Slow Tides"}}')
    >>> done = omnigraph.embed(
    ...     input="in.jsonl",
    ...     output="out.jsonl",
    ...     spec={"dimension": 3, "types": {"Album": {"target": "vibe", "fields": ["title"]}}},
    ...     settings=omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"}),
    ... )
    >>> done.records, done.embedded_records
    (1, 1)
    """
    from omnigraph.embedding.embed_files import EmbedRequest, embed_file, parse_selector
    from omnigraph.embedding.embedder_choice import open_embedder
    from omnigraph.embedding.text_vectors import Pace

    files = _open_files(seed, input, output, spec)
    request = EmbedRequest(
        files.input,
        files.output,
        files.spec,
        types=tuple(types),
        selectors=tuple(parse_selector(text) for text in select),
        is_clean=clean,
        is_reembed_all=reembed_all,
        is_resumable=resume,
    )
    if clean:
        return embed_file(request, None)
    _require_pace(per_minute)
    chosen = settings or Settings.from_environment(os.environ)
    if engine != "local":
        return _embed_in_tasks(request, chosen, per_minute, engine, session, spark_conf or {})
    return embed_file(request, open_embedder(chosen.embed), pace=Pace(per_minute))


def _embed_in_tasks(
    request: EmbedRequest,
    settings: Settings,
    per_minute: float | None,
    engine: str,
    session: Any,  # noqa: ANN401 - Spark is loaded only where it is used
    conf: Mapping[str, str],
) -> EmbedSummary:
    from omnigraph.graph.engines import open_tasks
    from omnigraph.pipeline.bulk_embed import embed_file_in_tasks

    tasks = open_tasks(engine, settings, session, conf)
    return embed_file_in_tasks(tasks, request, settings.embed, per_minute)


def _open_files(
    seed: str | Path | None,
    source: str | Path | None,
    output: str | Path | None,
    spec: str | Path | Mapping[str, object] | None,
) -> _Files:
    from omnigraph.embedding.embed_files import read_manifest

    if seed is not None:
        if source is not None or output is not None or spec is not None:
            raise BadRequest("a seed manifest names input, output and spec itself")
        manifest = read_manifest(Path(seed))
        return _Files(manifest.input, manifest.output, manifest.spec)
    if source is None or output is None or spec is None:
        raise BadRequest("give a seed manifest, or all of input, output and spec")
    return _Files(Path(source), Path(output), _parse_spec(spec))


def _parse_spec(spec: str | Path | Mapping[str, object]) -> EmbedSpec:
    from omnigraph.embedding.embed_files import parse_spec, read_spec

    return parse_spec(spec) if isinstance(spec, Mapping) else read_spec(Path(spec))


def _require_pace(per_minute: float | None) -> None:
    if per_minute is not None and not per_minute > 0:
        raise BadRequest("per_minute must be more than 0")


class GraphEmbedSummary(Result, frozen=True):
    """Number of vectors computed, and their commit; None if there were none to fill."""

    branch: str
    embedded: int
    model: str
    engine: str
    commit_id: str | None = msgspec.field(name="graph_commit_id")


def _embed_graph(
    writer: Writer, embedding: GraphEmbedding, options: WriteOptions
) -> GraphEmbedSummary:
    """Fill vectors of a branch as one commit."""
    from omnigraph.embedding.embedder_choice import choose_model
    from omnigraph.embedding.text_vectors import remove_answers
    from omnigraph.execution.load_options import LoadMode
    from omnigraph.graph.apply_load import LoadChange

    root = writer.branches.root
    with closing(embedding):
        change = LoadChange(lambda: embedding, LoadMode.MERGE)
        published = writer.write(change, options)
    remove_answers(root)
    return GraphEmbedSummary(
        branch=normalize_branch(options.branch),
        embedded=embedding.vectors,
        model=choose_model(root.settings.embed),
        engine=embedding.tasks.engine,
        commit_id=published.commit.commit_id if published and published.commit else None,
    )
