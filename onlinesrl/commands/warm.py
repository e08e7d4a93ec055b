"""onlinesrl warm: compile the kernels of runs before they start."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Overrides
from onlinesrl.core.errors import OnlinesrlWarning, StorageError
from onlinesrl.runs.console import say

EXAMPLES = 100


def warm(
    configs: Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="Runs' YAML files.")],
    set_: Overrides = [],  # noqa: B006
) -> None:
    """Compile the kernels that some runs and their predictions need, in a build step or for an image.

    The first 100 examples of files are learned from and predicted, in memory, because some kernels are
    compiled only when an example needs them; so are made-up records of entities. A topic is not read. The
    kernels are for this kind of processor.
    """
    from onlinesrl.core.example import Example
    from onlinesrl.core.jit.cache import kernel_folder, lasting
    from onlinesrl.core.learner import Learner
    from onlinesrl.runs.config.loading import load
    from onlinesrl.runs.entity_learner import EntityLearner
    from onlinesrl.runs.evaluation import first_examples
    from onlinesrl.runs.run import compile_kernels, make_learner, new_learner
    from onlinesrl.runs.summary import example_row
    from onlinesrl.stream.process_batch import process_batch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", OnlinesrlWarning)
            lasting()
            for path in configs:
                config = load(path, set_)
                topic = config.source.kind == "kafka"
                read = [] if topic else first_examples(config, EXAMPLES)
                examples = [example for _, example in read if isinstance(example, Example)]
                learners: list[Learner] = [new_learner(config)]
                learners += [] if config.world else [make_learner(config, margins=True)]
                if isinstance(learners[0], EntityLearner):
                    examples += learners[0].examples()
                for learner in learners:
                    compile_kernels(learner, say)
                    outcomes, _ = process_batch(learner, examples, learner is learners[0])
                    for example, outcome in zip(examples[:1], outcomes, strict=False):
                        # which explains it, as the report does
                        example_row(learner, example, outcome)
                print(f"{path}: its kernels are in {kernel_folder()}")
    except OnlinesrlWarning as warning:
        raise StorageError(str(warning)) from warning
