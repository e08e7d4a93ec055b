"""How the online learner of PSL infers values."""

from __future__ import annotations

from dataclasses import dataclass

from onlinesrl.psl.inference.protocols import HingeEngine


@dataclass(frozen=True)
class PslInference:
    """How energies are minimised, and how large examples may be.

    Where the engine ends without a certificate, the example is bad; or, with ``fallback``, it is
    predicted with the values found and learned from only if its rival is certified. ``skip`` leaves
    out ground rules with an atom that is neither observed nor a target; else an example with such a
    rule is bad.
    """

    engine: HingeEngine
    fallback: bool = True
    skip: bool = False
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000
