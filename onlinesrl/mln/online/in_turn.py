"""The worlds of a batch in turn: those that need nothing but elimination together, any other by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinesrl.core.interrupt import Interrupted
from onlinesrl.mln.kernels.predict_and_learn import LEARN, PREDICT
from onlinesrl.mln.online.reporting import Results

if TYPE_CHECKING:
    from onlinesrl.mln.online.learner import MlnOnlineLearner


def run(learner: MlnOnlineLearner, results: Results, learning: bool) -> tuple[int, bool]:
    """Process worlds in turn; returns how many, and False if memory ran out.

    They are fewer than all where it did, or where a signal asked to stop. Raises MemoryError where it ran
    out after an update: the state in memory is then unusable.
    """
    w, worlds, weights = 0, learner.worlds, learner.weights
    updates = None  # before the world at hand, where it is by itself
    try:
        while w < len(results.worlds):
            before, updates, stop = weights.updates, None, _until(learner, results, w, learning)
            if stop == w:
                updates = before
                worlds.take(results, w, learning, _audits(learner, results, w))
                w += 1
            else:
                w = worlds.run(results, w, stop, PREDICT | LEARN if learning else PREDICT, learning)
                if w < stop:
                    updates = weights.updates
                    worlds.finish(results, w, learning)
                    w += 1
            _after(learner, results, w - 1, before)
    except Interrupted:
        return worlds.at, True
    except MemoryError:
        if updates is not None and weights.updates > updates:
            raise
        weights.cut(*worlds.begun.tolist())
        return worlds.at, False
    return len(results.worlds), True


def _until(learner: MlnOnlineLearner, results: Results, w: int, learning: bool) -> int:
    """Return up to which world, from ``w`` on, nothing but elimination may be needed."""
    if not learner.worlds.alone(learning) or _audits(learner, results, w):
        return w
    if learner.monitor is not None or learner.update.max_weights is not None:
        return w + 1
    every, last = learner.inference.audit_every, len(results.worlds)
    return last if every <= 0 else min(last, w + every - 1 - (learner.seen + w) % every)


def _audits(learner: MlnOnlineLearner, results: Results, w: int) -> bool:
    """Tell whether a world is to be audited."""
    every = learner.inference.audit_every
    return every > 0 and (learner.seen + 1 + w) % every == 0 and w not in results.answered


def _after(learner: MlnOnlineLearner, results: Results, w: int, updates: int) -> None:
    """Do what is due after a world, before which there were so many updates."""
    most = learner.update.max_weights
    if learner.monitor is not None and learner.weights.updates > updates:
        learner.reporter.watch(results, w, learner.monitor)
    if most is not None and len(learner.weights) > most:
        learner.weights.drop_least(most)
