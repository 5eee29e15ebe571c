"""Examples at the end of help texts, in an order in which they can be run one after the other."""

from __future__ import annotations

EXAMPLES = {
    "init": ("omnigraph init music.omni --schema music.pg",),
    "schema show": ("omnigraph schema show music.omni",),
    "schema plan": ("omnigraph schema plan music.omni --schema next.pg",),
    "schema lint": ("omnigraph schema lint --schema music.pg",),
    "load": (
        "omnigraph load music.omni --data music.jsonl --mode append",
        "omnigraph load music.omni --data 'parts/*.jsonl' --mode merge --engine local",
        "omnigraph load music.omni --data artists.csv --type Artist --mode merge",
    ),
    "lint": ("omnigraph lint music.omni --query music.gq",),
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
    "branch delete": ("omnigraph branch delete fixes music.omni",),
    "commit list": ("omnigraph commit list music.omni --branch review --limit 5",),
    "export": (
        "omnigraph export music.omni --out music-copy.jsonl",
        "omnigraph export music.omni --format parquet --out music-files --type Artist",
    ),
    "blob get": ("omnigraph blob get node Album tides cover music.omni --out cover.jpg",),
    "shell": (
        "omnigraph shell music.omni",
        "echo 'match { $a: Artist } return { $a.name }' | omnigraph shell music.omni",
    ),
    "optimize": ("omnigraph optimize music.omni",),
    "cleanup": (
        "omnigraph cleanup music.omni --keep 10",
        "omnigraph cleanup music.omni --keep 10 --older-than 7d --confirm",
    ),
    "verify": ("omnigraph verify music.omni --deep",),
    "recover": ("omnigraph recover music.omni --check", "omnigraph recover music.omni"),
    "completion": ('eval "$(omnigraph completion bash)"',),
}


def examples(verb: str) -> str:
    """The end of the help of a command; the first line keeps click from filling the others."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES[verb])
    return f"\b\nExamples:\n{lines}"
