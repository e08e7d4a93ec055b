"""Answers about one world: MPE, marginals, PSL's truth values; and its ground network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict, Unpack

from onlinesrl.core.errors import CONTINUOUS, UsageError, shown
from onlinesrl.core.example import Atoms, Constant, GroundAtom
from onlinesrl.core.language import language_of
from onlinesrl.core.timing import Clock
from onlinesrl.library.constants import Types, is_other_in_markov_logic, is_other_in_psl, restored
from onlinesrl.library.inputs import Given, atoms, columns, facts
from onlinesrl.library.model import Model, check_keys, model_of, names_of
from onlinesrl.library.notebook import table_html
from onlinesrl.library.tables import Table
from onlinesrl.logic.tables import VALUE, with_names

Atom = tuple[Constant, ...]
Evidence = Given | str | Path | Sequence[str | Path]
"""Atoms by predicate, or databases in files."""


class Answer(Mapping[str, dict[Atom, float]]):
    """The value of every atom asked for: 1 or 0, a probability, or a truth value.

    It is a mapping from predicates to the values by atom; ``tables`` has a table per predicate, ``stats``
    what ``onlinesrl infer --stats`` prints (among them ``warnings``).
    """

    def __init__(
        self, tables: Mapping[str, Table], stats: Mapping[str, Any], best: Sequence[Answer] = ()
    ):
        self.tables = tables
        self.stats = stats
        self._others = best

    def __getitem__(self, predicate: str) -> dict[Atom, float]:
        return self._values[predicate]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def best(self) -> list[Answer]:
        """The answer itself, and the next best ones that were asked for."""
        return [self, *self._others]

    @property
    def certified(self) -> bool | None:
        """Whether it is proven that no other answer is better; None for marginals: no state is searched."""
        return self.stats.get("certified")

    @property
    def score(self) -> float | None:
        """The sum of the weights of true ground clauses, for PSL minus the energy; None for marginals."""
        return self.stats.get("score")

    @property
    def counts(self) -> Mapping[str, Mapping[str, float]]:
        """How many atoms of each predicate, or values of a formula, hold, where that was asked.

        By name the ``expected`` number, its ``variance``, and if sampled its ``standard_error``. What
        evidence makes true counts.
        """
        counts: Mapping[str, Mapping[str, float]] = self.stats.get("counts", {})
        return counts

    @cached_property
    def _values(self) -> dict[str, dict[Atom, float]]:
        return {
            name: {row[:-1]: row[-1] for row in table.rows()} for name, table in self.tables.items()
        }

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(table):,} of {name}" for name, table in self.tables.items())
        return f"<Answer: {counts or 'no atoms'}>"

    def _repr_html_(self) -> str:
        rows = [
            [f"{name}({', '.join(map(str, row[:-1]))})", row[-1]]
            for name, table in self.tables.items()
            for row in table.rows()
        ]
        return table_html(f"{len(rows):,} atoms", ["atom", VALUE], rows)


class Search(TypedDict, total=False):
    """What else is asked, and how an answer is searched for; see ``infer``."""

    formulas: str | Sequence[str]
    given: str | Sequence[str]
    seed: int
    error: float | None
    max_work: int | None
    threads: int
    targets: str
    lazy: str
    best: int | None
    counts: bool


def infer(
    model: Model | str,
    evidence: Evidence = (),
    query: str | Sequence[str] | Given = (),
    *,
    method: str | None = None,
    truth: Given | None = None,
    closed: Sequence[str] = (),
    opened: Sequence[str] = (),
    **search: Unpack[Search],
) -> Answer:
    """Return the most probable world, marginals, or PSL's truth values, as ``onlinesrl infer`` does.

    For Markov logic ``evidence`` are atoms by predicate, or .db files, and ``query`` names the predicates
    asked for; ``method`` is by default ``mpe``, whose search ``max_work`` ends, as ``inference.max_work``
    does (None: it goes on to the proof). It grounds large rules where a state violates them, unless ``lazy``
    is ``never``. With ``best``, ``Answer.best`` has so many best states, whose ``stats`` have the ``rank``,
    the ``difference`` from the best score, and the ``changes`` of the best state. The standard ``error`` of
    sampled marginals may be set. Predicates
    without evidence are open unless they are ``closed``. ``formulas`` are asked about, too, and everything on
    the condition that formulas ``given`` hold. The answer has the values of a formula by its text, for the
    constants of its free variables. With ``counts``, ``Answer.counts`` has how many of each are expected
    to hold. For PSL ``evidence`` has the observed atoms and
    ``query`` the targets, by predicate; ``method`` is by default ``admm``; ``threads`` do not change its
    answer. A ground rule with an atom that is neither is an error, or left out with ``targets="skip"``.
    Other methods are in the guide (``onlinesrl guide config``: ``inference.engine``; ``exact``).

    Raises ModelError, DatabaseError, DataError, ExampleError, UsageError, Infeasible.

    >>> model = Model('''person = {Anna, Bob}
    ... Friends(person, person)
    ... Smokes(person)
    ... 1.1 Friends(x, y) => (Smokes(x) <=> Smokes(y))''')
    >>> infer(model, {"Friends": [["Anna", "Bob"]], "Smokes": ["Anna"]}, "Smokes", method="exact")
    <Answer: 1 of Smokes>
    """
    model, seed, threads = model_of(model), search.get("seed", 0), search.get("threads", 1)
    error, max_work, best = search.get("error"), search.get("max_work"), search.get("best")
    targets, counts = search.get("targets", "stop"), search.get("counts", False)
    check_keys(search, Search, "infer")
    if not (method is None or isinstance(method, str)):
        raise UsageError(f"method is {shown(method)}, expected the name of one")
    for key, number in {"error": error, "max_work": max_work}.items():
        if not (number is None or isinstance(number, Real)):
            raise UsageError(f"{key} is {shown(number)}, expected a number")
    if not (best is None or (type(best) is int and best >= 1)):
        raise UsageError(f"best is {shown(best)}, expected a whole number, at least 1")
    if type(threads) is not int:
        raise UsageError(f"threads is {shown(threads)}, expected a whole number, at least 1")
    if model.language is language_of(".psl"):
        from onlinesrl.psl.inference.solving import InferenceProblem, Options
        from onlinesrl.psl.query import infer as psl

        for key in ("error", "max_work", "lazy", "formulas", "given", "counts"):
            if search.get(key) not in (None, False):
                raise UsageError(f"{key}: for Markov logic only")
        if best is not None:
            raise UsageError(f"best: {CONTINUOUS}")
        truth = truth or {}
        expected = "a mapping from predicates to atoms"
        if not isinstance(evidence, Mapping) or not isinstance(query, Mapping):
            raise UsageError(
                f"PSL: evidence and query are each {expected}; the query has the targets"
            )
        if not isinstance(truth, Mapping):
            raise UsageError(f"PSL: truth is {shown(truth)}, expected {expected}")
        if targets not in ("stop", "skip"):  # of any type
            raise UsageError(
                f"targets is {targets!r}, expected 'stop' or 'skip'; the targets themselves are the query"
            )
        options = Options(method or "admm", seed, threads=threads, skip=targets == "skip")
        options.check()
        query = {n: [*rows] if isinstance(rows, Iterator) else rows for n, rows in query.items()}
        database, clock = psl_database(model, evidence, query, truth), Clock()
        solution = psl.solve(InferenceProblem(model.program, {}, database), options, clock)
        known = {name: rows for name, rows in query.items() if name in model.predicates}
        by_predicate = psl.columns(solution)
        types = model.predicates
        by_predicate = _restored(types, by_predicate, atoms(known, "query"), is_other_in_psl)
        return _answer(types, query, by_predicate, solution.stats)
    if targets != "stop":
        raise UsageError("targets: for PSL only")
    from onlinesrl.mln.query import infer as infer_module
    from onlinesrl.mln.query.world import eager_of

    given = read(evidence)
    names = names_of(query, "query")
    asked = (
        names_of(search.get("formulas", ()), "formulas"),
        names_of(search.get("given", ()), "given"),
    )
    eager = eager_of(method or "mpe", search.get("lazy"))
    world = _world(model, given, names, closed, opened, *asked, eager=eager)
    if best is None:
        answers = [infer_module.solve(world, method or "mpe", seed, error, max_work, counts)]
    elif counts:
        raise UsageError("counts: for marginals, not for the best states")
    else:
        answers = infer_module.solve_best(world, best, method or "mpe", error, max_work)

    def answer(values: Any, stats: dict[str, Any], others: Sequence[Answer] = ()) -> Answer:
        columns = infer_module.columns(world, values)
        if isinstance(given, dict):
            columns = _restored(world.types, columns, given, is_other_in_markov_logic)
        return _answer(world.types, (*names, *world.formulas), columns, stats, others)

    return answer(*answers[0], [answer(*other) for other in answers[1:]])


def ground(
    model: Model | str,
    evidence: Evidence = (),
    query: str | Sequence[str] = (),
    *,
    closed: Sequence[str] = (),
    opened: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the ground network of Markov logic: a weighted clause a line, hard ones with a final period.

    The arguments are those of ``infer``.
    """
    from onlinesrl.mln.query import infer as infer_module

    model = model_of(model)
    if model.language is language_of(".psl"):
        raise UsageError("PSL's ground rules are no clauses; see the stats of infer")
    return infer_module.network_lines(_world(model, read(evidence), query, closed, opened))


def _world(
    model: Model,
    evidence: Atoms | Sequence[Path],
    query: str | Sequence[str] | Given,
    closed: Sequence[str],
    opened: Sequence[str],
    *asked: tuple[str, ...],
    eager: int | None = None,
) -> Any:
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.kernels.grounding_frames import EVERY
    from onlinesrl.mln.query.world import WorldOptions, world_of

    predicates = names_of(query, "query")
    if not predicates and not any(asked):
        raise UsageError("query: expected the predicates that are asked for")
    dialect = dialect_of(model.dialect)
    said = names_of(closed, "closed"), names_of(opened, "opened")
    options = WorldOptions(*said, dialect, *asked)
    program, facts_given = atoms_given(model.written, evidence, dialect)
    return world_of(
        program, facts_given, predicates, options, eager=EVERY if eager is None else eager
    )


def read(evidence: Evidence) -> Atoms | list[Path]:
    """Return atoms by predicate, or the paths of databases. Raises ExampleError, UsageError."""
    if isinstance(evidence, Mapping):
        return atoms(evidence, "evidence")
    paths = [evidence] if isinstance(evidence, str | Path) else evidence
    if not isinstance(paths, Iterable) or not all(isinstance(p, str | Path) for p in paths):
        expected = "atoms by predicate, or the paths of files"
        raise UsageError(f"evidence is {shown(evidence)}, expected {expected}")
    return [*map(Path, paths)]


def atoms_given(
    program: Any, evidence: Atoms | Sequence[Path], dialect: Any
) -> tuple[Any, list[GroundAtom]]:
    """Return the program of Markov logic, with constants that databases list, and the atoms of evidence.

    Raises DatabaseError, DataError, ExampleError.
    """
    from onlinesrl.mln.query.world import read_evidence

    if isinstance(evidence, dict):
        return program, facts(evidence, "evidence", program)
    return read_evidence(program, evidence, dialect)


def _answer(
    types: Types,
    predicates: Iterable[str],
    columns: Mapping[str, Mapping[str, Sequence[Any]]],
    stats: Mapping[str, Any],
    best: Sequence[Answer] = (),
) -> Answer:
    """Return an answer, in which predicates asked for that have no open atom have a table without rows."""
    none = {name: with_names(types[name], [()] * len(types[name]), ()) for name in predicates}
    tables = {name: Table(values) for name, values in {**none, **columns}.items()}
    return Answer(tables, stats, best)


def _restored(
    types: Types,
    columns: dict[str, dict[str, Sequence[Any]]],
    atoms_given: Atoms,
    is_other: Callable[[Constant], bool],
) -> dict[str, dict[str, Sequence[Any]]]:
    """Return columns of atoms with their constants as they are in the given atoms."""
    restore = restored(types, columns, [atoms_given], is_other)
    if restore is None:
        return columns
    return {
        name: {
            column: values
            if column == VALUE
            else [restore(name, place, constant_) for constant_ in values]
            for place, (column, values) in enumerate(by_column.items())
        }
        for name, by_column in columns.items()
    }


def psl_database(model: Model, evidence: Given, query: Given, truth: Given) -> Any:
    """Return PSL's observed atoms, targets and their truth as a database. Raises DataError, ExampleError."""
    from onlinesrl.psl.lang.columns import Columns, database_of

    parts = (
        {name: Columns(*columns(rows, name)) for name, rows in part.items()}
        for part in (evidence, query, truth)
    )
    return database_of(model.program.predicates, *parts)
