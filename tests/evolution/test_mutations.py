"""Mutations that change rows before the schema changes, in the same commit."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys

import pytest

import omnigraph
from crash.fault_points import At, Stopped, stop, watched
from crash.harness import environment
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.errors import (
    BadRequest,
    CompileError,
    ConstraintViolated,
    MergeConflicts,
    OmniError,
    ParameterError,
    PolicyDenied,
)
from policy.bundles import bundle

PRICED = changed("price: F32?", "price: F32")
FILL = "query fill() { update Book set { price: 1.5 } where price is null }"
RENAMED = changed("node Book", 'node Volume @rename_from("Book")').replace("-> Book", "-> Volume")


def exported(graph):
    """Every record without the ids of edges, which are made up."""
    found = [
        {**r, "data": {k: v for k, v in r["data"].items() if k != "id"}} for r in graph.export()
    ]
    return sorted(found, key=repr)


def shown_files(place):
    """List the files besides notes and logs of what was written."""
    return {name for name in files_below(place) if "_checksums" not in name}


def test_rows_are_changed_so_that_they_follow_the_new_rule_in_one_commit(library):
    before = library.commits()
    with pytest.raises(ConstraintViolated):
        library.apply_schema(PRICED)
    done = library.apply_schema(PRICED, mutations=[FILL])
    assert values(library, "Book", "price") == [1.5] * 6
    assert library.commits()[1:] == before
    assert done.commit.details["schema"]["mutations"] == ["fill"]
    assert [(m.query_name, m.affected_nodes) for m in done.mutations] == [("fill", 6)]
    assert [(t.table_key, str(t.effect), t.rows_after) for t in done.tables] == [
        ("node:Book", "rows", 6)
    ]
    assert library.verify(deep=True).findings == ()
    library.optimize()
    library.mutate('query q() { insert Book { slug: "n", title: "N", price: 2.0 } }')
    assert values(library, "Book", "price") == [1.5] * 6 + [2.0]
    assert library.verify(deep=True).findings == ()


def test_rows_of_a_type_whose_columns_stay_are_changed_too(library):
    wanted = changed("title: String", "title: String @unique", RENAMED)
    twins = 'query twins() { update Book set { title: "Twin" } where slug in ["b1", "b2"] }'
    part = 'query part() { update Book set { title: "Other" } where slug = "b2" }'
    with pytest.raises(ConstraintViolated):
        library.apply_schema(wanted, mutations=[twins])
    done = library.apply_schema(wanted, mutations=[twins, part])
    assert [m.affected_nodes for m in done.mutations] == [2, 1]
    assert values(library, "Volume", "title")[:3] == ["Title 0", "Twin", "Other"]
    assert library.verify(deep=True).findings == ()


def test_queries_of_a_text_run_in_order_and_each_sees_what_the_last_one_did(library):
    script = """
query first() { update Book set { pages: 7 } where slug = "b0" }
query second() { delete Book where pages = 7 }
query third() { insert Book { slug: "new", title: "New", pages: 8 } }
"""
    done = library.apply_schema(changed("pages: I32?", "pages: I64?"), mutations=[script])
    assert [m.query_name for m in done.mutations] == ["first", "second", "third"]
    assert done.mutations[1].affected_edges == 1
    assert values(library, "Book", "slug") == ["b1", "b2", "b3", "b4", "b5", "new"]
    assert values(library, "Book", "pages")[-1] == 8
    assert len(list(library.export(["Wrote"]))) == 5
    assert {str(t.effect) for t in done.tables} == {"rows"}
    assert library.verify(deep=True).findings == ()


def test_an_expression_reads_what_a_mutation_left(library):
    odd = 'query odd() { update Book set { title: "Title 70" } where slug = "b0" }'
    bad = 'query bad() { update Book set { title: "none" } where slug = "b0" }'
    wanted = changed("title: String", "title: I32")
    number = {"Book.title": "cast(replace(title, 'Title ', '') as int)"}
    library.mutate(bad)
    with pytest.raises(OmniError):
        library.apply_schema(wanted, expressions=number)
    library.apply_schema(wanted, expressions=number, mutations=[odd])
    assert values(library, "Book", "title") == [70, 1, 2, 3, 4, 5]


def test_every_row_may_be_deleted(library):
    done = library.apply_schema(
        changed("year: I32?", "year: I32"),
        mutations=["query q() { delete Wrote where year > 0 }"],
    )
    assert [(t.rows_before, t.rows_after) for t in done.tables] == [(6, 0)]
    library.load([{"edge": "Wrote", "from": "a0", "to": "b0", "data": {"year": 1}}], "append")
    assert library.verify(deep=True).findings == ()


def test_values_of_every_kind_survive_where_all_rows_are_rewritten(tmp_path):
    schema = """node Item { slug: String @key  tags: [String]?  face: Vector(2)?  photo: Blob?
  day: Date?  at: DateTime?  kind: enum(a, b)?  n: I32? }"""
    graph = omnigraph.init(tmp_path / "items.omni", schema)
    row = {"tags": ["x", "y"], "face": [1.0, 2.0], "photo": "base64:aGk=", "day": "2024-01-02"}
    row |= {"at": "2024-01-02T03:04:05Z", "kind": "a", "n": 1}
    graph.load(
        [
            {"type": "Item", "data": {"slug": "full", **row}},
            {"type": "Item", "data": {"slug": "bare"}},
        ],
        "append",
    )
    before = {r["data"]["slug"]: r["data"] for r in graph.export()}
    wanted = schema.replace("n: I32?", "n: I64").replace(
        "photo: Blob?", "photo: Blob?  more: Blob?"
    )
    fill = "query q() { update Item set { n: 5 } where n is null }"
    graph.apply_schema(wanted, mutations=[fill])
    after = {r["data"]["slug"]: r["data"] for r in graph.export()}
    assert after["full"] == {**before["full"], "more": None}
    assert after["bare"] == {**before["bare"], "more": None, "n": 5}
    assert graph.verify(deep=True).findings == ()


def test_an_apply_that_is_repeated_runs_no_mutation(library):
    library.apply_schema(PRICED, mutations=[FILL])
    raising = "query q() { update Book set { price: 9.0 } where price > 0.0 }"
    again = library.apply_schema(PRICED, mutations=[raising])
    assert not again.applied
    assert again.mutations == ()
    assert values(library, "Book", "price") == [1.5] * 6


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("query q() { update Book set { cost: 1.0 } where cost is null }", CompileError, "cost"),
        ("query q() { match { $b: Book } return { $b.slug } }", BadRequest, "only reads"),
        ("query q($p: I32) { update Book set { pages: $p } where pages = 0 }", ParameterError, "p"),
        ("query q() { update Book set { pages: } where pages = 0 }", CompileError, "1:"),
        ('query q() { insert Wrote { from: "nobody", to: "b1" } }', OmniError, "nobody"),
    ],
)
def test_a_mutation_that_cannot_run_leaves_every_byte(library, library_place, text, kind, said):
    files = shown_files(library_place)
    wanted = changed("pages: I32?", "pages: I32?  cost: F64?")
    with pytest.raises(kind) as refused:
        library.apply_schema(wanted, mutations=[text])
    assert said in refused.value.message
    assert library.schema == SCHEMA
    assert shown_files(library_place) == files


def test_a_mistake_says_which_schema_a_mutation_knows(library):
    with pytest.raises(CompileError) as refused:
        library.apply_schema(
            changed("pages: I32?", "pages: I32?  cost: F64?"),
            mutations=["query q() { update Book set { cost: 1.0 } where pages = 1 }"],
        )
    (found,) = refused.value.diagnostics
    assert found.source == "<mutation>"
    assert "under the schema that is there" in found.hint


def test_rows_that_still_break_a_rule_leave_every_byte(library, library_place):
    files = files_below(library_place)
    half = 'query half() { update Book set { price: 1.5 } where slug = "b1" }'
    with pytest.raises(ConstraintViolated) as refused:
        library.apply_schema(PRICED, mutations=[half])
    assert refused.value.total == 5
    assert shown_files(library_place) == {n for n in files if "_checksums" not in n}
    assert values(library, "Book", "price") == [None] * 6


def test_a_dry_run_tries_mutations_and_leaves_nothing(library, library_place):
    files = shown_files(library_place)
    done = library.apply_schema(PRICED, mutations=[FILL], dry_run=True)
    assert not done.applied
    assert [m.affected_nodes for m in done.mutations] == [6]
    assert shown_files(library_place) == files
    with pytest.raises(OmniError):
        omnigraph.open(library_place, read_only=True).apply_schema(
            PRICED, mutations=[FILL], dry_run=True
        )


def test_a_hard_drop_with_a_mutation_leaves_no_byte(library, library_place):
    library.mutate('query q() { update Author set { city: "HIDDEN-TOWN" } where slug = "a1" }')
    library.optimize()
    library.apply_schema(
        changed("  city: String? @index", ""),
        mutations=['query q() { update Author set { name: "M" } where slug = "a1" }'],
        allow_data_loss=True,
    )
    assert [name for name, text in files_below(library_place).items() if b"HIDDEN" in text] == []
    assert values(library, "Author", "name") == ["Name 0", "M", "Name 2", "Name 3"]
    assert library.verify(deep=True).findings == ()


def test_on_a_branch_the_others_stay_as_they_are(library):
    library.create_branch("dev")
    wanted = changed("pages: I32?", "pages: I32?  stock: I32 @default(1)")
    library.branch("dev").apply_schema(wanted, mutations=[FILL])
    assert values(library, "Book", "price", "dev") == [1.5] * 6
    assert values(library, "Book", "price") == [None] * 6
    library.mutate('query q() { update Book set { pages: 1 } where slug = "b0" }')
    library.mutate('query q() { update Book set { price: 9.0 } where slug = "b1" }')
    with pytest.raises(MergeConflicts):
        library.merge("dev")
    library.merge("dev", resolve="theirs")
    assert values(library, "Book", "price") == [1.5] * 6
    assert library.verify(deep=True).findings == ()


def test_rows_written_concurrently_are_mutated_too(library, library_place):
    other = omnigraph.open(library_place)
    late = 'query q() { insert Book { slug: "late", title: "Late" } }'
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.mutate(late))
    with watched(meanwhile):
        library.apply_schema(PRICED, mutations=[FILL])
    assert meanwhile.met
    assert values(library, "Book", "price") == [1.5] * 7


def test_one_that_dies_before_it_is_visible_is_finished_or_rolled_back(library, library_place):
    with watched(At("before", "commit", "*__manifest*", stop)), pytest.raises(Stopped):
        library.apply_schema(PRICED, mutations=[FILL])
    again = omnigraph.open(library_place)
    assert again.schema == PRICED
    assert values(again, "Book", "price") == [1.5] * 6
    assert again.verify(deep=True).findings == ()


def run_cli(*arguments: str) -> str:
    command = [sys.executable, "-m", "omnigraph.cli", *arguments]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_runs_them_from_files(library_place, tmp_path):
    (tmp_path / "next.pg").write_text(PRICED)
    (tmp_path / "fill.gq").write_text(FILL)
    given = ["--schema", str(tmp_path / "next.pg"), "--mutation", str(tmp_path / "fill.gq")]
    command = ["schema", "apply", str(library_place), *given]
    tried = run_cli(*command, "--dry-run")
    assert "- run mutation fill: 6 nodes, 0 edges" in tried
    said = json.loads(run_cli(*command, "--json"))
    assert said["mutations"] == [{"query_name": "fill", "affected_nodes": 6, "affected_edges": 0}]
    assert [t["effect"] for t in said["tables"]] == ["rows"]


# --- against one after the other ------------------------------------------------------------------

MUTATIONS = [
    FILL,
    'query q() { update Book set { genre: "poem" } where pages > 250 }',
    "query q() { delete Book where pages = 300 }",
    "query q() { delete Wrote where year < 1953 }",
    'query q() { insert Author { slug: "x", name: "X" } }',
    "query q() { update Author set { born: 1 } where born > 1901 }",
    'query q() { insert Book { slug: "b1", title: "Again", price: 4.0 } }',
]
EDITS = [
    ("price: F32?", "price: F64?"),
    ("born: I32?", "born: I64?  died: I32?"),
    ("pages: I32?", 'size: I32? @rename_from("pages")'),
    (" year: I32? ", " "),
    ("title: String", "title: [String]"),
    ("city: String? @index", "city: String?"),
    ("genre: enum(novel, poem)?", "genre: String?  stock: I32 @default(3)"),
]


def run_both_ways(library, library_place, folder):
    """One graph gets mutations and a schema at once, a copy of it one after the other."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    dice = random.Random(seed)
    shutil.copytree(library_place, folder / "other.omni")
    other = omnigraph.open(folder / "other.omni")
    wanted = SCHEMA
    for old, new in dice.sample(EDITS, dice.randint(1, 4)):
        wanted = changed(old, new, wanted)
    chosen = dice.sample(MUTATIONS, dice.randint(1, 4))
    library.apply_schema(wanted, mutations=chosen)
    for text in chosen:
        other.mutate(text)
    other.apply_schema(wanted)
    assert exported(library) == exported(other)
    here, there = (g._open.views.read_newest("main").snapshot for g in (library, other))
    for key, entry in there.entries.items():
        assert here.table(key).schema.equals(there.table(key).schema), key
        assert here.entries[key].row_count == entry.row_count
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize("_", range(3))
def test_an_apply_with_mutations_gives_what_one_after_the_other_gives(
    library, library_place, tmp_path, _
):
    run_both_ways(library, library_place, tmp_path)


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("_", range(100))
def test_many_applies_with_mutations_give_what_one_after_the_other_gives(
    library, library_place, tmp_path, _
):
    run_both_ways(library, library_place, tmp_path)


# --- policy ---------------------------------------------------------------------------------------

OPERATORS = """
version: 1
groups: {operators: [olga], owners: [owen]}
rules:
  - id: operators
    allow: { actors: { group: operators }, actions: [read, schema_apply] }
  - id: owners
    allow: { actors: { group: owners }, actions: [read, change, schema_apply] }
"""


def test_an_actor_that_may_change_the_schema_and_not_rows_runs_no_mutation(library_place):
    olga = omnigraph.open(library_place, actor="olga", policy=bundle(OPERATORS))
    with pytest.raises(PolicyDenied, match="change"):
        olga.apply_schema(PRICED, mutations=[FILL])
    owen = omnigraph.open(library_place, actor="owen", policy=bundle(OPERATORS))
    assert owen.apply_schema(PRICED, mutations=[FILL]).commit.actor_id == "owen"
