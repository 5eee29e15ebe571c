"""Routes of the server itself: whether it lives, what it serves, how it is spoken to."""

from __future__ import annotations

from starlette.responses import Response

from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.server.openapi_document import describe_api
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


async def health(call: Call) -> Response:
    """Alive; nothing is looked at."""
    body: dict[str, object] = {
        "status": "ok",
        "version": __version__,
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
    }
    source = call.service.options.server.source_version
    return answer_json(body if source is None else {**body, "source_version": source})


async def ready(call: Call) -> Response:
    """Whether more requests should be sent here; ids of graphs are not for everybody."""
    service = call.service
    body = {
        "ready": not service.is_draining,
        "status": "draining" if service.is_draining else "serving",
        "booted_serving_digest": service.configuration.digest,
        "state_revision": service.graphs.revision,
        "served_graph_count": len(service.graphs.served),
        "quarantined_graph_count": len(service.graphs.quarantined),
        "shutdown_grace_seconds": service.options.server.grace_s,
    }
    return answer_json(body, 503 if service.is_draining else 200)


async def openapi(call: Call) -> Response:
    return answer_json(describe_api(has_auth=not call.service.is_open))


async def list_graphs(call: Call) -> Response:
    call.authorize(Action.GRAPH_LIST)
    graphs = call.service.graphs
    served = [{"graph_id": id, "uri": f"{call.base_url}/graphs/{id}"} for id in graphs.served]
    quarantined = [
        {"graph_id": id, "reason": "it could not be opened; the log says why"}
        for id in graphs.quarantined
    ]
    return answer_json({"graphs": served, "quarantined": quarantined})
