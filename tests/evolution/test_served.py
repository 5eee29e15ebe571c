"""A served graph whose schema another process changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import omnigraph
from evolution.library import SCHEMA, changed, values
from omnigraph.errors import (
    BadExpression,
    CompileError,
    SchemaChangeBlocked,
    SchemaDropsEverything,
    UnsupportedSchemaChange,
)
from omnigraph.language.source import SourceText
from server.serving import serving

DIED = changed("born: I32?", "born: I32?  died: I32?")
BORN = 'query q() { match { $a: Author  $a.slug = "a1" } return { $a.born } }'
SET = 'query q() { update Author set { born: 3 } where slug = "a1" }'
COUNT = "query q() { match { $a: Author } return { count($a) as n } }"


def test_the_next_request_knows_the_new_schema_or_names_what_was_dropped(library, library_place):
    with serving(library_place, graph="library") as server:
        assert server.post("query", {"query": BORN}).body["rows"] == [{"a.born": 1901}]
        head = server.get("commits").body["commits"][0]["graph_commit_id"]
        library.apply_schema(DIED)
        assert server.get("schema").body["schema_source"] == DIED
        add = 'query q() { insert Author { slug: "n", name: "N", died: 5 } }'
        assert server.post("mutate", {"query": add}).status == 200
        library.apply_schema(changed("born: I32?  ", "", DIED))
        for route, text in (("query", BORN), ("mutate", SET)):
            refused = server.post(route, {"query": text})
            assert refused.status == 400
            (found,) = refused.body["diagnostics"]
            assert "born" in found["message"]
            assert (found["line"], found["column"]) == (1, text.index("born") + 1)
        stale = server.post("mutate", {"query": add}, headers={"Omnigraph-If-Graph-Commit": head})
        assert stale.status == 412
    assert values(library, "Author", "died") == [None] * 4 + [5]


def test_requests_beside_applies_see_one_schema_or_the_other(library, library_place):
    versions = [
        DIED,
        changed("born: I32?", "born: I32?  rank: I64 @default(7)"),
        changed("born: I32?", 'year: I32? @rename_from("born")'),
        DIED.replace("born: I32?", 'born: I32? @rename_from("year")'),
    ]
    done, answers = threading.Event(), []

    def ask(server) -> None:
        number = 0
        while not done.is_set():
            slug = f"s{number}"
            add = f'query q() {{ insert Author {{ slug: "{slug}", name: "N" }} }}'
            answers.append((slug, server.post("mutate", {"query": add})))
            answers.append((None, server.post("query", {"query": BORN})))
            number += 1

    with serving(library_place, graph="library") as server:
        asking = threading.Thread(target=ask, args=(server,))
        asking.start()
        try:
            for wanted in versions:
                omnigraph.open(library_place).apply_schema(wanted)
        finally:
            done.set()
            asking.join()
    wrote = {slug for slug, answer in answers if slug and answer.status == 200}
    refused = [answer for _, answer in answers if answer.status != 200]
    # A property that is not there for a while is a mistake in the query, and nothing else fails.
    assert {answer.status for answer in refused} <= {400}
    assert all("born" in answer.body["diagnostics"][0]["message"] for answer in refused)
    rows = [answer.body["rows"] for slug, answer in answers if not slug and answer.status == 200]
    assert all(found == [{"a.born": 1901}] for found in rows)
    assert set(values(library, "Author", "slug")) == wrote | {f"a{n}" for n in range(4)}
    assert library.schema == versions[-1]
    assert library.verify(deep=True).findings == ()


PRICED = changed("price: F32?", "price: F32")
FILL = "query fill() { update Book set { price: 1.5 } where price is null }"


def test_mutations_go_with_a_schema_through_a_server(library, library_place):
    before = len(library.commits())
    with serving(library_place, graph="library") as server:
        connected = omnigraph.connect(f"http://{server.address}{server.graph}")
        refused = server.post("schema/apply", {"schema_source": PRICED})
        assert (refused.status, refused.body["kind"]) == (400, "constraint_violated")
        assert refused.body["position"] == "<schema>:2:60"
        tried = connected.apply_schema(PRICED, mutations=[FILL], dry_run=True)
        assert (tried.applied, tried.mutations[0].affected_nodes) == (False, 6)
        body = {"schema_source": PRICED, "mutations": [FILL]}
        key = {"Idempotency-Key": "once"}
        answers = [server.post("schema/apply", body, headers=key) for _ in range(2)]
        for answer in answers:
            (ran,) = answer.body["mutations"]
            assert (ran["query_name"], ran["affected_nodes"]) == ("fill", 6)
        assert answers[1].headers["omnigraph-replayed"] == "true"
        lower = "query lower() { update Book set { price: 1.0 } where price > 1.0 }"
        done = connected.apply_schema(
            changed("price: F32", "price: F32  @range(price, 0.0..1.0)", PRICED), mutations=[lower]
        )
        assert [(m.query_name, m.affected_nodes) for m in done.mutations] == [("lower", 6)]
        connected.close()
    assert len(library.commits()) == before + 2
    assert values(library, "Book", "price") == [1.0] * 6


def test_refusals_through_a_server_have_the_names_that_files_have_here(library, library_place):
    first, second = (SourceText(text, name) for text, name in ((FILL, "1.gq"), ("query", "2.gq")))
    library.create_branch("dev")
    cases: list[tuple[str, dict[str, Any], Any, str]] = [
        (changed("born: I32?", "born: Bool?"), {}, UnsupportedSchemaChange, "next.pg:1:48"),
        (changed("born: I32?", "born: I64?"), {}, SchemaChangeBlocked, "next.pg:1:48"),
        (SCHEMA, {"expressions": {"Book.other": "1"}}, BadExpression, "next.pg:2:6"),
        ("", {}, SchemaDropsEverything, "next.pg"),
    ]
    with (
        serving(library_place, graph="library") as server,
        omnigraph.connect(f"http://{server.address}{server.graph}") as connected,
    ):
        for wanted, given, kind, place in cases:
            with pytest.raises(kind) as refused:
                connected.apply_schema(SourceText(wanted, "next.pg"), **given)
            assert refused.value.position == place
            assert place in refused.value.message
            assert str(refused.value) == refused.value.message
        with pytest.raises(CompileError) as wrong:
            connected.apply_schema(SourceText(PRICED, "next.pg"), mutations=[first, second])
    assert [found.source for found in wrong.value.diagnostics] == ["2.gq"]
    assert library.schema == SCHEMA
