"""A world served by HTTP: changes of its facts, its answer, explanations, and a stream of what changed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.core.errors import ExampleError, shown
from onlinesrl.core.example import Atoms, Example
from onlinesrl.core.explain.explanation import ExplanationError, read_atom
from onlinesrl.core.learner import Learner
from onlinesrl.runs.http.events import EventStream
from onlinesrl.runs.http.server import CLIENTS, Server
from onlinesrl.runs.service import EXPLAINED, JSON, LINES, TEXT, Service, busy, refusal, written
from onlinesrl.stream.run_folder import part_of, parts
from onlinesrl.stream.sources.request_queue import PendingRequest, Requests
from onlinesrl.stream.tail import Tail
from onlinesrl.stream.world_changes import WorldChange

LOOK_SECONDS = 0.1
PIECE = 1 << 16
"""So many bytes of the file are read at once, or one line if it is longer."""
_NONE = Example(id="-", evidence={})
"""A question about the answer brings no example."""
_PLACE = re.compile(r"(\d{1,6}):(\d{1,18})")


class WorldService(Service):
    """Serves one world; ``predictions`` is the file of what changed."""

    taking = "changes"

    def __init__(
        self, requests: Requests, server: Server, max_bytes: int, lines: int, predictions: Path
    ) -> None:
        super().__init__(requests, server, max_bytes, lines)
        self.predictions = predictions
        self.followers = set[EventStream]()

    def routes(self) -> list[Route]:
        """Return what serves clients."""
        return [
            Route("/changes", self.change, methods=["POST"]),
            Route("/changes", self.changes, methods=["GET"]),
            Route("/atoms", self.atoms, methods=["GET"]),
            Route("/explain", self.explain, methods=["GET"]),
        ]

    async def change(self, request: Request) -> Response:
        """Change facts, and tell which answers changed."""
        return await self._answer(request, {JSON: JSON, LINES: LINES}, learn=True)

    async def atoms(self, request: Request) -> Response:
        """Return the values of some atoms, or of all, then with the next best states."""
        query: Atoms = {}
        try:
            for name, constants in map(read_atom, request.query_params.getlist("atom")):
                query.setdefault(name, []).append([*constants])
        except ExplanationError as error:
            return refusal(400, str(error))
        answer = partial(_values, query or None)
        return await self._ask(PendingRequest(b"", False, answer), JSON)

    async def explain(self, request: Request) -> Response:
        """Explain why an atom has its value."""
        kind = TEXT if "text/plain" in request.headers.get("accept", "") else JSON
        listed = request.query_params.getlist("atom")
        if {*request.query_params} != {"atom"} or len(listed) > EXPLAINED:
            reason = f"expected an `atom` alone, at most {EXPLAINED}, as in /explain?atom=Good(Bob)"
            return refusal(400, reason)
        try:
            atoms = [*map(read_atom, listed)]
        except ExplanationError as error:
            return refusal(400, str(error))

        def explained(learner: Learner, example: Example | None) -> bytes:
            return written([learner.explain(_NONE, atom) for atom in atoms], kind)

        return await self._ask(PendingRequest(b"", False, explained), kind)

    async def changes(self, request: Request) -> Response:
        """Send what changed, as server-sent events, from now on, or after the event that was last seen."""
        place = request.headers.get("last-event-id", request.query_params.get("after", ""))
        match = _PLACE.fullmatch(place)
        if place and match is None:
            return refusal(400, f"expected PART:OFFSET, the id of an event, found {shown(place)}")
        if not self.requests.accepting:
            return busy()
        if len(self.followers) >= CLIENTS // 2:
            return refusal(503, "too many clients follow what changes", {"Retry-After": "5"})
        start = self._end() if match is None else (int(match[1]), int(match[2]))
        return EventStream(self._events(*start), self.followers)

    def _end(self) -> tuple[int, int]:
        """Return the last part of the file, and its length."""
        last = parts(self.predictions)[-1]
        return part_of(last), last.stat().st_size

    async def _events(self, part: int, offset: int) -> AsyncIterator[bytes]:
        """Yield an event for each line after a place in the file; its id is the place after it.

        Where the file no longer has that place, the first event says so, and the others begin at the oldest
        line that is left.
        """
        tail = Tail(self.predictions, PIECE, newest=False, part=part, offset=offset)
        yield b": changes of the answer follow\n\n"
        while self.requests.accepting:
            before = f"{tail.part}:{tail.offset}"
            lines = tail.lines()
            at = tail.offset - sum(len(line) + 1 for line in lines)
            if tail.anew:
                gone = json.dumps({"after": before, "next": f"{tail.part}:{at}"})
                yield b"id: %d:%d\nevent: gone\ndata: %b\n\n" % (tail.part, at, gone.encode())
            for line in lines:
                at += len(line) + 1
                kind = b"refused" if line.startswith(b'{"line":') else b"changed"
                yield b"id: %d:%d\nevent: %b\ndata: %b\n\n" % (tail.part, at, kind, line)
            if not lines:
                yield b""
                await asyncio.sleep(LOOK_SECONDS)


def _values(query: Atoms | None, learner: Learner, example: Example | None) -> bytes:
    """Return the values of atoms, and the next best states. Raises ExampleError for one without a value."""
    (outcome,) = learner.predict([WorldChange(id="-", query=query)])
    if outcome.prediction is None:
        raise ExampleError(outcome.error or "")
    prediction = outcome.prediction
    atoms = [
        {"predicate": name, "args": row.args, "value": row.value}
        for name, rows in prediction.predicted.items()
        for row in rows
        if not isinstance(row, list)
    ]
    best = {} if prediction.best is None else {"best": prediction.best}
    return msgspec.json.encode({"atoms": atoms, "certified": prediction.certified, **best})
