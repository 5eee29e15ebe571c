"""A cache of Spark's classes that halves the start of a session.

    python -m omnigraph.pipeline.make_archive

makes it, once. It belongs to one build of Java and one installed Spark; a session uses it when it
is there and does without when it is not.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from omnigraph.pipeline.java import Java

AHEAD_OF_TIME = 24
"""From this version on Java keeps compiled code as well, under other names."""


def find_archive(java: Java, cache: Path) -> Path:
    """Where the archive of this Java and the installed Spark is, or would be."""
    spec = find_spec("pyspark")
    place = str(spec.origin) if spec is not None else ""
    release = (java.home / "release").read_text(errors="replace")
    key = f"{java.home}|{release}|{version('pyspark')}|{place}"
    return cache / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def list_archive_options(java: Java, cache: Path) -> list[str]:
    """The options that use the archive; none where there is no archive."""
    file = find_archive(java, cache)
    if not file.exists() or " " in str(file):
        return []
    name = "AOTCache" if java.version >= AHEAD_OF_TIME else "SharedArchiveFile"
    return [f"-XX:{name}={file}", "-Xshare:auto"]
