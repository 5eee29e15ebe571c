"""A served graph whose schema another process changes."""

from __future__ import annotations

import threading

import omnigraph
from evolution.library import changed, values
from server.serving import serving

DIED = changed("born: I32?", "born: I32?  died: I32?")
BORN = 'query q() { match { $a: Author  $a.slug = "a1" } return { $a.born } }'
SET = 'query q() { update Author set { born: 3 } where slug = "a1" }'
COUNT = "query q() { match { $a: Author } return { count($a) as n } }"


def test_the_next_request_knows_the_new_schema_or_says_what_is_gone(library, library_place):
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
        stale = server.post(
            "mutate/if-graph-commit", {"query": add}, headers={"Omnigraph-If-Graph-Commit": head}
        )
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
