"""Requests over HTTP about examples: Starlette in front of the queue from which the run takes requests.

The server has its own thread and shares only the queue with the run: see ``sources.request_queue``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from onlinesrl.core.errors import legible, shortened
from onlinesrl.core.example import Example
from onlinesrl.core.explain.counterfactual import DEFAULTS
from onlinesrl.core.explain.explanation import Explanation, ExplanationError, read_atom
from onlinesrl.core.learner import Learner, Prediction
from onlinesrl.runs.explain import FormulaProbability, Question
from onlinesrl.runs.http.server import Server
from onlinesrl.stream.late_labels import PendingExample
from onlinesrl.stream.sources.request_queue import (
    RECENT,
    RECENT_BYTES,
    Explain,
    PendingRequest,
    Requests,
    Unanswered,
    Untaken,
)

JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"
BODY = {JSON: f"{JSON}, an example", LINES: f"{LINES}, one per line"}
BODIES = 8
"""So many requests of the largest size may be in memory at the same time, answers on their way included."""
EXPLAINED = 10
"""The most atoms of which one request may ask why."""
TRIED_ATOMS = 200_000
"""The most evidence atoms, of all changes together, of a search that keeps other clients waiting."""


class Service:
    """Puts requests in the queue: of at most twice ``max_bytes``, and of so many ``lines``."""

    taking = "learn"
    """The route of what the run takes into its journal."""

    def __init__(self, requests: Requests, server: Server, max_bytes: int, lines: int) -> None:
        self.requests = requests
        self.server = server
        self.most = 2 * max_bytes
        self.lines = lines
        self.held = 0
        """The bytes of the requests that are in memory."""

    def routes(self) -> list[Route]:
        """Return what serves clients."""
        return [
            Route("/predict", self.predict, methods=["POST"]),
            Route("/learn", self.learn, methods=["POST"]),
            Route("/explain", self.explain, methods=["GET", "POST"]),
        ]

    async def predict(self, request: HttpRequest) -> Response:
        """Predict examples with the weights as they are."""
        return await self._answer(request, {JSON: JSON, LINES: LINES})

    async def learn(self, request: HttpRequest) -> Response:
        """Predict examples, then learn from them."""
        return await self._answer(request, {JSON: JSON, LINES: LINES}, learn=True)

    async def explain(self, request: HttpRequest) -> Response:
        """Explain an example, or one of the last that were sent to /learn, with the weights as they are."""
        kind = TEXT if "text/plain" in request.headers.get("accept", "") else JSON
        try:
            asked = _Parameters.of(request.query_params)
            atoms = [*map(read_atom, asked.atom)]
            question = Question(atoms, asked.change, asked.tries, asked.formula, asked.given)
        except (msgspec.ValidationError, ExplanationError) as error:
            return refusal(400, shortened(str(error)))
        if (asked.id is None) == (request.method != "POST"):
            return refusal(400, "expected GET with the `id` of an example, or POST of an example")
        if asked.id is None:
            explain = partial(_explained, question, kind, None)
            return await self._answer(request, {JSON: kind}, explain=explain)
        recent = self.requests.recent.get(asked.id)
        if recent is None:
            return refusal(
                404,
                f"no example {shortened(asked.id)} among the last {RECENT:,} ({RECENT_BYTES:,} bytes) "
                "that were sent to /learn: send the example itself by POST",
            )
        explain = partial(_explained, question, kind, recent)
        return await self._ask(PendingRequest(bytes(recent.text), False, explain, known=True), kind)

    async def _answer(
        self,
        request: HttpRequest,
        kinds: Mapping[str, str],
        learn: bool = False,
        explain: Explain | None = None,
    ) -> Response:
        """Answer a request; ``kinds`` are the types that its body may have, and those of the answers."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in kinds:
            return refusal(
                415, f"expected Content-Type {', or '.join(BODY[kind] for kind in kinds)}"
            )
        body = bytearray()
        try:
            refused = await self._read(request, body)
            if refused is None and kind == LINES:
                refused = self._too_many(body.count(b"\n") + (not body.endswith(b"\n")))
            if refused is not None:
                return refused
            text = bytes(body).removeprefix(b"\xef\xbb\xbf")
            text = text if kind == LINES else text.replace(b"\n", b" ")
            if kind != LINES and not text.strip():
                return refusal(422, "no example")
            return await self._ask(PendingRequest(text, learn, explain), kinds[kind])
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            self.held -= len(body)

    def _too_many(self, lines: int) -> Response | None:
        reason = f"more than {self.lines} lines (limits.request_lines): send them in parts"
        return refusal(413, reason) if lines > self.lines else None

    async def _read(self, request: HttpRequest, body: bytearray) -> Response | None:
        """Read a request's body; return a refusal if it is too long, else None."""
        if int(request.headers.get("content-length", 0)) > self.most:
            return self._too_long()
        async for chunk in request.stream():
            body += chunk
            self.held += len(chunk)
            if len(body) > self.most:
                return self._too_long()
            if chunk and self.held + self.server.unsent > BODIES * self.most:
                return busy()
        return None

    def _too_long(self) -> Response:
        reason = f"longer than {self.most} bytes (twice source.max_bytes): send it in parts"
        return refusal(413, reason)

    async def _ask(self, pending: PendingRequest, kind: str) -> Response:
        """Wait for the answers to a request, which are of a kind."""
        alone = kind != LINES
        if pending.over:
            return Response(media_type=LINES)
        if not self.requests.put(pending):
            return busy()
        try:
            await asyncio.wrap_future(pending.done)
        except (Untaken, Unanswered) as ended:
            if isinstance(ended, Untaken) or not pending.learn:
                return busy()
            return refusal(
                500,
                "the run ended: this may have been learned from, or will be, in whole or in part",
            )
        text = b"".join(line + b"\n" for line in pending.answers)
        if alone and pending.bad:
            return Response(text, 422, media_type=JSON)
        return Response(text, 202 if alone and pending.waits else 200, media_type=kind)


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a request for an explanation."""

    id: str | None = None
    atom: Annotated[list[str], msgspec.Meta(max_length=EXPLAINED)] = []
    change: list[str] = []
    formula: Annotated[list[str], msgspec.Meta(max_length=EXPLAINED)] = []
    given: list[str] = []
    tries: Annotated[int, msgspec.Meta(ge=0, le=DEFAULTS.tries)] = DEFAULTS.tries

    @classmethod
    def of(cls, query: QueryParams) -> _Parameters:
        """Return the parameters of a URL. Raises ValidationError."""
        lists = {key: query.getlist(key) for key in query}
        values = {
            key: texts
            if key in {"atom", "change", "formula", "given"} or len(texts) > 1
            else texts[0]
            for key, texts in lists.items()
        }
        return msgspec.convert(values, cls, strict=False)


def _explained(
    question: Question,
    kind: str,
    recent: PendingExample | None,
    learner: Learner,
    example: Example | None,
) -> bytes:
    """Return the explanations of an example, of a kind."""
    assert example is not None
    recorded = (
        None if recent is None else msgspec.json.decode(recent.prediction, type=Prediction | None)
    )
    most = max(1, TRIED_ATOMS // max(1, sum(map(len, example.evidence.values()))))
    question = question._replace(tries=min(question.tries, most))
    return written([*question.answers(learner, example, recorded)], kind)


def written(explanations: Sequence[Explanation | FormulaProbability], kind: str) -> bytes:
    """Return explanations as text or as JSON, as `onlinesrl explain` writes them."""
    if kind == TEXT:
        return legible("\n\n".join(map(str, explanations))).encode()
    return msgspec.json.encode([explanation.as_dict() for explanation in explanations])


def refusal(status: int, error: str, headers: Mapping[str, str] = {}) -> Response:
    """Return a response that says what is wrong."""
    return Response(msgspec.json.encode({"error": error}) + b"\n", status, headers, JSON)


def busy() -> Response:
    """Return a response that asks to try again later."""
    reason = "not accepted: too many requests wait, or the run is starting or ending; try again"
    return refusal(503, reason, {"Retry-After": "1"})
