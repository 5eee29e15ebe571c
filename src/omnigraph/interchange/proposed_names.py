"""Names of files, labels and columns as names of types and properties."""

from __future__ import annotations

import re
from collections.abc import Container

from omnigraph.types.reserved import STORAGE_FIELDS

_PROPERTY = re.compile(r"[a-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")
_RESERVED = STORAGE_FIELDS | {"id"}
_RESERVED_ON_EDGES = _RESERVED | {"src", "dst", "from", "to"}
_PLURALS = {"people": "person", "children": "child"}
_NO_PLURAL = ("ss", "us", "is", "ws")


def make_type_name(text: str, *, is_exact: bool = False) -> str:
    """`user_events` as `UserEvent`; a label that is a type name stays as it is."""
    if is_exact and _TYPE.fullmatch(text):
        return text
    words = re.findall(r"[A-Za-z0-9]+", text) or ["Type"]
    if not is_exact:
        words[-1] = make_singular(words[-1])
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[0].isalpha() else f"T{name}"


def make_singular(word: str) -> str:
    """`companies` as `company`; a word that may be one anyway stays as it is."""
    low = word.lower()
    if low in _PLURALS:
        return word[0] + _PLURALS[low][1:]
    if low.endswith("ies") and len(low) > 4:
        return word[:-3] + ("y" if word[-1].islower() else "Y")
    if low.endswith("s") and not low.endswith(_NO_PLURAL) and len(low) > 3:
        return word[:-1]
    return word


def make_property_name(column: str, taken: Container[str], *, on_edge: bool) -> str:
    """A name the schema language accepts, and nothing else has."""
    name = column
    if not _PROPERTY.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_") or "value"
        is_one_word = name == column and not name.isupper()
        name = name[0].lower() + name[1:] if is_one_word else name.lower()
        name = name if _PROPERTY.fullmatch(name) else f"_{name}"
    if name in (_RESERVED_ON_EDGES if on_edge else _RESERVED):
        name = f"{name}_"
    return make_unique(name, taken)


def make_unique(name: str, taken: Container[str]) -> str:
    """The name, or the first of it with a number, that nothing has."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def normalize(text: str) -> str:
    """What is the same in two spellings of a name."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def read_reference(column: str) -> str | None:
    """`company_id` and `companyId` name `company`; None for a column that names nothing."""
    found = re.fullmatch(r"(.+?)(?:_id|_key|Id|ID|_ref)", column)
    return None if found is None else normalize(make_singular(found.group(1)))
