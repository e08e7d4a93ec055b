"""A trained learner as a model of MLflow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import UsageError
from onlinesrl.core.version import __version__
from onlinesrl.library.learner import OnlineLearner

CODE = Path(__file__).with_name("mlflow_pyfunc.py")


def save_model(learner: OnlineLearner, path: str | Path, example: str) -> None:
    """Write a learner as a pyfunc model into a new folder.

    ``example``, a line of JSON, is kept as the model's example. The signature is a list of lines to a list of
    lines. Raises UsageError without the extra mlflow, and MLflow's errors.
    """
    _stored(learner, example, lambda pyfunc, **options: pyfunc.save_model(str(path), **options))


def log_model(learner: OnlineLearner, name: str, example: str) -> Any:
    """Log a learner to the active run of MLflow, as ``save_model``; return MLflow's description of it."""
    return _stored(
        learner, example, lambda pyfunc, **options: pyfunc.log_model(name=name, **options)
    )


def _stored(learner: OnlineLearner, example: str, store: Any) -> Any:
    try:
        from mlflow import pyfunc
    except ImportError as error:
        raise UsageError(
            "a model of MLflow needs the extra mlflow: pip install 'onlinesrl[mlflow]'"
        ) from error
    with tempfile.TemporaryDirectory(prefix="onlinesrl-") as folder:
        checkpoint = Path(folder, "learner.ckpt")
        learner.save(checkpoint)
        return store(
            pyfunc,
            python_model=str(CODE),
            artifacts={"checkpoint": str(checkpoint)},
            input_example=[example],
            pip_requirements=[f"onlinesrl[mlflow]=={__version__}"],
        )
