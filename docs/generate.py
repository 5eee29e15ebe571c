"""Writes the pages, and parts of pages, that repeat what the code says; a test checks they are current.

Usage: python docs/generate.py [--check]
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import click

from omnigraph import errors
from omnigraph.catalog.catalog_codes import CATALOG_CODES
from omnigraph.catalog.renames import IDENTITY_CODES
from omnigraph.catalog.schema_lint import SCHEMA_LINT_CODES
from omnigraph.cli.main import omnigraph
from omnigraph.cluster.cluster_codes import (
    APPLY_CODES,
    CONFIG_CODES,
    RECOVERY_CODES,
    SERVING_CODES,
    STATE_CODES,
    WARNINGS,
)
from omnigraph.environment import Setting
from omnigraph.language.query.query_syntax_codes import QUERY_SYNTAX_CODES
from omnigraph.language.schema.schema_syntax_codes import SCHEMA_SYNTAX_CODES
from omnigraph.language.text_codes import TEXT_CODES
from omnigraph.plan.query_codes import LINT_CODES, TYPE_CODES
from omnigraph.policy.policy_codes import POLICY_CODES
from omnigraph.server.openapi_document import describe_api
from omnigraph.settings import SETTINGS
from omnigraph.types.problems import PROBLEM_MEANINGS

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `./dev docs` from the code; change the code, not this page. -->\n"


def error_classes(base: type[errors.OmniError] = errors.OmniError) -> Iterator[type]:
    """Every error class below `base`, in the order of the source."""
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from error_classes(child)


def errors_page() -> str:
    rows = ["| Code | Class | HTTP | Wire `code` | Exit | Meaning |", "|---|---|---|---|---|---|"]
    for one in error_classes():
        meaning = (inspect.getdoc(one) or "").split("\n\n")[0].replace("\n", " ")
        inherited = one.__doc__ is None
        rows.append(
            f"| `{one.code}` | `{one.__name__}` | {one.http_status} | "
            f"{one.wire_code} | {one.exit_code} | {'' if inherited else meaning} |"
        )
    tree = inspect.getdoc(errors) or ""
    return f"""# Errors

{NOTE}
Every error the system raises on purpose is an `omnigraph.errors.OmniError`. Match on the class or on `code`; the wording may
change. Every fact an error carries is an attribute and a member of `wire()`, the JSON body of the command line and the server.
Wrong usage of a command exits with 2, a lost race under `expected_head` with 4, everything else that fails with 1.

```text
{tree}
```

{chr(10).join(rows)}
"""


def table(codes: Mapping[str, str]) -> str:
    lines = ["| Code | Meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{code}` | {codes[code]} |" for code in codes)])


def diagnostics_page() -> str:
    lint = {
        code: f"{one.severity}, {one.tier}: {one.meaning}"
        for code, one in SCHEMA_LINT_CODES.items()
    }
    return f"""# Codes of mistakes in texts and data

{NOTE}
A schema or query with mistakes raises `CompileError`; each of its diagnostics has one of these codes, a line, a column, the
line itself and often a hint.

## Text of either language

{table(TEXT_CODES)}

## Syntax of queries

{table(QUERY_SYNTAX_CODES)}

## Syntax of schemas

{table(SCHEMA_SYNTAX_CODES)}

## Meaning of schemas

{table({**CATALOG_CODES, **IDENTITY_CODES})}

## Meaning of queries

{table(TYPE_CODES)}

## Query lint

{table(LINT_CODES)}

## Schema lint and migration

{table(lint)}

## Policy bundles

{table(POLICY_CODES)}

## Input rows

`RowsRejected` carries the first bad rows of a load with these codes, and counts all of them.

{table(PROBLEM_MEANINGS)}
"""


def default_of(one: Setting[Any]) -> str:
    default = f"`{text}`" if (text := one.show(one.default)) else "–"
    return f"{default}, also for anything else" if one.is_lenient else default


def settings_page() -> str:
    rows = [
        f"| `{one.name}` | {one.kind.label} | {default_of(one)} | {one.applies} | {one.help} |"
        for one in SETTINGS
    ]
    return f"""# Settings

{NOTE}
Environment variables, read once where a program starts: the command line reads them itself, a Python program passes
`Settings.from_environment(os.environ)`.

A variable that cannot be understood is refused, except where the table says that anything else means the default.
`omnigraph config settings` shows what applies now and which `OMNIGRAPH_…` variables nothing reads; commands warn about those.

| Variable | Type | Default | Applies to | Meaning |
|---|---|---|---|---|
{chr(10).join(rows)}
"""


def commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def help_text(path: str, command: click.Command) -> str:
    context = click.Context(
        command,
        info_name=path,
        max_content_width=100,
        terminal_width=100,
        help_option_names=omnigraph.context_settings["help_option_names"],
    )
    return command.get_help(context)


def cli_page() -> str:
    sections = [f"## `omnigraph`\n\n```text\n{help_text('omnigraph', omnigraph)}\n```\n"]
    sections += [
        f"## `{path}`\n\n```text\n{help_text(path, command)}\n```\n"
        for path, command in commands(omnigraph, "omnigraph")
        if not command.hidden
    ]
    return f"""# The command line

{NOTE}
Payloads go to stdout and nothing else does; notes, warnings and errors go to stderr. With `--json` stdout is one JSON
document, on success and on failure; [its members](documents.md) have a page. Progress of long work is drawn on stderr where that is a terminal, unless `--quiet` is given.
Files are written whole or not at all. `NO_COLOR` turns colours off; there are none outside terminals.

A graph is named by an argument, `--store` or `--uri`, or comes from a profile (`--profile`, else `OMNIGRAPH_PROFILE`) or
`defaults.store` of the operator's `config.yaml`. `--store`, `--uri`, `--profile`, `--as`, `--json`, `--quiet` and `--yes` may also stand
before the verb, and every command takes `--quiet` and `--yes`. Deleting or overwriting a graph that is not on this machine asks first,
or needs `--yes`. `-` in place of a file is standard input or output; records that are printed leave no room for a document, so `--json`
asks for a file there.

`read`, `change`, `check` and `ingest` are old names of `query`, `mutate`, `lint` and `load`; they work and say so. [Make the command line
yours](../how-to/command-line.md) is about profiles, aliases, scripts and completion.

| Exit | When |
|---|---|
| 0 | success |
| 1 | the command failed, or whoever read its output went away; `lint` found mistakes |
| 2 | wrong usage |
| 4 | the branch was not at the expected commit |
| 130 | interrupted |

{chr(10).join(sections)}
"""


def http_page() -> str:
    document = describe_api()
    rows = [
        f"| [`{one.method} {one.path}`](http/{one.name}.md) | {one.described['summary']} |"
        for one in list_routes()
    ]
    return f"""# The HTTP interface

{NOTE}
[Serve a graph](../how-to/serve.md) says how to start a server and how its answers are meant. The same as a document for programs is
[openapi.json](openapi.json), and every server gives its own at `/openapi.json`.

Names in an address are percent-encoded one by one: the branch `review/1` is `review%2F1`. Bodies are JSON (`application/json`) unless the route
says otherwise; a member or parameter that is not listed is refused with 400. Commits, branches and changes come in pages: a
`next_page_token` is given back as `page_token`. Every answer has an `X-Request-Id`, the one that was sent or a new one.

| Route | What it does |
|---|---|
{chr(10).join(rows)}

## Errors

Every failure has this body, whatever the route; [the codes](errors.md) that `kind` may have, with their statuses, have a page. `code` is
one of a few words; details of an error are further members.

{body_table(document["components"]["schemas"]["ErrorBody"], "Always")}
"""


class Route(NamedTuple):
    """A route as the OpenAPI document describes it."""

    method: str
    path: str
    described: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.described["operationId"]).removeprefix("cluster_")


def list_routes() -> list[Route]:
    return [
        Route(method.upper(), path, one)
        for path, methods in describe_api()["paths"].items()
        for method, one in methods.items()
    ]


def route_page(route: Route) -> str:
    one = route.described
    lines = [f"# {route.method} {route.path}", "", NOTE, one["summary"]]
    if one.get("deprecated"):
        lines += ["", "An old name; answers carry `Deprecation: true` and a link to the new one."]
    lines += ["", "```console", example_of(route), "```"]
    rows = [
        f"| `{p['name']}` | {p['in']} | {'yes' if p['required'] else 'no'} | {parameter_words(p)} |"
        for p in one["parameters"]
        if p["name"] != "X-Request-Id"
    ]
    if rows:
        lines += ["", "## Parameters", ""]
        lines += ["| Parameter | In | Required | Meaning |", "|---|---|---|---|", *rows]
    taken = one.get("requestBody", {}).get("content", {})
    given = one["responses"]["200"].get("content", {})
    if taken:
        may = "" if one["requestBody"]["required"] else " The body may be left out."
        lines += [
            "",
            "## What it takes",
            "",
            f"{media_words(taken)}.{may}",
            *body_lines(taken, "Required"),
        ]
    if given:
        lines += [
            "",
            "## What it gives",
            "",
            f"200 with {media_words(given)}.",
            *body_lines(given, "Always"),
        ]
    others = [
        f"| {status} | {answer.get('description') or HTTPStatus(int(status)).phrase} |"
        for status, answer in one["responses"].items()
        if status != "200"
    ]
    lines += ["", "## Other statuses", ""]
    lines += [
        "Failures have [one body](../http.md#errors); [the codes](../errors.md) say which.",
        "",
    ]
    lines += ["| Status | |", "|---|---|", *others]
    return "\n".join(lines) + "\n"


def example_of(route: Route) -> str:
    """A request with everything that it needs."""
    one = route.described
    address = route.path.replace("{graph_id}", "people")
    needed = [p for p in one["parameters"] if p["required"]]
    query = "&".join(
        f"{p['name']}={example_value(p['schema'])}" for p in needed if p["in"] == "query"
    )
    words = ["curl -s" if route.method != "HEAD" else "curl -sI"]
    words += [f"-X {route.method}"] if route.method in ("PUT", "DELETE") else []
    words += ['-H "Authorization: Bearer $TOKEN"'] if "security" in one else []
    words += [f"-H '{p['name']}: …'" for p in needed if p["in"] == "header"]
    body = one.get("requestBody")
    if body is not None:
        media, content = next(iter(body["content"].items()))
        data = example_body(content["schema"]) if media == "application/json" else "@FILE"
        words += [f"-H 'Content-Type: {media}'", f"--data-binary {data}"]
    separator = "?" if query else ""
    return "$ " + " ".join([*words, f'"$SERVER{address}{separator}{query}"'])


def example_body(schema: dict[str, Any]) -> str:
    found = find_schema(schema)
    members = {name: example_value(found["properties"][name]) for name in found.get("required", ())}
    return f"'{json.dumps(members, ensure_ascii=False)}'"


def example_value(schema: dict[str, Any]) -> str:
    return str(schema["enum"][0]) if "enum" in schema else "…"


def parameter_words(parameter: dict[str, Any]) -> str:
    schema, said = parameter["schema"], parameter.get("description", "")
    items = schema.get("items", schema)
    if "enum" in items:
        said += f" One of {', '.join(f'`{word}`' for word in items['enum'])}."
    return f"{said} May be given several times." if schema.get("type") == "array" else said


def find_schema(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return describe_api()["components"]["schemas"][name] if name else schema


def body_lines(content: dict[str, Any], needed: str) -> Iterator[str]:
    """The members of a body and, after them, of what is in it."""
    waiting = [one["schema"] for one in content.values() if "$ref" in one["schema"]]
    seen = set()
    while waiting:
        schema = waiting.pop(0)
        name = schema["$ref"].rpartition("/")[2]
        if name in seen:
            continue
        seen.add(name)
        found = find_schema(schema)
        yield from ("", f"### {name}", "")
        if "description" in found:
            yield from (" ".join(found["description"].split()), "")
        yield body_table(found, needed)
        waiting += [one for member in found["properties"].values() for one in references(member)]


def references(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in schema:
        yield schema
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from references(inner)


def media_words(content: dict[str, Any]) -> str:
    words = []
    for media, one in content.items():
        name = one["schema"].get("$ref", "").rpartition("/")[2]
        words.append(f"[{name}](#{name.lower()}) as `{media}`" if name else f"`{media}`")
    return " or ".join(words)


def body_table(schema: dict[str, Any], heading: str) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        f"| `{name}` | {type_words(one)} | {'yes' if name in needed else 'no'} |"
        for name, one in schema["properties"].items()
    ]
    return "\n".join([f"| Member | Type | {heading} |", "|---|---|---|", *rows])


def type_words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(type_words(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {type_words(schema['items'])}" if "items" in schema else "array"
    return str(schema.get("type", "any"))


def openapi_text() -> str:
    return json.dumps(describe_api(), indent=2) + "\n"


def cluster_table(codes: Mapping[str, str]) -> str:
    lines = ["| Code | Severity | Meaning |", "|---|---|---|"]
    for code, meaning in codes.items():
        lines.append(f"| `{code}` | {'warning' if code in WARNINGS else 'error'} | {meaning} |")
    return "\n".join(lines)


def cluster_page() -> str:
    return f"""# Clusters

{NOTE}
A cluster is a set of graphs that is declared in files and applied: `omnigraph cluster plan` shows what separates the files from what is deployed,
`omnigraph cluster apply` makes it so and writes it down. The files are the desired state and belong in git; the ledger in the storage root is the
deployed one; a server serves what was applied. Definitions are managed, never rows.

## Files

```text
<folder>/cluster.yaml, *.pg, *.gq, *.policy.yaml      what is declared
<storage root>/                                       the folder itself, unless `storage` says otherwise
  __cluster/state.json                                the ledger
  __cluster/lock.json                                 who is changing the cluster
  __cluster/resources/query/<graph>/<name>/<digest>.gq
  __cluster/resources/policy/<name>/<digest>.yaml     queries and policies as they were applied
  __cluster/recoveries/<id>.json                      changes of graphs that were begun
  __cluster/approvals/<id>.json                       who allowed what
  graphs/<id>.omni                                    the graphs
```

Where the root is the folder itself, `__cluster/` and `graphs/` do not belong in git.

## `cluster.yaml`

```yaml
version: 1
metadata: {{name: town}}
storage: s3://bucket/town          # a path or an address; by default this folder
state: {{lock: true}}
providers:
  embedding:
    text: {{kind: openai, model: text-embedding-3-large, api_key: "${{OPENAI_API_KEY}}"}}
graphs:
  library:
    schema: library.pg
    queries: queries/              # a folder, a list of files, or {{name: {{file: path}}}}
    embedding_provider: text
    external_blobs: {{allow: [{{base: "s3://bucket/covers/", scope: server_safe}}]}}
policies:
  readers: {{file: readers.policy.yaml, applies_to: [library]}}
  listing: {{file: listing.policy.yaml, applies_to: [cluster]}}
```

| Key | Meaning |
|---|---|
| `version` | 1 |
| `metadata.name` | a name for people |
| `storage` | the storage root; paths are relative to the folder, here and everywhere else |
| `state.backend`, `state.lock` | `cluster`; `false` takes no lock, and what looks interrupted is then never removed |
| `providers.embedding.<name>` | `kind` (or `provider`): `openai-compatible`, `openai`, `gemini`, `local` or `mock`; `base_url`, `model`; `api_key` is the name of a variable, which the server reads when it starts |
| `graphs.<id>.schema` | the schema. An id is what a server takes: 1 to 64 letters, digits and `-` |
| `graphs.<id>.queries` | stored queries: every query of every file |
| `graphs.<id>.embedding_provider` | the name of a provider |
| `graphs.<id>.external_blobs.allow` | `base` is an address that ends with `/`, `scope` is `server_safe` or `embedded_only`. Checked and recorded, and **not used yet**: no graph accepts the address of a [blob](values.md#blobs), listed or not |
| `policies.<name>` | `file`, and `applies_to`: `cluster`, or ids of graphs. A graph has one policy at most, and so has the cluster |

Keys that are not listed, keys that appear twice, anchors and aliases are mistakes; each is reported with its line and column.

## Commands

Every command takes the folder, by default the current one, and `--json`. Findings are printed on stdout, errors and warnings alike; the exit code is 1 if
one of them is an error.

| Command | What it does |
|---|---|
| `cluster validate` | checks the files: schemas, queries against their schemas, policies; looks at no storage |
| `cluster plan` | shows the changes, the steps of schema changes, what each change affects, and the approvals that are missing; takes no lock |
| `cluster apply` | makes the changes. What cannot be made yet is left out with a warning; `converged` says whether everything was made |
| `cluster approve graph.ID` | allows the deletion of a graph, or an empty graph in place of one that was there; needs an actor (`--as`). The approval holds for one configuration and one state of the ledger |
| `cluster status` | shows the ledger, the lock and whether the catalog is whole; opens no graph |
| `cluster refresh` | looks at the graphs and the catalog and records what it finds |
| `cluster import` | makes the first ledger of graphs that are there; for a ledger that was lost |
| `cluster force-unlock ID` | removes the lock of an operator who is gone |

## Resources

`graph.<id>`, `schema.<id>`, `query.<id>.<name>`, `policy.<name>` and `provider.embedding.<name>`. Each has a digest: of the bytes of its file, or of what is
declared. The digest of a graph is made of its schema, its queries, its provider and its places of external blobs. A ledger whose digests do not fit, or
whose checksum does not, was edited by hand; every command refuses it.

| Change | What apply does |
|---|---|
| a graph and its schema are new | creates it, empty |
| a graph was deleted, or a refresh found it gone, and it is declared | the same, with an approval |
| a graph is not declared any more | deletes it with everything in it, with an approval; a policy that is bound to it stays as long |
| a schema changed | [applies it](schema-evolution.md) to `main` without data loss: what is dropped stays in older states |
| queries, policies, bindings and providers | records them; a query waits for its schema, a policy for its graphs |

## Operators at the same time

`apply`, `approve`, `refresh` and `import` hold the lock; a second one is told who has it (`state_lock_held`). The lock of a process that was killed stays until
`force-unlock` removes it by its id. The ledger is replaced only by whoever read it last, with or without a lock: of two that write, one gets
`state_cas_mismatch`, and nothing of it is recorded.

## After an interruption

Before a graph is created, changed or deleted, a sidecar says so; it is removed when the ledger says what became of it. A graph with a sidecar is
not served. The next `apply`, `refresh` or `import` looks at the graph and settles it:

| What was begun | What is found | What happens |
|---|---|---|
| creation | nothing | the intent is removed |
| creation | files without a first version of the graph | they are removed and the graph is created anew; without a lock, `graph_create_incomplete` |
| creation | the graph as it should be | recorded, `cluster_recovery_rolled_forward` |
| creation | something that cannot be opened | `graph_create_incomplete`: remove it |
| schema | the schema of before | the intent is removed |
| schema | the schema that was meant | recorded, `cluster_recovery_rolled_forward` |
| creation or schema | another schema | `cluster_recovery_unattributed`: put that schema into the configuration |
| deletion | nothing | recorded, `cluster_recovery_rolled_forward` |
| deletion | something | `graph_delete_incomplete`: it is planned again, and its approval still holds |

## In Python

```python
from omnigraph.cluster import apply_cluster, plan_cluster
from omnigraph.errors import ClusterError
```

`validate_cluster(folder)`, `plan_cluster(folder)`, `apply_cluster(folder, actor=…)`, `import_cluster`, `approve_change(folder, resource, actor=…)`,
`read_cluster_status`, `refresh_cluster` and `unlock_cluster(folder, lock_id)` give what the commands print; what a command calls an error is a
`ClusterError`, with its `diagnostics` and its `result`. `read_serving_snapshot(place)`, `find_graph_uri(place, graph_id)`, `read_applied_policy` and
`read_applied_queries` read what was applied, from a folder or from a storage root.

## Codes

Where a command goes on in spite of an error it reports a warning under the same code: a plan warns of a held lock, a status of a missing ledger.

### Configuration

{cluster_table(CONFIG_CODES)}

### Ledger and lock

{cluster_table(STATE_CODES)}

### Plan and apply

{cluster_table(APPLY_CODES)}

### Recovery and drift

{cluster_table(RECOVERY_CODES)}

### Serving

{cluster_table(SERVING_CODES)}
"""


BENCHMARKS = (
    (
        "seven questions about a social network of 100,000 people",
        "social",
        "omnigraph, q1–q7",
        "kuzu",
    ),
    ("the same", "social", "omnigraph, q1–q7", "duckdb"),
    ("counting every path of two steps in it", "social", "omnigraph, q8", "kuzu"),
    ("the same", "social", "omnigraph, q8", "duckdb"),
    (
        "one node by its key",
        "neighbourhoods",
        "omnigraph, point at 1,000 random persons",
        "ladybug",
    ),
    (
        "everybody within three hops",
        "neighbourhoods",
        "omnigraph, 3 hops at 1,000 random persons",
        "ladybug",
    ),
    (
        "opening a graph and one hop",
        "neighbourhoods",
        "omnigraph, open and 1 hop at 1,000 random persons",
        "ladybug",
    ),
    (
        "ten of 100,000 documents by vector and text together",
        "retrieval",
        "omnigraph, hybrid",
        "lancedb",
    ),
    ("opening, and the same", "retrieval", "omnigraph, open and hybrid", "lancedb"),
    ("a commit of one row", "one_commit", "omnigraph, commit at insert", "lance append"),
    (
        "a commit after 1,000 commits",
        "growth_history",
        "omnigraph, commit at 1,000 commits",
        "lance append",
    ),
    (
        "merging two branches that changed 10,000 rows each, of a million",
        "merge",
        "omnigraph, merge at 10 k × 10 k changes",
        "doltlite",
    ),
    (
        "merging two branches that changed one row each",
        "merge",
        "omnigraph, merge at one change each",
        "doltlite",
    ),
    (
        "a checked bulk load from Parquet, on Spark",
        "spark_load",
        "omnigraph parquet, load",
        "spark parquet",
    ),
    ("the same", "spark_load", "omnigraph parquet, load", "kuzu copy"),
    (
        "a checked merge of 1 million rows into 10 million, on Spark",
        "spark_upsert",
        "omnigraph spark, merge",
        "lance",
    ),
    ("a look-up over HTTP", "served_reads", "http, point read", "embedded"),
    ("a commit over HTTP", "served_writes", "http, one write", "embedded"),
)
"""What is quoted: in words, the suite, system and measure, and the peer."""
PEERS = {
    "doltlite": "DoltLite",
    "duckdb": "DuckDB",
    "embedded": "the same in process",
    "kuzu": "Kuzu",
    "kuzu copy": "Kuzu's `COPY`",
    "ladybug": "Ladybug",
    "lance": "a bare merge of Lance, unchecked",
    "lance append": "a bare append of Lance",
    "lancedb": "LanceDB, at equal recall",
    "spark parquet": "Spark writing Parquet",
}


def benchmarks_part() -> str:
    """The headlines that the README quotes, as `bench/RESULTS.md` has them."""
    results = (ROOT / "bench" / "RESULTS.md").read_text()
    rows = ["| Measured | Next to | Time |", "|---|---|---:|"]
    for words, suite, measure, peer in BENCHMARKS:
        section = results.partition(f"\n## {suite}\n")[2].partition("\n## ")[0]
        system, _, what = measure.partition(", ")
        headline = (
            rf"^- \*\*{re.escape(system)}\*\*, {re.escape(what)}: \*\*(.+?)×\*\* `{peer}` \((.*)\)$"
        )
        found = re.search(headline, section, re.MULTILINE)
        assert found, f"bench/RESULTS.md has no headline of {suite}: {measure}, next to {peer}"
        shown = "about the same" if "no difference shown" in found[2] else f"{float(found[1]):.2g}×"
        rows.append(f"| {words} | {PEERS[peer]} | {shown} |")
    return "\n".join(rows)


PARTS: dict[str, dict[str, Callable[[], str]]] = {"README.md": {"benchmarks": benchmarks_part}}
"""Of pages that are written by hand, the parts that are not: between `<!-- name -->` and `<!-- /name -->`."""


def replace_parts(page: str, text: str) -> str:
    for name, part in PARTS[page].items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        assert found, f"{page} has no part {name}"
        text = f"{before}{start}\n{part()}\n\n{end}{after}"
    return text


PAGES: dict[str, Callable[[], str]] = {
    "cluster.md": cluster_page,
    "http.md": http_page,
    **{f"http/{one.name}.md": partial(route_page, one) for one in list_routes()},
    "openapi.json": openapi_text,
    "errors.md": errors_page,
    "diagnostics.md": diagnostics_page,
    "settings.md": settings_page,
    "cli.md": cli_page,
}


def main() -> int:
    stale = []
    texts = {REFERENCE / name: page() for name, page in PAGES.items()}
    texts |= {ROOT / name: replace_parts(name, (ROOT / name).read_text()) for name in PARTS}
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    for path in (REFERENCE / "http").iterdir():
        if f"http/{path.name}" not in PAGES:  # of a route that is gone
            stale.append(f"http/{path.name}")
            if "--check" not in sys.argv:
                path.unlink()
    if stale:
        verb = "stale" if "--check" in sys.argv else "rewritten"
        sys.stdout.write(f"{verb}: {', '.join(stale)}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
