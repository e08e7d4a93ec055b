"""The outcomes and the tally of a batch: predictions, errors of bad examples, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from onlinesrl.core.errors import printable
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.example import Constant
from onlinesrl.core.learner import Outcome, Prediction, SpelledPrediction, Tally
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.kernels import prediction_counts as k
from onlinesrl.mln.kernels.batch_report import PREDICTED
from onlinesrl.mln.kernels.grounding_frames import OK
from onlinesrl.mln.online.atom_counts import AtomCounter
from onlinesrl.mln.online.results import KINDS, REASONS, ROUTES, UNSOLVED, Results

if TYPE_CHECKING:
    from onlinesrl.mln.online.prediction_json import PredictionEncoder


class Reporter:
    """A converter of the results of a batch to outcomes and counts."""

    def __init__(self, grounder: Grounder, counter: AtomCounter):
        self.grounder = grounder
        self.packer, self.names = grounder.packer, grounder.names
        self.counter = counter

    @cached_property
    def encoder(self) -> PredictionEncoder:
        """The encoder of predictions as JSON text."""
        from onlinesrl.mln.online.prediction_json import PredictionEncoder

        return PredictionEncoder(self.packer)

    def outcomes(self, results: Results) -> list[Outcome]:
        """Return the outcome of every world; an earlier prediction takes precedence.

        Predictions have their atoms as JSON text where they can be written as such.
        """
        out = results.out
        for w in results.answered:
            if out.status[w] == OK:
                self.counter.count_apart(results, w)
        texts = self.encoder.texts(results)
        kind: Any = Prediction if texts is None else SpelledPrediction
        atoms = self._atoms_of(results) if texts is None else texts.__getitem__
        columns = (
            out.status.tolist(),
            out.score.tolist(),
            out.counts[:, k.HAMMING].tolist(),
            [m if math.isfinite(m) else None for m in out.margin.tolist()],
        )
        outcomes = []
        for w, (world, status, score, hamming, margin) in enumerate(
            zip(results.worlds, *columns, strict=True)
        ):
            if status != OK:
                detail = int(out.detail[w])
                reason = REASONS.get(status) or self.grounder.reasons.of(
                    results.batch, w, status, detail
                )
                outcomes.append(Outcome(None, printable(reason), status == UNSOLVED))
                continue
            example, drift = world.example, w in results.drifted
            if w in results.answered:
                prediction = msgspec.structs.replace(results.answered[w], hamming=hamming)
            else:
                wrong = hamming if example.labelled else None
                certified = w not in results.unproven
                prediction = kind(
                    example.id, atoms(w), score, certified, example.group, wrong, margin
                )
                if results.marginals:
                    prediction.marginals = results.marginals.get(w)
                if w in results.diagnostics:
                    prediction.r_hat = round(results.diagnostics[w].largest_r_hat, 4)
                    prediction.ess = round(results.diagnostics[w].least_ess, 1)
                if example.labelled and example.asked is not None:
                    results.asked[w] = prediction
                    self.counter.count_apart(results, w)
                    prediction.hamming = int(out.counts[w, k.HAMMING])
            outcomes.append(Outcome(prediction, drift=drift))
        return outcomes

    def _atoms_of(self, results: Results) -> Callable[[int], dict[str, list[list[Constant]]]]:
        """Return a function from a world to its predicted atoms."""
        batch, out = results.batch, results.out
        predicted = out.true_mark[: out.true_start[-1]] & PREDICTED != 0
        starts = np.append(0, np.cumsum(predicted))[out.true_start].tolist()
        queries, keys = (
            column[: len(predicted)][predicted].tolist()
            for column in (out.true_query, out.true_key)
        )

        def atoms(w: int) -> dict[str, list[list[Constant]]]:
            predicted_atoms = {}
            span = slice(starts[w], starts[w + 1])
            for q, names in enumerate(self.names):
                constants = [self.packer.names(batch, w, kind) for kind in names.kinds]
                world_keys = keys[span]
                if len(self.names) > 1:
                    world_keys = [
                        key
                        for key, query in zip(world_keys, queries[span], strict=True)
                        if query == q
                    ]
                predicted_atoms[names.name] = names.constants(world_keys, constants)
            return predicted_atoms

        return atoms

    def tally(self, results: Results, outcomes: Sequence[Outcome], bad: list[str]) -> Tally:
        """Count a batch and its outcomes; ``bad`` has the error kinds of examples that were not packed."""
        out, answered = results.out, results.answered
        good = out.status == OK
        new = good.copy()
        new[list(answered)] = False
        routes = np.bincount(out.route[new], minlength=len(results.routes)).tolist()
        by_class, predicates, pairs = self.counter.count(results, new, good)
        return Tally(
            counts=out.counts[good].sum(axis=0),
            labelled=int(np.sum(results.batch.labelled[good])),
            predicted=int(new.sum()),
            certified=int(new.sum()) - sum(bool(new[w]) for w in results.unproven),
            audited=len(results.audits),
            unsolved=sum(w not in answered or answered[w].certified for w in results.unsolved),
            routes={
                name: n
                for name, n in zip(results.routes, routes, strict=True)
                if n or name in ROUTES
            },
            by_class=by_class,
            errors=Counter(bad + [KINDS[status] for status in out.status[~good].tolist()]),
            predicates=predicates,
            pairs=pairs,
            ranking=self._ranking(results, outcomes),
        )

    def _ranking(self, results: Results, outcomes: Sequence[Outcome]) -> dict[str, Ranking]:
        """Collect probabilities and truth of atoms by predicate, for worlds that have both."""
        rankings: dict[str, Ranking] = {}
        for world, outcome in zip(results.worlds, outcomes, strict=True):
            prediction = outcome.prediction
            if prediction is None or not prediction.marginals or world.example.truth is None:
                continue
            for name, scores, true in self.counter.scored(prediction.marginals, world.example):
                rankings.setdefault(name, Ranking()).add(scores, true)
        return rankings
