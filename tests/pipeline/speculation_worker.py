"""Merges into a graph while Spark runs a task of every stage twice, both copies to their end.

python speculation_worker.py MASTER GRAPH FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import omnigraph
from omnigraph.pipeline import tasks
from pipeline.fault_kernels import lingering_tasks

STAGES = ("read", "keys", "check", "write")
CONF = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.task.duration.threshold": "500ms",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main() -> None:
    master, place, folder = sys.argv[1:]
    graph = omnigraph.open(place)
    for number, stage in enumerate(STAGES, 1):
        markers = Path(folder) / stage
        markers.mkdir(parents=True)
        tasks.SparkTasks = lingering_tasks(stage, markers)  # type: ignore[misc]
        records = [
            {"type": "Person", "data": {"name": f"p{i}", "age": number}} for i in range(2 * number)
        ]
        records += [
            {"edge": "Knows", "from": "p0", "to": f"p{i}", "data": {"id": f"k{i}"}}
            for i in range(number)
        ]
        conf = CONF | {"spark.master": master}
        graph.load(records, "merge", engine="spark", spark_conf=conf)
        print(json.dumps([stage, len(graph.commits())]), flush=True)


if __name__ == "__main__":
    main()
