"""Which web pages may read answers: those of the origins that are named, and no others.

Browsers ask before they send, and keep answers from pages of any other origin. A token is sent by
the page itself, never by the browser: cookies and the like are of no use here, and not allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from omnigraph.wire import http_names

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_SENT = (
    *("Authorization", "Content-Type", "Accept", "traceparent"),
    *("If-Match", "If-None-Match", "If-Range", "Range"),
    *(http_names.REQUEST_ID, http_names.IDEMPOTENCY_KEY, http_names.IF_GRAPH_COMMIT),
)
_READ = (
    *("ETag", "Content-Range", "Accept-Ranges", "Location", "Retry-After"),
    *("Deprecation", "Link", "WWW-Authenticate"),
    *(http_names.REQUEST_ID, http_names.COMMIT_ID, http_names.QUERY_NAME),
    *(http_names.SNAPSHOT_ID, http_names.ENTITY_KIND, http_names.REPLAYED),
)


def allow_origins(application: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application with what browsers need to know; without any origin, as it is."""
    if not origins:
        return application
    return CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=_METHODS,
        allow_headers=_SENT,
        expose_headers=_READ,
    )
