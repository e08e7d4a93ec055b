"""The pause of Python's search for cycles of objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Search for no cycles meanwhile; for work that makes many objects that stay, and few cycles.

    Python visits the objects that it has each time when many are new, which costs more than to make them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
