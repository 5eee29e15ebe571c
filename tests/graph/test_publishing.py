"""Publishing: its checks, concurrent publishes, and the records of a commit."""

from __future__ import annotations

from itertools import pairwise

import pytest

import omnigraph
from graph.music_graph import refusal, run, run_together
from omnigraph.errors import (
    BadRequest,
    ExpectedVersionMismatch,
    ManifestCorrupt,
    OmniError,
    ReadSetChanged,
    RowLevelCasContention,
)
from omnigraph.identity import CommitId, TableIdentity, TableIncarnationId, TableKey, TypeId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_table_path
from omnigraph.storage.manifest.commit_records import CommitMetadata
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    Register,
    Rename,
    SetVersion,
    Tombstone,
)
from omnigraph.storage.manifest.manifest_reader import History, read_manifest, read_newest
from omnigraph.storage.publish import publish
from omnigraph.storage.refs import MAIN_REF, find_ref


@pytest.fixture
def root(music_place):
    return GraphRoot.at(str(music_place))


def state(root):
    return read_newest(root.manifest()).state


def new_commit(root):
    return CommitMetadata(
        commit_id=CommitId(root.ids.next()), actor_id="publisher", created_at=root.now_us()
    )


def entry(root, key="node:Label"):
    return state(root).entries[TableKey(key)]


def set_version(of, **changed):
    fields = {
        "identity": of.identity,
        "table_key": of.table_key,
        "version": of.version,
        "owner_branch": of.owner_branch,
        "row_count": of.row_count,
        "owner": of.owner,
    }
    return SetVersion(**(fields | changed))


def rename(root, of, key):
    change = Rename(of.identity, of.table_key, TableKey(key))
    return publish(root, MAIN_REF, Publication(changes=(change,)))


def expecting(of, version=None):
    return {of.identity: (of.table_key, of.version if version is None else version)}


NOWHERE = TableIdentity(TypeId(900), TableIncarnationId(901))


def test_nothing_to_publish_writes_nothing(root):
    before = read_newest(root.manifest()).version
    assert publish(root, MAIN_REF, Publication()).commit is None
    assert read_newest(root.manifest()).version == before


def test_a_publish_gives_the_state_a_fresh_look_would_find(root):
    published = publish(root, MAIN_REF, Publication(commit=new_commit(root)))
    fresh = read_manifest(root.manifest(), published.manifest.version)
    assert published.manifest.state == fresh.state
    assert published.commit == History().find_commit(fresh, published.commit.commit_id)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "only expected"])
def test_a_stale_expectation_is_refused(root, is_written):
    label = entry(root)
    version = read_newest(root.manifest()).version
    changes = (set_version(label, version=label.version + 1),) if is_written else ()
    publication = Publication(
        changes=changes, expected=expecting(label, label.version - 1), commit=new_commit(root)
    )
    with refusal(ExpectedVersionMismatch, "stale view of node:Label") as refused:
        publish(root, MAIN_REF, publication)
    assert "refresh and retry" in str(refused.value)
    assert (refused.value.expected, refused.value.actual) == (label.version - 1, label.version)
    assert read_newest(root.manifest()).version == version


def test_an_unknown_table_counts_as_version_nought(root):
    publication = Publication(
        expected={NOWHERE: (TableKey("node:Ghost"), 3)}, commit=new_commit(root)
    )
    with pytest.raises(ExpectedVersionMismatch) as refused:
        publish(root, MAIN_REF, publication)
    assert refused.value.actual == 0


def test_another_head_is_refused_and_not_built_upon(root):
    first = state(root).heads["main"].commit_id
    publish(root, MAIN_REF, Publication(commit=new_commit(root), head=ExactHead(first)))
    with refusal(ReadSetChanged, "graph_head:main"):
        publish(root, MAIN_REF, Publication(commit=new_commit(root), head=ExactHead(first)))
    with refusal(ReadSetChanged, "graph_head:main"):
        publish(root, MAIN_REF, Publication(commit=new_commit(root), head=ExactHead(None)))


def test_a_fresh_branch_has_no_head_of_its_own(root, music):
    music.create_branch("dev")
    ref = find_ref(root.store, "dev")
    inherited = state(root).heads["main"].commit_id
    with refusal(ReadSetChanged, "graph_head:dev"):
        publish(root, ref, Publication(commit=new_commit(root), head=ExactHead(inherited)))
    first = publish(root, ref, Publication(commit=new_commit(root), head=ExactHead(None))).commit
    assert first.parent_commit_id == inherited
    with refusal(ReadSetChanged, "graph_head:dev"):
        publish(root, ref, Publication(commit=new_commit(root), head=ExactHead(None)))


def test_of_publishers_with_one_expectation_exactly_one_wins(root):
    label = entry(root)

    def work(number):
        change = set_version(label, version=label.version + 1)
        publication = Publication(
            changes=(change,), expected=expecting(label), commit=new_commit(root)
        )
        return publish(root, MAIN_REF, publication).commit

    outcomes = run_together(4, work)
    assert sum(not isinstance(o, OmniError) for o in outcomes) == 1
    losers = [o for o in outcomes if isinstance(o, OmniError)]
    assert all(isinstance(o, ExpectedVersionMismatch | RowLevelCasContention) for o in losers)


def test_publishers_without_expectations_form_one_line(root):
    def work(number):
        made = []
        while len(made) < 3:
            try:
                made.append(publish(root, MAIN_REF, Publication(commit=new_commit(root))).commit)
            except RowLevelCasContention:
                continue
        return made

    made = [commit for found in run_together(4, work) for commit in found]
    line = History().commits(read_newest(root.manifest()))
    assert {c.commit_id for c in made} <= {c.commit_id for c in line}
    assert all(newer.parent_commit_id == older.commit_id for newer, older in pairwise(line))
    assert len(line) == 12 + 2


def test_a_version_is_set_once_in_a_publish(root):
    label = entry(root)
    twice = (set_version(label, version=9), set_version(label, version=9))
    with refusal(BadRequest, "is set twice"):
        publish(root, MAIN_REF, Publication(changes=twice))


def test_a_recorded_version_stays_what_it_is(root):
    label = entry(root)
    with refusal(BadRequest, "is recorded with 3 rows"):
        publish(root, MAIN_REF, Publication(changes=(set_version(label, row_count=4),)))
    publish(root, MAIN_REF, Publication(changes=(set_version(label),)))
    owner = root.ids.next()
    publish(root, MAIN_REF, Publication(changes=(set_version(label, owner_branch=owner),)))
    assert entry(root).owner_branch == owner


def test_names_are_bound_to_identities(root):
    label = entry(root)
    ghost = TableKey("node:Ghost")
    path = make_table_path(label.kind, NOWHERE)
    with refusal(BadRequest, "is not registered"):
        publish(root, MAIN_REF, Publication(changes=(set_version(label, identity=NOWHERE),)))
    with refusal(ReadSetChanged, "dataset_binding"):
        publish(root, MAIN_REF, Publication(changes=(set_version(label, table_key=ghost),)))
    with refusal(BadRequest, "is not the path of"):
        publish(root, MAIN_REF, Publication(changes=(Register(NOWHERE, ghost, label.path),)))
    twice = (Register(NOWHERE, ghost, path), Register(NOWHERE, ghost, path))
    with refusal(BadRequest, "is bound twice"):
        publish(root, MAIN_REF, Publication(changes=twice))


def test_two_tables_never_share_a_name(root):
    version = read_newest(root.manifest()).version
    taken = TableKey("node:Artist")
    label = entry(root)
    with refusal(ManifestCorrupt, "share the name node:Artist"):
        publish(
            root, MAIN_REF, Publication(changes=(Rename(label.identity, label.table_key, taken),))
        )
    path = make_table_path(label.kind, NOWHERE)
    second = (
        Register(NOWHERE, taken, path),
        SetVersion(NOWHERE, taken, 1, None, 0),
    )
    with refusal(ManifestCorrupt, "share the name node:Artist"):
        publish(root, MAIN_REF, Publication(changes=second))
    assert read_newest(root.manifest()).version == version


def test_a_rename_keeps_identity_place_and_version(root):
    label = entry(root)
    renamed = TableKey("node:Imprint")
    publish(
        root, MAIN_REF, Publication(changes=(Rename(label.identity, label.table_key, renamed),))
    )
    after = entry(root, "node:Imprint")
    assert (after.identity, after.path, after.version) == (
        label.identity,
        label.path,
        label.version,
    )
    with refusal(ReadSetChanged, "dataset_binding"):
        publish(
            root, MAIN_REF, Publication(changes=(Rename(label.identity, label.table_key, renamed),))
        )


def test_a_name_dropped_and_used_again_is_another_table(root):
    label = entry(root)
    gone = Tombstone(label.identity, label.table_key, label.version + 1)
    publish(root, MAIN_REF, Publication(changes=(gone,)))
    assert label.table_key not in state(root).entries
    path = make_table_path(label.kind, NOWHERE)
    again = (
        Register(NOWHERE, label.table_key, path),
        SetVersion(NOWHERE, label.table_key, 1, None, 0),
    )
    publish(root, MAIN_REF, Publication(changes=again))
    after = entry(root)
    assert (after.identity, after.path) == (NOWHERE, path)
    with refusal(BadRequest, "already has a tombstone"):
        publish(root, MAIN_REF, Publication(changes=(gone,)))


def test_a_publish_that_may_not_happen_does_not(root):
    version = read_newest(root.manifest()).version

    def refuse():
        raise ReadSetChanged("writer_fence", "epoch 1", "epoch 2")

    with pytest.raises(ReadSetChanged):
        publish(root, MAIN_REF, Publication(commit=new_commit(root)), before_commit=refuse)
    assert read_newest(root.manifest()).version == version


def test_history_is_the_same_read_at_once_and_bit_by_bit(root, music):
    patient = History()
    for number in range(6):
        run(music, f'insert Label {{slug: "l{number}", name: "L"}}')
        manifest = read_newest(root.manifest())
        assert patient.commits(manifest) == History().commits(manifest)
    old = read_manifest(root.manifest(), 3)
    assert patient.commits(old) == History().commits(old)
    assert len(patient.commits(old)) == 3
    shown = tuple(commit.shown for commit in patient.commits(manifest))
    assert omnigraph.open(music.uri, read_only=True).commits() == shown
