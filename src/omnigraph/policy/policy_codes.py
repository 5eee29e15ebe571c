"""The code of every mistake a policy bundle or a file of its tests can have."""

from __future__ import annotations

from collections.abc import Mapping

POLICY_CODES: Mapping[str, str] = {
    "B100": "The text is not YAML.",
    "B101": "A value of another kind was expected here.",
    "B102": "No such key.",
    "B103": "A key appears twice.",
    "B104": "A key is missing.",
    "B105": "The version of the file is not supported.",
    "B106": "Anchors and aliases are not supported.",
    "B110": "A name is blank.",
    "B111": "A list is empty.",
    "B112": "A name appears twice.",
    "B113": "No group has this name.",
    "B114": "No such action.",
    "B115": "No such branch scope.",
    "B116": "A rule has both scope keys.",
    "B117": "The action does not take this scope key.",
    "B118": "A rule mixes actions of the server with actions of a graph.",
    "B119": "The action is not allowed in a bundle of this kind.",
    "B120": "The key does not fit the actions of the rule.",
    "B121": "This is neither a type nor a property.",
    "B122": "The expected decision is neither `allow` nor `deny`.",
}
