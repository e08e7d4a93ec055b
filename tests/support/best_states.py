"""The best states of an example, as a line of predictions has them."""

from typing import Any

from onlinesrl.core.example import named_atoms


def best_states(line: Any) -> list[set[Any]]:
    """Return the true atoms of the prediction, and those of the next best states."""
    predicted = named_atoms(line["predicted"])
    changes = [[named_atoms(one.get(key, {})) for key in ("true", "false")] for one in line["best"]]
    return [predicted, *(predicted - false | true for true, false in changes)]
