"""Accepted addresses, and their equality as roots."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.settings import AwsSettings, Settings
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.object_store import parse_address
from omnigraph.storage.objects.open_store import open_store


def test_a_path_and_a_file_address_open_the_same_root(tmp_path):
    (tmp_path / "my graph").mkdir()
    by_path = open_store(str(tmp_path / "my graph"))
    by_address = open_store(f"file://{tmp_path}/my%20graph")
    by_path.put("state", b"1")
    assert by_address.get("state") == b"1"
    assert by_path.identity == by_address.identity
    assert by_path.uri == str(tmp_path / "my graph")


def test_links_and_detours_are_the_same_root_even_before_it_exists(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    spellings = ["real/g/h", "./real/g/h", "link/g/h", f"file://{tmp_path}/link/g/h/"]
    assert {parse_address(uri).identity for uri in spellings} == {f"{tmp_path}/real/g/h"}


def test_a_relative_path_stays_the_same_root_after_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("graph")
    monkeypatch.chdir("/")
    store.put("state", b"1")
    assert LocalObjectStore(tmp_path / "graph").get("state") == b"1"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket//a//b/", "s3://bucket/a/b"),
    ],
)
def test_s3_addresses_are_normalized(uri, root):
    assert parse_address(uri).identity == root
    assert open_store(uri).uri_of("x") == f"{root}/x"


@pytest.mark.parametrize("uri", ["http://host/graph", "HTTPS://host/graph"])
def test_a_server_address_is_refused_with_what_to_use_instead(uri):
    with pytest.raises(BadRequest, match="--server"):
        open_store(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "  ",
        "gs://bucket/graph",
        "file://host/graph",
        "file://graph",
        "file:///graph?x=1",
        "s3://",
        "s3:///graph",
        "s3://bucket/a/../b",
        "s3://bucket/a?x",
    ],
)
def test_other_addresses_are_refused(uri):
    with pytest.raises(BadRequest):
        open_store(uri)


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(BadRequest) as raised:
        open_store("s3://key:hush-hush@bucket/graph")
    assert "hush-hush" not in raised.value.message


def test_lance_is_configured_to_reach_the_bucket():
    aws = AwsSettings(
        region="eu-west-1",
        access_key_id="k",
        secret_access_key="s",
        session_token="t",
        endpoint="http://host:9000",
        is_http_allowed=True,
    )
    assert open_store("s3://bucket/g", Settings(aws=aws)).storage_options == {
        "region": "eu-west-1",
        "access_key_id": "k",
        "secret_access_key": "s",
        "session_token": "t",
        "endpoint": "http://host:9000",
        "allow_http": "true",
        "virtual_hosted_style_request": "false",
    }


def test_a_bucket_in_the_host_name_is_part_of_the_endpoint():
    aws = AwsSettings(endpoint="https://store.example:9000", is_path_style=False)
    options = open_store("s3://bucket/g", Settings(aws=aws)).storage_options
    assert options["endpoint"] == "https://bucket.store.example:9000"
    assert options["virtual_hosted_style_request"] == "true"
