"""Ground networks of other systems, and the friends & smokers worlds, with their exact answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF
from tests.support.ground_mrfs import clause_model
from tests.support.paths import SHARED

GOLDENS = SHARED / "data" / "caviar_goldens"
EXACT = SHARED / "peers" / "mln" / "caviar_exact"
WORLDS = SHARED / "peers" / "mln" / "friends_smokers"


@dataclass(frozen=True, eq=False)
class Network:
    """A ground model with the weights of its clauses and the names of its atoms."""

    model: GroundMRF
    weights: Floats
    names: list[str]
    violated: float = 0.0
    """The weight of what the evidence alone violates."""

    def cost(self, score: float) -> float:
        """The weight of what a state of this score violates, of a clause below 0: satisfies."""
        return float(self.weights[self.weights > 0].sum()) - score + self.violated

    def by_name(self, values: dict[str, float]) -> Floats:
        """Values by atom name as the model's atoms are numbered."""
        return np.array([values[name] for name in self.names])


def network(
    clauses: list[tuple[float | None, list[str]]], atoms: list[str], violated: float = 0.0
) -> Network:
    """A network from clauses of named literals, weight None for a hard one; further atoms last."""
    number: dict[str, int] = {}
    rows = []
    for weight, literals in clauses:
        row = []
        for literal in literals:
            atom = number.setdefault(literal.removeprefix("!"), len(number)) + 1
            row.append(-atom if literal.startswith("!") else atom)
        rows.append((weight, row))
    for atom in atoms:
        number.setdefault(atom, len(number))
    return Network(*clause_model(len(number), rows), list(number), violated)


def caviar(learner: str, fold: int, pair: str) -> Network:
    """A CAVIAR case, from the ground network of another system; atoms are all of its answer's."""
    path = here(GOLDENS / learner / f"fold_{fold}" / f"{pair}.network")
    clauses: list[tuple[float | None, list[str]]] = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("//"):
            continue
        if line.endswith("."):
            clauses.append((None, line.removesuffix(".").split(" v ")))
        else:
            weight, literals = line.split(" ", 1)
            clauses.append((float(weight), literals.split(" v ")))
    return network(clauses, [])


def exact(learner: str, fold: int, pair: str, kind: str) -> tuple[str, dict[str, float]]:
    """The exact answer to a CAVIAR case: its first comment and the values by atom."""
    name = f"{learner.replace('_', '__')}__meet__fold_{fold}__{pair}.{kind}.exact"
    return answer(EXACT / name)


def answer(path: Path) -> tuple[str, dict[str, float]]:
    """Lines ``Atom value``, and the first comment or nothing."""
    lines = here(path).read_text().splitlines()
    comment = lines[0] if lines[0].startswith("#") else ""
    values = (line.split() for line in lines if not line.startswith("#"))
    return comment, {atom: float(value) for atom, value in values}


def here(path: Path) -> Path:
    """The path; skips the test where the shared data is not at hand."""
    if not path.exists():
        pytest.skip(f"the shared data is not here: no {path.relative_to(SHARED)}")
    return path


def friends_smokers(n: int, theory: str = "fs-infer") -> Network:
    """The world of n people, grounded by hand with the weights of the theory; Friends is evidence."""
    smoking, healthy, causes, peers = _theory_weights(here(WORLDS / f"{theory}.mln"))
    evidence = _evidence(here(WORLDS / f"fs{n}-test.db"))
    people = sorted(set(re.findall(r"P\d+", " ".join(evidence))))
    both = theory.endswith("iff")
    clauses: list[tuple[float, list[str]]] = []
    for x in people:
        clauses.append((smoking, [f"Smokes({x})"]))
        clauses.append((healthy, [f"!Cancer({x})"]))
        clauses.append((causes, [f"!Smokes({x})", f"Cancer({x})"]))
        for y in people:
            if x != y and f"Friends({x},{y})" in evidence:
                pair = [f"!Smokes({x})", f"Smokes({y})"], [f"Smokes({x})", f"!Smokes({y})"]
                clauses += (
                    [(peers / 2, literals) for literals in pair] if both else [(peers, pair[0])]
                )
    open_ = [f"{p}({x})" for x in people for p in ("Smokes", "Cancer")]
    given = [(w, _given(literals, evidence)) for w, literals in clauses]
    return network(
        [(w, literals) for w, literals in given if literals],
        [atom for atom in open_ if atom not in evidence and f"!{atom}" not in evidence],
        violated=sum(w for w, literals in given if literals == []),
    )


def _given(literals: list[str], evidence: set[str]) -> list[str] | None:
    """A clause without its false literals; None where it is true."""
    if any(literal in evidence for literal in literals):
        return None
    return [x for x in literals if (x[1:] if x.startswith("!") else f"!{x}") not in evidence]


def _evidence(path: Path) -> set[str]:
    return {line.replace(" ", "") for line in path.read_text().splitlines() if line.strip()}


def _theory_weights(path: Path) -> list[float]:
    return [float(x) for x in re.findall(r"^(-?\d+\.\d+) ", path.read_text(), re.MULTILINE)]
