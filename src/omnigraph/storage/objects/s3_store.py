"""Control objects in an S3 bucket, or in a store of the same protocol.

Reads and plain writes are retried by the client; a conditional write is not: if a first attempt
succeeded and its response was lost, the second would be refused, although this process won.
Each conditional write therefore carries an id of its own in the object's metadata,
which decides after an unclear outcome.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageKind
from omnigraph.settings import AwsSettings
from omnigraph.storage.objects.object_store import (
    CHUNK_BYTES,
    S3Address,
    StoreKind,
    Versioned,
    make_missing_object,
    make_s3_failure,
    require_path,
    require_prefix,
)

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ClientConfig, RetryConfig, S3Config


_MARK = "omnigraph-write"
_PAUSES_S = (0.1, 0.3, 0.9)
_CLIENT_ERRORS = (BaseError, OSError, ValueError)
_IN_DOUBT = (StorageKind.TRANSIENT, StorageKind.UNKNOWN)
_AT_ONCE = 1000
"""Objects per delete request."""
_DEFAULT_REGION = "us-east-1"


class S3ObjectStore:
    """Objects below one prefix of one bucket."""

    kind = StoreKind.S3

    def __init__(
        self,
        address: S3Address,
        aws: AwsSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        new_mark: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self.uri, self.identity = address.uri, address.identity
        self.storage_options: Mapping[str, str] = _build_lance_options(address.bucket, aws)
        self._sleep, self._new_mark = sleep, new_mark
        self._retrying = _open_client(address, aws, retries=4)
        self._trying_once = _open_client(address, aws, retries=0)

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{require_path(path)}"

    # --- reading ---

    def get(self, path: str) -> bytes:
        return self.get_versioned(path).data

    def find(self, path: str) -> bytes | None:
        found = self.find_versioned(path)
        return None if found is None else found.data

    def get_versioned(self, path: str) -> Versioned:
        found = self.find_versioned(path)
        if found is None:
            raise make_missing_object(self.uri_of(path))
        return found

    def find_versioned(self, path: str) -> Versioned | None:
        return self._read_unless_missing(lambda: self._read(path))

    def _read(self, path: str) -> Versioned:
        with self._translate("read", path):
            answer = self._retrying.get(require_path(path))
            tag = answer.meta["e_tag"]
            if tag is None:
                raise self._make_without_tags(path)
            return Versioned(bytes(answer.bytes()), tag)

    def _make_without_tags(self, path: str) -> StorageFailure:
        return StorageFailure(
            StorageKind.CONFIGURATION,
            f"cannot read {self.uri_of(path)}: the server gives no entity tags",
        )

    def _read_unless_missing(self, read: Callable[[], Versioned]) -> Versioned | None:
        try:
            return read()
        except StorageFailure as failure:
            if failure.kind is not StorageKind.NOT_FOUND:
                raise
            return None

    def exists(self, path: str) -> bool:
        with self._translate("look for", path):
            try:
                self._retrying.head(require_path(path))
            except FileNotFoundError:
                # The response to a HEAD has no body, so the bucket may be missing; a listing tells.
                first = next(iter(self._retrying.list(path, chunk_size=1)), ())
                return len(first) > 0
            return True

    def list(self, prefix: str) -> tuple[str, ...]:
        with self._translate("list", prefix):
            listed = self._retrying.list_with_delimiter(require_prefix(prefix) or None)
            return tuple(sorted(_get_last_part(entry["path"]) for entry in listed["objects"]))

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        with self._translate("list", prefix):
            listed = self._retrying.list_with_delimiter(require_prefix(prefix) or None)
            return tuple(sorted(_get_last_part(path) for path in listed["common_prefixes"]))

    def chunks(self, path: str) -> Iterator[bytes]:
        # One request for each piece: a single one may take no longer than the client waits.
        with self._translate("read", path):
            size = self._retrying.head(require_path(path))["size"]
        for start in range(0, size, CHUNK_BYTES):
            with self._translate("read", path):
                length = min(CHUNK_BYTES, size - start)
                piece = self._retrying.get_range(path, start=start, length=length)
            yield bytes(piece)

    # --- writing ---

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:  # noqa: ARG002 - it always is
        with self._translate("write", path):
            self._retrying.put(require_path(path), data, use_multipart=False)

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        pieces = iter(chunks)
        first = next(pieces, b"")
        second = next(pieces, None)
        if second is None:
            self.put(path, first)
            return
        with self._translate("write", path):
            parts = chain((first, second), pieces)
            self._retrying.put(require_path(path), parts, use_multipart=True, max_concurrency=2)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        mark, in_doubt = self._new_mark(), False
        for pause in (*_PAUSES_S, None):
            try:
                self._put_marked(path, data, "create", mark)
            except (AlreadyExistsError, PreconditionError):
                found = self._find_mark(path)
                if found is not None:
                    return found == mark
                # Refused although nothing exists: two creations conflicted, or the object was
                # deleted.
            except StorageFailure as failure:
                if failure.kind not in _IN_DOUBT:
                    raise
                in_doubt = True
            else:
                return True
            self._pause(pause)
        found = self._find_mark(path)
        if found is not None:
            return found == mark
        raise self._make_gave_up("create", path, in_doubt=in_doubt)

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        mark, in_doubt = self._new_mark(), False
        for pause in (*_PAUSES_S, None):
            try:
                self._put_marked(path, data, {"e_tag": tag}, mark)
            except PreconditionError:
                if not in_doubt:
                    return False
                break
            except AlreadyExistsError:
                pass  # Two replacements conflicted and neither was applied; retry.
            except StorageFailure as failure:
                if failure.kind not in _IN_DOUBT:
                    raise
                in_doubt = True
            else:
                return True
            self._pause(pause)
        if in_doubt and self._find_mark(path) == mark:
            return True
        # Not our mark, but ours may have been there and been replaced in turn.
        raise self._make_gave_up("replace", path, in_doubt=in_doubt)

    def _put_marked(self, path: str, data: bytes, mode: PutMode, mark: str) -> None:
        try:
            self._trying_once.put(require_path(path), data, mode=mode, attributes={_MARK: mark})
        except (AlreadyExistsError, PreconditionError):
            raise
        except _CLIENT_ERRORS as error:
            raise self._make_failure(error, "write", path) from None

    def _find_mark(self, path: str) -> str | None:
        """Return the id of the write at `path`: "" for an unmarked object, None for none."""
        with self._translate("read", path):
            try:
                attributes = self._retrying.get(require_path(path)).attributes
            except FileNotFoundError as error:
                if self._make_failure(error, "read", path).kind is StorageKind.NOT_FOUND:
                    return None
                raise
            return attributes.get(_MARK, "")

    def _pause(self, seconds: float | None) -> None:
        if seconds is not None:
            # Jitter needs no secure randomness; it only keeps writers from colliding again.
            self._sleep(seconds * (0.5 + random.random()))

    def _make_gave_up(self, action: str, path: str, *, in_doubt: bool) -> Exception:
        uri = self.uri_of(path)
        if in_doubt:
            return OutcomeUnknown(f"cannot tell whether {uri} was written", "no answer came")
        return StorageFailure(
            StorageKind.TRANSIENT, f"cannot {action} {uri}: other writers keep getting in between"
        )

    def delete(self, path: str, *, durably: bool = True) -> None:  # noqa: ARG002 - it always is
        with self._translate("delete", path):
            try:
                self._retrying.delete(require_path(path))
            except FileNotFoundError as error:
                if self._make_failure(error, "delete", path).kind is not StorageKind.NOT_FOUND:
                    raise

    def delete_all(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _AT_ONCE):
            some = [require_path(path) for path in paths[start : start + _AT_ONCE]]
            try:
                self._retrying.delete(some)
            except _CLIENT_ERRORS:
                for path in some:  # a bulk delete does not report errors per object
                    self.delete(path)

    def delete_prefix(self, path: str) -> None:
        with self._translate("delete", path):
            for entries in self._retrying.list(require_path(path), chunk_size=_AT_ONCE):
                self._retrying.delete([entry["path"] for entry in entries])

    @contextmanager
    def _translate(self, action: str, path: str) -> Iterator[None]:
        try:
            yield
        except _CLIENT_ERRORS as error:
            # Not chained: the client's text repeats the server's answer, keys included.
            raise self._make_failure(error, action, path) from None

    def _make_failure(self, error: Exception, action: str, path: str) -> StorageFailure:
        return make_s3_failure(error, action, f"{self.uri}/{path}" if path else self.uri)


def _get_last_part(path: str) -> str:
    return path.rpartition("/")[2]


def _open_client(address: S3Address, aws: AwsSettings, *, retries: int) -> S3Store:
    config: S3Config = {
        "region": aws.region or _DEFAULT_REGION,
        "virtual_hosted_style_request": not aws.is_path_style,
    }
    endpoint = _build_endpoint(address.bucket, aws)
    if endpoint is not None:
        config["endpoint"] = endpoint
    if aws.access_key_id is not None and aws.secret_access_key is not None:
        config["access_key_id"] = aws.access_key_id
        config["secret_access_key"] = aws.secret_access_key
    if aws.session_token is not None:
        config["session_token"] = aws.session_token
    client: ClientConfig = {
        "allow_http": aws.allows_http,
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=20),
    }
    retry: RetryConfig = {"max_retries": retries, "retry_timeout": timedelta(seconds=30)}
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config=config,
        client_options=client,
        retry_config=retry,
    )


def _build_endpoint(bucket: str, aws: AwsSettings) -> str | None:
    """Return the endpoint address, with the bucket name for virtual-hosted requests."""
    if aws.endpoint is None or aws.is_path_style:
        return aws.endpoint
    parts = urlsplit(aws.endpoint)
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}"))


def _build_lance_options(bucket: str, aws: AwsSettings) -> dict[str, str]:
    options = {
        "region": aws.region or _DEFAULT_REGION,
        "virtual_hosted_style_request": str(not aws.is_path_style).lower(),
        "allow_http": str(aws.allows_http).lower(),
        "endpoint": _build_endpoint(bucket, aws),
        "access_key_id": aws.access_key_id,
        "secret_access_key": aws.secret_access_key,
        "session_token": aws.session_token,
    }
    return {name: value for name, value in options.items() if value is not None}
