"""Why a broker refuses a login.

It answers, then disconnects; kafka-python sees the latter alone, takes it for an outage and tries again.
So what it does to log in is done here once more, with its own messages, and the answer is read.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaError, for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

ANSWER_SECONDS = 5.0
"""How long a broker may take for each answer."""


def refusal(bootstrap: str, security: Mapping[str, Any]) -> str | None:
    """Return why the first of these brokers that answers refuses the login; None where none does."""
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        host = host.strip("[]")
        with (
            suppress(OSError, ValueError, KafkaError),
            socket.create_connection((host, int(port)), ANSWER_SECONDS) as plain,
        ):
            context = tls(security)
            connection = context.wrap_socket(plain, server_hostname=host) if context else plain
            return _refused(_Talk(connection), host, security)
    return None


def tls(security: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context of TLS by the keys of kafka-python; None where it is not asked for.

    Raises OSError for certificates that cannot be read.
    """
    if not security.get("security_protocol", "").endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=security.get("ssl_cafile"))
    context.check_hostname = security.get("ssl_check_hostname", True)
    if certificate := security.get("ssl_certfile"):
        keys = security.get("ssl_keyfile"), security.get("ssl_password")
        context.load_cert_chain(certificate, *keys)
    return context


class _Talk:
    """Requests to a broker, and its answers."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.protocol = KafkaProtocol(client_id="onlinesrl")

    def ask(self, request: Any) -> Any:
        """Return the answer to a request. Raises OSError."""
        self.protocol.send_request(request)
        self.connection.sendall(self.protocol.send_bytes())
        while True:
            data = self.connection.recv(1 << 16)
            if not data:
                raise OSError("the broker has disconnected")
            for _, answer in self.protocol.receive_bytes(data):
                return answer


def _refused(talk: _Talk, host: str, security: Mapping[str, Any]) -> str | None:
    name = security["sasl_mechanism"]
    answer = talk.ask(SaslHandshakeRequest(version=1, mechanism=name))
    if answer.error_code:
        return f"it has no mechanism {name}, but {', '.join(answer.mechanisms)}"
    if name != "PLAIN" and not name.startswith("SCRAM-"):
        return None  # a login with tickets or tokens is not repeated
    mechanism = get_sasl_mechanism(name)(host=host, **security)
    while not mechanism.is_done():
        answer = talk.ask(SaslAuthenticateRequest(mechanism.auth_bytes(), version=1))
        if answer.error_code:
            return str(answer.error_message or for_code(answer.error_code).description)
        mechanism.receive(answer.auth_bytes)
    return None
