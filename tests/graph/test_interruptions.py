"""Writes that fail or stop half way: what the caller learns, and who puts things right."""

from __future__ import annotations

import json

import lance
import pyarrow as pa
import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import contents, edge, files_below, ids, node, refusal, run
from omnigraph.errors import (
    ManifestCorrupt,
    RecoveryRequired,
    StorageFailure,
    UncoveredDrift,
)
from omnigraph.settings import Settings
from omnigraph.storage.sealed_records import SEAL, seal

PAIR = 'insert Artist {slug: "z", name: "Z"} insert Influences {from: "z", to: "ada"}'
IN_TURN = Settings(write_concurrency=1)
ARTIST_TABLE, EDGE_TABLE, MANIFEST = "*/nodes/*", "*/edges/*", "*/__manifest*"


class Crash(BaseException):
    """The process has ended: nothing after this line runs."""


def crash():
    raise Crash


def opened(place, **options):
    """The graph, whose writes move one table after the other: each moment means one thing."""
    return omnigraph.open(place, settings=IN_TURN, **options)


def stop(place, moment, action, path="*", *, write=PAIR, branch="main", actor="victim"):
    """Stop a write at a moment; gives the id of the operation it leaves behind."""
    with observed(Trouble(moment, action, path, instead=crash)):
        graph = opened(place, actor=actor)
        with pytest.raises(Crash):
            run(graph, write, branch=branch)
    (left,) = (place / "__recovery").glob("*.json")
    return left.stem


def pending_files(place):
    return sorted(p.name for p in (place / "__recovery").glob("*.json"))


def assert_recovered(graph, place, branch="main"):
    """Check that nothing is pending, no table has drifted, and the next strict write works."""
    assert pending_files(place) == []
    assert drifted(graph, place, branch) == []
    run(graph, 'update Artist set {bio: "after"} where slug = "ada"', branch=branch)
    before = list(files_below(place))
    assert opened(place).recover() == []
    assert [f for f in files_below(place) if "__writer" not in f[0]] == [
        f for f in before if "__writer" not in f[0]
    ]


def drifted(graph, place, branch="main"):
    found = []
    for table in graph.snapshot(branch).tables:
        tree = f"/tree/{table.table_branch}" if table.table_branch else ""
        newest = lance.dataset(str(place / table.table_path) + tree).version
        if newest != table.manifest_version:
            found.append((table.table_key, newest, table.manifest_version))
    return found


def table_place(graph, place, key):
    return str(place / next(t.table_path for t in graph.snapshot().tables if t.table_key == key))


def kinds(graph, branch="main"):
    return [str(audit.kind) for audit in graph.recovery_list(branch)]


# --- the writer continues -------------------------------------------------------------------------


def test_a_write_whose_intent_cannot_be_stored_changes_nothing(music_place):
    with observed(Trouble("before", "put", "__recovery/*")):
        graph = opened(music_place)
        before = contents(graph)
        with refusal(StorageFailure, "trouble"):
            run(graph, PAIR)
        assert contents(graph) == before
        assert pending_files(music_place) == []
        run(graph, PAIR)
    assert_recovered(graph, music_place)


def test_an_intent_whose_answer_was_lost_is_abandoned_by_the_next_write(music_place):
    with observed(Trouble("after", "put", "__recovery/*")):
        graph = opened(music_place)
        with refusal(StorageFailure, "trouble"):
            run(graph, PAIR)
        assert len(pending_files(music_place)) == 1
        assert [p.decision for p in graph.recovery_pending()] == ["abandon"]
        run(graph, PAIR)
    assert kinds(graph) == ["Abandoned"]
    assert_recovered(graph, music_place)


@pytest.mark.parametrize("table", [EDGE_TABLE, ARTIST_TABLE], ids=["first", "second"])
def test_a_table_that_cannot_be_moved_undoes_the_write_at_once(music_place, table):
    with observed(Trouble("before", "commit", table)):
        graph = opened(music_place)
        before, commits = contents(graph), graph.commits()
        with refusal(StorageFailure, "nothing was changed"):
            run(graph, PAIR)
    assert contents(graph) == before
    assert kinds(graph) == (["Abandoned"] if table == EDGE_TABLE else ["RolledBack"])
    added = [c for c in graph.commits() if c not in commits]
    assert [c.actor_id for c in added] == ["omnigraph:recovery"] * (table == ARTIST_TABLE)
    assert_recovered(graph, music_place)


AT_ONCE = Settings(write_concurrency=8)


@pytest.mark.parametrize(
    "key", ["edge:Influences", "edge:Made", "edge:SignedTo", "node:Artist", "all of them"]
)
def test_a_table_that_cannot_be_moved_beside_the_others_undoes_all_of_it(music, music_place, key):
    before, commits, is_all = contents(music), music.commits(), key == "all of them"
    path = "*/[ne][od][dg]es/*" if is_all else table_place(music, music_place, key)
    with observed(Trouble("before", "commit", path, times=4 if is_all else 1)):
        graph = omnigraph.open(music_place, settings=AT_ONCE)
        with refusal(StorageFailure, "nothing was changed"):
            run(graph, 'delete Artist where slug = "ada"')
        assert contents(graph) == before
        assert kinds(graph) == (["Abandoned"] if is_all else ["RolledBack"])
        added = [c.actor_id for c in graph.commits() if c not in commits]
        assert added == ["omnigraph:recovery"] * (not is_all)
        assert pending_files(music_place) == []
        assert drifted(graph, music_place) == []
    assert run(graph, 'delete Artist where slug = "ada"').affected_nodes == 1


@pytest.mark.parametrize("at_a_time", [1, 8])
def test_a_publish_that_cannot_be_prepared_leaves_the_whole_write_or_nothing(
    music_place, at_a_time
):
    """The writer decides whether tables have moved by then; the graph is as it reports."""
    trouble = Trouble("before", "write_fragments", MANIFEST)
    with observed(trouble):
        graph = omnigraph.open(music_place, settings=Settings(write_concurrency=at_a_time))
        commits = graph.commits()
        try:
            made = (run(graph, PAIR).commit,)
        except StorageFailure:
            made = ()
    assert trouble.is_over
    assert [c for c in graph.commits() if c.actor_id is None] == [
        *made,
        *(c for c in commits if c.actor_id is None),
    ]
    assert ("z" in ids(graph, "Artist")) is bool(made)
    assert len(ids(graph, "Influences")) == 6 + len(made)
    assert_recovered(graph, music_place)


@pytest.mark.parametrize("path", [EDGE_TABLE, ARTIST_TABLE, MANIFEST])
def test_an_answer_lost_after_an_effect_is_no_failure(music_place, path):
    with observed(Trouble("after", "commit", path)):
        graph = opened(music_place, actor="me")
        result = run(graph, PAIR)
    assert graph.commits()[0] == result.commit
    assert kinds(graph) == []
    assert_recovered(graph, music_place)


def test_a_publish_that_fails_once_is_finished_under_its_own_commit(music_place):
    with observed(Trouble("before", "commit", MANIFEST)):
        graph = opened(music_place, actor="me")
        result = run(graph, PAIR)
    assert graph.commits()[0] == result.commit
    assert result.commit.actor_id == "me"
    assert "z" in ids(graph, "Artist")
    assert kinds(graph) == ["RolledForward"]
    assert_recovered(graph, music_place)


@pytest.mark.parametrize("healer", ["same handle", "reopened"])
def test_a_publish_that_keeps_failing_is_finished_by_the_next_writer(music_place, healer):
    with observed(Trouble("before", "commit", MANIFEST, times=2)):
        graph = opened(music_place, actor="me")
        with refusal(RecoveryRequired, "trouble") as refused:
            run(graph, PAIR)
        assert "z" not in ids(graph, "Artist")
        (pending,) = graph.recovery_pending()
        assert (pending.operation_id, pending.decision) == (
            refused.value.operation_id,
            "roll_forward",
        )
        if healer == "same handle":
            run(graph, 'insert Label {slug: "l", name: "L"}', actor="other")
    if healer == "reopened":
        graph = opened(music_place)
    assert "z" in ids(graph, "Artist")
    healed = graph.commits()[1 if healer == "same handle" else 0]
    assert healed.actor_id == "me"
    assert graph.recovery_list()[0].commit_id == healed.commit_id
    assert_recovered(graph, music_place)


def test_an_intent_that_cannot_be_removed_is_no_failure(music_place):
    with observed(Trouble("before", "delete", "__recovery/*")):
        graph = opened(music_place)
        run(graph, PAIR)
        assert len(pending_files(music_place)) == 1
        assert [p.decision for p in graph.recovery_pending()] == ["finish_published"]
        run(graph, 'insert Label {slug: "l", name: "L"}')
    assert "z" in ids(graph, "Artist")
    assert_recovered(graph, music_place)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_delete_that_cannot_mark_its_rows_changes_nothing(music_place, moment):
    with observed(Trouble(moment, "write_deletions")):
        graph = opened(music_place)
        before, commits = contents(graph), graph.commits()
        with refusal(StorageFailure, "trouble"):
            run(graph, 'delete Artist where slug = "ben"')
        assert contents(graph) == before
        assert (pending_files(music_place), drifted(graph, music_place)) == ([], [])
        assert (graph.commits(), graph.recovery_list()) == (commits, ())
        assert run(graph, 'delete Artist where slug = "ben"').affected_nodes == 1
    assert_recovered(graph, music_place)


# --- the writer is gone ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "action", "path", "decision"),
    [
        ("after", "put", "__recovery/*", "abandon"),
        ("after", "commit", EDGE_TABLE, "roll_back"),
        ("before", "commit", ARTIST_TABLE, "roll_back"),
        ("after", "commit", ARTIST_TABLE, "roll_forward"),
        ("before", "commit", MANIFEST, "roll_forward"),
        ("after", "commit", MANIFEST, "finish_published"),
    ],
)
def test_a_write_that_stopped_is_recovered_by_the_next_open(
    music, music_place, moment, action, path, decision
):
    before = contents(music)
    operation = stop(music_place, moment, action, path)
    (found,) = music.recovery_pending()
    assert (found.operation_id, found.decision) == (operation, decision)
    assert (found.branch, found.writer_kind) == ("main", "Mutation")
    graph = opened(music_place)
    is_done = decision in ("roll_forward", "finish_published")
    assert ("z" in ids(graph, "Artist")) is is_done
    assert (contents(graph) == before) is not is_done
    if is_done:
        assert graph.commits()[0].actor_id == "victim"
    assert_recovered(graph, music_place)


@pytest.mark.parametrize("actor", ["victim", None])
@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_that_stopped_before_its_publish_is_finished_as_it_was_meant(
    music, music_place, mode, branch, actor
):
    if branch != "main":
        music.create_branch(branch)
    records = [node("Take", studio="s", number=1), edge("Sampled", "static", "tides")]
    with observed(Trouble("before", "commit", MANIFEST, instead=crash)):
        victim = opened(music_place, actor=actor)
        with pytest.raises(Crash):
            victim.load(records, mode, branch=branch)
    (file,) = (music_place / "__recovery").glob("*.json")
    intent = json.loads(file.read_text())
    (found,) = music.recovery_pending()
    assert (found.decision, found.writer_kind, found.branch) == ("roll_forward", "Load", branch)
    graph = opened(music_place, actor="another")
    made = graph.commits(branch)[0]
    assert (made.commit_id, made.actor_id) == (intent["commit"]["commit_id"], actor)
    (audit,) = graph.recovery_list(branch)
    assert (audit.commit_id, audit.actor_id) == (made.commit_id, actor)
    assert len(ids(graph, "Take", branch=branch)) == 1
    assert len(ids(graph, "Sampled", branch=branch)) == (1 if mode == "overwrite" else 3)
    assert_recovered(graph, music_place, branch)


def test_a_reader_sees_only_what_was_published(music, music_place):
    before = contents(music)
    stop(music_place, "before", "commit", MANIFEST)
    files = list(files_below(music_place))
    assert contents(opened(music_place, read_only=True)) == before
    assert list(files_below(music_place)) == files


@pytest.mark.parametrize("verb", ["mutate", "load", "create", "delete", "recover"])
def test_every_verb_that_writes_recovers_first(music, music_place, verb):
    music.create_branch("old")
    operation = stop(music_place, "before", "commit", MANIFEST)
    match verb:
        case "mutate":
            run(music, 'insert Label {slug: "l", name: "L"}')
        case "load":
            music.load([node("Label", slug="l", name="L")], "append")
        case "create":
            music.create_branch("new")
        case "delete":
            music.delete_branch("old")
            assert pending_files(music_place) == [f"{operation}.json"]
            music.recover()
        case "recover":
            (done,) = music.recover()
            assert (done.operation_id, done.decision) == (operation, "roll_forward")
    assert pending_files(music_place) == []
    assert "z" in ids(music, "Artist")
    assert kinds(music) == ["RolledForward"]


def test_a_write_on_a_branch_is_recovered_there(music, music_place):
    music.create_branch("dev")
    run(music, 'insert Label {slug: "l", name: "L"}', branch="dev")
    main = contents(music)
    for moment, path in (("after", EDGE_TABLE), ("before", MANIFEST)):
        stop(music_place, moment, "commit", path, branch="dev")
        opened(music_place)
    assert contents(music) == main
    assert kinds(music) == []
    assert kinds(music, "dev") == ["RolledBack", "RolledForward"]
    assert "z" in ids(music, "Artist", branch="dev")
    assert_recovered(music, music_place, "dev")


def test_an_interrupted_write_of_a_deleted_branch_is_discarded_once(music, music_place):
    music.create_branch("dev")
    stop(music_place, "after", "commit", EDGE_TABLE, branch="dev")
    music.delete_branch("dev")
    assert pending_files(music_place) == []
    assert kinds(music) == ["OrphanedBranchDiscarded"]
    music.create_branch("dev")
    assert contents(music, branch="dev") == contents(music)
    assert_recovered(music, music_place, "dev")
    assert kinds(music) == ["OrphanedBranchDiscarded"]


def test_the_next_write_discards_what_a_deleted_branch_left(music, music_place):
    music.create_branch("dev")
    operation = stop(music_place, "after", "commit", EDGE_TABLE, branch="dev")
    with observed(Trouble("after", "delete", "_refs/branches/*", instead=crash)):
        graph = opened(music_place, read_only=True)
        graph._open.read_only = False  # opening for writing would have recovered it
        with pytest.raises(Crash):
            graph.delete_branch("dev")
    assert [p.decision for p in music.recovery_pending()] == ["discard_branch"]
    for slug in ("l1", "l2"):
        run(music, f'insert Label {{slug: "{slug}", name: "L"}}')
        (audit,) = music.recovery_list()
        assert (audit.operation_id, audit.kind) == (operation, "OrphanedBranchDiscarded")
    assert_recovered(music, music_place)


def test_a_fork_that_cannot_be_removed_retains_its_intent_until_it_can(music, music_place):
    music.create_branch("dev")
    operation = stop(music_place, "after", "put", "__recovery/*", branch="dev")
    with observed(Trouble("before", "delete_branch")), refusal(StorageFailure, "trouble"):
        opened(music_place)
    assert pending_files(music_place) == [f"{operation}.json"]
    assert list(music_place.glob("[ne]*/*/tree/*"))
    graph = opened(music_place)
    assert kinds(graph, "dev") == ["Abandoned"]
    assert list(music_place.glob("[ne]*/*/tree/*")) == []
    assert_recovered(graph, music_place, "dev")


@pytest.mark.parametrize("path", ["__recovery/*", "*/__manifest"])
def test_discarding_survives_failures_of_its_own(music, music_place, path):
    music.create_branch("dev")
    stop(music_place, "after", "commit", EDGE_TABLE, branch="dev")
    action = "delete" if path.startswith("__recovery") else "commit"
    with observed(Trouble("before", action, path)):
        graph = opened(music_place, read_only=True)
        graph._open.read_only = False
        graph.delete_branch("dev")
        assert graph.branches() == ["main"]
        assert len(pending_files(music_place)) == 1
    graph = opened(music_place)
    assert kinds(graph) == ["OrphanedBranchDiscarded"]
    assert_recovered(graph, music_place)


def test_a_stopped_recovery_is_resumed(music, music_place):
    before = contents(music)
    stop(music_place, "after", "commit", EDGE_TABLE)
    for moment, action, path in (
        ("before", "restore", "*"),
        ("after", "restore", "*"),
        ("before", "commit", MANIFEST),
        ("after", "commit", MANIFEST),
        ("before", "delete", "__recovery/*"),
    ):
        with observed(Trouble(moment, action, path, instead=crash)), pytest.raises(Crash):
            opened(music_place)
        assert contents(music) == before
    graph = opened(music_place)
    assert contents(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_recovered(graph, music_place)


@pytest.mark.parametrize(
    ("moment", "action", "path"),
    [
        ("before", "restore", "*"),
        ("after", "restore", "*"),
        ("before", "commit", MANIFEST),
        ("after", "commit", MANIFEST),
    ],
)
def test_a_rollback_that_was_stopped_says_the_same_as_one_that_was_not(
    music, music_place, moment, action, path
):
    def version():
        tables = music.snapshot().tables
        return next(t.manifest_version for t in tables if t.table_key == "edge:Influences")

    base = version()
    operation = stop(music_place, "after", "commit", EDGE_TABLE)
    intent = json.loads((music_place / "__recovery" / f"{operation}.json").read_text())
    with observed(Trouble(moment, action, path, instead=crash)), pytest.raises(Crash):
        opened(music_place)
    graph = opened(music_place)
    (audit,) = graph.recovery_list()
    assert (audit.kind, audit.commit_id) == ("RolledBack", intent["rollback_commit_id"])
    (table,) = audit.tables
    assert (table.table_key, table.from_version, table.to_version) == (
        "edge:Influences",
        base + 1,
        base,
    )
    assert version() == base + 2, "it was restored once"
    undone = graph.commits()[0]
    assert (undone.commit_id, undone.actor_id) == (audit.commit_id, "omnigraph:recovery")
    assert undone.created_at == intent["commit"]["created_at"]
    assert_recovered(graph, music_place)


def test_several_interrupted_writes_are_recovered_in_their_order(music, music_place):
    music.create_branch("dev")
    first = stop(music_place, "before", "commit", MANIFEST, branch="dev")
    kept = (music_place / "__recovery" / f"{first}.json").read_bytes()
    (music_place / "__recovery" / f"{first}.json").unlink()
    second = stop(music_place, "after", "commit", EDGE_TABLE)
    (music_place / "__recovery" / f"{first}.json").write_bytes(kept)
    graph = opened(music_place)
    assert [audit.operation_id for audit in graph.recovery_list("dev")] == [first]
    assert [audit.operation_id for audit in graph.recovery_list()] == [second]
    assert_recovered(graph, music_place)


# --- what must not be touched ---------------------------------------------------------------------


def test_a_table_with_a_foreign_version_points_to_repair(music, music_place):
    place = table_place(music, music_place, "node:Label")
    rows = lance.dataset(place).to_table()
    lance.write_dataset(rows, place, mode="append")
    with refusal(UncoveredDrift, "run `omnigraph repair`") as refused:
        run(music, 'insert Label {slug: "l", name: "L"}')
    assert refused.value.table_key == "node:Label"
    assert pending_files(music_place) == []
    run(music, 'insert Artist {slug: "z", name: "Z"}')
    assert len(ids(music, "Label")) == 3


def bury(graph, place):
    """Write over an effect of a stopped write, as only a foreign writer would."""
    where = table_place(graph, place, "edge:Influences")
    rows = lance.dataset(where).to_table().slice(0, 1)
    lance.write_dataset(rows.set_column(0, "id", pa.array(["raw"])), where, mode="append")


def test_a_write_that_cannot_be_recovered_stops_its_branch_and_no_other(music, music_place):
    music.create_branch("dev")
    operation = stop(music_place, "after", "commit", EDGE_TABLE)
    bury(music, music_place)
    for attempt in (
        lambda: run(music, 'insert Label {slug: "l", name: "L"}'),
        lambda: music.create_branch("other"),
        lambda: opened(music_place),
        music.recover,
    ):
        with refusal(RecoveryRequired, operation):
            attempt()
    assert [p.decision for p in music.recovery_pending()] == ["refuse"]
    run(music, 'insert Label {slug: "l", name: "L"}', branch="dev")
    music.load([edge("Influences", "ben", "ada")], "append", branch="dev")
    assert len(contents(opened(music_place, read_only=True))) == 28
    assert pending_files(music_place) == [f"{operation}.json"]


def move(body):
    """The requirements of an intent, as they would be for another graph."""
    return {"requires": body["requires"] | {"graph": "other"}}


def rewrite(body, members):
    """The intent with other members, and a checksum that fits them."""
    return json.dumps(seal({k: v for k, v in (body | members).items() if k != SEAL}))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda body: "{", "not an intent"),
        (lambda body: json.dumps(body | {"schema_version": 99}), "newer than the maximum"),
        (lambda body: json.dumps(body | move(body)), "quarantine it to continue"),
        (lambda body: rewrite(body, move(body)), "belongs to another graph"),
        (
            lambda body: rewrite(body, {"changes": {"moved": [{"table_key": "node:Artist"}]}}),
            "not a complete",
        ),
        (lambda body: rewrite(body, {"operation_id": "other"}), "holds the intent of other"),
    ],
    ids=["damaged", "future", "altered", "foreign", "incomplete", "renamed"],
)
def test_an_unreadable_intent_is_retained_and_stops_writers(music, music_place, change, text):
    operation = stop(music_place, "after", "put", "__recovery/*")
    file = music_place / "__recovery" / f"{operation}.json"
    file.write_text(change(json.loads(file.read_text())))
    before = file.read_bytes()
    for attempt in (
        lambda: run(music, 'insert Label {slug: "l", name: "L"}'),
        lambda: opened(music_place),
    ):
        with refusal(ManifestCorrupt, text):
            attempt()
    assert file.read_bytes() == before
    assert contents(opened(music_place, read_only=True))


def test_other_files_beside_the_intents_are_ignored(music, music_place):
    (music_place / "__recovery/quarantine").mkdir(parents=True)
    (music_place / "__recovery/README").write_text("notes")
    run(music, PAIR)
    assert opened(music_place).recovery_pending() == []


def test_a_late_effect_of_an_ended_write_is_undone(music, music_place):
    """A stalled writer's table version arrives after its operation was abandoned."""
    staged = []

    def keep():
        for path in (music_place / "edges").rglob("_versions/*.manifest"):
            staged.append((path, path.read_bytes()))
        crash()

    with observed(Trouble("after", "commit", EDGE_TABLE, instead=keep)), pytest.raises(Crash):
        run(opened(music_place), PAIR)
    newest = min((path for path, _ in staged if _is_of(music, music_place, path)), key=str)
    late = newest.read_bytes()
    newest.unlink()
    graph = opened(music_place)
    assert kinds(graph) == ["Abandoned"]
    newest.write_bytes(late)
    assert [key for key, *_ in drifted(graph, music_place)] == ["edge:Influences"]
    before = contents(graph)
    run(graph, 'insert Influences {from: "ben", to: "ada"}')
    assert kinds(graph) == ["Abandoned", "Abandoned", "RevokedEffect"]
    assert "z" not in {e["from"] for e in graph.export(["Influences"])}
    assert len(contents(graph)) == len(before) + 1
    assert_recovered(graph, music_place)


def _is_of(graph, place, path):
    return str(path).startswith(table_place(graph, place, "edge:Influences"))


def test_a_stopped_revocation_of_a_late_effect_is_resumed(music, music_place):
    with observed(Trouble("after", "commit", EDGE_TABLE, instead=crash)), pytest.raises(Crash):
        run(opened(music_place), PAIR)
    where = music_place / table_place(music, music_place, "edge:Influences")
    newest = min(where.glob("_versions/*.manifest"), key=str)
    late = newest.read_bytes()
    newest.unlink()
    opened(music_place)
    newest.write_bytes(late)
    insert = 'insert Influences {from: "ben", to: "ada"}'
    with observed(Trouble("after", "restore", EDGE_TABLE, instead=crash)), pytest.raises(Crash):
        run(opened(music_place), insert)
    graph = opened(music_place)
    run(graph, insert)
    assert "RevokedEffect" in kinds(graph)
    assert_recovered(graph, music_place)


def test_a_strict_write_that_meets_a_late_effect_is_redone(music, music_place):
    with observed(Trouble("after", "commit", EDGE_TABLE, instead=crash)), pytest.raises(Crash):
        run(opened(music_place), PAIR)
    where = music_place / table_place(music, music_place, "edge:Influences")
    newest = min(where.glob("_versions/*.manifest"), key=str)
    late = newest.read_bytes()
    newest.unlink()
    graph = opened(music_place)
    newest.write_bytes(late)
    assert run(graph, 'delete Influences where from = "ada"').affected_edges == 2
    assert_recovered(graph, music_place)
