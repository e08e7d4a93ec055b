"""A schema registry, by its HTTP interface (Confluent's): schemas by their number, each asked for once."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from onlinesrl.core.errors import ExampleError, UnavailableError, printable, shortened
from onlinesrl.stream.daemon_calls import attended
from onlinesrl.stream.shutdown import Stopped

ANSWER_SECONDS = 10.0
"""For how long an answer is waited for."""
PAUSE_SECONDS = 0.5
MOST_BYTES = 16 << 20
"""Of a schema."""


class NoSchema(ExampleError):
    """The registry has no schema of that number, or none that it refers to; it may get one."""


class Schema(NamedTuple):
    """A schema: its type (AVRO, PROTOBUF or JSON), its text, and those that it refers to, by name."""

    kind: str
    text: str
    references: dict[str, Schema]


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirection, which would tell the password to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """Asks a registry for schemas.

    Where it does not answer, it is asked again for ``patience`` seconds, unless the run is ``stopping`` to
    stop, and ``say`` gets a message. ``login`` is a name and a password, ``authorities`` a file of
    certificates to trust. Raises UnavailableError after that, or at once if it refuses; Stopped.
    """

    def __init__(
        self,
        url: str,
        login: tuple[str, str] | None,
        authorities: str | None,
        patience: float,
        stopping: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self.url = url
        self.patience, self.stopping, self.say = patience, stopping, say
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if login is not None:
            encoded = base64.b64encode(":".join(login).encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        try:
            context = ssl.create_default_context(cafile=authorities)
        except OSError as error:
            raise UnavailableError(
                f"certificates cannot be read (source.registry.ssl_cafile {authorities}): {error}"
            ) from error
        self._opener = build_opener(_NoRedirect, HTTPSHandler(context=context))

    def schema(self, number: int) -> Schema:
        """Return a schema with what it refers to. Raises ExampleError if there is none."""
        return self._whole(self._get(f"schemas/ids/{number}"))

    def _whole(self, answer: Any, depth: int = 0) -> Schema:
        try:
            if depth > 20:
                raise ValueError("references that are deeper than 20")
            references = {
                str(each["name"]): self._whole(
                    self._get(
                        f"subjects/{quote(each['subject'], safe='')}/versions/{int(each['version'])}"
                    ),
                    depth + 1,
                )
                for each in answer.get("references") or ()
            }
            return Schema(answer.get("schemaType", "AVRO"), str(answer["schema"]), references)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ExampleError(f"{self.url} gave no schema: {error!r}") from None

    def _get(self, path: str) -> Any:
        """Return the answer to a request. Raises ExampleError if there is no such thing."""
        started, told = time.monotonic(), False
        while True:
            try:
                return attended(lambda: self._ask(path), self.stopping, seconds=ANSWER_SECONDS)
            except (OSError, HTTPException, ValueError) as error:
                reason = str(error)
            except Stopped:
                reason = "no answer yet"
            away = f"the schema registry at {self.url} does not answer: {printable(reason)}"
            left = self.patience - (time.monotonic() - started)
            if self.stopping():
                raise Stopped(f"stopped; {away}, so the next start asks again")
            if left <= 0:
                raise UnavailableError(f"{away} (source.patience)")
            if not told:
                self.say(f"{away}; waiting for it, {left:.0f} s at most")
            told = True
            time.sleep(PAUSE_SECONDS)

    def _ask(self, path: str) -> Any:
        """Ask once. Raises OSError, HTTPException or ValueError if there is no answer, else like ``_get``."""
        request = Request(f"{self.url}/{path}", headers=self._headers)
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return json.loads(answer.read(MOST_BYTES))
        except HTTPError as error:
            reason = f"{error.code} {error.reason}"
            with error:
                detail = shortened(printable(error.read(500).decode(errors="replace")))
            if error.code == 404:
                raise NoSchema(f"{self.url}/{path}: {reason}: {detail}") from None
            if error.code < 500 and error.code not in (408, 429):
                raise UnavailableError(
                    f"the schema registry at {self.url} refuses: {reason}; see source.registry"
                ) from None
            raise OSError(reason) from None
