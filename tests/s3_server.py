"""An S3-compatible server for tests, in a process of its own.

    with running_s3_server() as server:
        store = open_store(server.new_root(), server.settings)

moto answers as S3 does but checks a condition and writes in two steps, so this wrapper lets one
writing request in at a time. The process ends when its standard input closes, so it cannot
outlive the tests.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from omnigraph.settings import Settings

BUCKET = "omnigraph-tests"
_ACCOUNT = "123456789012"
_NEEDED = ("moto", "werkzeug", "flask", "flask_cors")
_REFUSE = "/-/refuse/"


@dataclass(frozen=True, slots=True)
class S3Server:
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which any process reaches this server."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test-key",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_REGION": "us-east-1",
        }

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(self.environment)

    def refuse(self, nth: int, count: int = 1) -> int:
        """Refuse a number of requests from the nth on; return the count since the last call.

        Without a number from 1 on, nothing is refused.
        """
        with urllib.request.urlopen(f"{self.endpoint}{_REFUSE}{nth}/{count}") as answer:
            return int(answer.read())

    def new_root(self) -> str:
        return f"s3://{BUCKET}/{uuid4().hex}/graph"


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(
            f"tests marked object_store need {', '.join(missing)}: "
            "install moto[s3], werkzeug, flask and flask-cors"
        )
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError("the S3 server did not start")
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.communicate(timeout=600)


class _Refusals:
    """The requests to be refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused = range(0)
        self._met = 0

    def is_about(self, environ) -> bool:
        return environ["PATH_INFO"].startswith(_REFUSE)

    def tell(self, environ, start_response):
        nth, count = map(int, environ["PATH_INFO"].removeprefix(_REFUSE).split("/"))
        with self._lock:
            met, self._met = self._met, 0
            self._refused = range(nth, nth + count) if nth > 0 else range(0)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(met).encode()]

    def is_next(self) -> bool:
        with self._lock:
            self._met += 1
            return self._met in self._refused


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    s3_backends[_ACCOUNT]["aws"].create_bucket(BUCKET, "us-east-1")
    application, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

    refusals = _Refusals()

    def one_write_at_a_time(environ, start_response):
        if refusals.is_about(environ):
            return refusals.tell(environ, start_response)
        if refusals.is_next():
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>not now</Message></Error>"]
        if environ["REQUEST_METHOD"] not in ("PUT", "POST", "DELETE"):
            return application(environ, start_response)
        length = environ.get("CONTENT_LENGTH")
        if length:
            # Read outside the lock, or a slow sender would hold up everyone.
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
        with lock:
            return application(environ, start_response)

    server = make_server("127.0.0.1", 0, one_write_at_a_time, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
