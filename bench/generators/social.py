"""A social network in the shape of the published graph-database study.

10,000 to 1,000,000 persons follow 24 others on average, live in one of 7,117 cities of 273
states of 3 countries, and have one to five of 41 interests. Both ends of `Follows` have a power
law: a few persons are followed by thousands, and a few follow hundreds. At 100,000 persons that
is 107,434 nodes and about 2.75 million edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.generators.draw import Draw, Floats, Integers, distinct_choices, distinct_sorted
from bench.generators.names import FIRST_NAMES, INTERESTS, made_up_names
from bench.generators.tables import (
    GraphTables,
    columns,
    dates,
    number_ids,
    numbers_from_one,
    picked,
)

SCHEMA = Path(__file__).with_suffix(".pg").read_text()

FOLLOWS_PER_PERSON = 24
CITIES = 7117
COUNTRIES = ("United States", "United Kingdom", "Canada")
STATES_BY_COUNTRY = (200, 50, 23)
STATES = sum(STATES_BY_COUNTRY)

_SURNAMES = 400
_TODAY = (date(2025, 1, 1) - date(1970, 1, 1)).days
_YOUNGEST, _OLDEST = 18, 80
_LONDON_STATE = STATES_BY_COUNTRY[0]  # the first state of the second country


@dataclass(frozen=True, slots=True)
class Pairs:
    """The two ends of an edge type, as indices in the node tables."""

    source: Integers
    target: Integers


@dataclass(frozen=True, slots=True)
class SocialNumbers:
    """The whole network as numbers, before it is dressed in names and Arrow columns."""

    persons: int
    first_name: Integers
    surname: Integers
    is_female: Integers
    age: Integers
    birthday: Integers
    is_married: Integers
    lives_since: Integers
    population: Integers
    latitude: Floats
    longitude: Floats
    follows: Pairs
    lives_in: Pairs
    has_interest: Pairs
    city_in: Pairs
    state_in: Pairs

    @property
    def rows(self) -> int:
        """Count the nodes and edges of the network."""
        nodes = self.persons + CITIES + STATES + len(COUNTRIES) + len(INTERESTS)
        edges = (self.follows, self.lives_in, self.has_interest, self.city_in, self.state_in)
        return nodes + sum(len(pairs.source) for pairs in edges)


def social_graph(seed: int, persons: int) -> GraphTables:
    """The network of `persons` persons; equal seeds and sizes give equal bytes."""
    return dress(draw_numbers(seed, persons))


def draw_numbers(seed: int, persons: int) -> SocialNumbers:
    """The network as NumPy columns only."""
    if persons < 100:
        raise ValueError(f"a social network needs at least 100 persons, not {persons}")
    age = _YOUNGEST + Draw(seed, "age").integers(persons, _OLDEST - _YOUNGEST)
    days_since_birthday = Draw(seed, "birthday").integers(persons, 365)
    by_population, population = _populations(seed)
    homes = by_population[Draw(seed, "home").square(persons, CITIES)]
    return SocialNumbers(
        persons=persons,
        first_name=Draw(seed, "first name").integers(persons, len(FIRST_NAMES)),
        surname=Draw(seed, "surname").square(persons, _SURNAMES),
        is_female=Draw(seed, "gender").integers(persons, 2),
        age=age,
        # 365.25 days a year, in whole days: the age in years is right on the reference day.
        birthday=_TODAY - (age * 1461 + 3) // 4 - days_since_birthday,
        is_married=Draw(seed, "married").integers(persons, 2),
        lives_since=_TODAY - Draw(seed, "lives since").integers(persons, 3650),
        population=population,
        latitude=(240_000 + Draw(seed, "latitude").integers(CITIES, 360_000)) / 10_000,
        longitude=(-1_300_000 + Draw(seed, "longitude").integers(CITIES, 1_300_000)) / 10_000,
        follows=_follows(seed, persons),
        lives_in=Pairs(np.arange(persons, dtype=np.int64), homes),
        has_interest=_interests(seed, persons),
        city_in=Pairs(np.arange(CITIES, dtype=np.int64), _states_of_cities(seed)),
        state_in=Pairs(
            np.arange(STATES, dtype=np.int64),
            np.repeat(np.arange(len(COUNTRIES), dtype=np.int64), STATES_BY_COUNTRY),
        ),
    )


def dress(numbers: SocialNumbers) -> GraphTables:
    """Return the network as Arrow tables, with names and ids."""
    return GraphTables(
        schema_text=SCHEMA,
        nodes={
            "Person": _person_table(numbers),
            "City": columns(
                number=numbers_from_one(CITIES),
                name=_city_names(),
                population=pa.array(numbers.population),
                latitude=pa.array(numbers.latitude),
                longitude=pa.array(numbers.longitude),
            ),
            "State": _named(made_up_names(STATES, offset=20_000)),
            "Country": _named(list(COUNTRIES)),
            "Interest": _named(INTERESTS),
        },
        edges={
            "Follows": _edges(numbers.follows),
            "LivesIn": _edges(numbers.lives_in, since=dates(numbers.lives_since)),
            "HasInterest": _edges(numbers.has_interest),
            "CityIn": _edges(numbers.city_in),
            "StateIn": _edges(numbers.state_in),
        },
        keys=dict.fromkeys(("Person", "City", "State", "Country", "Interest"), "number"),
        endpoints={
            "Follows": ("Person", "Person"),
            "LivesIn": ("Person", "City"),
            "HasInterest": ("Person", "Interest"),
            "CityIn": ("City", "State"),
            "StateIn": ("State", "Country"),
        },
    )


def _follows(seed: int, persons: int) -> Pairs:
    """Exactly 24 follows a person on average, no one themselves and no one twice.

    Follower and followed are drawn by rank in two unrelated orders, so being followed much says
    nothing about following much. Pairs lost as duplicates are drawn again.
    """
    wanted = min(FOLLOWS_PER_PERSON * persons, persons * (persons - 1) // 8)
    ranks = Draw(seed, "follows")
    eager = Draw(seed, "eager").permutation(persons)
    popular = Draw(seed, "popular").permutation(persons)
    codes = np.empty(0, dtype=np.int64)
    while (missing := wanted - len(codes)) > 0:
        source = eager[ranks.three_halves(missing, persons)]
        target = popular[ranks.square(missing, persons)]
        fresh = distinct_sorted((source * persons + target)[source != target])
        codes = np.sort(np.concatenate([codes, fresh[~_contains(codes, fresh)]]), kind="stable")
    return Pairs(codes // persons, codes % persons)


def _contains(ordered: Integers, values: Integers) -> NDArray[np.bool_]:
    """Return which of `values` are in the sorted array `ordered`."""
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    index = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[index] == values)


def _interests(seed: int, persons: int) -> Pairs:
    """One to five interests a person, 2.4 on average, the first ones named being the liked ones."""
    weights = np.array([1, 1, 2, 2, 2, 3, 3, 4, 5, 1], dtype=np.int64)
    counts = weights[Draw(seed, "interest count").integers(persons, len(weights))]
    first = Draw(seed, "interest").square(persons, len(INTERESTS))
    stride = Draw(seed, "interest stride")
    return Pairs(*distinct_choices(stride, counts, first, len(INTERESTS)))


def _populations(seed: int) -> tuple[Integers, Integers]:
    """Cities from the largest down, and the population of each; London comes first."""
    order = Draw(seed, "city order").permutation(CITIES)
    london = int(np.flatnonzero(order == _LONDON_STATE)[0])
    order[[0, london]] = order[[london, 0]]
    population = np.empty(CITIES, dtype=np.int64)
    population[order] = 9_000_000 // np.arange(1, CITIES + 1) + 1_000
    return order, population


def _states_of_cities(seed: int) -> Integers:
    """The state of each city; the first cities are the capitals, so no state is empty."""
    states = Draw(seed, "city state").integers(CITIES, STATES)
    states[:STATES] = np.arange(STATES)
    return states


def _city_names() -> pa.Array:
    names = made_up_names(CITIES, offset=10_000)
    names[_LONDON_STATE] = "London"  # the capital of the first British state
    return pa.array(names)


def _person_table(numbers: SocialNumbers) -> pa.Table:
    first = picked(FIRST_NAMES, numbers.first_name)
    surname = picked(made_up_names(_SURNAMES), numbers.surname)
    return columns(
        number=numbers_from_one(numbers.persons),
        name=pc.binary_join_element_wise(first, surname, " "),
        gender=picked(["male", "female"], numbers.is_female),
        birthday=dates(numbers.birthday),
        age=pa.array(numbers.age.astype(np.int32)),
        is_married=pa.array(numbers.is_married.astype(np.bool_)),
    )


def _named(names: list[str]) -> pa.Table:
    return columns(number=numbers_from_one(len(names)), name=pa.array(names))


def _edges(pairs: Pairs, **properties: pa.Array) -> pa.Table:
    return columns(src=number_ids(pairs.source), dst=number_ids(pairs.target), **properties)
