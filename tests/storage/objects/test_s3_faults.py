"""An S3 server that answers late, wrongly or not at all."""

from __future__ import annotations

import socket
import traceback

import pytest

from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.settings import Settings
from omnigraph.storage.objects.object_store import parse_address
from omnigraph.storage.objects.open_store import require_create_if_absent, supports_put_if_match
from omnigraph.storage.objects.s3_store import S3ObjectStore
from storage.objects.scripted_s3 import running_scripted_s3


@pytest.fixture
def server():
    with running_scripted_s3() as scripted:
        yield scripted


@pytest.fixture
def store(server):
    return S3ObjectStore(parse_address(server.root), server.settings.aws, sleep=lambda _: None)


def test_deletions_refused_in_bulk_are_tried_one_by_one(server, store):
    for name in "abc":
        store.put(name, b"")
    server.fail_for("graph/b", "InternalError")
    store.delete_all(["a", "b", "c"])
    assert not server.objects


def test_the_one_of_many_that_cannot_be_deleted_is_named(server, store):
    for name in "abc":
        store.put(name, b"")
    server.fail_for("graph/b", "AccessDenied")
    server.script.append(lambda exchange, proceed: proceed())
    server.fail_before(403, "AccessDenied")
    with pytest.raises(StorageFailure, match="/graph/b") as raised:
        store.delete_all(["a", "b", "c"])
    assert raised.value.kind is StorageKind.CONFIGURATION
    assert [*server.objects] == ["/bucket/graph/b"]


def test_a_creation_whose_answer_was_lost_still_won(server, store):
    server.hang_up_after()
    assert store.put_if_absent("claim", b"mine")
    assert store.get("claim") == b"mine"


def test_a_creation_that_failed_after_its_effect_still_won(server, store):
    server.fail_after(500)
    assert store.put_if_absent("claim", b"mine")


def test_a_creation_is_tried_again_when_the_server_was_busy(server, store):
    server.fail_before(503, "SlowDown")
    assert store.put_if_absent("claim", b"mine")
    assert store.get("claim") == b"mine"


def test_a_creation_that_met_another_is_decided_by_what_is_there(server, store):
    server.fail_before(409, "ConditionalRequestConflict")
    assert store.put_if_absent("claim", b"mine")
    server.fail_before(409, "ConditionalRequestConflict")
    assert not store.put_if_absent("claim", b"mine")


def test_the_same_bytes_from_another_writer_are_not_mistaken_for_ours(server, store):
    other = S3ObjectStore(parse_address(server.root), server.settings.aws)
    assert other.put_if_absent("claim", b"same")
    server.fail_before(500)
    assert not store.put_if_absent("claim", b"same")


def test_a_creation_without_an_answer_is_an_unknown_outcome(server, store):
    for _ in range(4):
        server.fail_before(500)
    with pytest.raises(OutcomeUnknown):
        store.put_if_absent("claim", b"mine")


def test_a_replacement_whose_answer_was_lost_still_won(server, store):
    store.put("state", b"one")
    tag = store.get_versioned("state").tag
    server.hang_up_after()
    assert store.put_if_match("state", b"two", tag)
    assert store.get("state") == b"two"


def test_a_replacement_that_met_another_is_tried_again(server, store):
    store.put("state", b"one")
    tag = store.get_versioned("state").tag
    server.fail_before(409, "ConditionalRequestConflict")
    assert store.put_if_match("state", b"two", tag)


def test_a_replacement_in_doubt_and_overwritten_since_is_an_unknown_outcome(server, store):
    store.put("state", b"one")
    tag = store.get_versioned("state").tag
    server.fail_after(500)
    server.do_first(lambda: server.objects.update({"/bucket/graph/state": (b"three", {})}))
    with pytest.raises(OutcomeUnknown):
        store.put_if_match("state", b"two", tag)


def test_a_refused_replacement_is_requested_only_once(server, store):
    store.put("state", b"one")
    server.requests.clear()
    assert not store.put_if_match("state", b"two", '"of something else"')
    assert server.requests == ["PUT"]


def test_a_store_that_ignores_conditions_is_refused_for_writing(server, store):
    server.is_blind = True
    with pytest.raises(StorageFailure) as raised:
        require_create_if_absent(store, UlidSource())
    assert raised.value.kind is StorageKind.CONFIGURATION
    assert "only if absent" in raised.value.message
    assert not supports_put_if_match(store, UlidSource())
    assert not server.objects


def test_a_store_that_refuses_every_tag_has_no_put_if_match(server, store):
    ids = UlidSource()
    server.do_first(lambda: None)  # the probe object is created as usual
    server.fail_before(412, "PreconditionFailed")
    assert not supports_put_if_match(store, ids)
    assert not server.objects


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", StorageKind.CONFIGURATION),
        (403, "SignatureDoesNotMatch", StorageKind.CONFIGURATION),
        (401, "Unauthorized", StorageKind.CONFIGURATION),
        (404, "NoSuchBucket", StorageKind.CONFIGURATION),
        (400, "InvalidBucketName", StorageKind.CONFIGURATION),
        (501, "NotImplemented", StorageKind.CONFIGURATION),
    ],
    ids=lambda value: str(value),
)
def test_a_refusal_is_typed_and_keeps_secrets_to_itself(server, store, status, code, kind):
    secrets = "<AWSAccessKeyId>AKIA-KEY-ID</AWSAccessKeyId><StringToSign>SIGN-ME</StringToSign>"
    for _ in range(8):
        server.fail_before(status, code, secrets)
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StorageFailure) as raised:
            write("state", b"")
        assert raised.value.kind is kind
        assert code in raised.value.message
        assert "s3://bucket/graph/state" in raised.value.message
        shown = "".join(traceback.format_exception(raised.value))
        for secret in ("AKIA-KEY-ID", "SIGN-ME", "very-secret"):
            assert secret not in shown


def test_a_missing_bucket_is_not_a_missing_object(server):
    store = S3ObjectStore(parse_address("s3://elsewhere/graph"), server.settings.aws)
    for call in (
        lambda: store.find("state"),
        lambda: store.exists("state"),
        lambda: store.list("state"),
        lambda: store.delete("state"),
        lambda: store.put_if_absent("state", b""),
    ):
        with pytest.raises(StorageFailure) as raised:
            call()
        assert raised.value.kind is StorageKind.CONFIGURATION
        assert "NoSuchBucket" in raised.value.message


def test_a_server_that_is_not_there_is_a_transient_failure():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = Settings.from_environment(
        {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
        }
    )
    store = S3ObjectStore(parse_address("s3://bucket"), settings.aws, sleep=lambda _: None)
    with pytest.raises(StorageFailure) as raised:
        store.find("state")
    assert raised.value.kind is StorageKind.TRANSIENT
