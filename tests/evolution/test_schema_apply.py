"""Every kind of step, applied to a graph with rows."""

from __future__ import annotations

import pytest

import omnigraph
from crash.fault_points import At, Stopped, stop, watched
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.errors import (
    CompileError,
    HistoricalVersionReclaimed,
    PreconditionFailed,
    SchemaChangeBlocked,
    TypeNotFound,
    UnsupportedSchemaChange,
)

COUNT = "query q() {{ match {{ $x: {} }} return {{ count($x) as n }} }}"


def count(graph, type_name, branch="main"):
    return graph.query(COUNT.format(type_name), branch=branch).rows[0]["n"]


def data_files(place):
    """The files that hold values."""
    return {path for path in files_below(place) if "/data/" in path and path[0] != "_"}


def path_of(graph, key):
    return graph._open.views.read_newest("main").snapshot.entry(key).path


def test_an_apply_is_one_commit_with_its_steps_and_its_actor(library):
    before = library.commits()
    done = library.apply_schema(changed("born: I32?", "born: I32?  died: I32?"), actor="ada")
    assert done.applied
    assert done.commit == library.commits()[0]
    assert library.commits()[1:] == before
    assert done.commit.actor_id == "ada"
    assert done.commit.details == {"schema": {"steps": ["add property Author.died: I32?"]}}
    assert library.verify(deep=True).findings == ()


def test_the_same_schema_again_changes_nothing(library, library_place):
    files = files_below(library_place)
    done = library.apply_schema(f"// nothing new\n{SCHEMA}")
    assert not done.applied
    assert done.commit is None
    assert done.steps == ()
    assert files_below(library_place) == files


def test_a_property_that_may_be_null_takes_no_file(library, library_place):
    files = data_files(library_place)
    wanted = changed(
        "born: I32?", "born: I32?  died: I32?  tags: [String]?  face: Vector(3)?  photo: Blob?"
    )
    done = library.apply_schema(wanted)
    assert data_files(library_place) == files
    assert [(t.table_key, str(t.effect), t.rows_after) for t in done.tables] == [
        ("node:Author", "metadata", 4)
    ]
    assert values(library, "Author", "died") == [None] * 4
    library.mutate(
        'query q() { insert Author { slug: "z", name: "Z", died: 7, tags: ["x"], '
        "face: [1.0, 2.0, 3.0] } }"
    )
    library.mutate('query q() { update Author set { died: 1 } where slug = "a1" }')
    assert values(library, "Author", "died") == [None, 1, None, None, 7]
    assert values(library, "Author", "tags")[-1] == ["x"]
    assert values(library, "Author", "face")[-1] == [1.0, 2.0, 3.0]


def test_a_property_with_a_default_writes_its_column_and_nothing_else(library, library_place):
    files = data_files(library_place)
    done = library.apply_schema(changed("pages: I32?", "pages: I32?  stock: I64 @default(7)"))
    (added,) = data_files(library_place) - files
    assert added.startswith(path_of(library, "node:Book"))
    assert [(t.table_key, t.written) for t in done.tables] == [("node:Book", ("stock",))]
    assert values(library, "Book", "stock") == [7] * 6
    folder, _, name = added.partition("/data/")
    log = (library_place / folder / "_checksums.log").read_text()
    assert name in log, "a column that is written has a checksum like any other file"


def test_a_type_is_added_with_its_edges_and_takes_rows(library):
    wanted = SCHEMA + "node Shop { name: String @key }\nedge Sells: Shop -> Book\n"
    done = library.apply_schema(wanted)
    assert {(t.table_key, str(t.effect)) for t in done.tables} == {
        ("node:Shop", "created"),
        ("edge:Sells", "created"),
    }
    shop = {"type": "Shop", "data": {"name": "corner"}}
    library.load([shop, {"edge": "Sells", "from": "corner", "to": "b1"}], "append")
    assert count(library, "Shop") == 1
    assert library.verify(deep=True).findings == ()


def test_a_renamed_type_keeps_its_table_its_rows_and_its_edges(library, library_place):
    files, path = data_files(library_place), path_of(library, "node:Author")
    wanted = SCHEMA.replace("node Author", 'node Writer @rename_from("Author")')
    done = library.apply_schema(wanted.replace("Wrote: Author", "Wrote: Writer"))
    assert [step.describe() for step in done.steps] == ["rename node type Author to Writer"]
    assert path_of(library, "node:Writer") == path
    assert data_files(library_place) == files
    assert values(library, "Writer", "born") == [1900, 1901, 1902, 1903]
    hop = 'query q() { match { $w: Writer  $w wrote $b  $w.slug = "a1" } return { $b.slug } }'
    assert {row["b.slug"] for row in library.query(hop).rows} == {"b1", "b4"}
    with pytest.raises(CompileError):
        library.query(COUNT.format("Author"))


def test_a_type_can_take_the_name_that_another_gives_up(library):
    wanted = """\
node Person @rename_from("Author") { slug: String @key  name: String  born: I32? }
node Author { slug: String @key  motto: String? }
node Text @rename_from("Book") { slug: String @key  title: String }
edge Wrote: Person -> Text { year: I32? }
"""
    # A declared name that was accepted before means the same type as before.
    with pytest.raises(CompileError, match="still declared"):
        library.apply_schema(wanted)
    library.apply_schema(wanted.replace("node Author { slug: String @key  motto: String? }\n", ""))
    back = library.schema.replace(
        'node Text @rename_from("Book")', 'node Author @rename_from("Text")'
    )
    back = back.replace('node Person @rename_from("Author")', 'node Book @rename_from("Person")')
    library.apply_schema(back.replace("Person -> Text", "Book -> Author"))
    assert values(library, "Author", "title") == [f"Title {n}" for n in range(6)]
    assert values(library, "Book", "name") == [f"Name {n}" for n in range(4)]


def test_a_renamed_property_keeps_its_values_and_its_index(library, library_place):
    library.optimize()
    files = data_files(library_place)
    library.apply_schema(changed("city: String?", 'town: String? @rename_from("city")'))
    assert data_files(library_place) == files
    assert values(library, "Author", "town") == [None] * 4
    library.apply_schema(
        changed("born: I32?", 'year: I32? @rename_from("born") @index', library.schema)
    )
    library.optimize()
    older = "query q() { match { $a: Author  $a.year > 1901 } return { $a.slug } }"
    assert {row["a.slug"] for row in library.query(older).rows} == {"a2", "a3"}
    assert library.verify(deep=True).findings == ()


def test_a_dropped_property_is_removed_and_its_name_can_be_reused(library):
    old = library.commits()[0].commit_id
    library.apply_schema(changed("born: I32?  ", ""))
    assert "born" not in next(library.export(["Author"]))["data"]
    library.apply_schema(changed("name: String  ", "name: String  born: String?  ", library.schema))
    assert values(library, "Author", "born") == [None] * 4
    library.mutate('query q() { update Author set { born: "spring" } where slug = "a0" }')
    assert values(library, "Author", "born") == ["spring", None, None, None]
    then = library.at(commit=old)
    assert [r["data"]["born"] for r in then.export(["Author"])] == [1900, 1901, 1902, 1903]
    assert "born: I32?" in then.schema


def test_a_column_that_was_written_by_an_apply_can_be_dropped_by_another(library):
    library.apply_schema(changed("pages: I32?", "pages: I32?  stock: I64 @default(7)"))
    library.apply_schema(changed("pages: I32?", "pages: I32?  note: String?"))
    assert library.verify(deep=True).findings == ()
    library.optimize()
    assert values(library, "Book", "note") == [None] * 6


def test_a_dropped_type_is_removed_and_comes_back_as_another(library):
    old = library.commits()[0].commit_id
    done = library.apply_schema(SCHEMA.partition("edge")[0])
    assert [(t.table_key, str(t.effect), t.rows_before, t.rows_after) for t in done.tables] == [
        ("edge:Wrote", "dropped", 6, 0)
    ]
    with pytest.raises((CompileError, TypeNotFound)):
        list(library.export(["Wrote"]))
    library.apply_schema(SCHEMA)
    assert list(library.export(["Wrote"])) == []
    assert len(list(library.at(commit=old).export(["Wrote"]))) == 6
    assert library.verify(deep=True).findings == ()


def test_a_hard_drop_leaves_no_byte_and_no_older_state(library, library_place):
    library.load(
        [{"type": "Author", "data": {"slug": "s", "name": "N", "city": "HIDDEN-TOWN"}}], "append"
    )
    library.optimize()
    old = library.commits()[0].commit_id

    def kept():
        return [path for path, text in files_below(library_place).items() if b"HIDDEN" in text]

    assert kept()
    library.apply_schema(changed("  city: String? @index", ""), allow_data_loss=True)
    assert kept() == []
    with pytest.raises(HistoricalVersionReclaimed):
        library.at(commit=old).export(["Author"])
    assert count(library, "Author") == 5
    assert library.verify(deep=True).findings == ()


def test_a_hard_drop_of_a_type_removes_its_table(library, library_place):
    path = library_place / path_of(library, "edge:Wrote")
    library.apply_schema(SCHEMA.partition("edge")[0], allow_data_loss=True)
    assert not path.exists()
    assert count(library, "Book") == 6


def test_a_hard_drop_is_refused_while_a_tag_keeps_an_older_state(library):
    library.tag("first")
    with pytest.raises(SchemaChangeBlocked, match="tag 'first'") as refused:
        library.apply_schema(changed("born: I32?  ", ""), allow_data_loss=True)
    assert refused.value.tags == ("first",)
    assert library.apply_schema(changed("born: I32?  ", "")).applied


def test_an_interrupted_hard_drop_is_finished_by_applying_the_same_schema_again(
    library, library_place
):
    wanted = SCHEMA.partition("edge")[0]
    path = library_place / path_of(library, "edge:Wrote")
    with watched(At("before", "remove_versions", "*", stop)), pytest.raises(Stopped):
        library.apply_schema(wanted, allow_data_loss=True)
    assert path.exists()
    assert library.schema == wanted
    assert not library.apply_schema(wanted, allow_data_loss=True).applied
    assert not path.exists()


def test_prose_indexes_and_enum_members_move_no_table(library, library_place):
    snapshot = library._open.views.read_newest("main").snapshot
    wanted = SCHEMA.replace("enum(novel, poem)", "enum(novel, poem, play)")
    wanted = wanted.replace("pages: I32?", "pages: I32? @index")
    wanted = wanted.replace("node Book", 'node Book @description("printed")')
    done = library.apply_schema(wanted)
    assert done.tables == ()
    assert library._open.views.read_newest("main").snapshot.entries == snapshot.entries
    library.mutate('query q() { insert Book { slug: "p", title: "P", genre: "play" } }')
    assert count(library, "Book") == 7
    library.optimize()
    assert library.verify(deep=True).findings == ()


def test_an_unsupported_change_names_its_position_and_leaves_every_byte(library, library_place):
    files = files_below(library_place)
    with pytest.raises(UnsupportedSchemaChange) as refused:
        library.apply_schema(changed("Author -> Book", "Book -> Author"))
    assert refused.value.entity == "edge:Wrote"
    assert refused.value.position == "<schema>:3:6"
    assert files_below(library_place) == files


def test_a_dry_run_says_what_would_be_done_and_does_nothing(library_place):
    graph = omnigraph.open(library_place, read_only=True)
    files = files_below(library_place)
    done = graph.apply_schema(changed("born: I32?", "born: I64?"), dry_run=True)
    assert not done.applied
    assert done.dry_run
    assert [t.written for t in done.tables] == [("born",)]
    assert files_below(library_place) == files


def test_an_apply_for_another_head_is_refused(library):
    head = library.commits()[0].commit_id
    library.mutate('query q() { insert Author { slug: "n", name: "N" } }')
    with pytest.raises(PreconditionFailed):
        library.apply_schema(changed("born: I32?  ", ""), expected_head=head)


def test_the_schema_files_repeat_what_was_applied(library, library_place):
    wanted = changed("born: I32?", "born: I32?  died: I32?")
    library.apply_schema(wanted)
    assert (library_place / "_schema.pg").read_text() == wanted
