"""Embedding the texts of records in files, with the provider the settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.execution.embed import (
    EmbedRequest,
    EmbedSpec,
    EmbedSummary,
    PacedEmbedder,
    embed_file,
    open_embedder,
    parse_selector,
    parse_spec,
    read_manifest,
    read_spec,
)
from omnigraph.settings import Settings


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
        output: Where they go; may be the input itself. It appears whole or not at all.
        spec: A JSON file, or its content, that says which fields make which vector.
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
    if per_minute is not None and not per_minute > 0:
        raise BadRequest("per_minute must be more than 0")
    chosen = settings or Settings.from_environment(os.environ)
    if engine != "local":
        return _embed_in_tasks(request, chosen, per_minute, engine, session, spark_conf or {})
    embedder = open_embedder(chosen.embed)
    if per_minute is not None:
        embedder = PacedEmbedder(embedder, per_minute)
    return embed_file(request, embedder)


def _embed_in_tasks(
    request: EmbedRequest,
    settings: Settings,
    per_minute: float | None,
    engine: str,
    session: Any,  # noqa: ANN401 - Spark is loaded only where it is used
    conf: Mapping[str, str],
) -> EmbedSummary:
    from omnigraph.graph.bulk_loading import open_tasks  # noqa: PLC0415 - loads the pipeline
    from omnigraph.pipeline.bulk_embed import embed_file_in_tasks  # noqa: PLC0415

    tasks = open_tasks(engine, settings, session, conf)
    return embed_file_in_tasks(tasks, request, settings.embed, per_minute)


def _open_files(
    seed: str | Path | None,
    source: str | Path | None,
    output: str | Path | None,
    spec: str | Path | Mapping[str, object] | None,
) -> _Files:
    if seed is not None:
        if source is not None or output is not None or spec is not None:
            raise BadRequest("a seed manifest names input, output and spec itself")
        manifest = read_manifest(Path(seed))
        return _Files(manifest.input, manifest.output, manifest.spec)
    if source is None or output is None or spec is None:
        raise BadRequest("give a seed manifest, or all of input, output and spec")
    parsed = parse_spec(spec) if isinstance(spec, Mapping) else read_spec(Path(spec))
    return _Files(Path(source), Path(output), parsed)
