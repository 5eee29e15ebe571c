import hashlib
import json
import re
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from bench.generators.documents import TOPICS, document_graph, schema_text
from bench.generators.draw import Draw, distinct_choices, distinct_sorted, next_prime, positions
from bench.generators.names import made_up_words
from bench.generators.social import draw_numbers, social_graph
from bench.generators.tables import fingerprint, with_integer_endpoints
from bench.generators.work import work_graph, write_work_lines

# A change here means that figures measured before and after are not of the same data.
SOCIAL = "1502cd48165f8f5e0a43d80b4fbfc534f9f878e7c590d47a3dbb5f34c175c48d"
DOCUMENTS = "1df7a4d3bdb607ba04cbf80242a0950094be4fabb9f5ea1ec4f383d759bfecf1"
WORK = "294e77d94feebd1f192a04ba3ec02939beb3a2c36712c108438cf7fe804ebfca"
WORK_LINES = "d1599a535db2f6fa64984ae756e14ce1bb3bfd0eaee09a57dc20851e1bc3cd7b"

ARROW_TYPES = {
    "String": pa.string(),
    "Bool": pa.bool_(),
    "I32": pa.int32(),
    "I64": pa.int64(),
    "F32": pa.float32(),
    "F64": pa.float64(),
    "Date": pa.date32(),
    "[String]": pa.list_(pa.string()),
    "Vector(8)": pa.list_(pa.float32(), 8),
}


@pytest.fixture(scope="module")
def social():
    return social_graph(seed=7, persons=300)


@pytest.fixture(scope="module")
def documents():
    return document_graph(seed=7, documents=400, dimension=8)


@pytest.fixture(scope="module")
def work():
    return work_graph(seed=7, rows=2_200)


@pytest.fixture(params=["social", "documents", "work"])
def graph(request):
    return request.getfixturevalue(request.param)


def test_the_social_graph_is_the_same_as_ever(social):
    assert fingerprint(social) == SOCIAL


def test_the_document_graph_is_the_same_as_ever(documents):
    assert fingerprint(documents) == DOCUMENTS


def test_the_work_graph_is_the_same_as_ever(work, tmp_path):
    write_work_lines(work, tmp_path / "work.jsonl")
    digest = hashlib.sha256((tmp_path / "work.jsonl").read_bytes()).hexdigest()
    assert (fingerprint(work), digest) == (WORK, WORK_LINES)


def test_the_lines_of_the_work_graph_are_its_rows_mixed(work, tmp_path):
    write_work_lines(work, tmp_path / "work.jsonl")
    records = [json.loads(line) for line in (tmp_path / "work.jsonl").read_text().splitlines()]
    assert len(records) == work.rows == 2_200
    found = {name: [] for name in work.tables}
    for record in records:
        ends = {"src": record["from"], "dst": record["to"]} if "edge" in record else {}
        found[record.get("type") or record["edge"]].append({**ends, **record["data"]})
    for name, table in work.tables.items():
        wanted = [
            {column: _plain(value) for column, value in row.items()} for row in table.to_pylist()
        ]
        assert sorted(map(str, found[name])) == sorted(map(str, wanted))
    kinds = [record.get("type") or record["edge"] for record in records[:200]]
    assert len(set(kinds)) == 4


def _plain(value):
    if isinstance(value, date):
        return value.isoformat()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def test_another_seed_makes_another_graph(social):
    assert fingerprint(social_graph(seed=8, persons=300)) != fingerprint(social)


def test_every_edge_joins_nodes_that_exist(graph):
    for name, (source, target) in graph.endpoints.items():
        for column, node in (("src", source), ("dst", target)):
            ids = graph.nodes[node][graph.keys[node]].cast(pa.string()).to_pylist()
            assert set(graph.edges[name][column].to_pylist()) <= set(ids)


def test_keys_are_unique(graph):
    for name, table in graph.nodes.items():
        keys = table[graph.keys[name]].to_pylist()
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["social", "documents"])
def test_no_pair_is_joined_twice_by_one_edge_type(name, request):
    for table in request.getfixturevalue(name).edges.values():
        pairs = list(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))
        assert len(set(pairs)) == len(pairs)


def test_tables_have_the_columns_of_the_schema(graph):
    declared = declared_columns(graph.schema_text)
    assert declared.keys() == graph.tables.keys()
    for name, table in graph.tables.items():
        ends = {"src": "String", "dst": "String"} if name in graph.edges else {}
        wanted = {**ends, **declared[name]}
        assert {field.name for field in table.schema} == wanted.keys()
        for field in table.schema:
            text = wanted[field.name]
            assert field.nullable == text.endswith("?")
            plain = "String" if text.startswith("enum") else text.rstrip("?")
            assert field.type == ARROW_TYPES[plain]


def declared_columns(text):
    """Property names and types per declaration, as far as the two schemas go."""
    found = {}
    for line in text.splitlines():
        if opening := re.match(r"(?:node|edge) (\w+)", line):
            current = found.setdefault(opening[1], {})
        elif declared := re.match(r"  (\w+): (enum\([^)]*\)|[^ ]+)", line):
            current[declared[1]] = declared[2]
    return found


def test_the_schema_follows_the_dimension():
    assert "embedding: Vector(32) @index" in schema_text(32)
    assert document_graph(1, 10, dimension=32).schema_text == schema_text(32)


def test_integer_endpoints_name_the_same_nodes(social):
    edges = with_integer_endpoints(social.edges)["LivesIn"]
    assert edges["dst"].to_pylist() == [
        int(text) for text in social.edges["LivesIn"]["dst"].to_pylist()
    ]
    assert edges.schema.names == social.edges["LivesIn"].schema.names


def test_follows_average_twenty_four_with_a_power_law_at_both_ends():
    persons = 20_000
    follows = draw_numbers(seed=3, persons=persons).follows
    assert len(follows.source) == 24 * persons
    assert not np.any(follows.source == follows.target)
    followed = np.sort(np.bincount(follows.target, minlength=persons))[::-1]
    following = np.sort(np.bincount(follows.source, minlength=persons))[::-1]
    # Chances fall as the square root of the rank for the followed, the cube root for followers.
    assert 8 < followed[10] / followed[1000] < 12
    assert 3.5 < following[10] / following[1000] < 5.5
    assert followed[0] > 100 * np.median(followed)
    assert np.median(followed) < 24


def test_being_followed_says_nothing_about_following():
    persons = 20_000
    follows = draw_numbers(seed=3, persons=persons).follows
    followed = np.bincount(follows.target, minlength=persons)
    following = np.bincount(follows.source, minlength=persons)
    assert abs(np.corrcoef(followed, following)[0, 1]) < 0.05


def test_ages_agree_with_birthdays(social):
    for row in social.nodes["Person"].to_pylist():
        born = row["birthday"]
        had_birthday = (born.month, born.day) <= (1, 1)
        assert abs(2025 - born.year - (not had_birthday) - row["age"]) <= 1
        assert 18 <= row["age"] < 80


def test_london_is_the_largest_city_and_british(social):
    cities = social.nodes["City"].to_pylist()
    largest = max(cities, key=lambda city: city["population"])
    assert largest["name"] == "London"
    state = follow(social, "CityIn", largest["number"])
    country = follow(social, "StateIn", state)
    names = {row["number"]: row["name"] for row in social.nodes["Country"].to_pylist()}
    assert names[int(country)] == "United Kingdom"


def follow(graph, edge, source):
    rows = graph.edges[edge].to_pylist()
    return next(row["dst"] for row in rows if row["src"] == str(source))


def test_persons_have_one_home_and_one_to_five_interests(social):
    homes = social.edges["LivesIn"]["src"].to_pylist()
    assert len(set(homes)) == len(homes) == 300
    counts = np.bincount([int(text) for text in social.edges["HasInterest"]["src"].to_pylist()])[1:]
    assert (counts.min(), counts.max()) == (1, 5)
    assert 2.0 < counts.mean() < 2.8


def test_a_network_too_small_for_its_shape_is_refused():
    with pytest.raises(ValueError, match="at least 100 persons"):
        social_graph(seed=1, persons=99)
    with pytest.raises(ValueError, match="at least 10 documents"):
        document_graph(seed=1, documents=9)


def test_vectors_cluster_by_topic(documents):
    table = documents.nodes["Document"]
    vectors = np.array(table["embedding"].to_pylist())
    topics = np.array(table["topic"].to_pylist())
    middles = np.array([vectors[topics == topic].mean(axis=0) for topic in range(5)])
    few = topics < 5
    distances = np.linalg.norm(vectors[few, None, :] - middles[None], axis=2)
    assert np.mean(distances.argmin(axis=1) == topics[few]) > 0.6


def test_words_follow_zipf_and_topics_have_their_own():
    table = document_graph(seed=7, documents=2_000, dimension=2).nodes["Document"]
    words = " ".join(table["body"].to_pylist()).split()
    _, counts = np.unique(words, return_counts=True)
    assert counts.max() > 0.03 * len(words)
    vocabularies = [
        set(
            " ".join(
                table.filter(pa.compute.equal(table["topic"], topic))["body"].to_pylist()
            ).split()
        )
        for topic in (0, 1)
    ]
    only_one = vocabularies[0] ^ vocabularies[1]
    assert len(only_one) > 200


def test_citations_refer_to_older_documents(documents):
    for row in documents.edges["Cites"].to_pylist():
        assert row["dst"] < row["src"]


def test_buckets_and_topics_stay_in_range(documents):
    table = documents.nodes["Document"]
    assert set(table["bucket"].to_pylist()) <= set(range(1000))
    assert set(table["topic"].to_pylist()) <= set(range(TOPICS))


def test_made_up_words_are_distinct_and_end():
    words = made_up_words(25_600)
    assert len(set(words)) == len(words)
    with pytest.raises(ValueError, match="only 25600 words"):
        made_up_words(2, offset=25_599)


def test_streams_of_different_names_differ_and_of_one_name_agree():
    assert np.array_equal(Draw(1, "a").words(5), Draw(1, "a").words(5))
    assert not np.array_equal(Draw(1, "a").words(5), Draw(1, "b").words(5))
    assert not np.array_equal(Draw(1, "a").words(5), Draw(2, "a").words(5))


def test_draws_have_the_range_and_the_spread_they_promise():
    draw = Draw(5, "ranges")
    uniform = draw.uniform(50_000)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    normal = draw.normal(50_000)
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    for ranks in (draw.zipf(50_000, 100), draw.square(50_000, 100), draw.three_halves(50_000, 100)):
        assert (ranks.min(), ranks.max()) == (0, 99)
        counts = np.bincount(ranks)
        assert counts[0] > 1.5 * counts[50]
    assert sorted(draw.permutation(100)) == list(range(100))


def test_distinct_choices_never_repeat_within_an_owner():
    counts = np.array([3, 0, 5, 1], dtype=np.int64)
    owners, choices = distinct_choices(Draw(1, "x"), counts, np.array([4, 0, 4, 2]), 5)
    assert owners.tolist() == [0, 0, 0, 2, 2, 2, 2, 2, 3]
    assert sorted(choices[3:8]) == [0, 1, 2, 3, 4]
    assert len(set(choices[:3])) == 3
    assert choices[[0, 3, 8]].tolist() == [4, 4, 2]


def test_small_arithmetic_is_right():
    assert distinct_sorted(np.array([3, 1, 3, 2, 1])).tolist() == [1, 2, 3]
    assert distinct_sorted(np.empty(0, dtype=np.int64)).tolist() == []
    assert positions(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    assert [next_prime(number) for number in (0, 5, 8, 20_000)] == [2, 5, 11, 20_011]
