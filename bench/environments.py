"""The environment of a system: the project's own, or one made for the benchmarks.

The peers have their own locked packages and an environment of their own, `.venv-peers`, so that
none of them can move a version under our feet, and the project can be used without any of them.
A client of Spark Connect needs more than the project does; `.venv-connect` holds only that, and
finds everything else in the project's environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution
from pathlib import Path

from bench.suite import Environment, System

_PROJECT = Path(__file__).resolve().parent.parent
_LOCK = _PROJECT / "requirements" / "peers.txt"
_DECLARED = _PROJECT / "requirements" / "peers.in"
_CONNECT_LOCK = _PROJECT / "requirements" / "connect.txt"
_RUNTIME_LOCK = _PROJECT / "requirements" / "runtime.txt"
_STAMP = ".stamp-peers"
_CONNECT_STAMP = ".stamp-connect"
_INSTALL_TIMEOUT_S = 600.0

Announce = Callable[[str], None]


def peers_folder() -> Path:
    """The peers' environment, which may not exist yet."""
    return Path(os.environ.get("OMNIGRAPH_PEERS_VENV") or _PROJECT / ".venv-peers")


def connect_folder() -> Path:
    """The environment of Spark Connect's clients, which may not exist yet."""
    return Path(os.environ.get("OMNIGRAPH_CONNECT_VENV") or _PROJECT / ".venv-connect")


def _folder(environment: Environment) -> Path:
    return connect_folder() if environment is Environment.CONNECT else peers_folder()


def interpreter(environment: Environment) -> str:
    """The Python that runs systems of this environment."""
    if environment is Environment.PROJECT:
        return sys.executable
    return str(_folder(environment) / "bin" / "python")


def versions(systems: Iterable[System]) -> dict[str, str | None]:
    """The version of everything that systems require, each from where the system will run."""
    return {
        package: _version(package, system.environment)
        for system in systems
        for package in system.requires
    }


def missing_package(system: System) -> str | None:
    """The first package a system requires and does not have, or None."""
    for package in system.requires:
        if _version(package, system.environment) is None:
            return package
    return None


def make_environments(systems: Iterable[System], announce: Announce) -> None:
    """Install what these systems need and the project's environment lacks."""
    needed = {system.environment for system in systems}
    if Environment.PEERS in needed:
        make_peers(announce)
    if Environment.CONNECT in needed:
        make_connect(announce)


def make_connect(announce: Announce) -> None:
    """Install what only a client of Spark Connect needs; a failure is only announced."""
    folder = connect_folder()
    lock = lock_without(_CONNECT_LOCK.read_text(), _locked(_RUNTIME_LOCK.read_text()))
    wanted = hashlib.sha256(f"{lock}{sys.executable}".encode()).hexdigest()
    stamp = folder / _CONNECT_STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return
    announce(f"installing the locked packages of Spark Connect in {folder.name}")
    failure = _make_environment(folder) or _install(lock, folder, "--no-deps")
    if failure is not None:
        announce(f"  they cannot be installed: {failure}")
        return
    for packages in _site_packages(folder):
        # A line of code, not a path: the project itself is found by such a file over there.
        line = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
        (packages / "project.pth").write_text(line)
    stamp.write_text(wanted)


def _locked(lock: str) -> frozenset[str]:
    """The names of all packages of a lock file."""
    return frozenset(re.findall(r"(?m)^([\w.-]+)==", lock))


def _site_packages(folder: Path) -> list[Path]:
    return list(folder.glob("lib/python3*/site-packages"))


def make_peers(announce: Announce) -> None:
    """Install the locked peers, all of them or those that can be; a failure is only announced."""
    folder, wanted = peers_folder(), hashlib.sha256(_LOCK.read_bytes()).hexdigest()
    stamp = folder / _STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return
    announce(f"installing the locked peers in {folder.name}")
    failure = _make_environment(folder) or _install(_LOCK.read_text(), folder)
    if failure is None:
        stamp.write_text(wanted)
        return
    announce(f"  not all peers can be installed: {failure}")
    for peer in declared_peers():
        alone = _install(lock_without(_LOCK.read_text(), declared_peers() - {peer}), folder)
        announce(f"  {peer}: " + ("installed" if alone is None else f"not installed: {alone}"))


def declared_peers() -> frozenset[str]:
    """The names of the peers themselves, without what they depend on."""
    lines = _DECLARED.read_text().splitlines()
    return frozenset(line.partition("==")[0] for line in lines if line)


def lock_without(lock: str, names: Iterable[str]) -> str:
    """A lock file without these packages; a package is a line and the indented ones after it."""
    packages = re.split(r"(?m)^(?=\S)", lock)
    left_out = tuple(f"{name}==" for name in names)
    return "".join(package for package in packages if not package.startswith(left_out))


def _version(package: str, environment: Environment) -> str | None:
    if environment is Environment.PROJECT:
        found = Distribution.discover(name=package)
    else:
        paths = [str(path) for path in _site_packages(_folder(environment))]
        found = Distribution.discover(name=package, path=paths)
    return next((distribution.version for distribution in found), None)


def _make_environment(folder: Path) -> str | None:
    if (folder / "bin" / "python").exists():
        return None
    return _run([_uv(), "venv", "--quiet", "--python", sys.executable, str(folder)])


def _install(lock: str, folder: Path, *more: str) -> str | None:
    """Install the packages of a lock; return the reason of a failure, or None."""
    text = folder / "requirements.txt"
    if not folder.exists():
        return "there is no environment to install it in"
    text.write_text(lock)
    options = ["--quiet", "--require-hashes", "--compile-bytecode", *more, "-r", str(text)]
    return _run([_uv(), "pip", "install", "--python", str(folder / "bin" / "python"), *options])


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else (shutil.which("uv") or "uv")


def _run(command: list[str]) -> str | None:
    """The last words of a command that failed, or None."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.split())[-300:] or f"exit status {done.returncode}"
