"""The small graph the crash tests break, and the operations they interrupt.

Shared by the tests and by the child processes that are killed, so that both mean the same by a
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lance_maintenance import compact
from omnigraph import Graph
from omnigraph.storage.tables.manifest_table import RECENT_LINEAGE, SMALL_FRAGMENTS
from store_places import Place, init_graph

SCHEMA = """
node Person { slug: String @key  name: String  age: I32?  tags: [String]? }
node City { slug: String @key  name: String  seal: Blob? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""

MORE_COLUMNS = """
node Person { slug: String @key  name: String  age: I64?  labels: [String]? @rename_from("tags")
  nick: String?  rank: I32 @default(1)  size: I32 @default(0) @index }
node City { slug: String @key  name: String  seal: Blob? }
edge Knows: Person -> Person { year: I32? @rename_from("since")  weight: F64 @default(1.5) }
edge LivesIn: Person -> City @card(0..1)
"""
MORE_TYPES = f"""{SCHEMA}
interface Titled {{ title: String? }}
node Club implements Titled {{ slug: String @key  founded: Date? }}
node Guild {{ slug: String @key }}
edge MemberOf: Person -> Club {{ since: I32? }}
"""
OTHER_TYPES = f"""{SCHEMA}
interface Titled {{ title: String? }}
node Team @rename_from("Club") implements Titled {{ slug: String @key  size: I32 @default(11) }}
edge PlaysFor: Person -> Team @rename_from("MemberOf") {{ since: I32? }}
"""
DESCRIBED = SCHEMA.replace("node City", 'node City @description("where people live")')

TYPES = ("Person", "City", "Knows", "LivesIn")


def person(slug: str, age: int | None = None) -> dict[str, object]:
    return {"type": "Person", "data": {"slug": slug, "name": slug.title(), "age": age}}


def city(slug: str) -> dict[str, object]:
    return {"type": "City", "data": {"slug": slug, "name": slug.title(), "seal": "base64:aGk="}}


def knows(source: str, target: str, since: int | None = None) -> dict[str, object]:
    return {"edge": "Knows", "from": source, "to": target, "data": {"since": since}}


def lives_in(source: str, target: str) -> dict[str, object]:
    return {"edge": "LivesIn", "from": source, "to": target, "data": {}}


BASE = [
    *(person(slug, age) for slug, age in (("ada", 30), ("ben", 40), ("cy", None), ("dee", 30))),
    *(city(slug) for slug in ("oslo", "rome")),
    knows("ada", "ben", 2001),
    knows("ben", "ada", 2002),
    knows("cy", "dee"),
    lives_in("ada", "oslo"),
    lives_in("ben", "oslo"),
    lives_in("dee", "rome"),
]
MORE = [person("eve"), person("fay"), city("lima"), knows("eve", "ada"), lives_in("fay", "lima")]
CHANGED = [person("ada", 31), person("gus"), city("rome"), knows("gus", "ada")]
REPLACED = [person(slug) for slug in ("ada", "ben", "cy", "dee", "hal")] + [knows("hal", "ada")]


def create(place: Place) -> Graph:
    """A fresh graph with the base rows."""
    graph = init_graph(place, SCHEMA, actor="maker")
    graph.load(BASE, "append")
    return graph


def run(graph: Graph, statements: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statements} }}", branch=branch)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation to interrupt, and its preparation."""

    run: Callable[[Graph], object]
    prepare: Callable[[Graph], object]
    is_prepared_once: bool = False
    """Preparing takes long and makes no branch, so that its result can be copied."""


def _nothing(graph: Graph) -> None:
    """The base rows will do."""


def _with_branch(graph: Graph) -> None:
    graph.create_branch("dev")


def _with_written_branch(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.load([person("eve"), city("lima")], "append", branch="dev")


def _with_later_commits(graph: Graph) -> None:
    graph.load([person("zed")], "append")
    run(graph, 'update Person set {age: 77} where slug = "ada"')


def _with_a_long_history(graph: Graph) -> None:
    """Make enough commits that the next one moves history to a file and compacts it."""
    for number in range(SMALL_FRAGMENTS * (RECENT_LINEAGE + 1)):
        ledger = graph._open.views.read_newest("main").snapshot.manifest.table_state
        pieces = len(ledger.table.fragments())
        if pieces == SMALL_FRAGMENTS + 1 and ledger.recent.num_rows == RECENT_LINEAGE:
            return
        run(graph, f'update Person set {{age: {100 + number}}} where slug = "cy"')
    raise AssertionError("the history was merged too early")


def _with_many_small_writes(graph: Graph) -> None:
    """Make enough commits that the next one compacts their fragments."""
    for number in range(graph.settings.fold_after):
        entry = graph._open.views.read_newest("main").snapshot.entry("node:Person")
        if (entry.version + 1) % graph.settings.fold_after == 0:
            return
        run(graph, f'insert Person {{slug: "p{number}", name: "P"}}')
    raise AssertionError("every version was passed")


def _with_fragments(graph: Graph) -> None:
    """Make enough small writes that an optimize compacts every table."""
    _write_a_little(graph, "main")


def _with_fragments_on_a_branch(graph: Graph) -> None:
    graph.optimize()
    graph.create_branch("dev")
    _write_a_little(graph, "dev")


def _with_old_versions(graph: Graph) -> None:
    """Removable commits on two branches, and a deleted branch with its forks."""
    _with_fragments_on_a_branch(graph)
    graph.create_branch("lost")
    graph.load([person("zoe"), city("baku")], "append", branch="lost")
    graph.delete_branch("lost")


def _with_foreign_compaction(graph: Graph) -> None:
    """Tables compacted by a foreign writer."""
    _with_fragments(graph)
    snapshot = graph._open.views.read_newest("main").snapshot
    for entry in snapshot.entries.values():
        compact(snapshot.open_entry(entry))


def _write_a_little(graph: Graph, branch: str) -> None:
    for number in range(3):
        more = [person(f"p{number}"), city(f"c{number}"), knows("ada", f"p{number}")]
        graph.load([*more, lives_in(f"p{number}", f"c{number}")], "append", branch=branch)
    run(graph, 'update Person set {age: 61} where slug = "p1"', branch)
    run(graph, 'delete Person where slug = "p2"', branch)


def _with_a_branch_to_merge(graph: Graph) -> None:
    """A branch that is ahead of main, in some tables."""
    graph.create_branch("dev")
    graph.load(MORE, "append", branch="dev")
    run(graph, 'delete Person where slug = "ben"', "dev")


def _with_another_branch(graph: Graph) -> None:
    _with_a_branch_to_merge(graph)
    graph.create_branch("other")


def _with_two_sides(graph: Graph) -> None:
    """A branch and main, each with changes of its own."""
    _with_a_branch_to_merge(graph)
    run(graph, 'update Person set {age: 77} where slug = "ada"')
    graph.load([person("zed"), lives_in("zed", "rome")], "append")


def _with_two_branches(graph: Graph) -> None:
    """Two branches that changed the same table, and only one of them the others."""
    _with_another_branch(graph)
    graph.load([person("zed")], "append", branch="other")


def _with_more_types(graph: Graph) -> None:
    """Types that can be renamed and dropped, with rows."""
    graph.apply_schema(MORE_TYPES)
    rows = [{"type": "Club", "data": {"slug": "chess"}}, {"type": "Guild", "data": {"slug": "g"}}]
    graph.load([*rows, {"edge": "MemberOf", "from": "ada", "to": "chess"}], "append")


def _newest_but(graph: Graph, number: int, branch: str = "main") -> str:
    return graph.commits(branch)[number].commit_id


def _with_a_mistake(graph: Graph) -> None:
    """A commit of every table, and one that came after it."""
    graph.load(MORE, "append")
    run(graph, 'update Person set {age: 77} where slug = "ada"')


def _with_a_mistake_before_a_branch(graph: Graph) -> None:
    _with_a_mistake(graph)
    graph.create_branch("dev")


def _with_a_mistake_on_a_branch(graph: Graph) -> None:
    _with_a_mistake_before_a_branch(graph)
    run(graph, 'delete Person where slug = "ben"', "dev")


def _with_a_tag(graph: Graph) -> None:
    graph.tag("v1")


def _create_from_commit(graph: Graph) -> None:
    graph.create_branch("past", commit=graph.commits()[-2].commit_id)


def _with_branch_of_the_past(graph: Graph) -> None:
    _with_later_commits(graph)
    _create_from_commit(graph)


WRITES: Mapping[str, Operation] = {
    "insert_node": Operation(
        lambda g: run(g, 'insert Person {slug: "eve", name: "Eve"}'), _nothing
    ),
    "insert_node_and_edge": Operation(
        lambda g: run(
            g,
            'insert Person {slug: "eve", name: "Eve"} insert Knows {from: "eve", to: "ada"}',
        ),
        _nothing,
    ),
    "update": Operation(lambda g: run(g, "update Person set {age: 99} where age = 30"), _nothing),
    "insert_that_merges_the_history": Operation(
        lambda g: run(g, 'insert Person {slug: "eve", name: "Eve"}'),
        _with_a_long_history,
        is_prepared_once=True,
    ),
    "insert_that_merges_small_fragments": Operation(
        lambda g: run(g, 'insert Person {slug: "eve", name: "Eve"}'),
        _with_many_small_writes,
        is_prepared_once=True,
    ),
    "upsert": Operation(lambda g: run(g, 'merge Person {slug: "ada", name: "Ada L"}'), _nothing),
    "delete_with_cascade": Operation(
        lambda g: run(g, 'delete Person where slug = "ada"'), _nothing
    ),
    "load_append": Operation(lambda g: g.load(MORE, "append"), _nothing),
    "load_merge": Operation(lambda g: g.load(CHANGED, "merge"), _nothing),
    "load_overwrite": Operation(lambda g: g.load(REPLACED, "overwrite"), _nothing),
    "first_write_on_a_branch": Operation(
        lambda g: run(g, 'insert Person {slug: "eve", name: "Eve"}', "dev"), _with_branch
    ),
    "first_write_of_many_tables_on_a_branch": Operation(
        lambda g: g.load(MORE, "append", branch="dev"), _with_branch
    ),
    "delete_on_a_branch": Operation(
        lambda g: run(g, 'delete Person where slug = "ada"', "dev"), _with_written_branch
    ),
    "first_write_on_a_branch_of_the_past": Operation(
        lambda g: run(g, "update Person set {age: 99} where age = 30", "past"),
        _with_branch_of_the_past,
    ),
    "create_branch": Operation(lambda g: g.create_branch("dev"), _nothing),
    "create_branch_from_branch": Operation(
        lambda g: g.create_branch("sub", source="dev"), _with_written_branch
    ),
    "create_branch_from_commit": Operation(_create_from_commit, _with_later_commits),
    "delete_branch": Operation(lambda g: g.delete_branch("dev"), _with_written_branch),
    "delete_untouched_branch": Operation(lambda g: g.delete_branch("dev"), _with_branch),
    "merge_fast_forward": Operation(lambda g: g.merge("dev"), _with_a_branch_to_merge),
    "merge_adopting_tables": Operation(lambda g: g.merge("dev", "other"), _with_another_branch),
    "merge_three_ways": Operation(lambda g: g.merge("dev"), _with_two_sides),
    "merge_three_ways_into_a_branch": Operation(
        lambda g: g.merge("dev", "other"), _with_two_branches
    ),
    "merge_main_into_a_branch": Operation(lambda g: g.merge("main", "dev"), _with_two_sides),
    "apply_metadata": Operation(lambda g: g.apply_schema(DESCRIBED), _nothing),
    "apply_columns": Operation(lambda g: g.apply_schema(MORE_COLUMNS), _with_fragments),
    "apply_new_types": Operation(lambda g: g.apply_schema(MORE_TYPES), _nothing),
    "apply_renames_and_drops": Operation(lambda g: g.apply_schema(OTHER_TYPES), _with_more_types),
    "apply_on_a_branch": Operation(
        lambda g: g.apply_schema(
            MORE_TYPES.replace("age: I32?", "age: I32?  x: I32 @default(3)"), branch="dev"
        ),
        _with_written_branch,
    ),
    "apply_with_mutations": Operation(
        lambda g: g.apply_schema(
            MORE_COLUMNS,
            mutations=[
                "query fill() { update Person set {age: 1} where age is null }",
                'query drop() { delete City where slug = "rome" }',
            ],
        ),
        _with_fragments,
    ),
    "create_tag": Operation(lambda g: g.tag("v1"), _nothing),
    "delete_tag": Operation(lambda g: g.delete_tag("v1"), _with_a_tag),
    "revert": Operation(lambda g: g.revert(_newest_but(g, 1)), _with_a_mistake),
    "revert_on_a_branch": Operation(
        lambda g: g.revert(_newest_but(g, 1), branch="dev"), _with_a_mistake_before_a_branch
    ),
    "cherry_pick": Operation(
        lambda g: g.cherry_pick(_newest_but(g, 0, "dev")), _with_a_mistake_on_a_branch
    ),
    "cherry_pick_adopting_tables": Operation(
        lambda g: g.cherry_pick(_newest_but(g, 0, "dev"), branch="other"), _with_another_branch
    ),
    "restore": Operation(lambda g: g.restore(_newest_but(g, 2)), _with_a_mistake),
    "restore_adopting_tables": Operation(
        lambda g: g.restore(_newest_but(g, 2), branch="dev"), _with_a_mistake_before_a_branch
    ),
    "restore_a_written_branch": Operation(
        lambda g: g.restore(_newest_but(g, 2), branch="dev"), _with_a_mistake_on_a_branch
    ),
    "optimize": Operation(lambda g: g.optimize(), _with_fragments),
    "optimize_a_branch": Operation(lambda g: g.optimize(branch="dev"), _with_fragments_on_a_branch),
    "ensure_indices": Operation(lambda g: g.ensure_indices(), _with_fragments),
}
"""Operations that end in one visible step: before it the graph is the old one, after it the new."""

LOAD_INTO_NEW_BRANCH = "load_into_new_branch"
CLEANUP = "cleanup"
REPAIR = "repair"
DELETE_MEANWHILE = "delete_branch_meanwhile"
"""By a process that opened the graph before, and so has recovered no later write."""
OPERATIONS: Mapping[str, Operation] = WRITES | {
    # Two visible steps: the branch, then its rows.
    LOAD_INTO_NEW_BRANCH: Operation(
        lambda g: g.load(MORE, "append", branch="dev", base="main"), _nothing
    ),
    # Nothing visible at all: only unreachable files are removed.
    CLEANUP: Operation(lambda g: g.cleanup(keep=1, confirm=True), _with_old_versions),
    REPAIR: Operation(lambda g: g.repair(confirm=True), _with_foreign_compaction),
    DELETE_MEANWHILE: Operation(lambda g: g.delete_branch("dev"), _with_written_branch),
}

CLUSTER_APPLY = "cluster_apply"
"""Applying the configuration of a cluster; `tests/cluster` has what is checked after it."""
INIT = "init"
OPEN = "open"
"""Opening for writing, which recovers every pending write."""
