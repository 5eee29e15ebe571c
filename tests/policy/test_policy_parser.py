"""Bundles are read strictly: all mistakes at once, each with its place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from omnigraph.errors import BadRequest, CompileError
from omnigraph.language.source import SourceText
from omnigraph.policy import Action, BundleKind, load_bundle, parse_bundle
from omnigraph.policy.policy_parser import POLICY_CODES
from policy.bundles import LIBRARY, bundle, random_bundle

CASES = Path(__file__).parents[1] / "cases/policy/mistakes.txt"


def read_cases() -> list[tuple[str, str, list[str]]]:
    found = []
    for part in CASES.read_text().split("=== ")[1:]:
        name, _, rest = part.partition("\n")
        text, _, expected = rest.partition("---\n")
        found.append((name, text, expected.splitlines()))
    return found


def mistakes(text: str, kind: BundleKind = BundleKind.GRAPH) -> list[str]:
    with pytest.raises(CompileError) as caught:
        bundle(text, kind)
    lines = []
    for one in caught.value.diagnostics:
        lines.append(f"{one.code} {one.line}:{one.column} {one.message}")
        lines += [f"help: {one.hint}"] if one.hint else []
    return lines


@pytest.mark.parametrize(
    ("text", "expected"), [c[1:] for c in read_cases()], ids=[c[0] for c in read_cases()]
)
def test_mistakes_are_reported_with_their_positions(text: str, expected: list[str]) -> None:
    assert mistakes(text) == expected


def test_the_bundle_of_the_documentation_is_read() -> None:
    policy = bundle(LIBRARY)
    assert policy.name == "library"
    assert policy.actors == {"act-maria", "act-bot-1", "act-bot-2"}
    assert policy.protected_branches == {"main"}
    assert policy.rules[0].id == "agents-read-anywhere"
    assert policy.rules[0].actions == {Action.READ, Action.EXPORT}


def test_a_bundle_of_the_server_lists_graphs_and_nothing_else() -> None:
    text = (
        "version: 1\ngroups: {a: [x]}\n"
        "rules: [{id: r, allow: {actors: {group: a}, actions: [%s]}}]\n"
    )
    assert bundle(text % "graph_list", BundleKind.CLUSTER).kind is BundleKind.CLUSTER
    assert mistakes(text % "read", BundleKind.CLUSTER) == [
        "B119 3:55 action 'read' is not allowed in a cluster bundle"
    ]


def test_actions_may_be_written_with_hyphens() -> None:
    policy = bundle(
        "version: 1\ngroups: {a: [x]}\n"
        "rules: [{id: r, allow: {actors: {group: a}, actions: [schema-apply]}}]\n"
    )
    assert policy.rules[0].actions == {Action.SCHEMA_APPLY}


def test_a_file_is_named_by_where_it_is_and_its_policy_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "music.policy.yaml"
    path.write_text(LIBRARY)
    assert load_bundle(path).name == "music"
    with pytest.raises(BadRequest, match="cannot read"):
        load_bundle(tmp_path / "other.yaml")
    path.write_bytes(b"version: 1\ngroups: {\xff: [x]}\n")
    with pytest.raises(CompileError, match="not UTF-8") as caught:
        load_bundle(path)
    assert caught.value.diagnostics[0].line == 2


def test_every_code_of_a_bundle_has_a_case() -> None:
    shown = {line.split()[0] for _, _, lines in read_cases() for line in lines}
    assert shown - {"help:"} == set(POLICY_CODES) - {"B122"}  # of the files of tests


def test_a_text_that_is_deep_or_holds_odd_characters_is_a_mistake_of_the_text() -> None:
    for text in ("[" * 5_000, "version: \x00", "version: !!python/object:os.system 1", "%TAG"):
        with pytest.raises(CompileError):
            bundle(text)


@pytest.mark.parametrize("seed", range(40))
def test_a_bundle_means_what_its_data_says(seed: int) -> None:
    body = random_bundle(random.Random(seed))
    policy = bundle(yaml.safe_dump(body))
    assert {g.name: sorted(g.actors) for g in policy.groups} == {
        name: sorted(actors) for name, actors in body["groups"].items()
    }
    for rule, data in zip(policy.rules, body["rules"], strict=True):
        allow = data["allow"]
        assert rule.id == data["id"]
        assert rule.group == allow["actors"]["group"]
        assert rule.actions == set(allow["actions"])
        assert rule.excludes == set(allow.get("except", []))
        assert rule.queries == (set(allow["queries"]) if "queries" in allow else None)


def damaged(rng: random.Random, text: str) -> str:
    """A text with some characters removed, doubled, moved or replaced."""
    pieces = list(text)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(pieces))
        what = rng.randrange(4)
        if what == 0:
            del pieces[at : at + rng.randint(1, 12)]
        elif what == 1:
            pieces[at:at] = pieces[at : at + rng.randint(1, 30)]
        elif what == 2:
            pieces[at] = rng.choice("{}[]:,&*!|>%@`#-\"'\n\t \x85\ufeff0\x07é")
        else:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        if not pieces:
            return ""
    return "".join(pieces)


def read_damaged(seed: int) -> None:
    rng = random.Random(seed)
    text = damaged(rng, rng.choice((LIBRARY, yaml.safe_dump(random_bundle(rng)))))
    try:
        parse_bundle(SourceText(text, "damaged.yaml"))
    except CompileError as error:
        codes, drawn = {one.code for one in error.diagnostics}, error.render()
    else:
        return
    assert codes <= {*POLICY_CODES, "P101"}
    assert drawn


def test_a_damaged_bundle_is_refused_or_read_and_nothing_else() -> None:
    for seed in range(400):
        read_damaged(seed)


@pytest.mark.fuzz
def test_many_damaged_bundles_are_refused_or_read() -> None:
    first = random.SystemRandom().randrange(1 << 40)
    print(f"seeds from {first}")
    for seed in range(first, first + 40_000):
        read_damaged(seed)
