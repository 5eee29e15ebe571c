"""The verbs that change the schema of a served graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.client.http_connection import ClientRequest
from omnigraph.client.sent_writes import is_replayed, make_key, send_write
from omnigraph.client.served_history import ServedHistory
from omnigraph.client.served_view import refuse_engine
from omnigraph.client.source_names import naming_source
from omnigraph.client.unserved import refuse_actor
from omnigraph.client.wire_reading import read_schema_apply, read_schema_plan
from omnigraph.graph.engines import EngineName
from omnigraph.graph.graph_view import as_source_text
from omnigraph.graph.place_names import PlaceLike
from omnigraph.language.source import SourceText
from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as bodies

if TYPE_CHECKING:
    from omnigraph.catalog.evolve import MigrationPlan
    from omnigraph.evolution.apply_result import SchemaApplyResult


class ServedSchema(ServedHistory):
    """Planning another schema for a branch through a server, and giving it that."""

    def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        expressions: Mapping[str, str] | None = None,
    ) -> MigrationPlan:
        """The steps from the accepted schema to another one; changes nothing."""
        text = as_source_text(schema, "<schema>")
        body = asks.SchemaPlanRequest(
            schema_source=text.text,
            branch=self._choose(branch),
            allow_data_loss=allow_data_loss,
            expressions=dict(expressions) if expressions else None,
        )
        with naming_source(text):
            plan = self._connection.ask_for(
                ClientRequest("planSchema", body=body), bodies.SchemaPlanOutput
            )
        return read_schema_plan(plan, text)

    def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        allow_drop_all: bool = False,
        expressions: Mapping[str, str] | None = None,
        mutations: Sequence[str | Path | SourceText] = (),
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Give a branch another schema as one commit, or leave everything as it is."""
        refuse_actor(actor)
        refuse_engine(engine, session, spark_conf)
        text, where = as_source_text(schema, "<schema>"), self._choose(branch)
        changes = [as_source_text(one, "<mutation>") for one in mutations]
        body = asks.SchemaApplyRequest(
            schema_source=text.text,
            branch=where,
            allow_data_loss=allow_data_loss,
            allow_drop_all=allow_drop_all,
            expressions=dict(expressions) if expressions else None,
            mutations=[change.text for change in changes],
            expected_head=self._find_head(expected_head, branch),
            dry_run=dry_run,
            message=message,
        )
        request = ClientRequest("applySchema", body=body)
        others = {asks.name_mutation(number): change for number, change in enumerate(changes)}
        with naming_source(text, others):
            answer = send_write(self._connection, request, make_key(idempotency_key), where)
        done = self._connection.decode(answer, bodies.SchemaApplyOutput)
        return read_schema_apply(done, text, is_replayed=is_replayed(answer))
