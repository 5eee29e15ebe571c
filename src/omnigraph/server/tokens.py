"""Authentication: bearer tokens, of which only digests are stored, and the runtime state.

The runtime state says what happens to requests, by whether there are tokens and a policy.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from omnigraph.errors import BadRequest
from omnigraph.graph.results import check_actor
from omnigraph.settings import ServerSettings
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused

DEFAULT_ACTOR = "default"
"""Actor of the single token given by its own variable."""
_DIGEST = re.compile("[0-9a-fA-F]{64}")
_MEMBERS = frozenset({"token", "sha256", "expires"})


class RuntimeState(StrEnum):
    """Treatment of requests, as determined by tokens and policy."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY_ENABLED = "policy_enabled"


def classify_state(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool) -> RuntimeState:
    """Determine the runtime state.

    Raises:
        BadRequest: every request would be refused, or everyone would be served without the flag.
    """
    if has_policy and not has_tokens:
        raise BadRequest(
            "there is a policy but no token, so every request would be refused; set "
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
        )
    if has_policy:
        return RuntimeState.POLICY_ENABLED
    if has_tokens:
        return RuntimeState.DEFAULT_DENY
    if not is_unauthenticated:
        raise BadRequest(
            "there are no tokens; set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass "
            "--unauthenticated to serve anyone who can reach the port"
        )
    return RuntimeState.OPEN


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The digest of a token, its actor and its expiry."""

    digest: bytes
    actor: str
    expires: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Every accepted token."""

    known: tuple[TokenRecord, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known)

    @property
    def actors(self) -> frozenset[str]:
        return frozenset(one.actor for one in self.known)

    def find_actor(self, token: str, now: datetime.datetime) -> str | None:
        """Return the actor of a token; None if it is unknown or expired."""
        digest = _digest(token)
        found = None
        for one in self.known:
            is_same = hmac.compare_digest(one.digest, digest)
            if is_same and (one.expires is None or now < one.expires):
                found = one.actor
        return found


def load_tokens(settings: ServerSettings) -> Tokens:
    """Load the tokens that the environment names.

    Raises:
        BadRequest: a source cannot be read or parsed; no message contains a token.
    """
    if settings.tokens_aws_secret is not None:
        name = ServerSettings.variable("tokens_aws_secret")
        raise BadRequest(f"{name} is set, but this release cannot read AWS secrets; use a file")
    known = [*_from_file(settings), *_from_variable(settings)]
    _require_distinct(known)
    return Tokens(tuple(known))


def _from_file(settings: ServerSettings) -> Iterator[TokenRecord]:
    if settings.tokens_file is not None:
        name = ServerSettings.variable("tokens_file")
        try:
            text = Path(settings.tokens_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise BadRequest(f"{name}: cannot read the file: {reason}") from None
    elif settings.tokens_json is not None:
        name, text = ServerSettings.variable("tokens_json"), settings.tokens_json
    else:
        return
    try:
        listed = parse_json(text)
    except ValueRefused as refused:
        raise BadRequest(f"{name}: {refused.reason}") from None
    if not isinstance(listed, Mapping):
        raise BadRequest(f"{name}: expected a JSON object of tokens by actor")
    for actor, given in listed.items():
        if not actor.strip():
            raise BadRequest(f"{name}: the name of an actor is blank")
        try:
            check_actor(actor.strip())
        except BadRequest as error:
            raise BadRequest(f"{name}: {error.message}") from None
        for one in given if isinstance(given, list) else [given]:
            yield _read_token(actor.strip(), one, name)


def _from_variable(settings: ServerSettings) -> Iterator[TokenRecord]:
    if settings.token is not None:
        yield TokenRecord(_digest(settings.token), DEFAULT_ACTOR)


def _read_token(actor: str, given: object, source: str) -> TokenRecord:
    """Parse one token of an actor: a string, or an object."""
    members = {"token": given} if isinstance(given, str) else given
    if not isinstance(members, dict) or not members.keys() <= _MEMBERS:
        raise BadRequest(
            f"{source}: a token of '{actor}' must be a string, or an object with token or sha256 "
            "and optionally expires"
        )
    token, digest = members.get("token"), members.get("sha256")
    if (token is None) == (digest is None):
        raise BadRequest(f"{source}: give token or sha256 for '{actor}', not both")
    expires = _read_expiry(actor, members.get("expires"), source)
    if digest is not None:
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise BadRequest(f"{source}: the sha256 of '{actor}' must be 64 hexadecimal digits")
        return TokenRecord(bytes.fromhex(digest), actor, expires)
    if not isinstance(token, str) or not token.strip():
        raise BadRequest(f"{source}: a token of '{actor}' is blank")
    return TokenRecord(_digest(token), actor, expires)


def _read_expiry(actor: str, given: object, source: str) -> datetime.datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(str(given))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadRequest(
            f"{source}: 'expires' of '{actor}' must be a time such as 2027-01-01T00:00:00Z"
        )
    return moment


def _require_distinct(known: list[TokenRecord]) -> None:
    seen: dict[bytes, str] = {}
    for one in known:
        other = seen.setdefault(one.digest, one.actor)
        if other != one.actor:
            raise BadRequest(f"'{other}' and '{one.actor}' have the same token")
    if len(seen) < len(known):
        raise BadRequest("the same token is given twice")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
