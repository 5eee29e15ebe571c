"""The main job, end to end: create a graph, load it, change it, branch it, look at its past.

Run by `./dev demo`. It prints what it does and how long each step took, and leaves the graph
behind for the reader to explore.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import click

import omnigraph
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog, compile_plan
from omnigraph.plan.explain import explain_text

SEED = 7
ARTISTS = 2_000
ALBUMS = 6_000
INFLUENCES = 10_000

SCHEMA = """\
interface Titled { title: String @index }

node Label  { slug: String @key  name: String  founded: Date?  country: enum(de, jp, uk, us)? }
node Artist { slug: String @key  name: String @index  born: I32?  genres: [String]?
              @range(born, 1900..2020) }
node Album implements Titled {
  slug: String @key  released: Date?  rating: F64?
  @range(rating, 0.0..10.0) }

edge SignedTo: Artist -> Label @card(0..1) { since: Date? }
edge Made: Artist -> Album { role: enum(guest, lead)?  @unique(src, dst) }
edge Influences: Artist -> Artist { weight: F64? }
"""

QUERIES = """\
query influences($slug: String) {
  match { $a: Artist { slug: $slug }  $a influences{1,2} $b  $b made $album
          not { $b signedTo $_ } }
  return { $b.name, count($album) as albums }
  order { albums desc }
  limit 5
}

query countries() {
  match { $l: Label  $a signedTo $l  $a made $b }
  return { $l.country, count($b) as albums, avg($b.rating) as rating }
  order { albums desc }
}

query retire($slug: String) { delete Artist where slug = $slug }

query rate($slug: String, $rating: F64) {
  update Album set { rating: $rating } where slug = $slug
}
"""

_GENRES = ("ambient", "dub", "folk", "house", "jazz", "noise")
_ROLES = ("guest", "lead", None)


def records(seed: int = SEED) -> Iterator[dict[str, object]]:
    """A made-up music scene, the same for the same seed."""
    chance = Random(seed)
    for number, country in enumerate(("de", "jp", "uk", "us") * 5):
        slug = f"label-{number}"
        data = {"slug": slug, "name": slug.title(), "founded": 3_000 + number, "country": country}
        yield {"type": "Label", "data": data}
    for number in range(ARTISTS):
        yield {"type": "Artist", "data": _artist(number, chance)}
        if chance.random() < 0.6:
            to = f"label-{chance.randrange(20)}"
            yield {"edge": "SignedTo", "from": f"artist-{number}", "to": to}
    for number in range(ALBUMS):
        slug = f"album-{number}"
        rating = round(chance.uniform(3, 10), 1)
        data = {"slug": slug, "title": f"Album No. {number}", "rating": rating}
        yield {"type": "Album", "data": data}
        for artist in chance.sample(range(ARTISTS), chance.choice((1, 1, 2))):
            role = {"role": chance.choice(_ROLES)}
            yield {"edge": "Made", "from": f"artist-{artist}", "to": slug, "data": role}
    for _ in range(INFLUENCES):
        # Squaring makes a few artists influence many, as in life.
        one, other = int(chance.random() ** 2 * ARTISTS), chance.randrange(ARTISTS)
        weight = {"weight": round(chance.random(), 2)}
        ends = {"from": f"artist-{one}", "to": f"artist-{other}"}
        yield {"edge": "Influences", **ends, "data": weight}


def _artist(number: int, chance: Random) -> dict[str, object]:
    return {
        "slug": f"artist-{number}",
        "name": f"Artist No. {number}",
        "born": chance.choice((None, chance.randint(1930, 2005))),
        "genres": chance.sample(_GENRES, chance.randint(0, 3)),
    }


@contextmanager
def step(title: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    click.echo(f"  {time.perf_counter() - started:6.2f} s  {title}")


def main(target: str = "demo.omni") -> None:
    root = Path(target)
    if root.exists():
        click.echo(f"{root} exists; removing the graph an earlier run left there")
        shutil.rmtree(root)
    plan_a_query()
    click.echo(f"\nBuilding a graph in {root}\n")
    with step("created the graph from its schema"):
        graph = omnigraph.init(root, SCHEMA, actor="demo")
    with step("loaded every record in one commit"):
        loaded = graph.load(records(), "append")
    ask(graph)
    work_on_a_branch(graph)
    look_back(graph, loaded)
    click.echo(f"\nThe graph is in {root}. Explore it from Python:\n")
    click.echo(f'  import omnigraph\n  graph = omnigraph.open("{root}")')
    click.echo("  graph.snapshot(), graph.commits(), graph.branches()")
    click.echo(f"\nor from a shell:\n\n  ./dev run commit list {root}")


def plan_a_query() -> None:
    catalog = compile_catalog(SourceText(SCHEMA, "music.pg"))
    plan = compile_plan(SourceText(QUERIES, "music.gq"), catalog, "influences")
    click.echo("The plan of a query:\n")
    click.echo(explain_text(plan))


def ask(graph: omnigraph.Graph) -> None:
    with step("walked two steps from one artist and counted albums"):
        answer = graph.query(QUERIES, "influences", {"slug": "artist-3"}).rows
    for row in answer:
        click.echo(f"            {row['b.name']}: {row['albums']} albums")
    with step("grouped every album by the country of its artist's label"):
        countries = graph.query(QUERIES, "countries").rows
    for row in countries:
        click.echo(
            f"            {row['l.country']}: {row['albums']} albums, rated {row['rating']:.2f}"
        )


def work_on_a_branch(graph: omnigraph.Graph) -> None:
    with step("created the branch 'review', which copies nothing"):
        graph.create_branch("review")
    review = graph.branch("review")
    with step("changed two things on it, each in a commit of its own"):
        review.mutate(QUERIES, "rate", {"slug": "album-1", "rating": 9.9})
        retired = review.mutate(QUERIES, "retire", {"slug": "artist-0"})
    click.echo(
        f"            retiring one artist took {retired.affected_edges} edges along; "
        "main still has them all"
    )


def look_back(graph: omnigraph.Graph, loaded: omnigraph.LoadResult) -> None:
    with step("read both branches, and main as it was right after the load"):
        for label, view in (
            ("main", graph.at()),
            ("review", graph.at(branch="review")),
            ("the load", graph.at(commit=loaded.commit.commit_id)),
        ):
            counts = {t.table_key: t.row_count for t in view.info().tables}
            click.echo(
                f"            {label}: {counts['node:Artist']} artists, "
                f"{counts['edge:Made']} Made, {counts['edge:Influences']} Influences"
            )
    click.echo("\nHistory of 'review', newest first:")
    for commit in graph.commits("review"):
        click.echo(f"  {commit.commit_id}  {commit.branch:<7} by {commit.actor_id or 'nobody'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
