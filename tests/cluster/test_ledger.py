"""Reading of ledgers that are intact, edited or damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cluster.cluster_files import STATE_FILE
from omnigraph.cluster.control_records import LEDGER, StateLedger
from omnigraph.errors import ClusterError

REFUSALS = {
    "invalid_state_json",
    "unsupported_state_version",
    "external_blob_policy_digest_mismatch",
}


@pytest.fixture(scope="module")
def content(applied_cluster) -> bytes:
    return (Path(applied_cluster) / "__cluster" / "state.json").read_bytes()


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value of a document, members and items alike."""
    members = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else ()
    for name, member in (*members, *items):
        yield (*path, name)
        yield from list_places(member, (*path, name))


def change(document: Any, path: tuple[Any, ...], *, removes: bool) -> None:
    for name in path[:-1]:
        document = document[name]
    last = path[-1]
    if removes:
        del document[last]
    else:
        before = document[last]
        document[last] = before + 1 if isinstance(before, int) else f"{before}x"


def is_refused(data: bytes, content: bytes) -> bool:
    """Return whether a ledger is refused; one that is accepted must mean the same as before."""
    try:
        found = LEDGER.decode(data, STATE_FILE)
    except ClusterError as error:
        if not set(error.codes) <= REFUSALS:
            raise
        return True
    assert found == LEDGER.decode(content, STATE_FILE)
    return False


def test_a_ledger_is_read_as_it_was_written(content) -> None:
    ledger = LEDGER.decode(content, STATE_FILE)
    assert LEDGER.encode(ledger) == content
    assert content.endswith(b"}\n")
    assert LEDGER.decode(LEDGER.encode(StateLedger()), STATE_FILE).resources == {}


@pytest.mark.parametrize("removes", [False, True], ids=["changed", "removed"])
def test_a_ledger_edited_by_hand_anywhere_is_refused(content, removes) -> None:
    places = list(list_places(json.loads(content)))
    assert len(places) > 60
    for path in places:
        document = json.loads(content)
        change(document, path, removes=removes)
        refused = is_refused(json.dumps(document).encode(), content)
        assert refused or removes, path  # a member that is empty may be left out


def test_a_damaged_ledger_is_refused_or_means_the_same(content) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        data = bytearray(content)
        at = rng.randrange(len(data))
        if rng.random() < 0.2:
            del data[at:]
        else:
            data[at] ^= 1 << rng.randrange(8)
        is_refused(bytes(data), content)
