"""Cases of clusters as text: files, commands, and what each command finds.

    === name
    --- cluster.yaml            a file with the lines that follow
    version: 1
    $ omnigraph cluster plan    a command; the lines that follow are its diagnostics
    ERROR  code path: message
    $ show omnigraph …          the same, with everything it prints

Other commands prepare something: `$ applied` begins with the cluster of `applied_cluster`,
`$ link`, `$ remove`, `$ folder`, `$ copy`, `$ edit FILE OLD -> NEW`, `$ seal` (gives an edited
ledger its checksum), `$ forget RESOURCE` (removes it from the ledger), `$ work GRAPH` (a writer is
at work on it), `$ serve PLACE`, `$ find PLACE GRAPH`, and `$ when ACTION PATH: …`, which prepares
something during a durable write of the next command.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.cli.main import run
from omnigraph.cluster import find_graph_uri, read_serving_snapshot
from omnigraph.cluster.cluster_files import STATE_FILE
from omnigraph.cluster.control_records import LEDGER
from omnigraph.errors import ClusterError
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.objects.object_store import install_observer
from omnigraph.storage.sealed_records import SEAL, seal
from omnigraph.storage.staging_heartbeat import keep_heartbeat

CASES = Path(__file__).parents[1] / "cases" / "cluster"
_DIAGNOSTIC = re.compile(r"(ERROR|WARN) ")
_WORDS = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"), "TIME"),
    (re.compile(r"process \d+"), "process PID"),
)


@dataclass(frozen=True)
class Case:
    name: str
    lines: tuple[str, ...]


@dataclass
class Step:
    """A file to write, or a command and its expected output."""

    command: str
    lines: list[str] = field(default_factory=list)


def read_cases(path: Path) -> list[Case]:
    found = []
    for part in path.read_text().split("=== ")[1:]:
        name, _, rest = part.partition("\n")
        found.append(Case(name, tuple(rest.splitlines())))
    return found


def split_steps(case: Case) -> list[Step]:
    steps: list[Step] = []
    for line in case.lines:
        if line.startswith(("--- ", "$ ")):
            steps.append(Step(line))
        else:
            steps[-1].lines.append(line)
    return steps


class CaseRunner:
    """Plays one case in a folder."""

    def __init__(self, folder: Path, template: Path, read_output: Callable[[], str]) -> None:
        self.folder, self._template, self._read_output = folder, template, read_output
        self._at_write: AtWrite | None = None
        self._work = ExitStack()

    def play(self, case: Case) -> list[str]:
        """Return the case with the actual output of its commands."""
        with self._work:
            return self._play(case)

    def _play(self, case: Case) -> list[str]:
        lines: list[str] = []
        for step in split_steps(case):
            lines.append(step.command)
            if step.command.startswith("--- "):
                place = self.folder / step.command.removeprefix("--- ")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text("".join(f"{line}\n" for line in step.lines))
                lines += step.lines
            else:
                lines += self._do(step.command.removeprefix("$ "))
        return lines

    def _do(self, command: str) -> list[str]:
        word, _, rest = command.partition(" ")
        match word:
            case "omnigraph":
                return [one for one in self._run(rest) if _DIAGNOSTIC.match(one)]
            case "show":
                return self._run(rest.removeprefix("omnigraph "))
            case "serve":
                return self._read(lambda: read_serving_snapshot(rest).diagnostics)
            case "find":
                place, graph_id = rest.split()
                return self._read(lambda: [find_graph_uri(place, graph_id)])
            case "when":
                moment, _, then = rest.partition(": ")
                self._at_write = AtWrite(moment, lambda: self._prepare(then))
            case _:
                self._prepare(command)
        return []

    def _prepare(self, command: str) -> None:
        word, _, rest = command.partition(" ")
        match word:
            case "applied":
                shutil.copytree(self._template, self.folder, dirs_exist_ok=True)
            case "link":
                place, target = rest.split()
                (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / place).unlink(missing_ok=True)
                (self.folder / place).symlink_to(target)
            case "remove":
                for found in self.folder.glob(rest):
                    shutil.rmtree(found) if found.is_dir() else found.unlink()
            case "folder":
                (self.folder / rest).mkdir(parents=True)
            case "copy":
                place, target = rest.split()
                shutil.copytree(self.folder / place, self.folder / target, dirs_exist_ok=True)
            case "edit":
                self._edit(rest)
            case "forget":
                forget(self.folder, rest)
            case "work":
                self._work.enter_context(keep_heartbeat(GraphRoot.at(str(self.folder / rest))))
            case "seal":
                seal_ledger(self.folder)
            case _:
                raise AssertionError(f"no such command: {command}")

    def _edit(self, text: str) -> None:
        pattern, _, change = text.partition(" ")
        old, _, new = change.replace("\\n", "\n").partition(" -> ")
        places = list(self.folder.glob(pattern))
        assert places, pattern
        for place in places:
            before = place.read_text()
            assert old in before, f"{place} has no {old}"
            place.write_text(before.replace(old, new))

    def _run(self, arguments: str) -> list[str]:
        install_observer(self._at_write)
        try:
            run(arguments.split())
        finally:
            install_observer(None)
            self._at_write = None
        return [self._plain(line) for line in self._read_output().splitlines()]

    def _read(self, read: Callable[[], Sequence[object]]) -> list[str]:
        try:
            found = read()
        except ClusterError as error:
            found = error.diagnostics
        return [self._plain(str(one)) for one in found]

    def _plain(self, line: str) -> str:
        """Replace ids, digests and times, which differ from run to run."""
        line = line.replace(str(self.folder), "HERE")
        for pattern, word in _WORDS:
            line = pattern.sub(word, line)
        return line


class AtWrite:
    """An observer that acts once, right after a durable write."""

    def __init__(self, moment: str, act: Callable[[], None]) -> None:
        self._action, self._path = moment.split()
        self._act: Callable[[], None] | None = act

    def before(self, action: str, path: str) -> None:
        pass

    def after(self, action: str, path: str) -> None:
        if self._act is not None and action == self._action and self._path in path:
            act, self._act = self._act, None
            act()


def forget(folder: Path, address: str) -> None:
    """Remove a resource from the ledger, and seal it again."""
    place = folder / "__cluster" / "state.json"
    ledger = LEDGER.decode(place.read_bytes(), STATE_FILE)
    del ledger.resources[address]
    ledger.state_revision += 1
    ledger.applied_revision.refresh_digests()
    place.write_bytes(LEDGER.encode(ledger))


def seal_ledger(folder: Path) -> None:
    """Give an edited ledger the checksum of its content."""
    place = folder / "__cluster" / "state.json"
    members = json.loads(place.read_bytes())
    del members[SEAL]
    place.write_text(json.dumps(seal(members)))
