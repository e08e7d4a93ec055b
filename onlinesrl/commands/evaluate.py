"""onlinesrl evaluate: score trained weights on labelled examples."""

from __future__ import annotations

import json

from onlinesrl.commands.common import ConfigPath, Overrides, Trained


def evaluate(trained: Trained, config: ConfigPath, set_: Overrides = []) -> None:  # noqa: B006
    """Score trained weights on a labelled source, without learning; JSON on standard output."""
    from onlinesrl.runs import evaluation
    from onlinesrl.runs.config.loading import load

    settings = load(config, set_)
    settings.check_examples()
    print(json.dumps(evaluation.evaluate(settings, trained), indent=2))
