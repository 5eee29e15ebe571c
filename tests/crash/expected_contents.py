"""The town as plain Python: what a graph must contain after a list of operations."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from crash.crash_checks import Content
from crash.crash_scenario import BASE, city, knows, lives_in, person, run
from omnigraph import Graph

Step = Mapping[str, Any]
"""One operation, as it is sent between processes."""


class Branch:
    """The contents of one branch."""

    def __init__(self) -> None:
        self.people: dict[str, int | None] = {}
        self.cities: set[str] = set()
        self.knows: list[tuple[str, str, int | None]] = []
        self.homes: dict[str, str] = {}
        self.commits = 1

    def add(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            data = record["data"]
            match record.get("type") or record.get("edge"):
                case "Person":
                    self.people[data["slug"]] = data["age"]
                case "City":
                    self.cities.add(data["slug"])
                case "Knows":
                    self.knows.append((record["from"], record["to"], data["since"]))
                case "LivesIn":
                    self.homes[record["from"]] = record["to"]
        self.commits += 1

    def remove(self, slug: str) -> None:
        del self.people[slug]
        self.homes.pop(slug, None)
        self.knows = [k for k in self.knows if slug not in k[:2]]
        self.commits += 1

    def content(self) -> tuple[str, ...]:
        records = [person(slug, age) for slug, age in self.people.items()]
        for record in records:
            record["data"] |= {"id": record["data"]["slug"], "tags": None}
        records += [city(slug) for slug in self.cities]
        for record in records[len(self.people) :]:
            record["data"] |= {"id": record["data"]["slug"]}
        records += [knows(*one) for one in self.knows]
        records += [lives_in(*one) for one in self.homes.items()]
        lines = sorted(json.dumps(record, sort_keys=True) for record in records)
        return (*lines, f"{self.commits} commits")


class ExpectedGraph:
    """Every branch, and which branch each came from."""

    def __init__(self) -> None:
        main = Branch()
        main.add(BASE)
        self.branches, self.parents = {"main": main}, dict[str, str]()
        self._fresh = 0

    def content(self) -> Content:
        return {name: branch.content() for name, branch in self.branches.items()}

    def after(self, step: Step) -> ExpectedGraph:
        """The town after a step; this one stays as it is."""
        expected = deepcopy(self)
        expected._take(step)
        return expected

    def _take(self, step: Step) -> None:
        self._fresh += 1
        match step["do"]:
            case "branch":
                self.branches[step["name"]] = deepcopy(self.branches[step["source"]])
                self.parents[step["name"]] = step["source"]
            case "drop":
                del self.branches[step["name"]], self.parents[step["name"]]
            case "load":
                self.branches[step["branch"]].add(step["records"])
            case "age":
                people = self.branches[step["branch"]].people
                people.update(
                    (slug, step["to"]) for slug, age in people.items() if age == step["of"]
                )
                self.branches[step["branch"]].commits += 1
            case "remove":
                self.branches[step["branch"]].remove(step["slug"])

    def choose(self, dice: random.Random, prefix: str = "p") -> Step:
        """Some operation that can be done now."""
        name = dice.choice(sorted(self.branches))
        branch = self.branches[name]
        slugs = [f"{prefix}{self._fresh}-{number}" for number in range(dice.randint(1, 3))]
        match dice.randrange(8):
            case 0 if len(self.branches) < 4:
                return {"do": "branch", "name": f"b{self._fresh}", "source": name}
            case 1 if name != "main" and name not in self.parents.values():
                return {"do": "drop", "name": name}
            case 2:
                ages = sorted({age for age in branch.people.values() if age is not None})
                to = dice.randrange(100)
                return {"do": "age", "branch": name, "of": dice.choice(ages), "to": to}
            case 3 if len(branch.people) > 4:
                return {"do": "remove", "branch": name, "slug": dice.choice(sorted(branch.people))}
            case 4:
                changed = [person(slug, dice.randrange(100)) for slug in sorted(branch.people)[:2]]
                return {"do": "load", "branch": name, "mode": "merge", "records": changed}
            case 5:
                records = [person(slug, 1) for slug in slugs] + [city(slugs[0])]
                records += [lives_in(slug, slugs[0]) for slug in slugs]
                return {"do": "load", "branch": name, "mode": "append", "records": records}
            case _:
                records = [person(slugs[0], 1), knows(slugs[0], dice.choice(sorted(branch.people)))]
                return {"do": "load", "branch": name, "mode": "append", "records": records}


def do(graph: Graph, step: Step) -> None:
    """The step on a real graph."""
    match step["do"]:
        case "branch":
            graph.create_branch(step["name"], source=step["source"])
        case "drop":
            graph.delete_branch(step["name"])
        case "load":
            graph.load(step["records"], step["mode"], branch=step["branch"])
        case "age":
            statement = f"update Person set {{age: {step['to']}}} where age = {step['of']}"
            run(graph, statement, step["branch"])
        case "remove":
            run(graph, f'delete Person where slug = "{step["slug"]}"', step["branch"])
