"""A schema registry for tests: the HTTP interface of Confluent's, on loopback, with faults.

To try things out: ``python -m tests.support.schema_registry`` runs one at http://localhost:8081 until it is
interrupted.
"""

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

LOGIN = ("ann", "Correct-Horse-7")
TYPE = "application/vnd.schemaregistry.v1+json"


class Registry(ThreadingHTTPServer):
    """Schemas by number and by subject; ``faults`` are answers to give first, a status and headers each."""

    daemon_threads = True

    def __init__(self, port: int = 0, login: bool = False) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.login = login
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.faults: list[tuple[int, dict[str, str]]] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(
        self,
        schema: Any,
        kind: str | None = None,
        references: Sequence[tuple[str, str]] = (),
        subject: str = "orders-value",
    ) -> int:
        """Register a schema, which may import the newest of other subjects by a name; return its number."""
        entry: dict[str, Any] = {"schema": schema if kind == "PROTOBUF" else json.dumps(schema)}
        if kind is not None:
            entry["schemaType"] = kind
        if references:
            entry["references"] = [
                {"name": name, "subject": other, "version": len(self.subjects[other])}
                for name, other in references
            ]
        return self.put(entry, subject)

    def put(self, entry: dict[str, Any], subject: str) -> int:
        self.schemas.append(entry)
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        expected = "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode()
        if self.server.faults:
            status, headers = self.server.faults.pop(0)
            self._answer(status, {"message": "a fault"}, **headers)
        elif self.server.login and self.headers.get("Authorization") != expected:
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
        else:
            self._find([unquote(part) for part in self.path.partition("?")[0].split("/")[1:]])

    def _find(self, path: list[str]) -> None:
        match path:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.server.schemas):
                self._answer(200, self.server.schemas[int(number) - 1])
            case ["subjects", subject, "versions", version] if subject in self.server.subjects:
                number = self.server.subjects[subject][int(version) - 1]
                entry = self.server.schemas[number - 1]
                self._answer(
                    200, {"subject": subject, "version": int(version), "id": number, **entry}
                )
            case _:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        """Register a schema, as serializers of producers do."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        subject = unquote(self.path.split("/")[2])
        same = [
            n for n, entry in enumerate(self.server.schemas, 1) if entry["schema"] == body["schema"]
        ]
        number = same[0] if same else self.server.put(body, subject)
        self._answer(
            200, {"id": number, "version": 1, "subject": subject, "schema": body["schema"]}
        )

    def _answer(self, status: int, value: Any, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {
            "Content-Type": TYPE,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(login: bool = False) -> Iterator[Registry]:
    """Serve a registry in a thread."""
    with Registry(login=login) as registry:
        thread = threading.Thread(target=registry.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()


if __name__ == "__main__":
    with Registry(8081) as tried:
        print(f"a schema registry runs at {tried.url}", flush=True)
        tried.serve_forever()
