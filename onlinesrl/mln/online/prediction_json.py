"""The predicted atoms of a batch as JSON text, without a Python object per atom."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

import msgspec
import numpy as np

from onlinesrl.core.arrays import extended
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
        spelling = k.Spelling(
            start=self.start,
            byte=self.byte,
            shared=self.packer.shared_constants,
            key_start=self.key_start,
            key=self.key,
            constant=self.constant,
            text=self.text,
            text_start=starts,
        )
        while not k.spell(self.packer.layout.plans, results.batch, results.out, spelling):
            self.text = np.zeros(2 * len(self.text), np.uint8)
            spelling = replace(spelling, text=self.text)
        text, stops = self.text[: starts[-1]].tobytes(), starts.tolist()
        return [msgspec.Raw(text[a:b]) for a, b in pairwise(stops)]
