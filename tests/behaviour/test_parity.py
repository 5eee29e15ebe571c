"""One scenario, run on every surface on graphs that are byte for byte the same.

After ids, times and addresses are masked, every document and every error must be the same
everywhere. The direct command runs in this process here; elsewhere it is a child process.
"""

from __future__ import annotations

import json

import pytest

from behaviour.entry_points import QUICK_SURFACES
from behaviour.scenarios import list_error_kinds, run_everywhere

SCHEMA = """\
node Artist { slug: String @key  name: String  born: I32?  @range(born, 1900..2020) }
node Album { slug: String @key  title: String  cover: Blob?  sold: U64?  tags: [String]?
             out: Date?  at: DateTime?  rating: F64?  mood: Vector(2)? }
edge Made: Artist -> Album { role: enum(guest, lead)? }
"""
TIDES = {
    "slug": "tides",
    "title": "Slow Tides",
    "cover": "base64:AAECAwQ=",
    "sold": 2**62,
    "tags": ["a", "b"],
    "out": "2001-02-03",
    "at": "2001-02-03T04:05:06.007Z",
    "rating": 7.5,
    "mood": [0.25, -1],
}
RECORDS = [
    {"type": "Artist", "data": {"slug": "ada", "name": "Ada", "born": 1970}},
    {"type": "Artist", "data": {"slug": "ben", "name": "Bén", "born": None}},
    {"type": "Album", "data": TIDES},
    {"type": "Album", "data": {"slug": "empty", "title": "", "cover": "base64:"}},
    {"edge": "Made", "from": "ada", "to": "tides", "data": {"id": "m1", "role": "lead"}},
]
EVERYTHING = """query albums() { match { $a: Album } return {
    $a.slug, $a.sold, $a.tags, $a.out, $a.at, $a.rating, $a.mood } order { $a.slug } }"""
BORN = "query born($y: I32) { match { $a: Artist  $a.born > $y } return { $a.name, $a.born } }"
RENAME = 'query q($n: String) { update Artist set { name: $n } where slug = "ada" }'
NONE = 'query q() { delete Artist where slug = "nobody" }'
WIDER = SCHEMA.replace("born: I32?  @", "born: I32?  nick: String?  @")
COVER = ("node", "Album", "tides", "cover")
UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def write(*records: dict) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def read_head(surface, branch: str = "main") -> str:
    return surface.commits(branch)[0]["graph_commit_id"]


SCENARIO = {
    "load append": lambda d: d.load(write(*RECORDS), "append"),
    "query of every type": lambda d: d.query(EVERYTHING),
    "query with parameters": lambda d: d.query(BORN, {"y": 1960}),
    "query at a commit": lambda d: d.query(BORN, {"y": 1960}, snapshot=read_head(d)),
    "query without a parameter": lambda d: d.query(BORN, {}),
    "query with a wrong parameter": lambda d: d.query(BORN, {"y": "soon"}),
    "query of another parameter": lambda d: d.query(BORN, {"y": 1, "z": 2}),
    "query that is none": lambda d: d.query("query q() { match { $a: Artst } return { $a.x } }"),
    "query of an unknown branch": lambda d: d.query(BORN, {"y": 1}, branch="nowhere"),
    "query at an unknown commit": lambda d: d.query(BORN, {"y": 1}, snapshot=UNKNOWN),
    "query that changes": lambda d: d.query(NONE),
    "mutate that reads": lambda d: d.mutate(BORN, {"y": 1}),
    "mutate": lambda d: d.mutate(RENAME, {"n": "Ada Voss"}),
    "mutate nothing": lambda d: d.mutate(NONE),
    "mutate under a condition": lambda d: d.mutate(
        RENAME, {"n": "Ada V."}, if_commit=d.commits()[0]["graph_commit_id"]
    ),
    "mutate under a stale condition": lambda d: d.mutate(
        NONE, if_commit=d.commits()[-1]["graph_commit_id"]
    ),
    "mutate against a rule": lambda d: d.mutate(
        'query q() { update Artist set { born: 1800 } where slug = "ada" }'
    ),
    "load merge": lambda d: d.load(
        write({"type": "Artist", "data": {"slug": "cy", "name": "Cy"}}), "merge"
    ),
    "load of a key that exists": lambda d: d.load(write(RECORDS[0]), "append"),
    "load of bad rows": lambda d: d.load(
        write({"type": "Artist", "data": {"slug": 1}}, {"type": "Nobody"}), "append"
    ),
    "load of an orphan": lambda d: d.load(
        write({"edge": "Made", "from": "ada", "to": "ghost"}), "append"
    ),
    "load into no branch": lambda d: d.load("", "append", branch="nowhere"),
    "create": lambda d: d.create_branch("review/1"),
    "create what exists": lambda d: d.create_branch("review/1"),
    "create a bad name": lambda d: d.create_branch("a//b"),
    "load overwrite on a new branch": lambda d: d.load(
        write(*RECORDS[:2]), "overwrite", branch="fresh", base="main"
    ),
    "mutate a branch": lambda d: d.mutate(
        'query q() { delete Artist where slug = "cy" }', branch="review/1"
    ),
    "merge without doing it": lambda d: d.merge("review/1", dry_run=True),
    "merge": lambda d: d.merge("review/1", delete_branch=True),
    "merge an unknown branch": lambda d: d.merge("nowhere"),
    "conflict on one side": lambda d: [
        d.create_branch("theirs"),
        d.mutate(RENAME, {"n": "A1"}, branch="theirs"),
        d.mutate(RENAME, {"n": "A2"}),
    ],
    "merge with conflicts": lambda d: d.merge("theirs"),
    "list the conflicts": lambda d: d.merge("theirs", dry_run=True),
    "tag": lambda d: d.tag("v1"),
    "tag what is tagged": lambda d: d.tag("v1"),
    "tag the past": lambda d: d.tag("begin", d.commits()[-2]["graph_commit_id"]),
    "tag nothing": lambda d: d.tag("v2", "nowhere"),
    "tag with a bad name": lambda d: d.tag("a//b"),
    "tags": lambda d: d.tags(),
    "pick with conflicts": lambda d: d.cherry_pick(read_head(d, "theirs")),
    "list what conflicts": lambda d: d.cherry_pick(read_head(d, "theirs"), dry_run=True),
    "pick under a rule": lambda d: d.cherry_pick(read_head(d, "theirs"), resolve="theirs"),
    "pick once more": lambda d: d.cherry_pick(read_head(d, "theirs")),
    "pick nothing": lambda d: d.cherry_pick(UNKNOWN),
    "revert without doing it": lambda d: d.revert(read_head(d), dry_run=True),
    "revert": lambda d: d.revert(read_head(d)),
    "revert with conflicts": lambda d: d.revert(read_head(d, "theirs")),
    "revert the first commit": lambda d: d.revert(d.commits()[-1]["graph_commit_id"]),
    "revert nothing": lambda d: d.revert("nowhere"),
    "revert under no rule": lambda d: d.revert(read_head(d), resolve="whatever"),
    "restore without doing it": lambda d: d.restore("begin", dry_run=True),
    "restore": lambda d: d.restore("begin"),
    "restore a branch": lambda d: d.restore("v1", branch="theirs"),
    "restore what is there": lambda d: d.restore("begin"),
    "restore nothing": lambda d: d.restore("nowhere"),
    "undo all of it": lambda d: d.restore("v1"),
    "difference": lambda d: d.diff("begin", "v1"),
    "difference with images": lambda d: d.diff("begin", "main", images=True),
    "difference of the same": lambda d: d.diff("main", "v1"),
    "difference of nothing": lambda d: d.diff("nowhere", "main"),
    "history of an entity": lambda d: d.entity_history("Artist", "ada"),
    "history of an unknown type": lambda d: d.entity_history("Nobody", "ada"),
    "delete a tag": lambda d: d.delete_tag("begin"),
    "delete a tag that is gone": lambda d: d.delete_tag("begin"),
    "branches": lambda d: d.branches(),
    "delete": lambda d: d.delete_branch("fresh"),
    "delete what is not there": lambda d: d.delete_branch("fresh"),
    "delete main": lambda d: d.delete_branch("main"),
    "commits": lambda d: d.commits(),
    "commits of a branch": lambda d: d.commits("theirs"),
    "commit": lambda d: d.commit(read_head(d)),
    "an unknown commit": lambda d: d.commit(UNKNOWN),
    "changes of a commit": lambda d: d.commit_changes(read_head(d), ["Artist"]),
    "changes of the first commit": lambda d: d.commit_changes(d.commits()[-1]["graph_commit_id"]),
    "changes of an unknown commit": lambda d: d.commit_changes(UNKNOWN),
    "feed": lambda d: d.changes("beginning"),
    "feed of a branch": lambda d: d.changes("beginning", "theirs"),
    "feed after now": lambda d: d.changes(d.changes("now")["cursor"]),
    "feed from a damaged cursor": lambda d: d.changes("nonsense"),
    "baseline": lambda d: d.baseline(["Album", "Made"]),
    "export": lambda d: d.export(),
    "export at a commit": lambda d: d.export(snapshot=d.commits()[-2]["graph_commit_id"]),
    "export of an unknown branch": lambda d: d.export("nowhere"),
    "snapshot": lambda d: d.snapshot(),
    "snapshot of a branch": lambda d: d.snapshot("theirs"),
    "blob": lambda d: [d.blob(COVER), d.blob(COVER, 1), d.blob(COVER, 1, 2), d.blob(COVER, 3, 99)],
    "empty blob": lambda d: d.blob(("node", "Album", "empty", "cover")),
    "stat": lambda d: d.blob_stat(*COVER),
    "stat of an unknown entity": lambda d: d.blob_stat("node", "Album", "nobody", "cover"),
    "stat of no blob": lambda d: d.blob_stat("node", "Album", "tides", "title"),
    "stat of another kind": lambda d: d.blob_stat("edge", "Album", "tides", "cover"),
    "schema": lambda d: d.schema(),
    "lint": lambda d: d.lint(f"{BORN} {NONE}"),
    "explain": lambda d: d.explain(BORN),
    "explain what is none": lambda d: d.explain("query q() {"),
    "plan": lambda d: d.plan_schema(WIDER),
    "plan what is not supported": lambda d: d.plan_schema(
        WIDER.replace("name: String", "name: I32")
    ),
    "apply without doing it": lambda d: d.apply_schema(WIDER, dry_run=True),
    "apply": lambda d: d.apply_schema(WIDER),
    "apply what loses values": lambda d: d.apply_schema(WIDER.replace("name: String", "name: I32")),
    "apply what is no schema": lambda d: d.apply_schema("node {"),
}
"""The steps, in this order."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return run_everywhere(QUICK_SURFACES, SCENARIO, SCHEMA, tmp_path_factory)


@pytest.mark.parametrize("step", SCENARIO)
def test_every_surface_answers_alike(results, step: str) -> None:
    expected = results["sdk"][step]
    for surface in QUICK_SURFACES:
        assert results[surface][step] == expected, surface


def test_the_scenario_has_successes_and_failures_of_every_kind(results) -> None:
    assert {
        *("branch_not_found", "commit_not_found", "parameter_error", "compile_error"),
        *("precondition_failed", "key_conflict", "rows_rejected", "constraint_violated"),
        *("merge_conflicts", "entity_not_found", "change_cursor_rejected", "parentless_commit"),
        *("already_exists", "bad_request", "bad_options", "unsupported_schema_change"),
        "tag_not_found",
    } <= list_error_kinds(results["sdk"])
