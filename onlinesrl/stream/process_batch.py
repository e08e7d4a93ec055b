"""The one step that runs, shards, servers, evaluations, comparisons and the library make."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Item, Learner, Outcome, Tally
from onlinesrl.stream.crash_notes import CrashNote


def process_batch(
    learner: Learner,
    items: Sequence[Item],
    learning: bool = True,
    note: CrashNote | None = None,
    number: int = 0,
) -> tuple[list[Outcome], Tally]:
    """Predict each item and, if ``learning``, learn from it; return the outcomes and their counts.

    The caller writes, shows or returns the outcomes.

    While the items are processed, ``note`` says that they are, the first as example ``number`` of the run;
    an example in which too many processes died is not tried, and is bad by an error of kind "crash".
    ``CrashNote.room`` gives such an example a batch of its own.
    """
    if note is None:
        return learner.step(items, learning)
    reason = note.condemned(number)
    if reason is not None:
        items = [ExampleError(reason, "crash")]
    with note.trying(number, len(items)):
        outcomes, tally = learner.step(items, learning)
    note.passed(number + len(items))
    return outcomes, tally
