"""A cache of Spark's classes that halves the start of a session, made once by hand.

    python -m omnigraph.pipeline.archive

It belongs to one build of Java and one installed Spark; a session uses it when it is there and
does without when it is not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from omnigraph.pipeline.java import Java, cache_folder, find_java

_AHEAD_OF_TIME = 24
"""From this version on Java keeps compiled code as well, under other names."""


def archive_file(java: Java, cache: Path) -> Path:
    """Where the archive of this Java and the installed Spark is, or would be."""
    spec = find_spec("pyspark")
    place = str(spec.origin) if spec is not None else ""
    release = (java.home / "release").read_text(errors="replace")
    key = f"{java.home}|{release}|{version('pyspark')}|{place}"
    return cache / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def archive_options(java: Java, cache: Path) -> list[str]:
    """The options that use the archive; none where there is no archive."""
    file = archive_file(java, cache)
    if not file.exists() or " " in str(file):
        return []
    name = "AOTCache" if java.version >= _AHEAD_OF_TIME else "SharedArchiveFile"
    return [f"-XX:{name}={file}", "-Xshare:auto"]


def build_archive() -> Path:
    """Run a small session once and keep what it loaded."""
    java, cache = find_java(os.environ), cache_folder(os.environ)
    file = archive_file(java, cache)
    file.unlink(missing_ok=True)
    partial = file.with_suffix(".partial")
    name = "AOTCacheOutput" if java.version >= _AHEAD_OF_TIME else "ArchiveClassesAtExit"
    script = (
        "from omnigraph.pipeline.session import spark\n"
        "from omnigraph.pipeline.tasks import SparkTasks\n"
        "import subprocess\n"
        f"session = spark(conf={{'spark.driver.extraJavaOptions': '-XX:{name}={partial}'}})\n"
        "SparkTasks(session).run('omnigraph.pipeline.kernels.probe:describe', [0, 1], None)\n"
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
