"""An apply beside open handles, branches and other processes."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

import omnigraph
from crash.fault_points import At, watched
from evolution.beside import APPLIES, run_apart, started
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.errors import (
    CompileError,
    ReadSetChanged,
    RowsRejected,
    SchemaChangeBlocked,
)

DIED = changed("born: I32?", "born: I32?  died: I32?")
COUNT = "query q() { match { $a: Author } return { count($a) as n } }"


# --- open handles ---------------------------------------------------------------------------------


def test_an_open_handle_reads_and_writes_under_the_schema_another_process_applied(
    library, library_place
):
    assert library.query(COUNT).rows == [{"n": 4}]
    assert run_apart(APPLIES, library_place, DIED).strip() == "True"
    asked = 'query q() { match { $a: Author  $a.slug = "a1" } return { $a.died } }'
    assert library.query(asked).rows == [{"a.died": None}]
    library.mutate('query q() { update Author set { died: 3 } where slug = "a1" }')
    assert library.query(asked).rows == [{"a.died": 3}]
    assert library.schema == DIED


def test_a_read_of_an_outdated_handle_raises_a_typed_error(library, library_place):
    run_apart(APPLIES, library_place, changed("born: I32?  ", ""))
    with pytest.raises(CompileError, match="born"):
        library.mutate('query q() { update Author set { born: 3 } where slug = "a1" }')
    with pytest.raises(RowsRejected, match="born"):
        library.load([{"type": "Author", "data": {"slug": "n", "name": "N", "born": 1}}], "append")


def test_a_view_of_an_earlier_commit_keeps_its_schema(library, library_place):
    pinned = library.at()
    run_apart(APPLIES, library_place, changed("born: I32?  ", ""))
    asked = 'query q() { match { $a: Author  $a.slug = "a1" } return { $a.born } }'
    assert pinned.query(asked).rows == [{"a.born": 1901}]
    with pytest.raises(CompileError):
        library.query(asked)


def test_a_write_prepared_under_the_old_schema_is_prepared_again(library, library_place):
    other = omnigraph.open(library_place)
    # Right before the rows are written to files: the fence is free until they are.
    applied = At("before", "write_fragments", "*/nodes/*", lambda: other.apply_schema(DIED))
    with watched(applied):
        library.mutate('query q() { insert Author { slug: "n", name: "N" } }')
    assert applied.met
    assert values(library, "Author", "died") == [None] * 5
    assert library.verify(deep=True).findings == ()


def test_of_two_applies_at_once_the_second_is_refused_and_not_planned_again(library, library_place):
    other = omnigraph.open(library_place)
    wanted = changed("pages: I32?", "pages: I32?  stock: I32 @default(1)")
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.apply_schema(DIED))
    with watched(meanwhile), pytest.raises(ReadSetChanged) as refused:
        library.apply_schema(wanted)
    assert refused.value.member == "schema_contract"
    assert library.schema == DIED
    assert library.verify(deep=True).findings == ()


def test_rows_that_come_while_a_column_is_written_get_their_values_too(library, library_place):
    other = omnigraph.open(library_place)
    insert = 'query q() { insert Book { slug: "late", title: "Late" } }'
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.mutate(insert))
    with watched(meanwhile):
        library.apply_schema(changed("pages: I32?", "pages: I32?  stock: I32 @default(1)"))
    assert values(library, "Book", "stock") == [1] * 7


# --- branches -------------------------------------------------------------------------------------


def test_additions_leave_other_branches_as_they_are(library):
    library.create_branch("dev")
    library.apply_schema(DIED)
    assert library.branch("dev").schema == SCHEMA
    library.mutate('query q() { insert Author { slug: "d", name: "D" } }', branch="dev")
    assert len(values(library, "Author", "born", "dev")) == 5
    assert values(library, "Author", "died") == [None] * 4


def test_a_branch_can_have_additions_of_its_own(library):
    library.create_branch("dev")
    wanted = DIED + "node Shop { name: String @key }\n"
    library.branch("dev").apply_schema(wanted)
    library.load([{"type": "Shop", "data": {"name": "s"}}], "append", branch="dev")
    library.mutate('query q() { update Author set { died: 1 } where slug = "a0" }', branch="dev")
    assert values(library, "Author", "died", "dev") == [1, None, None, None]
    assert library.schema == SCHEMA
    library.apply_schema(SCHEMA + "node Fair { name: String @key }\n")
    library.load([{"type": "Fair", "data": {"name": "f"}}], "append")
    here, there = library.catalog.nodes["Fair"], library.branch("dev").catalog.nodes["Shop"]
    assert here.identity != there.identity
    assert library.verify(deep=True).findings == ()
    library.cleanup(keep=1, confirm=True)
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize(
    "wanted",
    [
        changed("born: I32?  ", ""),
        changed("born: I32?", 'year: I32? @rename_from("born")'),
        changed("born: I32?", "born: I64?"),
        changed("title: String", "title: String @unique"),
    ],
)
def test_other_changes_name_the_branches_in_the_way(library, library_place, wanted):
    library.create_branch("dev")
    library.create_branch("deep", source="dev")
    files = files_below(library_place)
    with pytest.raises(SchemaChangeBlocked) as refused:
        library.apply_schema(wanted)
    assert refused.value.branches == ("deep", "dev")
    assert len(refused.value.steps) == 1
    assert files_below(library_place) == files


def test_a_branch_created_concurrently_is_a_conflict(library, library_place):
    other = omnigraph.open(library_place)
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.create_branch("dev"))
    with watched(meanwhile), pytest.raises(SchemaChangeBlocked, match="'dev'"):
        library.apply_schema(changed("pages: I32?", "pages: I64?"))
    assert library.schema == SCHEMA


# --- other processes ------------------------------------------------------------------------------

WRITER = """
import json, sys, omnigraph
from omnigraph.errors import OmniError
graph, name = omnigraph.open(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    slug = f"{name}-{number}"
    try:
        graph.mutate(f'query q() {{ insert Author {{ slug: "{slug}", name: "N" }} }}')
        print(json.dumps({"wrote": slug}), flush=True)
    except OmniError as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
    graph.query("query q() { match { $a: Author } return { count($a) as n } }").rows
"""
MAINTAINER = """
import sys, omnigraph
graph = omnigraph.open(sys.argv[1])
for _ in range(int(sys.argv[2])):
    graph.optimize()
    graph.cleanup(keep=20, confirm=True)
"""


def test_writers_readers_and_maintenance_continue_while_the_schema_changes(library, library_place):
    versions = [
        DIED,
        changed("died: I32?", "died: I64?  rank: I32 @default(1)", DIED),
        changed("born: I32?  died: I32?", 'year: I32? @rename_from("born")', DIED),
        SCHEMA + "node Shop { name: String @key }\n",
    ]
    with ExitStack() as stack:
        running = [
            stack.enter_context(started(WRITER, library_place, f"w{n}", 25)) for n in range(2)
        ]
        running.append(stack.enter_context(started(MAINTAINER, library_place, 2)))
        for wanted in versions:
            library.apply_schema(wanted)
        said = [process.communicate(timeout=600)[0] for process in running]
    assert all(process.returncode == 0 for process in running), said
    events = [json.loads(line) for text in said for line in text.splitlines()]
    assert [e for e in events if "error" in e] == []
    wrote = {e["wrote"] for e in events}
    slugs = set(values(library, "Author", "slug"))
    assert slugs == wrote | {f"a{n}" for n in range(4)}
    assert library.schema == versions[-1]
    assert library.verify(deep=True).findings == ()
    schemas = {library.at(commit=c.commit_id).schema for c in library.commits()[:5]}
    assert schemas <= {SCHEMA, *versions}
