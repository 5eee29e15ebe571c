"""Examples at the end of help texts, in an order in which they can be run one after the other."""

from __future__ import annotations

EXAMPLES = {
    "init": (
        "omnigraph init music.omni --schema music.pg",
        "omnigraph init inferred.omni --from artists.csv",
    ),
    "schema infer": ("omnigraph schema infer artists.csv",),
    "import": ("omnigraph import imported.omni --data artists.csv",),
    "schema show": ("omnigraph schema show music.omni",),
    "schema plan": ("omnigraph schema plan music.omni --schema next.pg",),
    "schema lint": ("omnigraph schema lint --schema music.pg",),
    "load": (
        "omnigraph load music.omni --data music.jsonl --mode append",
        "omnigraph load music.omni --data 'parts/*.jsonl' --mode merge",
        "omnigraph load music.omni --data artists.csv --type Artist --mode merge",
    ),
    "lint": ("omnigraph lint music.omni --query music.gq",),
    "fmt": ("omnigraph fmt music.pg music.gq", "omnigraph fmt --check music.pg music.gq"),
    "query": (
        'omnigraph query albums music.omni --query music.gq --params \'{"artist": "ada"}\'',
        "omnigraph query music.omni -e 'query q() { match { $a: Artist } return { $a.name } }'",
        "omnigraph query artists music.omni --query music.gq --format parquet --out a.parquet",
    ),
    "explain": ("omnigraph explain albums music.omni --query music.gq",),
    "mutate": (
        "omnigraph mutate rate music.omni --query music.gq --params '{\"rating\": 7.5}' --as maria",
    ),
    "branch create": (
        "omnigraph branch create review music.omni",
        "omnigraph load music.omni --data music.jsonl --mode merge --branch fixes --from main",
    ),
    "branch list": ("omnigraph branch list music.omni",),
    "branch merge": (
        "omnigraph branch merge review music.omni --dry-run",
        "omnigraph branch merge review music.omni --into fixes --resolve theirs",
    ),
    "branch rename": ("omnigraph branch rename fixes corrections music.omni",),
    "branch delete": ("omnigraph branch delete corrections music.omni",),
    "commit list": ("omnigraph commit list music.omni --branch review --limit 5",),
    "commit show": (
        'omnigraph commit show "$(omnigraph commit list music.omni --limit 1 | cut -d" " -f1)" '
        "music.omni",
    ),
    "commit changes": (
        'omnigraph commit changes "$(omnigraph commit list music.omni --limit 1 | cut -d" " -f1)" '
        "music.omni",
    ),
    "revert": (
        'omnigraph revert "$(omnigraph commit list music.omni --limit 1 | cut -d" " -f1)" '
        "music.omni --dry-run",
        'omnigraph revert "$(omnigraph commit list music.omni --limit 1 | cut -d" " -f1)" '
        "music.omni --resolve theirs",
    ),
    "cherry-pick": (
        'omnigraph cherry-pick "$(omnigraph commit list music.omni --limit 1 | cut -d" " -f1)" '
        "music.omni --branch review",
    ),
    "restore": ("omnigraph restore 2 music.omni --branch review --dry-run",),
    "diff": (
        "omnigraph diff 1 main music.omni --stat",
        "omnigraph diff main review music.omni --type Artist",
    ),
    "changes poll": (
        "omnigraph changes poll music.omni --start beginning",
        "omnigraph changes poll music.omni --start beginning --type Album --op update --json",
    ),
    "changes baseline": ("omnigraph changes baseline music.omni --out baseline.jsonl",),
    "consumer set": ("omnigraph consumer set search-index music.omni --expires 30d",),
    "consumer list": ("omnigraph consumer list music.omni",),
    "consumer delete": ("omnigraph consumer delete search-index music.omni",),
    "entity history": ("omnigraph entity history Album tides music.omni",),
    "tag create": ("omnigraph tag create first music.omni",),
    "tag list": ("omnigraph tag list music.omni",),
    "tag delete": ("omnigraph tag delete first music.omni",),
    "snapshot": (
        "omnigraph snapshot music.omni --branch review",
        "omnigraph snapshot music.omni --at 2",
    ),
    "export": (
        "omnigraph export music.omni --out music-copy.jsonl",
        "omnigraph export music.omni --format parquet --out music-files --type Artist",
    ),
    "blob get": ("omnigraph blob get node Album tides cover music.omni --out cover.jpg",),
    "blob stat": ("omnigraph blob stat node Album tides cover music.omni",),
    "embed": (
        "omnigraph embed music.omni --type Album",
        "omnigraph embed --input music.jsonl --output embedded.jsonl --spec spec.json --resume",
    ),
    "shell": (
        "omnigraph shell music.omni",
        "echo 'match { $a: Artist } return { $a.name }' | omnigraph shell music.omni",
    ),
    "optimize": ("omnigraph optimize music.omni",),
    "cleanup": (
        "omnigraph cleanup music.omni --keep 10",
        "omnigraph cleanup music.omni --keep 10 --older-than 7d --confirm",
    ),
    "repair": ("omnigraph repair music.omni", "omnigraph repair music.omni --confirm"),
    "maintain": ("omnigraph maintain music.omni",),
    "clone": (
        "omnigraph clone music.omni music-backup.omni",
        "omnigraph clone music.omni music-small.omni --branch review --shallow",
    ),
    "verify": ("omnigraph verify music.omni --deep",),
    "recover": ("omnigraph recover music.omni --check", "omnigraph recover music.omni"),
    "recovery pending": ("omnigraph recovery pending music.omni",),
    "recovery list": ("omnigraph recovery list music.omni",),
    "queries list": ("omnigraph queries list music.omni --queries music.gq",),
    "queries validate": (
        "omnigraph queries validate music.omni --queries music.gq",
        "omnigraph queries validate --schema music.pg --queries music.gq --json",
    ),
    "policy validate": (
        "omnigraph policy validate --file music.policy.yaml",
        "omnigraph policy validate --file music.policy.yaml --schema music.pg --json",
    ),
    "policy test": ("omnigraph policy test --file music.policy.yaml --tests music.cases.yaml",),
    "policy explain": (
        "omnigraph policy explain --file music.policy.yaml --actor bot --action change "
        "--branch main",
    ),
    "cluster validate": ("omnigraph cluster validate deploy",),
    "cluster plan": ("omnigraph cluster plan deploy", "omnigraph cluster plan deploy --json"),
    "cluster apply": ("omnigraph cluster apply deploy --as maria",),
    "cluster status": ("omnigraph cluster status deploy",),
    "cluster refresh": ("omnigraph cluster refresh deploy",),
    "cluster import": ("omnigraph cluster import older",),
    "cluster approve": ("omnigraph cluster approve graph.old deploy --as maria",),
    "cluster force-unlock": ("omnigraph cluster force-unlock 01J9Z3N8Q4X7Y2K5M6P0R1S3T8 deploy",),
    "alias": ("omnigraph alias albums-of ada", "omnigraph alias albums-of ada --json"),
    "serve": (
        "omnigraph serve --store music.omni --unauthenticated",
        "omnigraph serve --store music.omni=music --bind 0.0.0.0:8080 --workers 4",
        "omnigraph serve --cluster deploy",
    ),
    "graphs list": ("omnigraph graphs list --server lab",),
    "login": ('echo "$TOKEN" | omnigraph login lab',),
    "logout": ("omnigraph logout lab",),
    "config path": ("omnigraph config path",),
    "config show": ("omnigraph config show",),
    "config settings": ("omnigraph config settings",),
    "config token": ("omnigraph config token https://graph.example.org/graphs/music",),
    "profile list": ("omnigraph profile list",),
    "profile show": ("omnigraph profile show music",),
    "version": ("omnigraph version",),
    "completion": ('eval "$(omnigraph completion bash)"',),
    "schema apply": (
        "omnigraph schema apply music.omni --schema next.pg --dry-run",
        "omnigraph schema apply music.omni --schema next.pg",
        "omnigraph schema apply music.omni --schema next.pg --mutation fill.gq",
    ),
}


def render_examples(verb: str) -> str:
    """Return the epilog of a command's help; its first line stops click from rewrapping."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES[verb])
    return f"\b\nExamples:\n{lines}"
