"""Settings read from an environment."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum

import pytest

from omnigraph.errors import BadRequest
from omnigraph.settings import SETTINGS, AwsSettings, CommandLineSettings, FenceMode, Settings
from omnigraph.settings.environment import find_unknown_variables, list_settings


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
    assert AwsSettings.from_environment({"AWS_ENDPOINT_URL": "http://h"}).allows_http
    assert not AwsSettings.from_environment({"AWS_ENDPOINT_URL": "https://h"}).allows_http
    assert AwsSettings.from_environment({"AWS_ALLOW_HTTP": "1"}).allows_http
    assert AwsSettings(endpoint="HTTP://h").allows_http


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
        if setting.default is not None:
            assert setting.kind.parse(setting.show(setting.default)) == setting.default
        assert setting.help.endswith(".")


def test_every_variable_reaches_the_field_it_is_declared_for():
    for group in (Settings, CommandLineSettings):
        for setting in list_settings(group):
            given = _another_value(setting)
            read = group.from_environment({setting.name: setting.show(given)})
            changed = [v for v, d in zip(_values(read), _values(group()), strict=True) if v != d]
            assert changed == [given], setting.name


def _another_value(setting):
    match setting.default:
        case bool():
            return not setting.default
        case StrEnum():
            return next(one for one in type(setting.default) if one is not setting.default)
        case int() | float():
            return setting.default + (7 << 20)
        case _:
            return next(v for text in ("5", "there") for v in _parsed(setting, text))


def _parsed(setting, text):
    try:
        return [setting.kind.parse(text)]
    except ValueError:
        return []


def _values(group):
    found = []
    for one in fields(group):
        value = getattr(group, one.name)
        found += _values(value) if is_dataclass(value) else [value]
    return found


def test_a_concurrency_that_makes_no_sense_means_the_default():
    for text in ("0", "-3", "many", "1.5"):
        settings = Settings.from_environment({"OMNIGRAPH_WRITE_CONCURRENCY": text})
        assert settings.write_concurrency == Settings().write_concurrency
    assert Settings.from_environment({"OMNIGRAPH_WRITE_CONCURRENCY": "3"}).write_concurrency == 3


def test_a_refusal_says_what_is_accepted():
    with pytest.raises(BadRequest) as refused:
        Settings.from_environment({"OMNIGRAPH_WRITER_FENCE": "sometimes"})
    assert refused.value.message == "OMNIGRAPH_WRITER_FENCE must be auto, required or off"


def test_variables_that_look_like_settings_are_found_with_what_was_meant():
    environment = {
        "OMNIGRAPH_WRITER_WAITS": "1",
        "OMNIGRAPH_ZZZZ": "1",
        "OMNIGRAPH_WRITER_WAIT": "1",
        "OMNIGRAPH_TOKEN_LAB": "x",
        "PATH": "x",
    }
    assert find_unknown_variables(environment, SETTINGS) == [
        ("OMNIGRAPH_WRITER_WAITS", "OMNIGRAPH_WRITER_WAIT"),
        ("OMNIGRAPH_ZZZZ", None),
    ]
