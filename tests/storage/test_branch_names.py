"""Allowed branch names, and their form as file names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequest
from omnigraph.storage.layout import (
    MAX_ENCODED_BYTES,
    decode_name,
    encode_name,
    is_internal,
    normalize_branch,
    normalize_deletable_branch,
    normalize_new_branch,
)

names = st.text(st.sampled_from("abZ09.-_/é界"), min_size=1, max_size=60)


@pytest.mark.parametrize(
    "name",
    ["main", "a", "a/b", "a/b/c", "v1.2", "x_y-z", "__run__1", ".hidden", "Größe", "a" * 200],
)
def test_an_allowed_name_is_unchanged(name):
    assert normalize_branch(name) == name


def test_space_around_a_name_is_dropped():
    assert normalize_branch("  team/x\n") == "team/x"


def test_two_ways_of_writing_a_letter_are_one_name():
    assert normalize_branch("Gro\u0308\u00dfe") == "Gr\u00f6\u00dfe"


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_an_empty_name_is_refused(name):
    with pytest.raises(BadRequest, match="branch name cannot be empty"):
        normalize_branch(name)


@pytest.mark.parametrize(
    "name",
    [
        "/a",
        "a/",
        "a//b",
        "a..b",
        "..",
        "a/../b",
        "a.lock",
        "team/a.lock",
        "a b",
        "a\\b",
        "a:b",
        "a%2Fb",
        "a\x00b",
        "a*",
        "a@{1}",
        "a" * 201,
        "x/" + "é" * 101,
        "/".join(["abcdefgh"] * 30),
    ],
)
def test_a_name_that_breaks_a_rule_is_refused(name):
    with pytest.raises(BadRequest, match="branch name"):
        normalize_branch(name)


@pytest.mark.parametrize(
    "name", ["__schema_apply_lock__", "/__schema_apply_lock__", " //__schema_apply_lock__ "]
)
def test_the_name_of_the_system_is_refused_everywhere(name):
    assert is_internal(name)
    for normalize in (normalize_branch, normalize_new_branch, normalize_deletable_branch):
        with pytest.raises(BadRequest, match="reserved"):
            normalize(name)


def test_main_is_neither_created_nor_deleted():
    with pytest.raises(BadRequest, match="'main' cannot be created"):
        normalize_new_branch(" main ")
    with pytest.raises(BadRequest, match="'main' cannot be deleted"):
        normalize_deletable_branch("main")
    assert normalize_new_branch("main2") == "main2"


def test_a_name_and_one_below_it_have_different_files():
    assert encode_name("a") == "a"
    assert encode_name("a/b") == "a%2Fb"


@given(names)
def test_a_name_comes_back_from_its_file_name(name):
    try:
        branch = normalize_branch(name)
    except BadRequest:
        return
    encoded = encode_name(branch)
    assert decode_name(encoded) == branch
    assert "/" not in encoded
    assert not encoded.startswith(".")
    assert encoded.isascii()
    assert len(encoded) <= MAX_ENCODED_BYTES


@pytest.mark.parametrize("encoded", ["", "a%2fb", "%61", "a b", "%FF", "a%2F", ".a", "%2Fa"])
def test_a_file_name_no_branch_has_gives_none(encoded):
    assert decode_name(encoded) is None
