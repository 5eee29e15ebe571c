"""Declare a setting, read it from the environment and show it.

A setting is a field of a dataclass in `settings/`, declared once with its variable, default,
type, help and the work it applies to. Reading it, the reference page, `omnigraph config
settings` and the messages that name a variable all use that declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

if TYPE_CHECKING:
    from omnigraph.errors import BadRequest


T = TypeVar("T")
DefaultT = TypeVar("DefaultT")
EnumT = TypeVar("EnumT", bound=StrEnum)
GroupT = TypeVar("GroupT", bound="SettingGroup")

PREFIX = "OMNIGRAPH_"
TOKEN_PREFIX = "OMNIGRAPH_TOKEN_"
"""Followed by the name of a server, in capitals."""
_TEST_PREFIX = "OMNIGRAPH_TEST_"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_MAX_DIGITS = 15


def make_bad_request(message: str) -> BadRequest:
    """Return the error of a setting. Errors load msgspec, which help and completion do without."""
    from omnigraph.errors import BadRequest  # noqa: PLC0415 - see above

    return BadRequest(message)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A type of setting: parse text into a value, and show the value as text."""

    label: str
    """The unit or the type, in a word or two."""
    accepts: str
    """The accepted values, for error messages."""
    parse: Callable[[str], T]
    """Parses a text; raises `ValueError` for invalid ones."""
    show: Callable[[T], str] = str


def _parse_flag(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def _parse_whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError
    return int(text)


def _show_seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if float(seconds).is_integer() else str(seconds)


def parse_seconds(least: int = 0) -> Kind[float]:
    """Return the kind of a duration in seconds."""

    def parse(text: str) -> float:
        number = float(text)
        if not (math.isfinite(number) and number >= least):
            raise ValueError
        return number

    return Kind("seconds", f"a number of seconds, {least} or more", parse, _show_seconds)


def parse_milliseconds(least: int = 0) -> Kind[float]:
    """Return the kind of a duration in milliseconds, stored in seconds."""

    def parse(text: str) -> float:
        return count(least).parse(text) / 1000

    def show(value: float) -> str:
        return f"{value * 1000:.0f}"

    accepts = f"a whole number of milliseconds, {least} or more"
    return Kind("milliseconds", accepts, parse, show)


def count(least: int = 0) -> Kind[int]:
    """Return the kind of a whole number."""

    def parse(text: str) -> int:
        number = _parse_whole_number(text)
        if number < least:
            raise ValueError
        return number

    return Kind("number", f"a whole number, {least} or more", parse)


def one_of_words(values: type[EnumT]) -> Kind[EnumT]:
    """Return the kind of an enumeration."""
    words = [str(value) for value in values]
    accepts = f"{', '.join(words[:-1])} or {words[-1]}"
    label = ", ".join(f"`{word}`" for word in words)
    return Kind(label, accepts, lambda text: values(text.lower()))


TEXT: Kind[str] = Kind("text", "text", str)
FLAG: Kind[bool] = Kind("`true`, `false`", "true or false", _parse_flag, lambda on: str(on).lower())
MEBIBYTES: Kind[int] = Kind(
    "mebibytes",
    "a whole number of mebibytes, 0 or more",
    lambda text: _parse_whole_number(text) << 20,
    lambda size: str(size >> 20),
)
"""A size in mebibytes, stored in bytes."""


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One environment variable and its meaning."""

    name: str
    default: T | None
    kind: Kind[T]
    help: str
    applies: str
    """The work that reads it."""
    is_secret: bool = False
    is_lenient: bool = False
    """True if an invalid value means the default."""
    fallback: Setting[T] | None = None
    """The variable read where this one is unset."""

    def read(self, environment: Mapping[str, str]) -> T | None:
        """Return the parsed value, or the default for an unset or blank variable.

        Raises:
            BadRequest: the value is invalid. The message does not repeat it, since some variables
            hold secrets.
        """
        text = environment.get(self.name, "").strip()
        if not text:
            return self.fallback.read(environment) if self.fallback else self.default
        try:
            return self.kind.parse(text)
        except ValueError:
            if self.is_lenient:
                return self.default
            raise make_bad_request(f"{self.name} must be {self.kind.accepts}") from None

    def show(self, value: T | None) -> str:
        """Render a value as the environment has it; empty for None."""
        return "" if value is None else self.kind.show(value)


def declare_setting(
    name: str,
    default: DefaultT,
    kind: Kind[T],
    help: str,
    *,
    applies: str = "",
    is_secret: bool = False,
    is_lenient: bool = False,
    fallback: tuple[str, str] | None = None,
) -> T | DefaultT:
    """Declare a field of a `SettingGroup`.

    `fallback` is another variable and its help. `applies` is by default that of the group.
    """
    other = Setting(fallback[0], None, kind, fallback[1], applies) if fallback else None
    value = cast("T | None", default)
    declared = Setting(name, value, kind, help, applies, is_secret, is_lenient, other)
    return field(default=default, repr=not is_secret, metadata={Setting: declared})


class SettingGroup:
    """A frozen dataclass whose fields are settings, or groups of them."""

    __slots__ = ()
    applies: ClassVar[str] = ""
    """The work that reads the settings of the group."""

    def __init_subclass__(cls, applies: str | None = None) -> None:
        # With slots, a dataclass is created twice, the second time without these words.
        if applies is not None:
            cls.applies = applies

    @classmethod
    def from_environment(cls: type[GroupT], environment: Mapping[str, str]) -> GroupT:
        """Read the settings of one process.

        Raises:
            BadRequest: a variable has an invalid value.
        """
        values: dict[str, object] = {}
        for one in fields(cast("Any", cls)):
            declared = one.metadata.get(Setting)
            if declared is not None:
                values[one.name] = declared.read(environment)
            elif isinstance(one.default, SettingGroup):
                values[one.name] = type(one.default).from_environment(environment)
        return cls(**values)

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment variable of a field."""
        found = next(one for one in fields(cast("Any", cls)) if one.name == name)
        return cast("Setting[object]", found.metadata[Setting]).name


def list_settings(group: type[SettingGroup]) -> Iterator[Setting[Any]]:
    """Yield every setting of a group, including nested groups, in order."""
    for one in fields(cast("Any", group)):
        declared = one.metadata.get(Setting)
        while declared is not None:
            yield replace(declared, applies=declared.applies or group.applies)
            declared = declared.fallback
        if isinstance(one.default, SettingGroup):
            yield from list_settings(type(one.default))


def find_unknown_variables(
    environment: Mapping[str, str], known: tuple[Setting[Any], ...]
) -> list[tuple[str, str | None]]:
    """Return unknown variables with our prefix, each with a suggestion."""
    names = [one.name for one in known]
    unknown = sorted(
        name
        for name in environment
        if name.startswith(PREFIX)
        and name not in names
        and not name.startswith((TOKEN_PREFIX, _TEST_PREFIX))
    )
    if not unknown:
        return []
    from difflib import get_close_matches  # noqa: PLC0415 - needed only to suggest

    # Compare without the prefix, which would make all names similar.
    ends = {name.removeprefix(PREFIX): name for name in names}
    close = {name: get_close_matches(name.removeprefix(PREFIX), ends, n=1) for name in unknown}
    return [(name, ends[found[0]] if found else None) for name, found in close.items()]
