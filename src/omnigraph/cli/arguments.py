"""Arguments put in the order the parser needs, before it sees them."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.cli.output import note

FLAGS_BEFORE_THE_VERB = {
    "--as": True,
    "--graph": True,
    "--profile": True,
    "--server": True,
    "--store": True,
    "--timeout": True,
    "--uri": True,
    "--json": False,
    "--quiet": False,
    "--yes": False,
}
"""Flags that may stand before the verb; whether a value follows."""
OTHER_NAMES = {"read": "query", "change": "mutate", "check": "lint"}
_UNDER_QUERY = ("lint", "check")
_OLD_NAMES = {"ingest": "load"}
"""Commands of their own, since they take more for granted than their successor."""


def reorder_arguments(argv: Sequence[str]) -> list[str]:
    """The same command with its flags behind the verb and its verb by its usual name."""
    flags, rest = _take_leading_flags(list(argv))
    rest = _replace_old_names(rest)
    if not flags or not rest:
        return [*flags, *rest]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]]


def _take_leading_flags(argv: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(argv):
        name, equals, _ = argv[at].partition("=")
        if name not in FLAGS_BEFORE_THE_VERB:
            break
        at += 2 if FLAGS_BEFORE_THE_VERB[name] and not equals else 1
    return argv[:at], argv[at:]


def _replace_old_names(rest: list[str]) -> list[str]:
    if not rest:
        return rest
    verb, *others = rest
    if verb == "query" and others and others[0] in _UNDER_QUERY:
        note(f"`query {others[0]}` is called `lint`")
        return ["lint", *others[1:]]
    if verb in OTHER_NAMES:
        note(f"`{verb}` is called `{OTHER_NAMES[verb]}`")
        return [OTHER_NAMES[verb], *others]
    if verb in _OLD_NAMES:
        note(f"`{verb}` is an old name; use `{_OLD_NAMES[verb]}`")
    return rest
