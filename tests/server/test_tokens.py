"""Bearer tokens: their actors, and that none is stored or shown."""

import datetime
import hashlib
import json

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.tokens import Tokens, load_tokens
from omnigraph.settings import ServerSettings
from server.serving import ADD, serving

NOW = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"


def load(listed: object = None, **given: str) -> Tokens:
    environment = {} if listed is None else {TOKENS: json.dumps(listed)}
    return load_tokens(ServerSettings.from_environment({**environment, **given}))


def test_an_actor_may_have_several_tokens_and_one_of_them_may_expire() -> None:
    later, earlier = "2026-11-17T00:00:00Z", "2026-11-15T00:00:00Z"
    tokens = load(
        {
            "maria": ["a", {"token": "b", "expires": later}, {"token": "c", "expires": earlier}],
            " bot ": {"sha256": hashlib.sha256(b"d").hexdigest()},
        }
    )
    found = [tokens.find_actor(token, NOW) for token in ("a", "b", "c", "d", "e", " a ")]
    assert found == ["maria", "maria", None, "bot", None, "maria"]
    assert tokens.actors == {"maria", "bot"}


def test_a_single_token_is_added_to_the_others() -> None:
    tokens = load({"maria": "a"}, OMNIGRAPH_SERVER_BEARER_TOKEN="z")
    assert tokens.find_actor("z", NOW) == "default"
    assert tokens.find_actor("a", NOW) == "maria"


def test_no_token_is_stored() -> None:
    assert "hush" not in repr(load({"maria": "hush"}))


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ({"": "hush"}, "actor is blank"),
        ({"two\nlines": "hush"}, "control character"),
        ({"maria": " "}, "blank"),
        ({"maria": "hush", "bot": "hush"}, "the same token"),
        ({"maria": ["hush", "hush"]}, "twice"),
        ({"maria": 7}, "a string, or an object"),
        ({"maria": {"token": "hush", "sha256": "0" * 64}}, "not both"),
        ({"maria": {"sha256": "hush"}}, "64 hexadecimal"),
        ({"maria": {"token": "hush", "expires": "tomorrow"}}, "expires"),
        ({"maria": {"token": "hush", "expires": "2027-01-01T00:00:00"}}, "expires"),
        ({"maria": {"token": "hush", "until": "x"}}, "a string, or an object"),
        (["hush"], "by actor"),
    ],
)
def test_an_unusable_list_of_tokens_is_refused_without_repeating_it(listed, said) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        load(listed)
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({TOKENS: '{"a": "hush", "a": "x"}'}, "duplicate"),
        ({TOKENS: "{hush"}, "invalid JSON"),
        ({"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "there/is/none"}, "cannot read"),
        ({"OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET": "arn"}, "AWS"),
    ],
)
def test_sources_that_cannot_be_read_are_refused(given, said) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        load(**given)
    assert "hush" not in caught.value.message


def test_the_wire_distinguishes_a_missing_token_from_an_invalid_one_and_nothing_else(
    people,
) -> None:
    with serving(people, flags=(), **{TOKENS: '{"maria": "hush"}'}) as server:
        for headers, said in (
            ({}, "missing bearer token"),
            ({"Authorization": "Basic aHVzaA=="}, "missing bearer token"),
            ({"Authorization": "Bearer"}, "missing bearer token"),
            ({"Authorization": "Bearer wrong"}, "invalid bearer token"),
        ):
            for path in ("schema", "/graphs/nosuch/schema", "/graphs"):
                answer = server.get(path, headers=headers)
                assert answer.status == 401
                assert answer.body["error"] == said
                assert answer.body["code"] == "unauthorized"
                assert answer.headers["www-authenticate"] == "Bearer"
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert server.get("schema", headers={"Authorization": f"{scheme} hush"}).status == 200
        assert server.get("/graphs/nosuch/schema", token="hush").status == 404
        assert "hush" not in server.log


def test_with_tokens_and_no_policy_only_reading_is_allowed(people) -> None:
    with serving(people, flags=(), token="hush", **{TOKENS: '{"maria": "hush"}'}) as server:
        assert server.get("commits").status == 200
        for answer in (
            server.post("mutate", {"query": ADD, "params": {"name": "Cy"}}),
            server.post("export"),
            server.post("schema/apply", {"schema_source": "node A { k: String @key }"}),
            server.post("branches", {"name": "x"}),
            server.ask("DELETE", "branches/x"),
            server.post("branches/merge", {"source": "x"}),
            server.post("load", {"data": ""}),
            server.get("/graphs"),
        ):
            assert answer.status == 403
            assert answer.body["code"] == "forbidden"
            assert "policy denied action" in answer.body["error"]
        assert len(server.get("commits").body["commits"]) == 2
