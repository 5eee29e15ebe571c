"""Build the class archive of Spark: `python -m omnigraph.pipeline.class_archive`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from omnigraph.pipeline.spark_environment import (
    AHEAD_OF_TIME,
    find_archive,
    find_cache_folder,
    find_java,
)


def build_archive() -> Path:
    """Run a small session once and archive the classes it loads."""
    java, cache = find_java(os.environ), find_cache_folder(os.environ)
    file = find_archive(java, cache)
    file.unlink(missing_ok=True)
    partial = file.with_suffix(".partial")
    name = "AOTCacheOutput" if java.version >= AHEAD_OF_TIME else "ArchiveClassesAtExit"
    script = (
        "from omnigraph.pipeline.tasks import describe\n"
        "from omnigraph.pipeline.spark_session import spark\n"
        "from omnigraph.pipeline.tasks import SparkTasks\n"
        f"session = spark(conf={{'spark.driver.extraJavaOptions': '-XX:{name}={partial}'}})\n"
        "SparkTasks(session).run(describe, [0, 1], None)\n"
        "session.range(100).groupBy('id').count().collect()\n"
        "java = session.sparkContext._gateway.proc\n"
        "session.stop()\n"
        "java.stdin.close()\n"
        "java.wait(180)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)
    partial.rename(file)
    return file


if __name__ == "__main__":
    sys.stdout.write(f"{build_archive()}\n")
