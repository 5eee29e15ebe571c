"""Makes the cache of Spark's classes: `python -m omnigraph.pipeline.make_archive`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from omnigraph.pipeline.archive import AHEAD_OF_TIME, archive_file
from omnigraph.pipeline.java import cache_folder, find_java


def build_archive() -> Path:
    """Run a small session once and keep what it loaded."""
    java, cache = find_java(os.environ), cache_folder(os.environ)
    file = archive_file(java, cache)
    file.unlink(missing_ok=True)
    partial = file.with_suffix(".partial")
    name = "AOTCacheOutput" if java.version >= AHEAD_OF_TIME else "ArchiveClassesAtExit"
    script = (
        "from omnigraph.pipeline.kernels.probe import describe\n"
        "from omnigraph.pipeline.session import spark\n"
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
