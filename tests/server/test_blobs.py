"""Blobs: conditions, ranges and writing."""

import pytest

from server.serving import ADD

ADA = "blob?entity=node&type=Person&id=Ada&property=photo"
BEN = ADA.replace("Ada", "Ben")
OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def etag(shared) -> str:
    return shared.ask("HEAD", ADA).headers["etag"]


def test_a_blob_is_sent_with_what_is_known_of_it(shared, etag) -> None:
    whole, head = shared.get(ADA), shared.ask("HEAD", ADA)
    assert (whole.status, whole.data, head.status, head.data) == (200, b"pixels", 200, b"")
    for answer in (whole, head):
        assert answer.headers["content-length"] == "6"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["accept-ranges"] == "bytes"
        assert answer.headers["etag"] == etag
        assert answer.headers["omnigraph-snapshot-id"]
    at = whole.headers["omnigraph-snapshot-id"]
    assert shared.get(f"{ADA}&snapshot={at}").data == b"pixels"


@pytest.mark.parametrize(
    ("text", "status", "data"),
    [
        ("bytes=0-1", 206, b"pi"),
        ("BYTES=2-", 206, b"xels"),
        ("bytes=-2", 206, b"ls"),
        ("bytes=-99", 206, b"pixels"),
        ("bytes=4-99", 206, b"ls"),
        ("bytes=5-5", 206, b"s"),
        ("bytes=6-", 416, None),
        ("bytes=6-9", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=3-2", 200, b"pixels"),
        ("bytes=0-1,3-4", 200, b"pixels"),
        ("bytes=-", 200, b"pixels"),
        ("bytes=a-b", 200, b"pixels"),
        ("lines=0-1", 200, b"pixels"),
        ("", 200, b"pixels"),
    ],
)
def test_ranges(shared, text, status, data) -> None:
    answer = shared.get(ADA, headers={"Range": text})
    assert answer.status == status
    if status == 416:
        assert answer.headers["content-range"] == "bytes */6"
        assert answer.body["blob_range"]["length"] == 6
    else:
        assert answer.data == data
        assert ("content-range" in answer.headers) == (status == 206)


def test_conditions(shared, etag) -> None:
    def status(method: str = "GET", **headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return shared.ask(method, ADA, headers=given).status

    other = '"0"'
    assert status(If_Match=etag) == 200
    assert status(If_Match=f"{other}, {etag}") == 200
    assert status(If_Match="*") == 200
    for bad in (other, f"W/{etag}", "nonsense", f"{etag},"):
        answer = shared.get(ADA, headers={"If-Match": bad})
        assert (answer.status, answer.headers["etag"]) == (412, etag)
        assert answer.body["code"] == "conflict"
    assert status(If_None_Match=etag) == 304
    assert status("HEAD", If_None_Match=f"W/{etag}") == 304
    assert status(If_None_Match="*") == 304
    for ignored in (other, "nonsense"):
        assert status(If_None_Match=ignored) == 200
    assert shared.get(ADA, headers={"If-None-Match": etag}).headers["content-length"] == "6"
    assert status("HEAD", Range="bytes=0-1") == 200
    assert status(Range="bytes=0-1", If_Range=etag) == 206
    assert status(Range="bytes=0-1", If_Range=other) == 200
    assert status(Range="bytes=0-1", If_Range=f"W/{etag}") == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (BEN, 404),
        (ADA.replace("Ada", "nobody"), 404),
        (ADA.replace("photo", "age"), 400),
        (ADA.replace("photo", "nosuch"), 400),
        (ADA.replace("Person", "Nosuch"), 400),
        (ADA.replace("node", "thing"), 400),
        (ADA.replace("&property=photo", ""), 400),
        (f"{ADA}&branch=main&snapshot=x", 400),
        (f"{ADA}&branch=nosuch", 404),
        (f"{ADA}&what=x", 400),
    ],
)
def test_a_request_of_no_blob(shared, path, status) -> None:
    answer = shared.get(path)
    assert (answer.status, "error" in answer.body) == (status, True)
    assert shared.ask("HEAD", path).status == status


def test_a_blob_is_written_only_over_the_value_that_was_read(server) -> None:
    before = server.ask("HEAD", ADA).headers["etag"]
    put = server.ask("PUT", ADA, b"first", headers={**OCTETS, "If-Match": before})
    assert put.status == 200
    assert put.body["blob"]["size"] == 5
    assert server.get(ADA).data == b"first"
    assert server.get(ADA).headers["etag"] == put.body["blob"]["etag"]
    stale = server.ask("PUT", ADA, b"second", headers={**OCTETS, "If-Match": before})
    assert (stale.status, stale.headers["etag"]) == (412, put.body["blob"]["etag"])
    assert server.get(ADA).data == b"first"
    assert server.ask("PUT", BEN, b"new", headers={**OCTETS, "If-Match": "*"}).status == 412
    assert server.ask("PUT", BEN, b"new", headers={**OCTETS, "If-None-Match": "*"}).status == 200
    assert server.ask("PUT", BEN, b"newer", headers={**OCTETS, "If-None-Match": "*"}).status == 412
    assert server.get(BEN).data == b"new"
    assert server.ask("PUT", ADA, b"", headers=OCTETS).status == 200
    assert server.get(ADA).data == b""
    assert server.get(ADA, headers={"Range": "bytes=0-"}).status == 416
    key = {**OCTETS, "Idempotency-Key": "photo-1"}
    answers = [server.ask("PUT", ADA, b"kept", headers=key) for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert server.ask("PUT", ADA, b"x", headers={"Content-Type": "text/plain"}).status == 415
    for path in (
        ADA.replace("photo", "age"),
        ADA.replace("photo", "age%20}%20where%20x%20=%201%20//"),
    ):
        assert server.ask("PUT", path, b"x", headers=OCTETS).status == 400
    assert server.ask("PUT", ADA.replace("Ada", "no"), b"x", headers=OCTETS).status == 404


def test_a_commit_elsewhere_does_not_keep_a_blob_from_being_written(server) -> None:
    before = server.ask("HEAD", ADA).headers["etag"]
    insert = 'query q() { insert Knows { from: "Ben", to: "Ada" } }'
    assert server.post("mutate", {"query": insert}).status == 200
    assert server.ask("HEAD", ADA).headers["etag"] == before
    assert server.ask("PUT", ADA, b"x", headers={**OCTETS, "If-Match": before}).status == 200
    assert server.post("mutate", {"query": ADD, "params": {"name": "Cy"}}).status == 200
