"""The configuration keys of batch learning that all languages have."""

from __future__ import annotations

from onlinesrl.core.io.config_types import AnyPath, Natural
from onlinesrl.runs.config.schema import Root


class Batch(Root):
    """Batch learning: the keys outside of sections."""

    output: AnyPath
    """the folder of the result; the default is runs/ and the name of the configuration."""
    seed: Natural = 0
    """of the random numbers of learners that have any."""
