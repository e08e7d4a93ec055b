"""The outcomes and the tally of a batch: predictions, errors of bad examples, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np

from onlinesrl.core.arrays import extended
from onlinesrl.core.errors import printable
from onlinesrl.core.evaluation.label_sets import LabelSets
from onlinesrl.core.evaluation.prequential import ratio
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.evaluation.set_coverage import counted
from onlinesrl.core.example import Atoms, Constant, Rows
from onlinesrl.core.learner import Outcome, Prediction, Tally
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.kernels import batch_report
from onlinesrl.mln.kernels import prediction_counts as k
from onlinesrl.mln.kernels.batch_report import PREDICTED
from onlinesrl.mln.kernels.grounding_frames import OK
from onlinesrl.mln.online.answer_sets import answers
from onlinesrl.mln.online.atom_counts import AtomCounter
from onlinesrl.mln.online.results import KINDS, REASONS, ROUTES, UNSOLVED, Results


class SpelledPrediction(Prediction):
    """A prediction that has its atoms as JSON, a ``msgspec.Raw``, decoded whenever they are asked for."""

    @property  # type: ignore[misc]
    def predicted(self) -> Rows:  # type: ignore[override]
        """The atoms predicted true."""
        return _atoms.decode(_spelled(self))

    def whole(self) -> Prediction:
        """Return the prediction with its atoms in memory."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Prediction(**fields)


_atoms = msgspec.json.Decoder(Atoms)
_spelled = Prediction.__dict__["predicted"].__get__


class Reporter:
    """A converter of the results of a batch to outcomes and counts.

    It caches the JSON text of constants. ``sets`` are of the ``best`` answers, or of labels where that is 1.
    """

    def __init__(
        self, grounder: Grounder, counter: AtomCounter, sets: LabelSets | None, best: int
    ) -> None:
        self.grounder = grounder
        self.packer, self.names = grounder.packer, grounder.names
        self.counter, self.sets, self.best = counter, sets, best
        self.spells = not self.packer.background
        self.domain: Domain | None = None
        self.known = 0
        self.start, self.byte = np.zeros(1, np.int64), np.zeros(0, np.uint8)
        self.text = np.zeros(1 << 16, np.uint8)
        keys = [msgspec.json.encode(name) for name in self.packer.layout.plan.query]
        self.key = np.frombuffer(bytearray(b"".join(keys)), np.uint8)
        self.key_start = np.array([0, *accumulate(map(len, keys))], np.int64)
        arguments = self.packer.layout.plans.query_argument
        self.constant = np.zeros(int(arguments.max(initial=0)) + 1, np.int64)

    def outcomes(self, results: Results, learning: bool) -> list[Outcome]:
        """Return the outcome of every world; an earlier prediction takes precedence.

        Predictions have their atoms as JSON text where they can be written as such.
        """
        out = results.out
        for w, answer in results.answered.items():
            if out.status[w] == OK and w not in results.apart:
                self.counter.count_apart(results, w, answer)
        texts = self.texts(results)
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
                reason = results.reasons.get(w) or REASONS.get(status)
                reason = reason or self.grounder.reason(results.batch, w, status, detail)
                outcomes.append(Outcome(None, printable(reason), status == UNSOLVED))
                continue
            example = world.example
            if w in results.answered:
                prediction = msgspec.structs.replace(results.answered[w], hamming=hamming)
            else:
                wrong = hamming if example.labelled else None
                prediction = kind(example.id, atoms(w), score, None, example.group, wrong, margin)
                if results.probabilities.predict:
                    prediction.marginals = results.marginals.get(w)
                    prediction.threshold = results.thresholds.get(w)
                    prediction.formulas = results.formulas.get(w)
                    prediction.probabilities = "sampled" if w in results.diagnostics else "exact"
                else:
                    prediction.certified = w not in results.unproven
                    prediction.best = results.best.get(w)
                if w in results.diagnostics:
                    prediction.r_hat = round(results.diagnostics[w].largest_r_hat, 4)
                    prediction.ess = round(results.diagnostics[w].least_ess, 1)
                if example.labelled and world.asked is not None:
                    self.counter.count_apart(results, w, prediction)
                    prediction.hamming = int(out.counts[w, k.HAMMING])
            if self.sets is not None:
                self._cover(results, w, prediction, learning)
            units, right = out.counts[w, [k.UNITS, k.RIGHT_UNITS]].tolist()
            share = ratio(units - right, units) if example.labelled else None
            outcomes.append(Outcome(prediction, wrong=share))
        return outcomes

    def _cover(self, results: Results, w: int, prediction: Prediction, learning: bool) -> None:
        """Add its sets to the prediction of a world, and learn from its truth."""
        assert self.sets is not None
        if self.best > 1:
            units = answers(prediction, self.best, self.counter.wrong(results, w, prediction))
        else:
            labelled = results.worlds[w].example.labelled
            truths = self.counter.truths(results, w) if labelled else {}
            units = self.sets.units(prediction.marginals or {}, truths)
        if units and w not in results.answered:
            prediction.sets, prediction.truths = self.sets.of(units), self.sets.truths
            prediction.abstains = any(
                one.abstains(unit.labels)
                for name, several in units.items()
                for unit, one in zip(several, prediction.sets[name], strict=True)
            )
        if prediction.sets is not None:
            covered = self.sets.learn(units, prediction.sets, prediction.truths or 0, learning)
            results.covered += covered

    def texts(self, results: Results) -> list[msgspec.Raw] | None:
        """Return the JSON of the predicted atoms of each world, without a Python object per atom.

        It is empty for a bad world. None: models with background facts are not supported.
        """
        if not self.spells:
            return None
        domain = self.packer.constants
        if domain is not self.domain:
            self.domain, self.known = domain, 0
        if names := domain.names[self.known :]:
            constants = [*map(msgspec.json.encode, names)]
            ends = [*accumulate(map(len, constants), initial=int(self.start[self.known]))]
            self.start = extended(self.start, self.known + 1 + len(names))
            self.byte = extended(self.byte, ends[-1])
            self.byte[ends[0] : ends[-1]] = np.frombuffer(b"".join(constants), np.uint8)
            self.start[self.known : self.known + 1 + len(names)] = ends
            self.known += len(names)
        starts = np.zeros(len(results.worlds) + 1, np.int64)
        spelling = batch_report.Spelling(
            start=self.start,
            byte=self.byte,
            shared=self.packer.shared_constants,
            key_start=self.key_start,
            key=self.key,
            constant=self.constant,
            text=self.text,
            text_start=starts,
        )
        while not batch_report.spell(
            self.packer.layout.plans, results.batch, results.out, spelling
        ):
            self.text = np.zeros(2 * len(self.text), np.uint8)
            spelling = replace(spelling, text=self.text)
        text, stops = self.text[: starts[-1]].tobytes(), starts.tolist()
        return [msgspec.Raw(text[a:b]) for a, b in pairwise(stops)]

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
        rankings: dict[str, Ranking] = {}  # of the atoms with a probability and a known truth
        for w, (world, outcome) in enumerate(zip(results.worlds, outcomes, strict=True)):
            prediction = outcome.prediction
            if prediction is None or not prediction.marginals or not world.example.labelled:
                continue
            for name, scores, true in self.counter.scored(results, w):
                rankings.setdefault(name, Ranking()).add(scores, true)
        tally = Tally(
            counts=out.counts[good].sum(axis=0),
            labelled=int(np.sum(results.batch.labelled[good])),
            predicted=int(new.sum()),
            certified=None
            if results.probabilities.predict
            else int(new.sum()) - sum(bool(new[w]) for w in results.unproven),
            audited=len(results.audits),
            unsolved=sum(
                w not in answered or answered[w].certified is not False for w in results.unsolved
            ),
            routes={
                name: n
                for name, n in zip(results.routes, routes, strict=True)
                if n or name in ROUTES
            },
            errors=Counter(bad + [KINDS[status] for status in out.status[~good].tolist()]),
            ranking=rankings,
            sets=counted(results.covered),
        )
        self.counter.count(results, new, good, tally)
        return tally
