"""Settings read from an environment."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.settings import SETTINGS, AwsSettings, FenceMode, Settings


def test_an_empty_environment_gives_the_defaults():
    assert Settings.from_environment({}) == Settings()


def test_blank_variables_count_as_unset():
    blank = {setting.name: " " for setting in SETTINGS}
    assert Settings.from_environment(blank) == Settings()


def test_the_fence_settings_are_read():
    settings = Settings.from_environment(
        {
            "OMNIGRAPH_WRITER_FENCE": "Required",
            "OMNIGRAPH_WRITER_WAIT": "2.5",
            "OMNIGRAPH_LEASE_TERM": "12",
        }
    )
    assert settings.writer_fence is FenceMode.REQUIRED
    assert settings.writer_wait_s == 2.5
    assert settings.lease_term_s == 12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_WRITER_FENCE", "sometimes"),
        ("OMNIGRAPH_WRITER_WAIT", "soon"),
        ("OMNIGRAPH_WRITER_WAIT", "-1"),
        ("OMNIGRAPH_WRITER_WAIT", "inf"),
        ("OMNIGRAPH_WRITER_WAIT", "nan"),
        ("OMNIGRAPH_LEASE_TERM", "0"),
        ("OMNIGRAPH_LEASE_TERM", "long"),
        ("AWS_ALLOW_HTTP", "perhaps"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(BadRequest, match=name):
        Settings.from_environment({name: value})


def test_the_s3_endpoint_wins_over_the_general_one():
    both = {"AWS_ENDPOINT_URL_S3": "https://s3.local", "AWS_ENDPOINT_URL": "https://other.local"}
    assert AwsSettings.from_environment(both).endpoint == "https://s3.local"
    only = {"AWS_ENDPOINT_URL": "https://other.local"}
    assert AwsSettings.from_environment(only).endpoint == "https://other.local"


def test_a_plain_endpoint_allows_plain_http():
    assert AwsSettings.from_environment({"AWS_ENDPOINT_URL": "http://h"}).is_http_allowed
    assert not AwsSettings.from_environment({"AWS_ENDPOINT_URL": "https://h"}).is_http_allowed
    assert AwsSettings.from_environment({"AWS_ALLOW_HTTP": "1"}).is_http_allowed


def test_secrets_do_not_show_in_the_text_form():
    settings = Settings.from_environment(
        {
            "AWS_ACCESS_KEY_ID": "hush-1",
            "AWS_SECRET_ACCESS_KEY": "hush-2",
            "AWS_SESSION_TOKEN": "hush-3",
        }
    )
    assert settings.aws.session_token == "hush-3"
    assert "hush" not in repr(settings)


def test_every_setting_is_listed_once_with_a_default_it_accepts():
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    for setting in SETTINGS:
        setting.parse(setting.default)
        assert setting.meaning.endswith(".")
