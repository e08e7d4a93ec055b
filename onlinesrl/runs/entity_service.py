"""Entities served by HTTP: a world of records, whose entities can be asked for."""

from __future__ import annotations

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.core.example import Example
from onlinesrl.core.learner import Learner
from onlinesrl.runs.entity_learner import EntityLearner
from onlinesrl.runs.service import EXPLAINED, JSON, refusal
from onlinesrl.runs.world_service import WorldService
from onlinesrl.stream.sources.request_queue import PendingRequest


class EntityService(WorldService):
    """Serves a world of records."""

    def routes(self) -> list[Route]:
        """Return what serves clients."""
        return [*super().routes(), Route("/entities", self.entities, methods=["GET"])]

    async def entities(self, request: Request) -> Response:
        """Return the entities of some records, with the other records of each."""
        records = request.query_params.getlist("record")
        if not 0 < len(records) <= EXPLAINED:
            reason = f"expected a `record`, at most {EXPLAINED}, as in /entities?record=r17"
            return refusal(400, reason)
        return await self._ask(PendingRequest(b"", False, partial(_entities, records)), JSON)


def _entities(records: list[str], learner: Learner, example: Example | None) -> bytes:
    """Return the entities of records. Raises ExampleError for an unknown one."""
    assert isinstance(learner, EntityLearner)
    return msgspec.json.encode([learner.entity(record) for record in records])
