"""Public contract checks of modules of one's own, and of engines on ground models of your choice.

They raise AssertionError with the violated condition. Checks on clause models compare with enumeration,
for up to ``brute_force.MAX_ATOMS`` atoms; the check on hinge-loss models, which may be large, compares with
ADMM's certified answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, ModuleError, OnlinesrlError, Unsolved, UsageError
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Prediction
from onlinesrl.core.learning.batch import BatchLearner
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.library.batch import LearnedModel, learn
from onlinesrl.library.learner import OnlineLearner
from onlinesrl.library.model import Model
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.brute_force import Brute, state_scores
from onlinesrl.mln.inference.checked import Checked
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, Marginals
from onlinesrl.mln.inference.registry import MlnEngine, MlnMapEngine
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HARD, HINGE, HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.protocols import EngineOptions, HingeEngine
from onlinesrl.psl.inference.registry import PslEngine
from onlinesrl.stream.sinks.own import LineSink
from onlinesrl.stream.sources.own import RecordSource

T = TypeVar("T")
CLOSE = 1e-6
GAP = 1e-3
"""The tolerance of certified values in energy and violation."""
MODEL = """person = {A, B, C}
Friends(person, person)
Smokes(person)
0.5 Smokes(x)
0 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
"""What updates are checked on."""


# modules of one's own ----------------------------------------------------------------------------


def check_update(update: Update | type[Update]) -> None:
    """Check an update rule of Markov logic, of which a class is made with its default options.

    Its formula is a kernel, whose steps are finite and the same compiled; a learner by it has finite weights,
    and goes on from a checkpoint as if it had not been saved.
    """
    try:
        learner = OnlineLearner(MODEL, "Smokes", update=update)
        rule = learner.settings.learner
        params = rule.compiled({name: np.zeros(1) for name in rule.columns})
    except OnlinesrlError as error:
        raise AssertionError(str(error)) from error
    grid = product((1, 2, 1_000_000), (-1.0, 0.0, 0.5, 3.0), (-2.0, 0.0, 1.0), (0.25, 4.0))
    for t, margin, dot, norm in grid:
        measures = f"t={t}, margin={margin}, dot={dot}, norm={norm}"
        try:
            step = rule.step(t, margin, dot, norm)
        except ArithmeticError as error:
            raise AssertionError(f"the step at {measures} is not finite: {error}") from error
        compiled = rule.formula(params, t, margin, dot, norm)
        _require(bool(np.all(np.isfinite(step))), f"the step {step} at {measures} is not finite")
        _require(step == compiled, f"the step at {measures} is {step}, and compiled {compiled}")
    rng = np.random.default_rng(0)
    examples = [_example(rng) for _ in range(20)]
    for evidence, truth in examples[:10]:
        learner.learn_one(evidence, truth)
    again = copy(learner)  # by way of its checkpoint
    for evidence, truth in examples[10:]:
        learner.learn_one(evidence, truth)
        again.learn_one(evidence, truth)
    arrays = learner.learned.save()[1].values()
    finite = all(np.all(np.isfinite(array)) for array in arrays)
    _require(finite, "a learned weight is not finite")
    _require(
        learner.weights_text() == again.weights_text(), "a learner of a checkpoint learns otherwise"
    )


def check_engine(engine: MlnEngine | PslEngine | type[MlnEngine | PslEngine]) -> None:
    """Check an engine on small random models; of a class, one with its default options.

    Besides ``check_map_engine``, ``check_marginal_engine`` and ``check_hinge_engine``, an engine of one's
    own solves models without hard clauses: it may raise Unsolved for others alone.
    """
    section = engine() if isinstance(engine, type) else engine
    rng = np.random.default_rng(0)
    if isinstance(section, PslEngine):
        for n in range(1, 9):
            model_of_n = _hinge_model(rng, n, section.takes_hard_rules)
            with _broken():
                check_hinge_engine(section.make(EngineOptions()), *model_of_n)
        return
    inference = section.make(0, 1000)
    own = Checked(section.engine, section.solve) if isinstance(section, MlnMapEngine) else None
    for n in range(1, 9):
        model, weights, bonus = _clause_model(rng, n)
        try:
            with _broken():
                check_map_engine(own or inference.engine, model, weights, bonus)
        except Unsolved as error:
            _require(bool(model.hard.any()), f"solves no model without hard clauses: {error}")
        if inference.marginals is not None:
            check_marginal_engine(inference.marginals, model, weights)


def check_metric(metric: Metric | type[Metric]) -> None:
    """Check a metric on random predictions of the predicate Smokes; of a class, one without options.

    JSON holds its state exactly, it goes on from there as if it had not been saved, and its values are finite
    or None.
    """
    made = metric() if isinstance(metric, type) else metric
    rng = np.random.default_rng(0)
    first, state = json.dumps(made.start()), made.start()
    for number in range(20):
        evidence, truth = _example(rng)
        _, predicted = _example(rng)
        example = Example(id=number, evidence=_rows(evidence), truth=_rows(truth))
        prediction = Prediction(id=number, predicted=_rows(predicted), score=0.0)
        saved = json.loads(json.dumps(state))
        _require(saved == state, f"JSON makes {saved} of the state {state}")
        state, again = (made.add(s, prediction, example) for s in (state, saved))
        _require(state == again, f"of a saved state comes {again}, not {state}")
        value = made.value(state)
        finite = value is None or (isinstance(value, int | float) and np.isfinite(value))
        _require(bool(finite), f"the value {value!r} is neither a finite number nor None")
    _require(json.dumps(made.start()) == first, "the state at the start changes")


def check_batch_learner(
    learner: str | BatchLearner | type[BatchLearner], model: str = MODEL, language: str = "mln"
) -> None:
    """Check a batch learner on a model of friends who smoke; of a class, one with default options.

    It learns a finite weight for each soft rule, the same in a second call, and tells its objectives.
    """
    rng = np.random.default_rng(0)
    examples = [_example(rng) for _ in range(3)]
    evidence: Any = [{**facts, **truth} for facts, truth in examples]
    query: Any = "Smokes"
    labels: Any = None
    if language == "psl":
        evidence, labels = examples[0]
        query = {"Smokes": [(name,) for name in "ABC"]}

    def learned() -> LearnedModel:
        try:
            return learn(Model(model, language), evidence, query, truth=labels, learner=learner)
        except UsageError as error:
            raise AssertionError(str(error)) from error

    once, again = learned(), learned()
    weights = [rule.weight for rule in once.model.rules]
    _require(None not in weights, f"a rule has no weight: {weights}")
    _require(bool(np.all(np.isfinite(np.array(weights, float)))), f"not finite: {weights}")
    _require(str(once) == str(again), "a second call learns something else")
    _require(bool(once.objective), "no objective was told: Learned(weights, trace.steps)")
    _require(json.loads(json.dumps(once.stats)) == once.stats, "JSON does not hold the statistics")


def check_source(source: RecordSource) -> None:
    """Check a source whose records end: the records after each position are the rest, and JSON holds it."""
    whole = [item for item in source.records(None) if item is not None]
    _require(bool(whole), "there are no records")
    for number, item in enumerate(whole, 1):
        _require(isinstance(item, tuple) and len(item) == 2, f"{item!r} is no record and position")
        _require(isinstance(item[0], bytes), f"the record {item[0]!r} is not bytes")
        position = json.loads(json.dumps(item[1]))
        _require(position == item[1], f"JSON makes {position} of the position {item[1]}")
        rest = [again for again in source.records(position) if again is not None]
        _require(rest == whole[number:], f"after {position} come other records than the first time")


def check_sink(sink: LineSink) -> None:
    """Check a sink, which writes a few predictions: JSON holds its state, which is that of a second try."""
    lines = [b'{"id":%d,"predicted":{},"score":0.0}' % number for number in range(4)]
    first = sink.send(lines[:2], None)
    states = [sink.send(lines[2:], json.loads(json.dumps(first))) for _ in range(2)]
    for state in (first, *states):
        _require(json.loads(json.dumps(state)) == state, f"JSON does not hold the state {state}")
    _require(states[0] == states[1], f"a second try comes to {states[1]}, the first to {states[0]}")


def _rows(atoms: Mapping[str, Any]) -> dict[str, Any]:
    """Return atoms as examples have them."""
    return {name: [[*row] for row in rows] for name, rows in atoms.items()}


@contextmanager
def _broken() -> Iterator[None]:
    """Tell of a broken promise as of a failed check."""
    try:
        yield
    except ModuleError as error:
        raise AssertionError(str(error)) from error


def _example(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return friends, and who of them smoke."""
    friends = [pair for pair in product("ABC", repeat=2) if rng.random() < 0.5]
    return {"Friends": friends}, {"Smokes": [(name,) for name in "ABC" if rng.random() < 0.6]}


def _clause_model(rng: np.random.Generator, n: int) -> tuple[GroundMRF, Floats, Floats]:
    """Return a model of ``n`` atoms that has a feasible state; every second one has hard clauses."""
    truth, group = rng.integers(2, size=n), np.full(n, -1, np.int32)
    clauses: list[Any] = []
    for _ in range(2 * n):
        atoms = rng.choice(n, rng.integers(1, min(n, 3) + 1), replace=False)
        clauses.append((atoms + 1) * rng.choice((-1, 1), len(atoms)))
    hard = rng.random(2 * n) < 0.3 * (n % 2)
    for clause in (clause for clause, is_hard in zip(clauses, hard, strict=True) if is_hard):
        clause[0] = (abs(clause[0])) * (1 if truth[abs(clause[0]) - 1] else -1)
    if n % 2 and n > 3:
        group[:2], truth[:2] = 0, (1, 0)
        hard[:] = False
    start = np.cumsum([0, *map(len, clauses)])
    literals = np.concatenate(clauses).astype(np.int32)
    exactly = np.ones(int(group.max(initial=-1)) + 1, np.bool_)
    model = GroundMRF(n, start, literals, hard, group, exactly)
    return model, np.where(hard, 0.0, rng.normal(size=2 * n)), rng.normal(size=n)


def _hinge_model(
    rng: np.random.Generator, n: int, hard_rules: bool
) -> tuple[HingeLossMRF, Floats, Floats]:
    """Return a model of ``n`` variables that has feasible values; without ``hard_rules`` of squares alone."""
    rows = 2 * n
    entries = [rng.choice(n, rng.integers(1, min(n, 3) + 1), replace=False) for _ in range(rows)]
    start = np.cumsum([0, *map(len, entries)])
    variable = np.concatenate(entries).astype(np.int32)
    coefficient = rng.choice((-1.0, 1.0), len(variable))
    constant, power = rng.normal(size=rows), rng.integers(1, 3, rows).astype(np.uint8)
    kind, index = np.full(rows, HINGE, np.uint8), np.zeros(rows, np.int64)
    if not hard_rules:
        power[:] = 2
    elif n % 2:
        y = rng.random(n)
        form = np.add.reduceat(coefficient * y[variable], start[:-1])
        kind[0], power[0], index[0], constant[0] = AT_MOST, 1, HARD, -form[0]
    model = HingeLossMRF(n, start, variable, coefficient, constant, index, power, kind)
    return model, rng.random(1) + 0.5, rng.normal(size=n)


# engines on models of your choice ----------------------------------------------------------------


def check_map_engine(
    engine: MapEngine, model: GroundMRF, weights: Floats, bonus: Floats | None = None
) -> None:
    """Check the solution of a MAP engine, and that a second call returns the same.

    The state is feasible; the score is that of the state; the bound is at least the optimum; a certified
    state is optimal; Infeasible is raised if and only if there is no feasible state.
    """
    solve = partial(engine.solve, model, weights, bonus=bonus)
    try:
        best = Brute().solve(model, weights, bonus=bonus)
    except Infeasible:
        _require_infeasible(solve)
        return
    solution, again = _twice(solve, "is a feasible state")
    slack = CLOSE * max(min(1.0, Magnitude.of(weights, bonus).total), abs(best.score))
    of_state = model.score(solution.state, weights, bonus)
    _require(solution.state.dtype == np.uint8, f"the state is {solution.state.dtype}, not uint8")
    _require(solution.state.shape == (model.n_atoms,), "the state does not have one value per atom")
    _require(model.feasible(solution.state), "the state is not feasible")
    _require(
        solution.score == of_state, f"the score {solution.score} is not the state's, {of_state}"
    )
    _require(solution.score <= best.score + slack, "the score beats brute force")
    _require(
        solution.bound >= best.score - slack, f"the bound {solution.bound} is below the optimum"
    )
    _require(solution.bound >= solution.score, "the bound is below the score")
    optimal = solution.score >= best.score - slack
    _require(optimal or not solution.certified, "a certified state is not optimal")
    _require(np.array_equal(solution.state, again.state), "a second call returns something else")


def check_marginal_engine(
    engine: MarginalEngine, model: GroundMRF, weights: Floats, within: float | None = None
) -> None:
    """Check the marginals of an engine, and that a second call returns the same.

    Probabilities are in [0, 1] and sum to 1 over an exactly-one group, to at most 1 over others. An atom
    that is true in no feasible state has probability 0. Infeasible is raised if and only if there is no
    feasible state. With ``within``, probabilities and log Z, if given, are that close to the exact ones.
    """
    solve = partial(engine.marginals, model, weights)
    try:
        exact = marginals_by_enumeration(model, weights)
    except Infeasible:
        _require_infeasible(solve)
        return
    result, again = _twice(solve, "is a feasible state")
    p = result.probability
    _require(p.dtype == np.float64 and p.shape == (model.n_atoms,), "not one float64 per atom")
    _require(bool(np.all((p >= 0) & (p <= 1))), "a probability is not in [0, 1]")
    grouped = model.group >= 0
    sums = np.bincount(model.group[grouped], p[grouped], minlength=len(model.exactly))
    _require(bool(np.all(sums <= 1 + CLOSE)), "the probabilities of a group sum to more than 1")
    full = sums[model.exactly] >= 1 - CLOSE
    _require(bool(np.all(full)), "the probabilities of an exactly-one group sum to less than 1")
    impossible = (exact.probability == 0) & (p > CLOSE)
    _require(not np.any(impossible), "an atom that is always false has a probability above 0")
    _require(np.array_equal(p, again.probability), "a second call returns something else")
    if within is not None:
        error = float(np.max(np.abs(p - exact.probability), initial=0.0))
        _require(error <= within, f"a probability is {error:.2g} from the exact one")
    if within is not None and result.log_z is not None and exact.log_z is not None:
        wrong = abs(result.log_z - exact.log_z)
        _require(wrong <= within * max(1.0, abs(exact.log_z)), f"log Z is {wrong:.2g} off")


def check_hinge_engine(
    engine: HingeEngine,
    model: HingeLossMRF,
    weights: Floats,
    bonus: Floats | None = None,
    within: float | None = None,
) -> None:
    """Check the solution of a hinge engine, and that a second call returns the same.

    Values are in [0, 1]; energy and violation are those of the values, the bound is that of the dual;
    certified values are optimal and feasible to 1e-3, relative to the energy (absolute below 1).
    Infeasible is raised only if ADMM's bound proves it. With ``within``, the energy is that close to the
    least, also if not certified.
    """
    solve = partial(engine.solve, model, weights, bonus=bonus)
    try:
        best = Admm(tolerance=1e-7).solve(model, weights, bonus=bonus)
    except Infeasible:
        _require_infeasible(solve)
        return
    solution, again = _twice(solve, "are feasible values")
    y, scale = solution.y, max(1.0, abs(best.energy))
    _require(
        y.dtype == np.float64 and y.shape == (model.n_variables,), "not one float64 per variable"
    )
    _require(bool(np.all((y >= 0) & (y <= 1))), "a value is not in [0, 1]")
    energy = model.energy(y, weights) - (0.0 if bonus is None else float(bonus @ y))
    _require(
        abs(solution.energy - energy) <= CLOSE * scale,
        f"the energy is {energy}, not {solution.energy}",
    )
    violation = model.violation(y)
    _require(abs(solution.violation - violation) <= CLOSE, f"the violation is {violation}")
    bound = lower_bound(model, weights, solution.dual, bonus)
    same = solution.bound == bound or abs(solution.bound - bound) <= CLOSE * scale
    _require(same, f"the bound is not the dual's, {bound}")
    _require(solution.bound <= best.energy + GAP * scale, "the bound is above the least energy")
    far = abs(solution.energy - best.energy)
    _require(not solution.certified or far <= GAP * scale, "certified values are not optimal")
    _require(not solution.certified or violation <= GAP, "certified values are not feasible")
    _require(within is None or far <= (within or 0) * scale, f"the energy is {far} from the least")
    _require(np.array_equal(y, again.y), "a second call returns something else")


def marginals_by_enumeration(model: GroundMRF, weights: Floats) -> Marginals:
    """Return the marginals and log Z of a small model by enumeration. Raises Infeasible."""
    scores = state_scores(model, weights, None)
    top = float(scores.max())
    if top == -np.inf:
        raise Infeasible("no state satisfies the hard clauses and the groups")
    mass = np.exp(scores - top)
    z = float(mass.sum())
    number, n = np.arange(len(mass)), model.n_atoms
    true = [mass[(number >> (n - 1 - atom) & 1) == 1].sum() / z for atom in range(n)]
    probability = np.minimum(np.array(true, np.float64), 1.0)
    return Marginals(probability, top + float(np.log(z)), "brute", 0)


def _require_infeasible(solve: Callable[[], object]) -> None:
    try:
        solve()
    except Infeasible:
        return
    raise AssertionError("answers an infeasible problem")


def _twice(solve: Callable[[], T], there: str) -> tuple[T, T]:
    """Return what two calls return."""
    try:
        return solve(), solve()
    except Infeasible:
        raise AssertionError(f"raises Infeasible although there {there}") from None


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise AssertionError(complaint)
