"""Server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

SILENT_SECONDS = 15.0
"""After so long a comment is sent, which fails if the client has gone."""


class EventStream(StreamingResponse):
    """An answer of events as they come; it is one of the ``followers`` until its client has gone.

    ``events`` yields them, and nothing (b"") whenever there are none for a while.
    """

    def __init__(self, events: AsyncIterator[bytes], followers: set[EventStream]) -> None:
        self.followers = followers
        headers = {"Cache-Control": "no-store"}
        super().__init__(_with_comments(events), media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        self.followers.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.followers.remove(self)


async def _with_comments(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    sent = time.monotonic()
    async for event in events:
        if event or time.monotonic() - sent > SILENT_SECONDS:
            sent = time.monotonic()
            yield event or b": still here\n\n"
