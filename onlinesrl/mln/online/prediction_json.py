"""The predicted atoms of a batch as JSON text, without a Python object per atom."""

from __future__ import annotations

from itertools import accumulate, pairwise

import msgspec
import numpy as np

from onlinesrl.core.arrays import Ints, extended
from onlinesrl.mln.ground.batch_packer import Packer
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.kernels import batch_report as k
from onlinesrl.mln.online.results import Results


class PredictionEncoder:
    """An encoder of predictions as JSON, with a growing cache of the JSON text of constants."""

    def __init__(self, packer: Packer):
        self.packer = packer
        self.domain: Domain | None = None
        self.known = 0
        self.start, self.byte = np.zeros(1, np.int64), np.zeros(0, np.uint8)
        self.text = np.zeros(1 << 16, np.uint8)
        keys = [msgspec.json.encode(name) for name in packer.layout.plan.query]
        self.key = np.frombuffer(bytearray(b"".join(keys)), np.uint8)
        self.key_start = np.array([0, *accumulate(map(len, keys))], np.int64)
        arguments = packer.layout.plans.query_argument
        self.constant = np.zeros(int(arguments.max(initial=0)) + 1, np.int64)

    def texts(self, results: Results) -> list[msgspec.Raw] | None:
        """Return the JSON of the predicted atoms of each world, empty for a bad world.

        None: the encoder does not support models with background facts.
        """
        if self.packer.background:
            return None
        self._follow(self.packer.constants)
        worlds = len(results.worlds)
        starts = np.zeros(worlds + 1, np.int64)
        plans, batch, out = self.packer.layout.plans, results.batch, results.out
        while not k.spell(plans, batch, out, self._spelling(starts)):
            self.text = np.zeros(2 * len(self.text), np.uint8)
        text, stops = self.text[: starts[-1]].tobytes(), starts.tolist()
        return [msgspec.Raw(text[a:b]) for a, b in pairwise(stops)]

    def _spelling(self, starts: Ints) -> k.Spelling:
        return k.Spelling(
            start=self.start,
            byte=self.byte,
            shared=self.packer.shared_constants,
            key_start=self.key_start,
            key=self.key,
            constant=self.constant,
            text=self.text,
            text_start=starts,
        )

    def _follow(self, domain: Domain) -> None:
        """Add the JSON text of new constants."""
        if domain is not self.domain:
            self.domain, self.known = domain, 0
        names = domain.names[self.known :]
        if not names:
            return
        texts = [*map(msgspec.json.encode, names)]
        stops = [*accumulate(map(len, texts), initial=int(self.start[self.known]))]
        self.start = extended(self.start, self.known + 1 + len(names))
        self.byte = extended(self.byte, stops[-1])
        self.byte[stops[0] : stops[-1]] = np.frombuffer(b"".join(texts), np.uint8)
        self.start[self.known : self.known + 1 + len(names)] = stops
        self.known += len(names)
