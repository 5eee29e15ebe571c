"""The simulation of Lance behaves as Lance does: one script, run on both."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments as write_real_fragments

from simulation import simulated_lance
from simulation.simulated_files import Files
from simulation.simulated_time import enter_run, leave_run
from simulation.turns import DAY_US, Process, Turns

SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("value", pa.int64())])
TURNS = 14
PARTS = ("data", "_deletions")
BRANCH = "01JB00000000000000000000{:02d}"


class RealLance:
    dataset = staticmethod(lance.dataset)
    commit = staticmethod(lance.LanceDataset.commit)

    @staticmethod
    def write(rows: pa.Table, target: Any) -> Any:
        is_new = isinstance(target, str)
        mode = "create" if is_new else "append"
        return write_real_fragments(rows, target, mode=mode, data_storage_version="2.2")

    @staticmethod
    def age(place: str) -> None:
        for part in PARTS:
            for file in Path(place, part).glob("*"):
                os.utime(file, (0, 0))


class SimulatedLance:
    dataset = staticmethod(simulated_lance.open_dataset)
    commit = staticmethod(simulated_lance.SimulatedDataset.commit)

    @staticmethod
    def write(rows: pa.Table, target: Any) -> Any:
        return simulated_lance.write_fragments(rows, target)

    @staticmethod
    def age(place: str) -> None:
        (files,), folder = simulated_lance._graphs, place.partition("/graph/")[2]
        for path, file in files.by_path.items():
            if path.rpartition("/")[0] in {f"{folder}/{part}" for part in PARTS}:
                files.by_path[path] = replace(file, written_us=-30 * DAY_US)


class Script:
    """Random commits, restores, branches and removals, with what came of each."""

    def __init__(self, seed: int, lance: Any, uri: str) -> None:
        self.chance, self.lance, self.uri = random.Random(seed), lance, uri
        self.places, self.log, self.rows = [uri], [], 0
        operation = LanceOperation.Overwrite(SCHEMA, lance.write(self._one_row(), uri))
        lance.commit(uri, Transaction(0, operation), max_retries=0, enable_stable_row_ids=True)
        self.held = {uri: [lance.dataset(uri)]}

    def _one_row(self) -> pa.Table:
        self.rows += 1
        columns = {"id": [f"r{self.rows}", f"s{self.rows}"], "value": [self.rows, -self.rows]}
        return pa.table(columns, schema=SCHEMA)

    def play(self) -> list[str]:
        deeds: list[Callable[[str], str]] = [
            *[self.update] * 4,
            self.delete,
            self.overwrite,
            self.restore,
            self.branch,
            self.remove,
            self.forget_branch,
            self.grow_old,
        ]
        for _ in range(TURNS):
            place, deed = self.chance.choice(self.places), self.chance.choice(deeds)
            self.log.append(f"{deed.__name__} {deed(place)} {self.describe()}")
        return self.log

    def describe(self) -> str:
        """Describe every branch: its versions, its rows, and the files nothing names."""
        found = []
        for place in self.places:
            newest = self.lance.dataset(place)
            self.held.setdefault(place, []).append(newest)
            ids = sorted(newest.scanner(columns=["id"]).to_table().column("id").to_pylist())
            versions = sorted(ref["version"] for ref in newest.version_refs())
            strays = newest.explain_cleanup_old_versions(
                versions=[newest.version],
                delete_unverified=True,
                error_if_tagged_old_versions=False,
                include_files=True,
                max_files=1 << 20,
            ).candidate_files
            data = [file for file in strays if file.unverified and "/data/" in file.path]
            found.append(f"{versions} {ids} {len(data)} {self._fragments(newest)}")
        return " | ".join(found)

    @staticmethod
    def _fragments(table: Any) -> list[int]:
        return sorted(fragment.metadata.id for fragment in table.get_fragments())

    def _base(self, place: str) -> Any:
        """A handle that may be outdated by a few versions."""
        return self.chance.choice(self.held.setdefault(place, [self.lance.dataset(place)])[-3:])

    def _commit(self, place: str, base: Any, operation: Any) -> str:
        del place
        try:
            done = self.lance.commit(base, Transaction(base.version, operation), max_retries=0)
        except CommitConflictError:
            return "conflict"
        return f"version {done.version}"

    def update(self, place: str) -> str:
        base = self._base(place)
        fragments = [fragment.metadata for fragment in base.get_fragments()]
        named = fragments[-1:] if self.chance.random() < 0.7 else []
        gone = [named.pop().id] if named and self.chance.random() < 0.3 else []
        operation = LanceOperation.Update(
            removed_fragment_ids=gone,
            updated_fragments=named,
            new_fragments=self.lance.write(self._one_row(), base),
            update_mode="rewrite_rows",
            fields_for_preserving_frag_bitmap=[0, 1],
        )
        return self._commit(place, base, operation)

    def delete(self, place: str) -> str:
        base = self._base(place)
        fragments = base.get_fragments()
        if not fragments:
            return "nothing"
        chosen = self.chance.choice(fragments)
        if chosen.metadata.num_deletions:
            return "nothing"
        left = chosen.delete_rows([0])
        assert left is not None
        operation = LanceOperation.Update(
            updated_fragments=[left],
            update_mode="rewrite_rows",
            fields_for_preserving_frag_bitmap=[0, 1],
        )
        return self._commit(place, base, operation)

    def overwrite(self, place: str) -> str:
        base = self._base(place)
        rows = self.lance.write(self._one_row(), base)
        return self._commit(place, base, LanceOperation.Overwrite(base.lance_schema, rows))

    def restore(self, place: str) -> str:
        newest = self.lance.dataset(place)
        versions = sorted(ref["version"] for ref in newest.version_refs())
        chosen = self.chance.choice(versions)
        return self._commit(place, newest, LanceOperation.Restore(chosen))

    def branch(self, place: str) -> str:
        if len(self.places) > 3:
            return "enough"
        name = BRANCH.format(self.rows)
        newest = self.lance.dataset(place)
        newest.create_branch(name, newest.version)
        self.rows += 1
        self.places.append(f"{self.uri}/tree/{name}")
        return "made"

    def forget_branch(self, place: str) -> str:
        if place == self.uri:
            return "main stays"
        try:
            self.lance.dataset(self.uri).branches.delete(place.rpartition("/")[2])
        except OSError:
            return "is a parent"
        self.places.remove(place)
        return "gone"

    def remove(self, place: str) -> str:
        newest = self.lance.dataset(place)
        versions = sorted(ref["version"] for ref in newest.version_refs())
        chosen = self.chance.sample(versions, self.chance.randint(1, len(versions)))
        going = newest.explain_cleanup_old_versions(
            versions=chosen,
            error_if_tagged_old_versions=False,
            include_files=True,
            max_files=1 << 20,
        ).candidate_files
        done = newest.cleanup_old_versions(versions=chosen, error_if_tagged_old_versions=False)
        self.held = {}
        kinds = Counter((file.path.split("/")[-2], file.unverified) for file in going)
        return f"removed {done.old_versions} of {len(chosen)}: {sorted(kinds.items())}"

    def grow_old(self, place: str) -> str:
        """Let the existing files age by a month."""
        self.lance.age(place)
        return "aged"


def play_real(seed: int, folder: Path) -> list[str]:
    return Script(seed, RealLance, str(folder / "t")).play()


def play_simulated(seed: int) -> list[str]:
    turns, played = Turns(random.Random(0), 0.0), []
    uri = f"{simulated_lance.make_address(Files(), 0)}/t"
    turns.start(Process(0), lambda: played.extend(Script(seed, SimulatedLance, uri).play()))
    enter_run(turns)
    try:
        turns.run()
    finally:
        leave_run()
    return played


@pytest.mark.parametrize("seed", range(16))
def test_a_script_comes_to_the_same_on_both(tmp_path, seed):
    print(f"seed {seed}")
    assert play_simulated(seed) == play_real(seed, tmp_path)
