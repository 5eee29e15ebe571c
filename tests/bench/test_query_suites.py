"""The suites beside peers, at sizes that only show that they work, and their answers."""

import json
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.child import load_entry
from bench.environments import interpreter, missing_package, peers_folder
from bench.hashing import canonical, hash_rows
from bench.inputs import case_spec
from bench.process import Request, run_prepare, run_sample
from bench.suite import Environment, find_suites
from bench.systems.questions import PARAMETERS, QUESTIONS, texts
from bench.systems.retrieval import search_all

SMALL = {
    "social": {"seed": 7, "persons": 300, "warm_up": 1, "repetitions": 2},
    "neighbourhoods": {"seed": 7, "persons": 300, "kind": "random", "count": 20},
    "retrieval": {"seed": 7, "documents": 300, "searches": 5},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The data of each suite and our store, by suite."""
    found = {}
    for name, parameters in SMALL.items():
        suite = find_suites()[name]
        inputs, store = (tmp_path_factory.mktemp(f"{name}-{part}") for part in ("data", "ours"))
        load_entry(suite.prepare)({"root": str(inputs), "parameters": parameters})
        ours = suite.system("omnigraph")
        spec = {"root": str(store), "inputs": str(inputs), "parameters": parameters}
        load_entry(ours.prepare)(spec)
        found[name] = {"inputs": str(inputs), "store": str(store)}
    return found


def our_sample(name, folders, parameters=None):
    suite = find_suites()[name]
    spec = {**folders[name], "parameters": parameters or SMALL[name]}
    return suite, load_entry(suite.system("omnigraph").entry)(spec)


@pytest.fixture(scope="module")
def network(folders):
    """The social network as plain Python: nodes by type and number, edges as pairs."""
    files = sorted(Path(folders["social"]["inputs"]).glob("*.parquet"))
    tables = {file.stem: pq.read_table(file).to_pylist() for file in files}
    nodes = {
        name: {row["number"]: row for row in rows}
        for name, rows in tables.items()
        if "number" in rows[0]
    }
    edges = {
        name: [(row["src"], row["dst"]) for row in rows]
        for name, rows in tables.items()
        if "src" in rows[0]
    }
    return nodes, edges


@pytest.mark.parametrize("name", SMALL)
def test_our_sample_has_every_measure_its_suite_declares(name, folders):
    suite, sample = our_sample(name, folders)
    assert sample["timings"].keys() == {measure.name for measure in suite.measures}
    json.dumps(sample)


def test_every_language_runs_the_same_queries():
    for file in ("social.gq", "social.cypher", "social.sql"):
        asked = texts(file)
        assert set(QUESTIONS) <= asked.keys()
        for name in QUESTIONS:
            assert all(f"${parameter}" in asked[name] for parameter in PARAMETERS.get(name, ()))
            assert "HOPS" not in asked[name]


def test_our_answers_to_the_nine_questions_are_right(folders, network):
    _, sample = our_sample("social", folders)
    wanted: dict[str, Any] = {
        name: canonical(rows) for name, rows in nine_answers(*network).items()
    }
    assert sample["preview"] == {name: rows[:3] for name, rows in wanted.items()}
    assert sample["result_hash"] == hash_rows(
        [name, *row] for name, rows in wanted.items() for row in rows
    )


def nine_answers(nodes, edges):
    persons, cities, states = nodes["Person"], nodes["City"], nodes["State"]
    home, state_of, nation_of = (dict(edges[name]) for name in ("LivesIn", "CityIn", "StateIn"))
    nations, interests = nodes["Country"], nodes["Interest"]
    likes = {(person, interests[interest]["name"]) for person, interest in edges["HasInterest"]}

    def nation(person):
        return nations[nation_of[state_of[home[person]]]]["name"]

    def chosen(interest=None, country=None, ages=(0, 200), gender=None, city=None):
        for number, person in persons.items():
            if (
                (interest is None or (number, interest) in likes)
                and (country is None or nation(number) == country)
                and ages[0] <= person["age"] <= ages[1]
                and gender in (None, person["gender"])
                and city in (None, cities[home[number]]["name"])
            ):
                yield number

    def best(counts, table, keep):
        order = sorted(counts, key=lambda number: (-counts[number], number))
        return [[number, table[number]["name"], counts[number]] for number in order[:keep]]

    followers = Counter(followed for _, followed in edges["Follows"])
    following = Counter(follower for follower, _ in edges["Follows"])
    first = best(followers, persons, 3)
    top = first[0][0]
    ages = {}
    for number in chosen(country="United States"):
        ages.setdefault(home[number], []).append(persons[number]["age"])
    youngest = sorted(ages, key=lambda city: (mean(ages[city]), city))[:5]
    by_nation = Counter(nation(number) for number in chosen(ages=(30, 40)))
    men = chosen("Fine Dining", "United Kingdom", gender="male", city="London")
    women = Counter(home[number] for number in chosen("Tennis", gender="female"))
    photographers = chosen("Photography", "United States", (23, 30))
    by_state = Counter(state_of[home[number]] for number in photographers)
    to_grown_up = Counter(a for a, b in edges["Follows"] if persons[b]["age"] > 25)
    home_state = state_of[home[top]]
    place = [cities[home[top]]["name"], states[home_state]["name"], nation(top)]
    return {
        "q1": first,
        "q2": [[top, persons[top]["name"], *place, followers[top]]],
        "q3": [[city, cities[city]["name"], mean(ages[city])] for city in youngest],
        "q4": sorted(
            ([name, count] for name, count in by_nation.items()), key=lambda row: (-row[1], row[0])
        )[:3],
        "q5": [[len(list(men))]],
        "q6": best(women, cities, 5),
        "q7": best(by_state, states, 1),
        "q8": [[sum(followers[number] * following[number] for number in persons)]],
        "q9": [
            [
                sum(
                    followers[number] * to_grown_up[number]
                    for number, person in persons.items()
                    if person["age"] < 50
                )
            ]
        ],
    }


@pytest.mark.parametrize("kind", ["random", "hub"])
def test_our_neighbourhoods_are_right(kind, folders, network):
    nodes, edges = network
    parameters = {**SMALL["neighbourhoods"], "kind": kind}
    _, sample = our_sample("neighbourhoods", folders, parameters)
    follows = {}
    for source, target in edges["Follows"]:
        follows.setdefault(source, []).append(target)
    seeds = json.loads(Path(folders["neighbourhoods"]["inputs"], "seeds.json").read_text())
    asked = seeds[kind][: parameters["count"]]
    facts = []
    for number in asked:
        person = nodes["Person"][number]
        facts.append(["point", number, number, person["name"], person["age"]])
    walks = {"1 hop": (1, asked), **{f"{hops} hops": (hops, asked) for hops in (2, 3, 4)}}
    walks["4 hops of every fourth"] = (4, asked[::4])
    for measure, (hops, numbers) in walks.items():
        for number in numbers:
            reached = within(follows, number, hops)
            facts.append([measure, number, len(reached), sum(reached)])
    assert sample["result_hash"] == hash_rows(facts), sample["preview"]


def within(follows, start, hops):
    distance = {start: 0}
    waiting = deque([start])
    while waiting:
        person = waiting.popleft()
        if distance[person] < hops:
            for followed in follows.get(person, ()):
                if followed not in distance:
                    distance[followed] = distance[person] + 1
                    waiting.append(followed)
    return distance.keys() - {start}


def test_hubs_are_those_who_follow_most(folders, network):
    _, edges = network
    following = Counter(follower for follower, _ in edges["Follows"])
    seeds = json.loads(Path(folders["neighbourhoods"]["inputs"], "seeds.json").read_text())
    assert [following[number] for number in seeds["hub"]] == sorted(
        (count for _, count in following.most_common(100)), reverse=True
    )


def test_our_searches_find_the_exact_answers(folders):
    _, sample = our_sample("retrieval", folders)
    assert sample["notes"]["recall"] == {"vector": 1.0, "text": 1.0, "hybrid": 1.0}


def test_a_search_that_finds_too_little_changes_the_hash(folders):
    spec = {**folders["retrieval"], "parameters": SMALL["retrieval"]}

    def sample(share):
        def find(kind, search):
            return search["exact"][kind][: round(10 * share)]

        return search_all(spec, lambda: find, notes={})

    assert sample(1.0)["result_hash"] == our_sample("retrieval", folders)[1]["result_hash"]
    assert sample(0.5)["notes"]["recall"]["vector"] == 0.5
    assert sample(0.5)["result_hash"] != sample(1.0)["result_hash"]


PEERS = [
    pytest.param(name, system, id=f"{name}-{system.name}")
    for name in SMALL
    for system in find_suites()[name].systems
    if system.environment is Environment.PEERS
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "system"), PEERS)
def test_a_peer_gives_our_answers(name, system, folders, tmp_path):
    if missing_package(system) is not None:
        pytest.skip(f"{system.name} is not installed in {peers_folder().name}")
    suite, ours = our_sample(name, folders)
    case = replace(suite.cases[0], parameters=SMALL[name])
    measures = frozenset(measure.name for measure in suite.measures)
    spec = {**case_spec(suite, case, system), "inputs": folders[name]["inputs"]}
    python = interpreter(system.environment)
    assert run_prepare(Request(system.prepare, spec, measures, 120, python), tmp_path) is None
    spec["store"] = str(tmp_path)
    sample = run_sample(Request(system.entry, spec, measures, 120, python))
    assert sample.result_hash == ours["result_hash"], (sample.preview, ours["preview"])
