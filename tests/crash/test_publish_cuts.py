"""The compare-and-swap behind every commit, with others publishing in between."""

from __future__ import annotations

import threading

import pytest

import omnigraph
from crash.crash_checks import check, check_order, content_of
from crash.crash_scenario import create, run
from crash.fault_points import MANIFEST, At, fail, watched
from omnigraph.errors import (
    ExpectedVersionMismatch,
    OmniError,
    ReadSetChanged,
    RecoveryRequired,
    RowLevelCasContention,
)
from omnigraph.identity import CommitId, OperationId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.commit_records import CommitMetadata, RecoveryAudit, RecoveryKind
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    SetVersion,
)
from omnigraph.storage.manifest.manifest_reader import History, read_newest
from omnigraph.storage.publish import RETRIES, publish
from omnigraph.storage.refs import MAIN_REF, find_ref

INSERT = 'insert Person {slug: "eve", name: "E"}'


@pytest.fixture
def place(tmp_path):
    create(tmp_path / "town")
    return tmp_path / "town"


@pytest.fixture
def root(place):
    return GraphRoot.at(str(place))


def commit(root, **members) -> Publication:
    commit_id = CommitId(root.ids.next())
    recorded = CommitMetadata(commit_id=commit_id, actor_id="me", created_at=root.now_us())
    return Publication(commit=recorded, **members)


def note(root) -> None:
    """Publish a change without a visible effect."""
    audit = RecoveryAudit(
        OperationId(root.ids.next()), RecoveryKind.ABANDONED, "", None, None, (), root.now_us()
    )
    publish(root, MAIN_REF, Publication(audits=(audit,)))


def versions(root) -> list[int]:
    found = History().commits(read_newest(root.manifest()))
    return [commit.manifest_version for commit in found]


def test_a_publish_that_lost_a_race_is_retried_on_the_new_version(place, root):
    with watched(At("before", "commit", MANIFEST, lambda: note(root), times=RETRIES)):
        graph = omnigraph.open(place)
        run(graph, INSERT)
    assert "eve" in {r["data"]["slug"] for r in graph.export(["Person"])}
    check_order(place, graph)


def test_a_publish_that_is_overtaken_every_time_gives_up_and_recovery_finishes_it(place, root):
    """The fence prevents this; without it, a write is committed once or not at all."""
    before = content_of(omnigraph.open(place))
    always = At("before", "commit", MANIFEST, lambda: note(root), times=2 * (RETRIES + 1))
    with watched(always):
        graph = omnigraph.open(place)
        with pytest.raises(RecoveryRequired, match="published first, 6 times"):
            run(graph, INSERT)
    assert content_of(graph) == before
    graph.recover()
    found = content_of(graph)
    assert len(found["main"]) == len(before["main"]) + 1
    assert check(place, {"with the write": found})


def test_giving_up_a_publish_changes_nothing(root):
    before = versions(root)
    with (
        watched(At("before", "commit", MANIFEST, lambda: note(root), times=RETRIES + 1)),
        pytest.raises(RowLevelCasContention),
    ):
        publish(root, MAIN_REF, commit(root))
    assert versions(root) == before


def test_a_publish_that_fails_before_its_swap_publishes_nothing(root):
    before = read_newest(root.manifest()).version
    for action in ("write_fragments", "commit"):
        with (
            watched(At("before", action, MANIFEST, fail(OSError("connection reset")))),
            pytest.raises(OmniError),
        ):
            publish(root, MAIN_REF, commit(root))
    assert read_newest(root.manifest()).version == before


def test_a_publish_whose_answer_was_lost_is_found_by_its_own_id(root):
    wanted = commit(root)
    with watched(At("after", "commit", MANIFEST, fail(OSError("connection reset")))):
        published = publish(root, MAIN_REF, wanted)
    assert published.commit is not None
    assert published.commit.commit_id == wanted.commit.commit_id
    assert len(versions(root)) == len(set(versions(root)))


def test_of_two_publishes_with_one_expectation_one_wins(root):
    """Both expect a version; the second one is refused, and is not rebased."""
    state = read_newest(root.manifest()).state
    entry = state.entries["node:City"]
    expected = {entry.identity: (entry.table_key, entry.version)}
    change = SetVersion(entry.identity, entry.table_key, entry.version + 1, None, 9)
    first = commit(root, changes=(change,), expected=expected)
    second = commit(root, expected=expected)
    with (
        watched(At("before", "commit", MANIFEST, lambda: publish(root, MAIN_REF, first))),
        pytest.raises(ExpectedVersionMismatch, match="expected version 2, found 3"),
    ):
        publish(root, MAIN_REF, second)
    assert read_newest(root.manifest()).state.entries["node:City"].version == entry.version + 1


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_publish_for_an_exact_head_is_not_given_another_parent(place, root, branch):
    if branch == "dev":
        omnigraph.open(place).create_branch("dev")
    ref = find_ref(root.store, branch)
    head = read_newest(root.manifest(ref.incarnation)).state.head_of(branch, ref.incarnation)
    exact = ExactHead(head.commit_id if head else None)
    with (
        watched(At("before", "commit", MANIFEST, lambda: publish(root, ref, commit(root)))),
        pytest.raises(ReadSetChanged, match=f"graph_head:{branch}"),
    ):
        publish(root, ref, commit(root, head=exact))
    check_order(place, omnigraph.open(place))


def test_publishes_that_expect_nothing_of_each_other_all_make_it_in_one_line(place, root):
    """More of them than there are retries may take more than one try each."""
    made, lock = [], threading.Lock()

    def publish_until_done():
        mine = commit(root)
        while True:
            try:
                publish(root, MAIN_REF, mine)
                break
            except RowLevelCasContention:
                continue
        with lock:
            made.append(mine.commit.commit_id)

    threads = [threading.Thread(target=publish_until_done) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {commit.commit_id for commit in History().commits(read_newest(root.manifest()))}
    assert set(made) <= found
    assert len(made) == len(threads)
    check_order(place, omnigraph.open(place))


def test_a_publish_of_nothing_makes_no_version(root):
    before = read_newest(root.manifest()).version
    assert publish(root, MAIN_REF, Publication()).manifest.version == before
    state = read_newest(root.manifest()).state
    entry = state.entries["node:City"]
    stale = Publication(expected={entry.identity: (entry.table_key, 99)})
    with pytest.raises(ExpectedVersionMismatch, match="stale view"):
        publish(root, MAIN_REF, stale)
    assert read_newest(root.manifest()).version == before
