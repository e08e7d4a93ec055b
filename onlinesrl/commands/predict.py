"""onlinesrl predict: predict the examples of a source with trained weights."""

from __future__ import annotations

from onlinesrl.commands.common import (
    ConfigPath,
    OutputOption,
    Overrides,
    TablesOption,
    Trained,
    output_to,
)


def predict(
    trained: Trained,
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    output: OutputOption = None,
    tables: TablesOption = None,
) -> None:
    """Predict a source's examples, with score and margin over the second best state.

    Every example, also a bad one, gives one line, in their order. Lines are flushed when no input waits.
    With --tables an example gives rows instead: a table for each predicate, and one of the examples.
    """
    from onlinesrl.core.evaluation.prequential import Metrics
    from onlinesrl.runs import evaluation
    from onlinesrl.runs.config.loading import load
    from onlinesrl.runs.run import trained_learner

    settings = load(config, set_)
    settings.check_examples()
    learner = trained_learner(settings, trained, margins=True)
    predictions = evaluation.predictions(learner, settings, Metrics())
    if tables is None:
        with output_to(output) as stream:
            for prediction in predictions:
                if prediction is None:
                    stream.flush()
                else:
                    stream.write(prediction.answer + b"\n")
        return
    from onlinesrl.stream.sinks.parquet import new_tables

    rows = new_tables(tables, settings.argument_types())
    for prediction in predictions:
        if prediction is not None:
            rows.write(prediction)
        if rows.due:
            rows.flush()
    rows.flush()
