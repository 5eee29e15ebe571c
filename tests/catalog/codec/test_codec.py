import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.identity.random_schemas import Model
from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import (
    SchemaState,
    check_contract,
    decode_ir,
    decode_state,
    encode_ir,
    encode_state,
    hash_ir,
    load_if_digest_matches,
)
from omnigraph.catalog.schema_json import hash_shape
from omnigraph.errors import SchemaContractMismatch
from omnigraph.evolution.migration_plan import plan_migration
from omnigraph.language.source import SourceText

MUSIC = (Path(__file__).parents[2] / "cases" / "migration" / "music.pg").read_text()
EXTRAS = """
interface Found { place: Vector(3)? @embed("text", model="größte")  rank: I64 @default(-3) }
node Doc @owner("a", team="x", seat="y") @description("„Text“\\nzwei") implements Found {
  text: String @default("") @unit("cm")  n: F64 @default(1.0)  m: I64? @default(1)
  b: Bool? @default(true)
  many: U64? @default(18446744073709551615)
}
edge Far: Doc -> Doc @card(2..4294967295) { @index(src)  w: I32?  @range(w, -1..) }
"""


def created(text: str) -> Catalog:
    return identify_first(compile_schema(SourceText(text)), "01DOMAIN")


@pytest.mark.parametrize("text", [MUSIC, EXTRAS, ""], ids=["music", "extras", "empty"])
def test_a_catalog_comes_back_from_its_ir(text):
    catalog = created(text)
    again = decode_ir(encode_ir(catalog))
    assert again == catalog
    assert encode_ir(again) == encode_ir(catalog)
    assert (hash_ir(again), hash_shape(again)) == (hash_ir(catalog), hash_shape(catalog))
    assert decode_ir(encode_ir(catalog).encode()) == catalog


@given(st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_any_catalog_comes_back_from_its_ir(seed):
    model = Model(Random(seed))
    catalog = created(model.text())
    for _ in range(3):
        model.edit()
        catalog = plan_migration(catalog, compile_schema(SourceText(model.text()))).catalog
        assert decode_ir(encode_ir(catalog)) == catalog


def test_a_default_keeps_its_json_type():
    catalog = decode_ir(encode_ir(created(EXTRAS)))
    values = {p.name: p.default.value for p in catalog.nodes["Doc"].properties if p.default}
    assert {name: type(value) for name, value in values.items()} == {
        "text": str,
        "n": float,
        "m": int,
        "b": bool,
        "many": int,
        "rank": int,
    }


def test_the_ir_shows_ids_beside_names():
    ir = json.loads(encode_ir(created(MUSIC)))
    made = next(e for e in ir["edges"] if e["name"] == "Made")
    assert made["from"] == {"type_id": 3, "name": "Artist"}
    assert made["to"] == {"type_id": 2, "name": "Album"}
    assert made["constraints"][0]["columns"] == [
        {"name": "dst", "property_id": None},
        {"name": "src", "property_id": None},
    ]
    album = next(n for n in ir["nodes"] if n["name"] == "Album")
    assert album["implements"] == [{"type_id": 1, "name": "Titled"}]
    vibe = next(p for p in album["properties"] if p["name"] == "vibe")
    assert vibe["embed"] == {"source": "title", "source_id": 16, "model": "m-1"}
    assert vibe["type"]["scalar"] == {"Vector": 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "null",
        "{}",
        '{"ir_version": "1"}',
        '{"ir_version": 1}',
        "[" * 100_000,
        b"\xff\xfe",
        '{"ir_version": 1, "identity_domain": "D", "next_identity_id": 1, "nodes": []}',
    ],
    ids=lambda text: repr(text[:24]),
)
def test_a_value_that_is_no_ir_is_refused(text):
    with pytest.raises(SchemaContractMismatch, match="schema IR"):
        decode_ir(text)


@pytest.mark.parametrize(("version", "word"), [(2, "newer"), (0, "older")])
def test_an_ir_of_another_version_is_refused_by_its_version(version, word):
    with pytest.raises(SchemaContractMismatch, match=f"version {version}, {word} than"):
        decode_ir(json.dumps({"ir_version": version, "something": "else"}))


def break_ir(change) -> str:
    ir = json.loads(encode_ir(created(MUSIC)))
    nodes, edges = ({t["name"]: t for t in ir[kind]} for kind in ("nodes", "edges"))
    change(ir, nodes, edges)
    return json.dumps(ir)


def properties_of(type_):
    return {p["name"]: p for p in type_["properties"]}


@pytest.mark.parametrize(
    "change",
    [
        lambda ir, nodes, edges: ir.update(extra=1),
        lambda ir, nodes, edges: ir.update(next_identity_id=20),
        lambda ir, nodes, edges: ir.update(next_identity_id=2**64),
        lambda ir, nodes, edges: nodes["Take"].update(type_id=2),
        lambda ir, nodes, edges: nodes["Take"].update(type_id=0),
        lambda ir, nodes, edges: nodes["Take"].update(name="Label"),
        lambda ir, nodes, edges: nodes["Take"].pop("constraints"),
        lambda ir, nodes, edges: nodes["Take"]["properties"].reverse(),
        lambda ir, nodes, edges: nodes["Take"]["properties"].append(
            {**nodes["Take"]["properties"][-1], "property_id": 42}
        ),
        lambda ir, nodes, edges: nodes["Take"]["constraints"][0].update(kind="wish"),
        lambda ir, nodes, edges: nodes["Take"]["constraints"][0]["columns"][0].update(name="x"),
        lambda ir, nodes, edges: nodes["Take"]["constraints"][0]["columns"][0].update(
            property_id=1
        ),
        lambda ir, nodes, edges: properties_of(nodes["Take"])["number"]["type"].update(
            scalar="U33"
        ),
        lambda ir, nodes, edges: properties_of(nodes["Album"])["vibe"]["type"].update(scalar={}),
        lambda ir, nodes, edges: properties_of(nodes["Album"])["vibe"]["embed"].update(
            source_id=11
        ),
        lambda ir, nodes, edges: properties_of(nodes["Album"])["title"].update(satisfies=[]),
        lambda ir, nodes, edges: nodes["Album"]["implements"][0].update(name="Ghost"),
        lambda ir, nodes, edges: edges["Made"]["from"].update(type_id=4),
        lambda ir, nodes, edges: edges["Made"]["to"].update(name="Ghost"),
        lambda ir, nodes, edges: ir["edges"].reverse(),
    ],
)
def test_an_ir_that_contradicts_itself_is_refused(change):
    with pytest.raises(SchemaContractMismatch):
        decode_ir(break_ir(change))


def test_an_ir_may_be_laid_out_for_reading():
    pretty = break_ir(lambda ir, nodes, edges: None)
    assert pretty != encode_ir(created(MUSIC))
    assert decode_ir(pretty) == created(MUSIC)


def test_the_state_record_comes_back():
    state = SchemaState.of(created(MUSIC))
    assert decode_state(encode_state(state)) == state
    assert json.loads(encode_state(state)) == {
        "format_version": 2,
        "schema_shape_hash": hash_shape(created(MUSIC)),
        "schema_ir_hash": hash_ir(created(MUSIC)),
        "schema_identity_version": 2,
        "schema_identity_domain": "01DOMAIN",
    }


def test_the_texts_of_a_state_record_are_identified_by_their_hashes():
    catalog = created(MUSIC)
    source, ir = "the text", encode_ir(catalog)
    state = encode_state(SchemaState.of(catalog, source))
    assert load_if_digest_matches(source, ir, state) == catalog
    assert load_if_digest_matches("another text", ir, state) is None
    assert load_if_digest_matches(source, f"{ir} ", state) is None
    assert load_if_digest_matches(source, ir, encode_state(SchemaState.of(catalog))) is None


@pytest.mark.parametrize("member", ["format_version", "schema_identity_version"])
@pytest.mark.parametrize("value", [1, 3, "2", None])
def test_a_state_record_of_another_version_is_refused(member, value):
    record = json.loads(encode_state(SchemaState.of(created(MUSIC)))) | {member: value}
    with pytest.raises(SchemaContractMismatch, match=f"{member}.*only 2 is supported"):
        decode_state(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 2}', b"\xff"])
def test_a_value_that_is_no_state_record_is_refused(text):
    with pytest.raises(SchemaContractMismatch, match="schema state"):
        decode_state(text)


def test_a_state_record_without_a_hash_is_refused():
    record = json.loads(encode_state(SchemaState.of(created(MUSIC))))
    del record["schema_ir_hash"]
    with pytest.raises(SchemaContractMismatch, match="schema_ir_hash"):
        decode_state(json.dumps(record))


def contract(text: str = MUSIC) -> tuple[str, str]:
    catalog = created(text)
    return encode_ir(catalog), encode_state(SchemaState.of(catalog))


def test_a_contract_whose_parts_agree_gives_the_accepted_catalog():
    ir, state = contract()
    commented = compile_schema(SourceText(f"// a remark\n{MUSIC}")).catalog
    assert check_contract(ir, state, commented) == created(MUSIC)


def test_a_changed_text_is_noticed():
    ir, state = contract()
    edited = compile_schema(SourceText(MUSIC.replace("bio: String?", "bio: String"))).catalog
    with pytest.raises(SchemaContractMismatch, match="no longer matches the accepted compiled"):
        check_contract(ir, state, edited)


@pytest.mark.parametrize(
    ("member", "value", "drift"),
    [
        ("schema_ir_hash", "sha256:0", "recorded hash"),
        ("schema_shape_hash", "sha256:0", "shape of the schema IR"),
        ("schema_identity_domain", "OTHER", "identity domain 01DOMAIN"),
    ],
)
def test_a_changed_state_record_is_noticed(member, value, drift):
    ir, state = contract()
    changed = json.dumps(json.loads(state) | {member: value})
    with pytest.raises(SchemaContractMismatch, match=drift):
        check_contract(ir, changed, created(MUSIC))
