"""Random operations that often touch the same few entities, so that rules get broken."""

from __future__ import annotations

from hypothesis import strategies as st

slugs = st.sampled_from(["ann", "bob", "o'x\"\\", "é%_\n"])
"""Two that exist from the start, and two that have to be quoted with care."""
notes = st.sampled_from(["n1", "n2", "n3"])
edge_ids = st.sampled_from(["e1", "e2", "e3"])
names = st.sampled_from(["A", "B", "é\u2028", ""])
emails = st.sampled_from([None, "x@", "y@", "z@"])
ages = st.sampled_from([None, None, 0, 7, 40, 150, 151, -1])
moods = st.sampled_from([None, None, "calm", "wild", "mad"])
years = st.sampled_from([None, 1990, 2020])
kinds = st.sampled_from([None, "old", "new", "odd"])
roles = st.sampled_from([None, "first", "later"])

person_options = {"email": emails, "age": ages, "mood": moods}


def some(values: dict):
    """Some of these members, each given or left out."""
    return st.fixed_dictionaries({}, optional=values)


def joined(*parts):
    return st.tuples(*parts).map(lambda found: {k: v for part in found for k, v in part.items()})


person_values = joined(st.fixed_dictionaries({"slug": slugs, "name": names}), some(person_options))
note_values = joined(
    st.fixed_dictionaries({"text": names}), some({"rank": st.sampled_from([1, 3])})
)
edge_values = {
    "Knows": joined(
        st.fixed_dictionaries({"src": slugs, "dst": slugs}), some({"since": years, "kind": kinds})
    ),
    "Wrote": joined(st.fixed_dictionaries({"src": slugs, "dst": notes}), some({"role": roles})),
    "Likes": joined(st.fixed_dictionaries({"src": slugs, "dst": notes}), some({"since": years})),
}
edge_types = st.sampled_from(sorted(edge_values))


def insert(table, values):
    return values.map(lambda given: {"insert": table, "values": given})


inserts = st.one_of(
    insert("Person", person_values),
    insert("Person", person_values),
    insert("Note", note_values),
    edge_types.flatmap(lambda table: insert(table, edge_values[table])),
)
merges = joined(st.fixed_dictionaries({"slug": slugs, "name": names}), some(person_options)).map(
    lambda given: {"merge": "Person", "values": given}
)

person_conditions = st.one_of(
    st.tuples(st.just("slug"), st.sampled_from(["=", "=", "!="]), slugs),
    st.tuples(st.just("age"), st.sampled_from(["<", ">", "=", "<=", ">=", "!="]), ages),
    st.tuples(st.just("email"), st.just("="), emails),
    st.tuples(st.just("mood"), st.just("="), st.sampled_from([None, "calm", "wild"])),
)
person_changes = some({"name": names, **person_options}).filter(bool)
updates = st.one_of(
    st.builds(
        lambda given, where: {"update": "Person", "set": given, "where": list(where)},
        person_changes,
        person_conditions,
    ),
    st.builds(
        lambda rank, text: {"update": "Note", "set": {"rank": rank}, "where": ["text", "=", text]},
        st.sampled_from([1, 9]),
        names,
    ),
    st.builds(
        lambda kind, slug: {"update": "Knows", "set": {"kind": kind}, "where": ["from", "=", slug]},
        kinds,
        slugs,
    ),
)
edge_conditions = st.one_of(
    st.tuples(st.sampled_from(["from", "to"]), st.just("="), st.one_of(slugs, notes)),
    st.tuples(st.just("from"), st.just("!="), slugs),
)
deletes = st.one_of(
    person_conditions.map(lambda where: {"delete": "Person", "where": list(where)}),
    names.map(lambda text: {"delete": "Note", "where": ["text", "=", text]}),
    st.builds(
        lambda table, where: {"delete": table, "where": list(where)}, edge_types, edge_conditions
    ),
)


def statements(choice, most):
    return st.lists(choice, min_size=1, max_size=most).map(
        lambda found: {"do": "mutate", "statements": found}
    )


mutations = st.one_of(
    statements(inserts, 3),
    statements(st.one_of(inserts, merges, updates), 4),
    statements(updates, 3),
    statements(deletes, 2),
    statements(st.one_of(inserts, deletes), 2),
)


def node_record(table, values):
    return values.map(lambda given: {"type": table, "data": given})


def edge_record(table):
    def record(given, id):
        data = {k: v for k, v in given.items() if k not in ("src", "dst")}
        if id is not None:
            data["id"] = id
        return {"edge": table, "from": given["src"], "to": given["dst"], "data": data}

    return st.builds(record, edge_values[table], st.one_of(st.none(), edge_ids))


records = st.one_of(
    node_record("Person", person_values),
    node_record("Person", person_values),
    node_record("Note", joined(note_values, some({"id": notes}))),
    node_record("Note", joined(note_values, st.fixed_dictionaries({"id": notes}))),
    edge_types.flatmap(edge_record),
)
loads = st.builds(
    lambda mode, found: {"do": "load", "mode": mode, "records": found},
    st.sampled_from(["append", "append", "merge", "merge", "overwrite"]),
    st.lists(records, max_size=5),
)

operations = st.one_of(mutations, loads)
