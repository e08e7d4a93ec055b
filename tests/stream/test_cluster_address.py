import socket

import pytest

from onlinesrl.core.errors import UnavailableError
from onlinesrl.core.pool import on_ray


def test_an_address_that_does_not_answer_is_told_at_once():
    pytest.importorskip("ray")
    with socket.socket() as bound:  # not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=f"nothing answers at {address}"):
            with on_ray(address, None):
                pass
