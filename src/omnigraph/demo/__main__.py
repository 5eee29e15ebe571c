"""`python -m omnigraph.demo [folder] [--engine local]`: the story, step by step."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import click

import omnigraph
from omnigraph.cli.error_output import fail_request, fail_usage, fail_with
from omnigraph.cli.terminal import EXIT_INTERRUPTED
from omnigraph.demo.papers import FILE_NAMES, PAPERS, Literature
from omnigraph.graph.engines import EngineName

SCHEMA = (files("omnigraph.demo") / "papers.pg").read_text()
QUERIES = (files("omnigraph.demo") / "papers.gq").read_text()

TIDES = 0
"""The subject of the papers about the sea."""


@contextmanager
def step(title: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    click.echo(f"{time.perf_counter() - started:7.2f} s  {title}")


def say(text: str) -> None:
    click.echo(f"           {text}")


@click.command()
@click.argument("target", default="demo.omni", type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
@click.option("--papers", type=click.IntRange(min=100), default=PAPERS, show_default=True)
def main(target: Path, engine: EngineName, papers: int) -> None:
    """Build a graph of papers in TARGET and show what can be done with it."""
    began = time.perf_counter()
    data = target.with_name(f"{target.name}-data")
    make_way(target, data)
    literature = Literature(papers)
    with step("made up a literature, as files of JSON lines"):
        paths = literature.write(data)
    say(f"{sum(path.stat().st_size for path in paths) / 1e6:.0f} MB in {data}")
    with step("created the graph from its schema"):
        graph = omnigraph.init(target, SCHEMA, actor="demo")
    loaded = load(graph, paths, engine)
    ask(graph, literature)
    work_on_a_branch(graph)
    look_back(graph, loaded)
    merge_the_branch(graph)
    undo(graph)
    maintain(graph)
    click.echo(f"\nAll of it took {time.perf_counter() - began:.0f} s. {render_goodbye(target)}")


def make_way(target: Path, data: Path) -> None:
    """Remove the results of an earlier demo; refuse to remove anything else."""
    left = [path for path in (target, data) if path.exists()]
    theirs = [path for path in left if not is_ours(path)]
    if theirs:
        raise click.ClickException(
            f"{theirs[0]} is there already and was not made by the demo; name another folder"
        )
    for path in left:
        click.echo(f"removing {path}, left by an earlier run")
        shutil.rmtree(path)


def is_ours(path: Path) -> bool:
    """Return whether a folder is a demo graph, or has only files of one."""
    if not path.is_dir():
        return False
    schema = path / "_schema.pg"
    if schema.is_file():
        return schema.read_text(errors="replace") == SCHEMA
    return all(file.name in FILE_NAMES for file in path.iterdir())


def load(graph: omnigraph.Graph, paths: list[Path], engine: EngineName) -> omnigraph.LoadResult:
    with step(f"loaded every file in one commit ({engine})"):
        loaded = graph.load(list(paths), "append", engine=engine)
    nodes, edges = count_entities(graph)
    say(f"{nodes:,} nodes and {edges:,} edges, each checked: values, keys, endpoints, cardinality")
    return loaded


def count_entities(graph: omnigraph.Graph, branch: str = "main") -> tuple[int, int]:
    tables = graph.snapshot(branch).tables
    return (
        sum(t.row_count for t in tables if t.table_key.startswith("node:")),
        sum(t.row_count for t in tables if t.table_key.startswith("edge:")),
    )


def ask(graph: omnigraph.Graph, literature: Literature) -> None:
    with step("walked up to three citations back from one paper, and counted by author"):
        found = graph.query(QUERIES, "lineage", {"paper": f"paper-{literature.papers - 1}"}).rows
    for row in found:
        say(f"{row['author.name']}: {row['papers']} papers since {row['since']}")
    with step("counted every citation by the kind of venue"):
        found = graph.query(QUERIES, "kinds").rows
    for row in found:
        say(f"{row['v.kind']}: {row['citations']:,} citations, of {row['year']:.0f} on average")
    with step("found the most cited papers of one year"):
        found = graph.query(QUERIES, "influential", {"year": 1990}).rows
    for row in found:
        say(f"{row['p.title']}: {row['citations']} citations")
    given = {"words": "harbour sediment", "meaning": literature.meaning_of(TIDES), "country": "ke"}
    with step("ranked by words and by meaning together, among authors of one country"):
        found = graph.query(QUERIES, "about", given).rows
    for row in found:
        say(f"{row['p.title']} ({row['p.year']}), {row['a.name']}")


def work_on_a_branch(graph: omnigraph.Graph) -> None:
    with step("created the branch 'review', which copies nothing"):
        graph.create_branch("review")
    review = graph.branch("review")
    with step("changed two papers on it, each in a commit of its own"):
        review.mutate(QUERIES, "correct", {"paper": "paper-7", "title": "Robust Tides, Corrected"})
        gone = review.mutate(QUERIES, "retract", {"paper": "paper-0"})
    say(f"retracting one took {gone.affected_edges:,} edges along")
    for branch in ("main", "review"):
        nodes, edges = count_entities(graph, branch)
        say(f"{branch}: {nodes:,} nodes, {edges:,} edges")


def look_back(graph: omnigraph.Graph, loaded: omnigraph.LoadResult) -> None:
    assert loaded.commit is not None, "there was something to load"
    with step("added an author to main, then read main as it was before"):
        added = 'query add() { insert Author { slug: "new", name: "New Author" } }'
        graph.mutate(added)
        past = graph.at(commit=loaded.commit.commit_id)
    for label, tables in (("now", graph.snapshot().tables), ("then", past.info().tables)):
        authors = next(t.row_count for t in tables if t.table_key == "node:Author")
        say(f"{label}: {authors:,} authors")
    with step("listed the history of 'review', which begins on main"):
        history = graph.commits("review")
    for commit in history:
        say(f"{commit.commit_id}  {commit.branch:<7} by {commit.actor_id or 'nobody'}")


def merge_the_branch(graph: omnigraph.Graph) -> None:
    with step("corrected one of the papers on main too, in another way"):
        graph.mutate(QUERIES, "correct", {"paper": "paper-7", "title": "Robust Tides, Revised"})
    with step("previewed the merge of 'review' into main"):
        preview = graph.merge("review", dry_run=True)
    for table in preview.tables:
        say(f"{table.table_key}: {table.updated} to update, {table.deleted:,} to delete")
    for conflict in preview.conflicts:
        say(f"conflict: {conflict.message}")
    graph.tag("before-merge")
    with step("merged, taking what 'review' has where both changed"):
        graph.merge("review", resolve="theirs")
    with step("compared main with what it was before"):
        stats = graph.diff("before-merge", "main").stats.values()
    for one in stats:
        say(f"{one.type_name}: {one.updated} updated, {one.deleted:,} deleted")


def undo(graph: omnigraph.Graph) -> None:
    with step("reverted the retraction alone, a commit that came with the merge"):
        retraction = graph.commits("review")[0]
        reverted = graph.revert(retraction.commit_id)
    for table in reverted.tables:
        say(f"{table.table_key}: {table.inserted:,} back")
    with step("restored main to what it was before the merge, as a new commit"):
        graph.restore("before-merge")
    same = not list(graph.diff("before-merge", "main"))
    say("no difference" if same else "there are differences")


def maintain(graph: omnigraph.Graph) -> None:
    with step("optimized: small files merged, declared indexes built"):
        result = graph.optimize()
    say(f"{sum(table.committed for table in result.tables)} tables were compacted or indexed")
    with step("verified"):
        findings = graph.verify().findings
    say("nothing wrong" if not findings else f"{len(findings)} findings")


def render_goodbye(target: Path) -> str:
    return f"""The graph stays in {target}:

  ./dev run snapshot {target}
  ./dev run commit list {target}
  ./dev run shell {target}

or from Python:

  import omnigraph
  graph = omnigraph.open("{target}")
  graph.query('query q() {{ match {{ $p: Paper }} return {{ $p.title }} limit 3 }}').rows
"""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit code; errors are one line, without a traceback."""
    try:
        main.main(arguments, prog_name="python -m omnigraph.demo", standalone_mode=False)
    except click.UsageError as error:
        return fail_usage(error, wants_json=False)
    except (click.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        click.echo("interrupted; the next run starts from the beginning", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return fail_request(error.format_message(), wants_json=False)
    except Exception as error:  # noqa: BLE001 - the edge of the program
        return fail_with(error, wants_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(run())
