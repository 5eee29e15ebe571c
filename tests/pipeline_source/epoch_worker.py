"""A process that commits one epoch of a stream, or dies at a given write.

python epoch_worker.py GRAPH WRITES
"""

from __future__ import annotations

import sys

import pyarrow as pa

from crash.kill_points import KillAfter
from omnigraph.spark_source.datasource import GraphSource
from omnigraph.storage.objects.object_store import install_observer


def main(graph: str, writes: str) -> None:
    install_observer(KillAfter(int(writes)))
    source = GraphSource({"path": graph, "type": "Note", "streamId": "s"})
    writer = source.streamWriter(pa.schema([]), overwrite=False)
    rows = pa.record_batch({"text": ["a", "b"]})
    writer.commit([writer.write(iter([rows]))], 7)


if __name__ == "__main__":
    main(*sys.argv[1:])
