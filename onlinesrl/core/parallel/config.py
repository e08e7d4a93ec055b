"""The choice of workers: a section of the configuration, or options of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Name, Parts
from onlinesrl.core.parallel.starting import starting

if TYPE_CHECKING:
    from onlinesrl.core.parallel.executors import Pool


class PoolSection(Section):
    """The workers; they do not change the results."""

    engine: Literal["local", "ray"] = "local"
    """processes of this machine, or Ray."""
    address: Name | None = None
    """where Ray is: auto, or host:port; null: it is started on this machine."""
    workers: Parts | None = None
    """how many work at a time; null: one a core; it changes no result."""


def given(options: Sequence[str]) -> PoolSection:
    """Return the section that ``--distribute KEY=VALUE`` options say. Raises UsageError."""
    pairs = [option.partition("=") for option in options]
    values = {key: int(value) if value.isdecimal() else value for key, _, value in pairs}
    try:
        return PoolSection.model_validate(values)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        names = ", ".join(PoolSection.model_fields)
        wrong = (
            "unknown key" if key not in PoolSection.model_fields else f"{values[key]!r} is no {key}"
        )
        raise UsageError(
            f"--distribute {key}: {wrong}; expected KEY=VALUE with one of {names}, such as engine=ray "
            "or workers=4"
        ) from None


@contextmanager
def opened(section: PoolSection, inline: bool = True) -> Iterator[Pool]:
    """Open the pool of a section; one worker is this process if ``inline``. Raises UnavailableError."""
    from onlinesrl.core.parallel.executors import Forks, Inline, cores

    if section.engine == "ray":
        from onlinesrl.core.parallel.ray_executor import on_ray

        with on_ray(section.address, section.workers) as connected:
            yield connected
    else:
        workers = section.workers or cores()
        if workers == 1 and inline:
            yield Inline()
        else:
            with closing(Forks(workers)) as forks:
                yield forks


@contextmanager
def opening(section: PoolSection, inline: bool = True) -> Iterator[Callable[[], Pool]]:
    """As ``opened``, but Ray starts in the background, which takes seconds, until the result is called."""
    if section.engine == "local":
        with opened(section, inline) as pool:
            yield lambda: pool
        return
    # the thread outlives the connection: Ray waits for seconds if the connecting thread has ended
    with ThreadPoolExecutor(1) as thread, ExitStack() as stack:
        with starting():
            pool_later = thread.submit(stack.enter_context, opened(section, inline))
        try:
            yield pool_later.result
        finally:
            wait([pool_later])
