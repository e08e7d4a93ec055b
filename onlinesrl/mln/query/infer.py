"""Queries of one world: its ground network as text, its most probable state, or marginals."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import UNPROVEN
from onlinesrl.logic.tables import with_names
from onlinesrl.logic.text import constant_of, spell_atom
from onlinesrl.mln.ground.ground_mrf import GroundMRF, Soft, State, distinct
from onlinesrl.mln.inference.gate_marginals import GateModel, gate_marginals
from onlinesrl.mln.inference.mcmc_diagnostics import DISAGREE
from onlinesrl.mln.inference.protocols import Marginals, Solution
from onlinesrl.mln.inference.registry import (
    MAP_METHODS,
    MARGINAL_METHODS,
    exact_engine,
    map_engine,
    marginal_engine,
    sampler_of,
)
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.query.ground_formulas import TRUE, asked_atoms
from onlinesrl.mln.query.world import Lazy, Part, QueryError, World

if TYPE_CHECKING:
    from onlinesrl.mln.inference.best_states import Ranked

Answer: TypeAlias = tuple[Floats, dict[str, Any]]
"""The value of every atom, float64[atoms], and statistics."""
UNPROVEN_BEST = "these are not proven to be the best states: a search ended at its limit"
SAMPLED = (
    "the treewidth of the network is too large for exact marginals: its wide parts have estimates by "
    "{found.route} with {found.samples} samples: R-hat {of.largest_r_hat:.3g}, standard errors up to "
    "{of.largest_error:.2g}"
)
DISAGREED = (
    "the {of.chains} chains disagree, so that the estimates may be far off: R-hat {of.largest_r_hat:.3g} "
    "of {atom} (more than {limit}), standard errors up to {of.largest_error:.2g}; --error E samples until "
    "they agree"
)
NOT_REACHED = (
    "the requested error of {error:g} was not reached in {found.samples} samples: standard errors up to "
    "{of.largest_error:.2g}, R-hat {of.largest_r_hat:.3g}"
)


def no_atom(predicate: str, types: Iterable[str]) -> str:
    """Return the warning for a queried predicate without an atom."""
    listed = ", ".join(f"{kind} = {{...}}" for kind in dict.fromkeys(types))
    return (
        f"{predicate} is queried and has no atom, because no constant of one of its types is known: name "
        f"constants in the evidence, or declare them in the model ({listed})"
    )


def _name(world: World, atom: int) -> str:
    """Return the text of an atom or formula; other conjunctions are called ``Some_1``, ``Some_2``, ..."""
    n = len(world.atoms)
    if atom < n:
        return spell_atom(*world.atoms[atom])
    for formula in world.formulas.values():
        for row in np.flatnonzero(np.abs(formula.literals) == atom + 1).tolist():
            return formula.text(row)
    return f"Some_{atom - n + 1}"


def network_lines(world: World) -> Iterator[str]:
    """Yield the ground network: ``weight literal v literal``, hard clauses with a final period."""
    model, fixed = world.model, world.fixed
    names = [_name(world, atom) for atom in range(model.n_atoms)]
    for c, weight, hard in zip(*distinct(model, world.weight), strict=True):
        if not hard and weight == 0.0:
            continue
        literals = sorted(model.literals[model.start[c] : model.start[c + 1]].tolist(), key=abs)
        if len(literals) == 1 and abs(literals[0]) - 1 in fixed:
            continue
        text = " v ".join(("" if x > 0 else "!") + names[abs(x) - 1] for x in literals)
        yield f"{text}." if hard else f"{weight:.10g} {text}"
    order = np.argsort(model.group, kind="stable")
    bounds = np.searchsorted(model.group[order], np.arange(len(model.exactly) + 1))
    for group, (first, last) in enumerate(pairwise(bounds.tolist())):
        members = order[first:last].tolist()
        free = [names[atom] for atom in members if atom not in fixed]
        if any(fixed.get(atom) for atom in members):  # evidence has a true atom of the group
            yield from (f"!{name}." for name in free)
            continue
        yield from (f"!{one} v !{other}." for one, other in combinations(free, 2))
        if free and model.exactly[group]:
            yield f"{' v '.join(free)}."


def lines(
    world: World, values: Floats, method: str, counts: Mapping[str, Mapping[str, float]] = {}
) -> Iterator[str]:
    """Yield a sorted ``Atom(args) value`` line for each queried atom, or formula with constants.

    The ``counts`` of predicates and formulas stand before, as comments.
    """
    for name, count in counts.items():
        error = f" \u00b1 {count['standard_error']:.6g}" if "standard_error" in count else ""
        yield f"// {count['expected']:.6g}{error} of {name} expected, variance {count['variance']:.6g}"
    spelled = "{:.0f}" if method in MAP_METHODS else "{:.10f}"
    for text, value in _named(world, values):
        yield f"{text} {spelled.format(value)}"


def lines_of_best(world: World, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the lines of the best state, and of the others what differs from it, each after a comment."""
    for values, stats in answers:
        proof = "" if stats["certified"] else ", not proven"
        yield f"// {stats['rank']}: {stats['difference']:.6g} less than the best{proof}"
        if values is answers[0][0]:
            yield from lines(world, values, "mpe")
        yield from (f"{text} {value}" for text, value in stats["changes"].items())


def _named(
    world: World, values: Floats, beside: Floats | None = None
) -> Iterator[tuple[str, float]]:
    """Yield the text of what is queried, in order, and its value; only where it is another ``beside``."""
    shown = world.shown
    if beside is not None:
        shown = shown[values[shown] != beside[shown]]
    predicates = {name: (of, args) for name, of, args in world.atoms.ordered(shown)}
    for name in sorted([*predicates, *world.formulas]):
        if name in predicates:
            numbers, arguments = predicates[name]
            rows = zip(*arguments, strict=True) if arguments else repeat((), len(numbers))
            for args, value in zip(rows, values[numbers].tolist(), strict=True):
                yield spell_atom(name, args), value
        else:
            formula = world.formulas[name]
            of = formula.values(values)
            other = np.full(len(of), np.nan) if beside is None else formula.values(beside)
            for row in np.flatnonzero(of != other).tolist():
                yield formula.text(row), float(of[row])


def solve(
    world: World,
    method: str,
    seed: int,
    error: float | None = None,
    max_work: int | None = None,
    counts: bool = False,
) -> tuple[Floats, dict[str, Any]]:
    """Return the value of every atom of a world, float64[atoms], and statistics.

    ``error`` is the standard error to reach in sampled marginals. ``max_work`` limits a search of ``mpe``
    as in ``MlnEngine``; None: no limit. With ``counts`` the statistics of marginals have, by queried
    predicate and formula, the expected number of true atoms, and its variance; what evidence makes true
    counts. Raises QueryError, Infeasible, Unsolved.
    """
    clock = time.process_time()
    _check_error(error, method)
    if max_work is not None and method != "mpe":
        raise QueryError(f"--max-work limits the search of --method mpe only, not of {method}")
    if counts and method not in MARGINAL_METHODS:
        known = ", ".join(MARGINAL_METHODS)
        raise QueryError(f"--counts is for marginals ({known}), not for {method}")
    if method in MAP_METHODS:
        world, solution = best_state(world, method, seed, max_work)
        values, details = solution.state.astype(np.float64), _of_state(world, solution)
    elif method in MARGINAL_METHODS:
        values, details = _marginals(world, method, seed, error)
        if counts:
            details["counts"] = _counts(world, method, seed, values)
    else:
        methods = ", ".join((*MAP_METHODS, *MARGINAL_METHODS))
        raise QueryError(f"unknown method {method}; known are: {methods}")
    return values, _statistics(world, method, details, clock)


def _check_error(error: float | None, method: str) -> None:
    if error is not None and (method in MAP_METHODS or not error > 0):
        raise QueryError(
            f"--error is a number above 0 for {', '.join(MARGINAL_METHODS)}: the standard error to reach "
            f"in sampled marginals, not {error:g} for {method}"
        )


def solve_best(
    world: World,
    n: int,
    method: str = "mpe",
    error: float | None = None,
    max_work: int | None = None,
) -> list[Answer]:
    """Return the ``n`` best states, each as the value of every atom, and statistics; see ``best_states``.

    Those of the first are as of ``solve``. All have ``rank``, ``score``, ``difference`` (from the best
    score), ``certified``, and ``changes`` (the queried atoms that differ from the first state, and their
    values). The first lists them all, as ``best``. Raises QueryError, Infeasible, Unsolved.
    """
    clock = time.process_time()
    if method != "mpe":
        reason = "the other methods do not prove which states are the best"
        raise QueryError(f"the best states are those of mpe, not {n} of {method}: {reason}")
    _check_error(error, method)
    world, rows, complete = _best_states(world, n, max_work)
    first = rows[0].solution
    answers = list[Answer]()
    for row in rows:
        values = row.solution.state.astype(np.float64)
        answers.append(
            (
                values,
                {
                    "rank": row.rank,
                    "score": row.solution.score,
                    "difference": row.difference,
                    "certified": row.solution.certified,
                    "changes": {
                        text: int(x)
                        for text, x in _named(world, values, first.state.astype(np.float64))
                    },
                },
            )
        )
    entries = [stats for _, stats in answers]
    unproven = not complete or not entries[-1]["certified"]
    details = _of_state(world, first)
    details["warnings"] = [UNPROVEN_BEST] if unproven else []
    stats = _statistics(world, method, details, clock)
    answers[0] = answers[0][0], {**entries[0], **stats, "best": entries}
    return answers


def _best_states(world: World, n: int, max_work: int | None) -> tuple[World, list[Ranked], bool]:
    """Return the best states, as ``best_states`` does, and the world with the clauses that they needed."""
    from onlinesrl.mln.inference.best_states import best_states, ranked

    if world.lazy is None:
        from onlinesrl.mln.inference.ilp import Ilp

        engine = exact_engine(Ilp(max_work=max_work), max_work)
        return world, *best_states(world.model, world.weight, world.visible, n, engine, max_work)
    world, solutions, complete = _lazily(world, world.lazy, max_work, n)
    error = Magnitude.of(world.weight).rounding
    return world, ranked(solutions, world.visible, error), complete


def _statistics(world: World, method: str, details: dict[str, Any], clock: float) -> dict[str, Any]:
    """Return what is said of an answer, given its details and the CPU time at the start."""
    _, weight, hard = distinct(world.model, world.weight)
    return {
        "method": method,
        "atoms": len(world.atoms) - len(world.fixed),
        "soft_clauses": int(np.sum(~hard & (weight != 0.0))),
        "hard_clauses": int(np.sum(hard)) - len(world.fixed),
        **details,
        "warnings": [
            *(no_atom(name, world.types[name]) for name in world.empty),
            *details["warnings"],
        ],
        "seconds": {**world.seconds, "infer_cpu": time.process_time() - clock},
    }


def columns(world: World, values: Floats) -> dict[str, dict[str, Sequence[Any]]]:
    """Return what is queried and its values as columns, by predicate and formula."""
    atoms = {
        name: with_names(world.types[name], arguments, values[numbers].tolist())
        for name, numbers, arguments in world.atoms.ordered(world.shown)
        if len(numbers)
    }
    formulas = {
        name: with_names(
            formula.types,
            [[*map(constant_of, column)] for column in zip(*formula.constants, strict=True)],
            formula.values(values).tolist(),
        )
        for name, formula in world.formulas.items()
        if formula.constants
    }
    return atoms | formulas


def values_of(
    model: GroundMRF,
    weight: Floats,
    method: str,
    seed: int,
    samples: int | None = None,
    flips: int | None = None,
) -> Floats:
    """Return the value of every atom of a ground model, float64[atoms]. Raises Infeasible, Unsolved.

    With ``flips`` a state is found by one try of MaxWalkSAT with so many, whatever the ``method``.
    """
    if method in MAP_METHODS:
        engine = map_engine(method, seed)
        if flips is not None:
            from onlinesrl.mln.inference.maxwalksat import WalkSat

            engine = WalkSat(flips, tries=1, seed=seed)
        return engine.solve(model, weight).state.astype(np.float64)
    return marginal_engine(method, seed, samples=samples).marginals(model, weight).probability


def best_state(
    world: World, method: str, seed: int, max_work: int | None
) -> tuple[World, Solution]:
    """Return an answer, and the world with the clauses that it needed; arguments as of ``map_engine``."""
    if world.lazy is not None:
        world, solutions, _ = _lazily(world, world.lazy, max_work)
        return world, solutions[0]
    return world, map_engine(method, seed, max_work).solve(world.model, world.weight)


def _of_state(world: World, solution: Solution) -> dict[str, Any]:
    state_cost, slack = cost(world, solution.state), solution.bound - solution.score
    return {
        "score": solution.score,
        "cost": state_cost,
        "bound": state_cost - slack if math.isfinite(slack) else None,
        "route": solution.route,
        "certified": solution.certified,
        "warnings": [] if solution.certified else [UNPROVEN],
    }


def _lazily(
    world: World, lazy: Lazy, max_work: int | None, n: int = 1
) -> tuple[World, list[Solution], bool]:
    """Return the best answers by cutting planes, and the world with the clauses that they needed.

    The last result is False where a search for them ended at its limit.
    """
    from onlinesrl.mln.inference.cutting_planes import CuttingPlanes

    ground = [Part(world.model, world.weight, world.soft)]

    def violated(value: Floats, conflicts: bool) -> tuple[GroundMRF, Floats] | None:
        part = lazy.violated(value, conflicts)
        if part is None:
            return None
        ground.append(part)
        return part.model, part.weight

    planes = CuttingPlanes(world.model, world.weight, violated)
    ranking = planes.ranking(world.visible, max_work)
    solutions = ranking.first(n)
    of_lazy = lazy.total() - sum(float(part.weight.sum()) for part in ground[1:])
    models, weights, softs = zip(*ground, strict=True)
    of_soft, gains = zip(*softs, strict=True)
    world = replace(
        world,
        model=models[0].with_clauses(*models[1:]),
        weight=np.concatenate(weights),
        soft=Soft(of_soft[0].with_clauses(*of_soft[1:]), np.concatenate(gains)),
    )

    def scored(solution: Solution) -> Solution:
        score = world.model.score(solution.state, world.weight) + of_lazy
        return replace(solution, score=score, bound=score + solution.bound - solution.score)

    return world, [*map(scored, solutions)], len(solutions) == n or ranking.proven


def cost(world: World, state: Sequence[int] | State) -> float:
    """Return the total absolute weight of violated soft clauses.

    A clause of positive weight is violated if it is false, one of negative weight if it is true. Only clauses
    with an atom of an open predicate, and without a true literal of a closed one, count. Atoms of open
    predicates count even if evidence fixes them, so that evidence does not change the cost of a state.
    """
    first, gain, _ = distinct(world.soft.model, world.soft.weight)
    is_true = world.soft.model.satisfied(np.asarray(state, np.uint8))[first]
    return math.fsum(np.abs(gain[is_true == (gain < 0)]).tolist())


def _marginals(
    world: World, method: str, seed: int, error: float | None
) -> tuple[Floats, dict[str, Any]]:
    marginals = gate_marginals(
        marginal_engine(method, seed, error),
        world.model,
        world.weight,
        world.gates,
        asked_atoms(world.formulas.values()),
    )
    details: dict[str, Any] = {
        "log_z": marginals.log_z,
        "route": marginals.route,
        "samples": marginals.samples,
    }
    if (diagnostics := marginals.diagnostics) is not None:  # of the least reliable atom
        details |= {
            "chains": diagnostics.chains,
            "r_hat": diagnostics.largest_r_hat,
            "ess": diagnostics.least_ess,
            "standard_error": diagnostics.largest_error,
        }
    details["warnings"] = _doubts(world, method, marginals, error)
    return marginals.probability, details


def _counts(
    world: World, method: str, seed: int, probability: Floats
) -> dict[str, dict[str, float]]:
    """Return the counts of each queried predicate and formula, given the probabilities of the atoms."""
    from onlinesrl.mln.inference.expected_counts import expected_counts

    literals = {name: world.atoms.numbers({name}) + 1 for name in world.queried}
    literals |= {name: of.literals[of.open] for name, of in world.formulas.items()}
    model = GateModel(world.model, world.weight, world.gates)
    sampler, exact = sampler_of(method, seed), method == "exact"
    counts = expected_counts(model, probability, literals, sampler, exact)
    for name, of in world.formulas.items():
        true = counts[name].expected + np.sum(of.literals == TRUE)
        counts[name] = counts[name]._replace(expected=float(true))
    return {
        name: {key: x for key, x in count._asdict().items() if x is not None}
        for name, count in counts.items()
    }


def _doubts(world: World, method: str, marginals: Marginals, error: float | None) -> list[str]:
    """Return warnings about marginals that miss the required error or are unreliable."""
    diagnostics = marginals.diagnostics
    if diagnostics is None:
        return []
    warnings = [SAMPLED.format(found=marginals, of=diagnostics)] if method == "exact" else []
    if error is not None and not diagnostics.reach(error):
        warnings.append(NOT_REACHED.format(error=error, found=marginals, of=diagnostics))
    if not diagnostics.agree:
        atom = _name(world, int(diagnostics.r_hat.argmax()))
        warnings.append(DISAGREED.format(of=diagnostics, atom=atom, limit=DISAGREE))
    return warnings
