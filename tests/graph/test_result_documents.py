"""Every result is a struct of its JSON: decoded from its document, it is the same again."""

from __future__ import annotations

import datetime
import importlib
import json
import pickle
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import omnigraph
from graph.music_graph import LABEL, SCHEMA, run
from omnigraph.errors import OmniError
from omnigraph.language.source import SourceText
from omnigraph.policy import Action, NoPolicy, decide
from omnigraph.policy.policy_parser import parse_cases, run_cases
from omnigraph.result import Result
from omnigraph.struct_decoding import decode_into


def import_everything() -> None:
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def walk_kinds(base: type[Result]) -> Iterator[type[Result]]:
    for kind in base.__subclasses__():
        yield kind
        yield from walk_kinds(kind)


import_everything()
KINDS = list(dict.fromkeys(walk_kinds(Result)))


def make_value(wanted: inspect.Type) -> object:
    """Make a value of a type that is not its usual default."""
    match wanted:
        case inspect.UnionType(types=options):
            return make_value(next(t for t in options if not isinstance(t, inspect.NoneType)))
        case inspect.StructType(cls=kind):
            return make_full(kind)
        case inspect.EnumType(cls=kind):
            return list(kind)[-1]
        case inspect.LiteralType(values=values):
            return values[-1]
        case inspect.VarTupleType(item_type=item):
            return (make_value(item),)
        case inspect.TupleType(item_types=items):
            return tuple(map(make_value, items))
        case inspect.ListType(item_type=item):
            return [make_value(item)]
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
            return frozenset([make_value(item)])
        case inspect.DictType(key_type=key, value_type=value):
            return {make_value(key): make_value(value)}
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 1.5
        case inspect.DateTimeType():
            return datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
        case inspect.NoneType():
            return None
        case inspect.StrType() | inspect.AnyType() | inspect.CustomType():
            return "é"
    raise AssertionError(f"no value of {wanted}")


def list_fields(kind: type[msgspec.Struct]) -> list[inspect.Field]:
    """List the fields that are in the document."""
    hidden = kind.attributes if issubclass(kind, Result) else ()
    return [one for one in read_type_info(kind).fields if one.name not in hidden]


def read_type_info(kind: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found


def make_full(kind: type) -> Any:
    return kind(**{one.name: make_value(one.type) for one in list_fields(kind)})


def make_bare(kind: type) -> Any:
    return kind(**{one.name: make_value(one.type) for one in list_fields(kind) if one.required})


def require_same_again(result: Result) -> None:
    shown = result.as_document()
    encoded = msgspec.json.encode(shown)
    assert decode_into(encoded, type(result)) == shown
    assert result.wire() == json.loads(encoded)
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_with_all_its_members_comes_back_from_its_document(kind: type[Result]) -> None:
    result = make_full(kind)
    require_same_again(result)
    names = {one.encode_name for one in list_fields(kind)}
    assert set(result.wire()) - {kind.__struct_config__.tag_field} == names


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_comes_back_from_its_document_without_what_may_be_left_out(
    kind: type[Result],
) -> None:
    require_same_again(make_bare(kind))


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.attributes], ids=lambda kind: kind.__name__
)
def test_members_of_the_library_alone_are_in_no_document(kind: type[Result]) -> None:
    found = {one.name: one for one in read_type_info(kind).fields}
    given = {name: make_value(found[name].type) for name in kind.attributes}
    result = msgspec.structs.replace(make_full(kind), **given)
    assert not set(result.wire()) & set(kind.attributes)
    assert {name: getattr(result, name) for name in given} == given


# --- results of verbs ----------------------------------------------------------------------------


def walk_values(value: object) -> Iterator[Result]:
    """Yield a result and those in it."""
    if isinstance(value, Result):
        yield value
        for name in value.__struct_fields__:
            yield from walk_values(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from walk_values(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from walk_values(one)


def refuse(verb: Callable[..., object], *args: object, **more: object) -> Any:
    with pytest.raises(OmniError) as refused:
        verb(*args, **more)
    return refused.value


def run_verbs(music, folder: Path) -> Iterator[object]:
    """Yield the results of verbs, and the records of their errors."""
    yield run(music, LABEL.format("one"))
    yield music.create_branch("side")
    run(music, 'update Label set { country: "de" } where slug = "one"', branch="side")
    run(music, 'update Label set { country: "us" } where slug = "one"')
    yield music.merge("side", dry_run=True)
    yield refuse(music.merge, "side").conflicts
    yield music.load([{"type": "Label", "data": {"slug": "two", "name": "Two"}}], "append")
    yield refuse(music.load, [{"type": "Label", "data": {"slug": 3}}], "append").problems
    yield music.revert(music.commits()[0])
    yield music.tag("v1")
    yield music.set_consumer("reader")
    yield music.commits()
    yield music.at().info()
    wanted = SCHEMA.replace("node Label {", "node Shop { name: String @key }\nnode Label {", 1)
    yield music.plan_schema(wanted)
    yield music.apply_schema(wanted)
    yield music.apply_schema(wanted, dry_run=True)
    yield music.at().lint("query q($a: String) { match { $l: Label } return { $l.slug } limit 1 }")
    yield refuse(music.query, "query q() { match { $p: Nothing } return { $p.a } }").diagnostics
    yield music.optimize()
    yield music.cleanup(keep=10)
    yield music.repair()
    yield music.verify(deep=True)
    yield music.maintain()
    yield music.at().export_files(folder / "export")
    yield omnigraph.clone(music.uri, folder / "copy.omni")
    yield decide(NoPolicy.OPEN, "ada", Action.READ, branch="main")
    cases = "version: 1\ncases: [{id: c, actor: ada, action: read, expect: allow}]\n"
    yield run_cases(NoPolicy.OPEN, parse_cases(SourceText(cases)))


def test_results_of_verbs_are_decoded_from_their_documents(music, tmp_path) -> None:
    found = [one for value in run_verbs(music, tmp_path) for one in walk_values(value)]
    for one in found:
        require_same_again(one)
    assert len({type(one) for one in found}) > 30
