"""The library of documents in LanceDB, at settings that find nearly what an exact search finds.

Runs in the environment of the peers.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.systems.retrieval import DOCUMENTS, FOUND, HYBRID_OF_TENS, Find, Search, search_all

_TABLE = "documents"
_FUSE = 61  # its ranks count from 0, ours from 1
_PROBES = 40
_SETTINGS = {"vector index": "IVF_FLAT", "probes": _PROBES}


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Write the documents, and build an index on the vectors and one on the texts."""
    documents = pq.read_table(Path(spec["inputs"]) / DOCUMENTS)
    lancedb, index = (importlib.import_module(name) for name in ("lancedb", "lancedb.index"))
    table = lancedb.connect(spec["root"]).create_table(_TABLE, documents)
    # The usual rule of thumb: as many partitions as each then has rows.
    partitions = round(documents.num_rows**0.5)
    vectors = index.IvfFlat(distance_type="l2", num_partitions=partitions)
    table.create_index("embedding", config=vectors)
    table.create_index("body", config=index.FTS())
    return {}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """The three kinds of search."""
    lancedb = importlib.import_module("lancedb")
    reranker = importlib.import_module("lancedb.rerankers").RRFReranker(K=_FUSE)

    def open_it() -> Find:
        table = lancedb.connect(spec["store"]).open_table(_TABLE)

        def find(kind: str, search: Search) -> list[str]:
            if kind == "vector":
                asked = table.search(search["vector"]).nprobes(_PROBES)
                asked = asked.select(["slug", "_distance"]).limit(FOUND)
            elif kind == "text":
                asked = table.search(search["text"], query_type="fts")
                asked = asked.select(["slug", "_score"]).limit(FOUND)
            else:
                asked = table.search(query_type="hybrid").nprobes(_PROBES)
                asked = asked.vector(search["vector"]).text(search["text"])
                asked = asked.rerank(reranker).select(["slug"]).limit(FOUND)
            keys: list[str] = asked.to_arrow()["slug"].to_pylist()
            return keys

        return find

    return search_all(spec, open_it, hybrid=HYBRID_OF_TENS, notes=_SETTINGS)
