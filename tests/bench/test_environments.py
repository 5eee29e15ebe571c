import hashlib
import re
import shutil
import sys
from pathlib import Path

import pytest

from bench import environments
from bench.environments import (
    declared_peers,
    interpreter,
    lock_without,
    make_connect,
    make_environments,
    make_peers,
    missing_package,
    versions,
)
from bench.suite import Environment, Role, System, find_suites

PROJECT = Path(__file__).resolve().parents[2]
CONNECT_LOCK = (PROJECT / "requirements" / "connect.txt").read_text()
RUNTIME_LOCK = (PROJECT / "requirements" / "runtime.txt").read_text()
LOCK = (PROJECT / "requirements" / "peers.txt").read_text()


def peer(name, package):
    return System(
        name, Role.PEER, "m:f", requires=(package,), environment=Environment.PEERS, prepare="m:p"
    )


@pytest.fixture
def no_peers(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_PEERS_VENV", str(tmp_path / "absent"))
    return tmp_path / "absent"


def test_every_peer_is_locked_with_hashes_at_the_version_that_is_declared():
    for line in (PROJECT / "requirements" / "peers.in").read_text().split():
        locked = re.search(rf"(?m)^{re.escape(line)} \\\n((?:    --hash=sha256:\w+.*\n)+)", LOCK)
        assert locked is not None, line


def test_no_peer_is_in_the_locks_of_the_project():
    for lock in ("runtime.txt", "dev.txt"):
        text = (PROJECT / "requirements" / lock).read_text()
        assert not [name for name in declared_peers() if re.search(rf"(?m)^{name}==", text)]


def test_the_suites_request_only_declared_peers():
    systems = [system for suite in find_suites().values() for system in suite.systems]
    peers = [system for system in systems if system.environment is Environment.PEERS]
    assert {name for system in peers for name in system.requires} == declared_peers()


def test_a_peer_is_searched_in_its_own_environment(no_peers):
    assert missing_package(peer("x", "pytest")) == "pytest"
    assert missing_package(System("x", Role.PEER, "m:f", requires=("pytest",))) is None
    assert versions([peer("x", "pytest")]) == {"pytest": None}
    assert interpreter(Environment.PEERS) == str(no_peers / "bin" / "python")
    assert interpreter(Environment.PROJECT) == sys.executable


def test_a_lock_can_be_cut_down_to_one_peer():
    others = declared_peers() - {"duckdb"}
    cut = lock_without(LOCK, others)
    assert "\nduckdb==" in cut
    assert "\npyarrow==" in cut
    assert not re.search(rf"(?m)^({'|'.join(others)})==", cut)
    assert lock_without(LOCK, ()) == LOCK


def test_peers_that_cannot_be_installed_are_named_and_stop_nothing(no_peers, monkeypatch):
    monkeypatch.setattr(environments, "_uv", lambda: shutil.which("false"))
    said = []
    make_peers(said.append)
    assert "not all peers can be installed" in said[1]
    assert sorted(line.strip().partition(":")[0] for line in said[2:]) == sorted(declared_peers())
    assert all("not installed" in line for line in said[2:])


def test_peers_are_installed_once_for_a_lock(no_peers, monkeypatch):
    no_peers.mkdir()
    stamp = no_peers / environments._STAMP
    stamp.write_text(hashlib.sha256(LOCK.encode()).hexdigest())
    monkeypatch.setattr(environments, "_uv", lambda: shutil.which("false"))
    said = []
    make_peers(said.append)
    assert said == []


@pytest.fixture
def no_connect(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CONNECT_VENV", str(tmp_path / "absent"))
    return tmp_path / "absent"


def test_the_environment_of_connect_holds_only_what_the_project_lacks(no_connect, monkeypatch):
    installed = []

    def install(lock, folder, *options):
        installed.append((lock, options))
        (folder / "lib" / "python3.11" / "site-packages").mkdir(parents=True)

    monkeypatch.setattr(environments, "_make_environment", lambda folder: folder.mkdir())
    monkeypatch.setattr(environments, "_install", install)
    said = []
    make_connect(said.append)
    make_connect(said.append)
    ((lock, options),) = installed
    assert options == ("--no-deps",)
    names = set(re.findall(r"(?m)^([\w.-]+)==", lock))
    assert {"pandas", "grpcio"} <= names
    assert not names & set(re.findall(r"(?m)^([\w.-]+)==", RUNTIME_LOCK))
    assert all(f"\n{name}==" in f"\n{CONNECT_LOCK}" for name in names)
    (link,) = no_connect.rglob("*.pth")
    assert link.read_text().startswith("import site; site.addsitedir(")
    assert len(said) == 1


def test_a_client_of_connect_that_cannot_be_installed_stops_nothing(no_connect, monkeypatch):
    monkeypatch.setattr(environments, "_uv", lambda: shutil.which("false"))
    said = []
    system = System("x", Role.OURS, "m:f", requires=("pandas",), environment=Environment.CONNECT)
    make_environments([system], said.append)
    assert "cannot be installed" in said[1]
    assert missing_package(system) == "pandas"
    assert interpreter(Environment.CONNECT) == str(no_connect / "bin" / "python")
