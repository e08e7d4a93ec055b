"""Models that people write, by name, and their best states by other means than the project's.

A family is drawn with its rules in the project's language, and states their meaning a second time: as
ground clauses written out in Python, and mostly also as a problem of its own, solved by an algorithm of its
own. Nothing here uses the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp

Atom = tuple[str, tuple[str, ...]]
Facts = dict[str, dict[tuple[str, ...], float]]
"""By predicate, the number of each atom; 1.0 where the predicate is not numeric."""
Clause = tuple[float | None, tuple[int, ...]]
"""A weight, None for a hard clause, and literals: an atom's number from 1, negative for its negation."""
ENUMERATED = 13
"""Up to so many atoms all states are tried."""
ENUMERATED_RECORDS = 6
"""Up to so many records all sets of pairs are tried."""


class Clauses:
    """Ground clauses over query atoms that are numbered."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self._number = {atom: number for number, atom in enumerate(atoms, 1)}
        self.rows: list[Clause] = []

    def add(self, weight: float | None, *literals: tuple[bool, str, tuple[str, ...]]) -> None:
        """Add a clause, unless it is always true, or is soft and has no atoms."""
        signed = {(1 if sign else -1) * self._number[name, args] for sign, name, args in literals}
        if not any(-literal in signed for literal in signed) and (signed or weight is None):
            self.rows.append((weight, tuple(sorted(signed, key=abs))))


@dataclass(frozen=True, eq=False)
class Family:
    """Rules over given constants; ``draw`` makes facts for them, and ``ground`` the clauses of facts.

    ``optimum`` returns the highest score for facts, None where no state is possible.
    """

    rules: str
    atoms: list[Atom]
    draw: Callable[[Random], Facts]
    ground: Callable[[Facts, Clauses], None]
    groups: list[tuple[bool, list[int]]] = field(default_factory=list)
    """Groups of atoms, from 0, of which exactly one, or at most one, is true."""
    optimum: Callable[[Facts], float | None] | None = None

    @property
    def query(self) -> list[str]:
        return [*dict.fromkeys(name for name, _ in self.atoms)]

    def with_facts(self, facts: Facts) -> Case:
        clauses = Clauses(self.atoms)
        self.ground(facts, clauses)
        return Case(self, facts, clauses.rows)


@dataclass(frozen=True, eq=False)
class Case:
    """A family with facts; ``bonus`` adds to the score of states, by true atom."""

    family: Family
    facts: Facts
    clauses: list[Clause]
    bonus: tuple[float, ...] = ()

    @property
    def n(self) -> int:
        return len(self.family.atoms)

    @property
    def evidence(self) -> dict[str, Any]:
        """The facts as the library takes them."""
        numeric = {
            line.split("(")[0] for line in self.family.rules.split("\n") if line.endswith(": real")
        }
        return {
            name: rows if name in numeric else [*rows]
            for name, rows in self.facts.items()
            if rows or name in numeric
        }

    def with_units(self, literals: Iterable[int]) -> Case:
        """The case in which these literals must hold."""
        units: list[Clause] = [(None, (literal,)) for literal in literals]
        family = replace(self.family, optimum=None)
        return replace(self, family=family, clauses=[*self.clauses, *units])

    def value(self, state: Sequence[float]) -> float | None:
        """The score of a state; None where it breaks a hard clause or a group."""
        for exactly, members in self.family.groups:
            count = sum(state[a] for a in members)
            if count > 1 or (exactly and not count):
                return None
        gains = [gain for gain, true in zip(self.bonus, state, strict=False) if true]
        for weight, literals in self.clauses:
            if any((state[abs(x) - 1] > 0.5) == (x > 0) for x in literals):
                gains.append(weight or 0.0)
            elif weight is None:
                return None
        return math.fsum(gains)

    def state(self, true: Iterable[Atom]) -> list[int]:
        """The state in which these atoms are true."""
        true = {*true}
        assert true <= {*self.family.atoms}
        return [int(atom in true) for atom in self.family.atoms]

    @cached_property
    def best(self) -> float | None:
        """The highest score; None where no state is possible."""
        if self.family.optimum is not None and not self.bonus:
            return self.family.optimum(self.facts)
        return self.best_but()

    def best_but(self, state: Sequence[int] | None = None) -> float | None:
        """The highest score of the states other than this one."""
        return self.by_enumeration(state) if self.n <= ENUMERATED else self.by_program(state)

    def scores(self) -> np.ndarray:
        """The score of each state, -inf where it is impossible; bit ``a`` of its number is atom ``a``."""
        numbers = np.arange(1 << self.n)
        true = [(numbers >> a & 1).astype(bool) for a in range(self.n)]
        total = np.zeros(len(numbers))
        for atom, gain in zip(true, self.bonus, strict=False):
            total += gain * atom
        for weight, literals in self.clauses:
            holds = np.zeros(len(numbers), bool)
            for x in literals:
                holds |= true[abs(x) - 1] == (x > 0)
            total += np.where(holds, weight or 0.0, -np.inf if weight is None else 0.0)
        for exactly, members in self.family.groups:
            count = sum((true[a].astype(int) for a in members), np.zeros(len(numbers), int))
            total[(count > 1) | (exactly & (count == 0))] = -np.inf
        return total

    def by_enumeration(self, state: Sequence[int] | None = None) -> float | None:
        scores = self.scores()
        if state is not None:
            scores[sum(int(true) << a for a, true in enumerate(state))] = -np.inf
        best = float(scores.max())
        return None if best == -np.inf else best

    def probabilities(self) -> list[float]:
        """The probability of each atom, by enumeration."""
        scores = self.scores()
        share = np.exp(scores - scores.max())
        share /= share.sum()
        numbers = np.arange(len(share))
        return [float(share[(numbers >> a & 1) == 1].sum()) for a in range(self.n)]

    def by_program(self, but: Sequence[int] | None = None) -> float | None:
        """The best score by an integer program."""
        state = self.best_state(but)
        value = None if state is None else self.value(state)
        assert (state is None) == (value is None)
        return value

    def best_state(self, but: Sequence[int] | None = None) -> list[int] | None:
        """The best state by an integer program, in which each soft clause has a column of its own."""
        program = Program(self.n)
        for a, gain in enumerate(self.bonus):
            program.gain[a] += gain
        for weight, literals in self.clauses:
            negative = sum(x < 0 for x in literals)
            terms = [(abs(x) - 1, 1.0 if x > 0 else -1.0) for x in literals]
            if weight is None:
                program.at_least(terms, 1 - negative)
            elif len(literals) == 1:
                program.gain[terms[0][0]] += weight * terms[0][1]
            elif weight > 0:
                program.at_least([*terms, (program.column(weight), -1.0)], -negative)
            elif weight < 0:
                z = program.column(weight)
                for (a, sign), x in zip(terms, literals, strict=True):
                    program.at_least([(z, 1.0), (a, -sign)], float(x < 0))
        for exactly, members in self.family.groups:
            program.at_most([(a, 1.0) for a in members], 1)
            if exactly:
                program.at_least([(a, 1.0) for a in members], 1)
        if but is not None:
            differs = [(a, -1.0 if true else 1.0) for a, true in enumerate(but)]
            program.at_least(differs, 1 - sum(but))
        found = program.solve()
        return None if found is None else [int(x) for x in found[: self.n]]


class Program:
    """An integer program to maximise, of binary columns and others in [0, 1]."""

    def __init__(self, binary: int) -> None:
        self._binary = binary
        self.gain = [0.0] * binary
        self._rows: list[list[tuple[int, float]]] = []
        self._least: list[float] = []

    def column(self, gain: float) -> int:
        """Add a column that need not be an integer."""
        self.gain.append(gain)
        return len(self.gain) - 1

    def at_least(self, terms: list[tuple[int, float]], least: float) -> None:
        self._rows.append(terms)
        self._least.append(least)

    def at_most(self, terms: list[tuple[int, float]], most: float) -> None:
        self.at_least([(column, -x) for column, x in terms], -most)

    def solve(self) -> np.ndarray | None:
        """Return the best columns, the binary ones rounded; None where there are none."""
        n = len(self.gain)
        matrix = np.zeros((len(self._rows), n))
        for row, terms in zip(matrix, self._rows, strict=True):
            for column, x in terms:
                row[column] += x
        found = milp(
            -np.array(self.gain),
            constraints=[LinearConstraint(matrix, self._least)] if self._rows else [],
            integrality=np.arange(n) < self._binary,
            bounds=Bounds(0, 1),
            options={"mip_rel_gap": 0.0},
        )
        if found.status == 2:
            return None
        assert found.status == 0, found.message
        columns = np.array(found.x)
        columns[: self._binary] = np.rint(columns[: self._binary])
        return columns


# what families share -----------------------------------------------------------------------------


def names(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}" for i in range(n)]


def listed(**types: list[str]) -> str:
    return "\n".join(f"{name} = {{{', '.join(constants)}}}" for name, constants in types.items())


def numbers(rng: Random) -> Callable[[], float]:
    """A source of weights: real ones; whole ones, which tie; or mostly good or bad ones."""
    match rng.randrange(4):
        case 0:
            return lambda: round(rng.gauss(0.0, 1.0), 3)
        case 1:
            return lambda: float(rng.randint(-2, 3))
        case 2:
            return lambda: round(rng.gauss(0.7, 1.0), 2)
        case _:
            return lambda: rng.choice([-1.0, -0.5, 0.5, 1.0, 1.1])


def strength(rng: Random) -> float | None:
    """The weight of what is mostly a hard rule: None."""
    return rng.choice([None, None, None, 0.75, 2.0, -0.6])


def rule(weight: float | None, text: str) -> str:
    return f"{text}." if weight is None else f"{weight} {text}"


def chosen(rng: Random, rows: Iterable[tuple[str, ...]], share: float) -> dict[Any, float]:
    return {row: 1.0 for row in rows if rng.random() < share}


def valued(rng: Random, rows: Iterable[tuple[str, ...]]) -> dict[Any, float]:
    number = numbers(rng)
    return {row: number() for row in rows}


def noisy(rng: Random, items: Sequence[str], share: float) -> dict[Any, float]:
    """How alike records of a third as many clusters are, in both directions; a share has the wrong sign."""
    cluster = {x: rng.randrange(max(1, len(items) // 3)) for x in items}
    number = {(x, x): 1.0 for x in items}
    for x, y in itertools.combinations(items, 2):
        right = (cluster[x] == cluster[y]) == (rng.random() >= share)
        number[x, y] = number[y, x] = round(rng.uniform(0.1, 1.0), 3) * (1 if right else -1)
    return number


def units(facts: Facts, name: str, out: Clauses, query: str) -> None:
    for args, weight in facts[name].items():
        out.add(weight, (True, query, args))


def ordered_pairs(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.permutations(items, 2)


# the families ------------------------------------------------------------------------------------


def matching(rng: Random, large: bool, n: int | None = None) -> Family:
    """Each of either side has one partner at most."""
    weight = strength(rng) if n is None else None
    n, m = (
        (n, n) if n else (rng.randint(4, 8), rng.randint(5, 8)) if large else (rng.randint(2, 3), 3)
    )
    left, right = names("A", n), names("B", m)
    pairs = [*itertools.product(left, right)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "M")
        for a, (b, c) in itertools.product(left, ordered_pairs(right)):
            out.add(weight, (False, "M", (a, b)), (False, "M", (a, c)))
        for b, (a, c) in itertools.product(right, ordered_pairs(left)):
            out.add(weight, (False, "M", (a, b)), (False, "M", (c, b)))

    def optimum(facts: Facts) -> float:
        gain = np.array([[max(facts["W"][a, b], 0.0) for b in right] for a in left])
        return math.fsum(gain[linear_sum_assignment(gain, maximize=True)])

    return Family(
        f"""{listed(left=left, right=right)}
W(left, right): real
M(left, right)
1 W(x, y) ^ M(x, y)
{rule(weight, "!M(x, y) v !M(x, z) v y = z")}
{rule(weight, "!M(y, x) v !M(z, x) v y = z")}""",
        [("M", pair) for pair in pairs],
        lambda rng: {"W": valued(rng, pairs)},
        ground,
        optimum=optimum if weight is None else None,
    )


def assignment(rng: Random, large: bool) -> Family:
    """Each job has exactly one worker, each worker one job at most; there may be too few workers."""
    n = rng.randint(4, 7) if large else 3
    m = n + rng.choice([0, 0, 1, -1]) if large else n + rng.choice([0, 1])
    jobs, workers, weight = names("J", n), names("K", m), strength(rng)
    pairs = [*itertools.product(jobs, workers)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "M")
        for k, (i, j) in itertools.product(workers, ordered_pairs(jobs)):
            out.add(weight, (False, "M", (i, k)), (False, "M", (j, k)))

    def optimum(facts: Facts) -> float | None:
        if n > m:
            return None
        gain = np.array([[facts["W"][j, k] for k in workers] for j in jobs])
        return math.fsum(gain[linear_sum_assignment(gain, maximize=True)])

    return Family(
        f"""{listed(job=jobs, worker=workers)}
W(job, worker): real
M(job, worker!)
1 W(x, y) ^ M(x, y)
{rule(weight, "!M(y, x) v !M(z, x) v y = z")}""",
        [("M", pair) for pair in pairs],
        lambda rng: {"W": valued(rng, pairs)},
        ground,
        [(True, [m * i + j for j in range(m)]) for i in range(n)],
        optimum if weight is None else None,
    )


def clusters(rng: Random, large: bool, n: int | None = None, strangers: int = 0) -> Family:
    """What is the same is transitive and symmetric: correlation clustering.

    ``strangers`` are further records, alike to nobody: they are alone where transitivity is hard or pays.
    """
    n = n or (rng.randint(4, 5) if large else 3)
    weight = strength(rng) if n <= ENUMERATED_RECORDS else None
    weight = weight if weight is None or not strangers else abs(weight)
    items, share = names("C", n + strangers), rng.choice([None, 0.0, 0.1, 0.2])
    some, pairs = items[:n], [*itertools.product(items, repeat=2)]

    def draw(rng: Random) -> Facts:
        own = [*itertools.product(some, repeat=2)]
        alike = valued(rng, own) if share is None else noisy(rng, some, share)
        return {"W": {pair: alike.get(pair, -1.0) for pair in pairs}}

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Same")
        for x in items:
            out.add(None, (True, "Same", (x, x)))
        for x, y in pairs:
            out.add(None, (False, "Same", (x, y)), (True, "Same", (y, x)))
        for x, y, z in itertools.product(items, repeat=3):
            path = (False, "Same", (x, y)), (False, "Same", (y, z))
            out.add(weight, *path, (True, "Same", (x, z)))

    def optimum(facts: Facts) -> float:
        """Of all sets of records: a cluster that has the first of them, and the best of the others."""
        w, best = facts["W"], [0.0] * (1 << n)
        inner = [
            math.fsum(w[items[i], items[j]] for i in members for j in members)
            for members in ([i for i in range(n) if part >> i & 1] for part in range(1 << n))
        ]
        for part in range(1, 1 << n):
            first = part & -part
            others = beside = part ^ first
            best[part] = inner[part]
            while beside:
                best[part] = max(best[part], inner[part ^ beside] + best[beside])
                beside = beside - 1 & others
        return best[-1] + math.fsum(w[x, x] for x in items[n:])

    def soft_optimum(facts: Facts) -> float:
        """Of all sets of pairs; all triples pay, but for those of which two sides hold, and the third not."""
        assert weight is not None
        w, sides = facts["W"], [*itertools.combinations(some, 2)]
        states = np.arange(1 << len(sides))
        same = {pair: (states >> bit & 1).astype(bool) for bit, pair in enumerate(sides)}
        same |= {(y, x): true for (x, y), true in same.items()}
        total = math.fsum(w[x, x] for x in items) + weight * len(items) * (len(items) - 1) ** 2
        total = total + sum(w[pair] * true for pair, true in same.items())
        for x, y, z in itertools.permutations(some, 3):
            total = total - weight * (same[x, y] & same[y, z] & ~same[x, z])
        return float(np.max(total))

    return Family(
        f"""{listed(item=items)}
W(item, item): real
Same(item, item)
1 W(x, y) ^ Same(x, y)
Same(x, x).
Same(x, y) => Same(y, x).
{rule(weight, "Same(x, y) ^ Same(y, z) => Same(x, z)")}""",
        [("Same", pair) for pair in pairs],
        draw,
        ground,
        optimum=optimum if weight is None else soft_optimum,
    )


def orders(rng: Random, large: bool, n: int | None = None) -> Family:
    """A linear order: transitive, and of two one comes first."""
    n = n or (rng.randint(4, 5) if large else 3)
    items, weight = names("O", n), strength(rng) if n <= 5 else None
    pairs = [*itertools.product(items, repeat=2)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "First")
        for x, y in pairs:
            out.add(None, (False, "First", (x, y)), (False, "First", (y, x)))
            if x != y:
                out.add(None, (True, "First", (x, y)), (True, "First", (y, x)))
        for x, y, z in itertools.product(items, repeat=3):
            path = (False, "First", (x, y)), (False, "First", (y, z))
            out.add(weight, *path, (True, "First", (x, z)))

    def optimum(facts: Facts) -> float:
        """Of all sets of items, the last one, and the best order of the others."""
        w, best = facts["W"], [0.0] * (1 << n)
        for part in range(1, 1 << n):
            members = [i for i in range(n) if part >> i & 1]
            best[part] = max(
                best[part ^ 1 << j] + math.fsum(w[items[i], items[j]] for i in members if i != j)
                for j in members
            )
        return best[-1]

    return Family(
        f"""{listed(item=items)}
W(item, item): real
First(item, item)
1 W(x, y) ^ First(x, y)
!First(x, y) v !First(y, x).
First(x, y) v First(y, x) v x = y.
{rule(weight, "First(x, y) ^ First(y, z) => First(x, z)")}""",
        [("First", pair) for pair in pairs],
        lambda rng: {"W": valued(rng, pairs)},
        ground,
        optimum=optimum if weight is None else None,
    )


def colours(rng: Random, large: bool, exactly: bool = True) -> Family:
    """Nodes at an edge have different colours; there may be no such colouring."""
    nodes = names("N", rng.randint(6, 9) if large else rng.randint(3, 4))
    palette = names("R", rng.randint(2, 4) if large else rng.randint(2, 3))
    weight, k, share = strength(rng), len(palette), rng.choice([0.3, 0.5])
    pairs = [*itertools.product(nodes, palette)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Has")
        for x, y in facts["Edge"]:
            for c in palette:
                out.add(weight, (False, "Has", (x, c)), (False, "Has", (y, c)))

    def optimum(facts: Facts) -> float | None:
        """Node by node: the best of each colouring of the nodes so far that still have a later edge."""
        w, edges = facts["W"], {frozenset(edge) for edge in facts["Edge"]}
        best: dict[tuple[str | None, ...], float] = {(): 0.0}
        for i, node in enumerate(nodes):
            after = dict[tuple[str | None, ...], float]()
            for before, score in best.items():
                for c in (*palette, *(() if exactly else (None,))):
                    if any(
                        c == other and c is not None and {node, nodes[j]} in edges
                        for j, other in enumerate(before)
                    ):
                        continue
                    state = (*before, c)
                    kept = tuple(
                        colour
                        if any({nodes[j], later} in edges for later in nodes[i + 1 :])
                        else None
                        for j, colour in enumerate(state)
                    )
                    gain = score + (0.0 if c is None else w[node, c])
                    after[kept] = max(gain, after.get(kept, -math.inf))
            best = after
        return max(best.values(), default=None)

    one = "" if exactly else "!Has(x, c) v !Has(x, d) v c = d.\n"
    return Family(
        f"""{listed(node=nodes, colour=palette)}
W(node, colour): real
Edge(node, node)
Has(node, colour{"!" if exactly else ""})
1 W(x, c) ^ Has(x, c)
{one}{rule(weight, "Edge(x, y) ^ Has(x, c) => !Has(y, c)")}""",
        [("Has", pair) for pair in pairs],
        lambda rng: {
            "W": valued(rng, pairs),
            "Edge": chosen(rng, itertools.combinations(nodes, 2), share),
        },
        ground,
        [(exactly, [k * i + j for j in range(k)]) for i in range(len(nodes))],
        optimum if weight is None else None,
    )


def labels(rng: Random, large: bool) -> Family:
    """At most one label a node, and hard edges."""
    return colours(rng, large, exactly=False)


def schedules(rng: Random, large: bool) -> Family:
    """Each job has one slot, each slot two jobs at most, and some jobs come before others."""
    slots = names("T", rng.randint(3, 4) if large else 3)
    jobs = names("J", rng.randint(4, 2 * len(slots)) if large else 4)
    weight, k = strength(rng), len(slots)
    pairs = [*itertools.product(jobs, slots)]
    sooner = dict.fromkeys(itertools.combinations(slots, 2), 1.0)

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "At")
        for s, (i, j, m) in itertools.product(slots, itertools.permutations(jobs, 3)):
            out.add(weight, *((False, "At", (job, s)) for job in (i, j, m)))
        for i, j in facts["Before"]:
            for s, t in itertools.product(slots, repeat=2):
                if (s, t) not in sooner:
                    out.add(None, (False, "At", (i, s)), (False, "At", (j, t)))

    return Family(
        f"""{listed(job=jobs, slot=slots)}
W(job, slot): real
Before(job, job)
Sooner(slot, slot)
At(job, slot!)
1 W(j, s) ^ At(j, s)
{rule(weight, "At(i, s) ^ At(j, s) ^ At(k, s) => i = j v i = k v j = k")}
Before(i, j) ^ At(i, s) ^ At(j, t) => Sooner(s, t).""",
        [("At", pair) for pair in pairs],
        lambda rng: {
            "W": valued(rng, pairs),
            "Before": chosen(rng, itertools.combinations(jobs, 2), 0.15),
            "Sooner": sooner,
        },
        ground,
        [(True, [k * i + j for j in range(k)]) for i in range(len(jobs))],
    )


def parity(rng: Random, large: bool) -> Family:
    """Of some three atoms an odd number is true, of some pairs one."""
    items = names("X", rng.randint(10, 14) if large else rng.randint(5, 8))
    n = len(items)

    def draw(rng: Random) -> Facts:
        number = numbers(rng)
        true = {x: rng.random() < 0.5 for x in items}
        rows: Facts = {"W": {(x,): number() for x in items}, "Odd": {}, "Differ": {}}
        for i in range(n - 1):
            x, y = items[i : i + 2]
            if rng.random() < 0.2 and true[x] != true[y]:
                rows["Differ"][x, y] = 1.0
        for _ in range(n):
            three = tuple(rng.sample(items, 3))
            if sum(true[x] for x in three) % 2 or rng.random() < 0.02:
                rows["Odd"][three] = 1.0
        return rows

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "X")
        for x, y in facts["Differ"]:
            for sign in (True, False):
                out.add(None, (sign, "X", (x,)), (sign, "X", (y,)))
        for three in facts["Odd"]:
            for false in itertools.product((False, True), repeat=3):
                if sum(false) % 2 == 0:  # this state is not odd
                    out.add(None, *((not v, "X", (x,)) for v, x in zip(false, three, strict=True)))

    def optimum(facts: Facts) -> float | None:
        """Over the solutions of the equations, which elimination over two elements gives."""
        place = {x: i for i, x in enumerate(items)}
        pivots: dict[int, tuple[int, int]] = {}
        for args in (*facts["Odd"], *facts["Differ"]):
            mask, right = sum(1 << place[x] for x in args), 1
            for pivot, (other, its) in pivots.items():
                if mask >> pivot & 1:
                    mask, right = mask ^ other, right ^ its
            if mask:
                pivot = mask.bit_length() - 1
                for p, (other, its) in pivots.items():
                    if other >> pivot & 1:
                        pivots[p] = other ^ mask, its ^ right
                pivots[pivot] = mask, right
            elif right:
                return None
        free = [i for i in range(n) if i not in pivots]
        best = -math.inf
        for bits in itertools.product((0, 1), repeat=len(free)):
            state = sum(bit << i for i, bit in zip(free, bits, strict=True))
            for pivot, (mask, right) in pivots.items():
                if ((mask & state & ~(1 << pivot)).bit_count() + right) % 2:
                    state |= 1 << pivot
            best = max(best, math.fsum(facts["W"][x,] for x in items if state >> place[x] & 1))
        return best

    return Family(
        f"""{listed(item=items)}
W(item): real
Odd(item, item, item)
Differ(item, item)
X(item)
1 W(x) ^ X(x)
Odd(x, y, z) => (X(x) <=> (X(y) <=> X(z))).
Differ(x, y) => (X(x) <=> !X(y)).""",
        [("X", (x,)) for x in items],
        draw,
        ground,
        optimum=optimum,
    )


def _sets(rng: Random, large: bool) -> tuple[list[str], list[str], float | None]:
    sets = names("S", rng.randint(10, 16) if large else rng.randint(4, 8))
    elements = names("E", rng.randint(6, 12) if large else rng.randint(3, 6))
    return sets, elements, strength(rng)


def covers(rng: Random, large: bool) -> Family:
    """Each needed element is in a chosen set."""
    sets, elements, weight = _sets(rng, large)

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "In")
        for e in elements:
            if (e,) in facts["Needed"]:
                out.add(weight, *((True, "In", (s,)) for s in sets if (s, e) in facts["Has"]))

    def optimum(facts: Facts) -> float | None:
        """Set by set: the best of each set of elements that is covered so far."""
        best, needed = {0: 0.0}, [e for (e,) in facts["Needed"]]
        for s in sets:
            mask = sum(1 << i for i, e in enumerate(needed) if (s, e) in facts["Has"])
            for covered, score in [*best.items()]:
                gain, both = score + facts["W"][s,], covered | mask
                best[both] = max(gain, best.get(both, -math.inf))
        return best.get((1 << len(needed)) - 1)

    return Family(
        f"""{listed(set=sets, element=elements)}
W(set): real
Has(set, element)
Needed(element)
In(set)
1 W(s) ^ In(s)
{rule(weight, "Needed(e) => EXIST s (Has(s, e) ^ In(s))")}""",
        [("In", (s,)) for s in sets],
        lambda rng: {
            "W": {(s,): -abs(x) for (s,), x in valued(rng, ((s,) for s in sets)).items()},
            "Has": chosen(rng, itertools.product(sets, elements), 0.3),
            "Needed": chosen(rng, ((e,) for e in elements), 0.9),
        },
        ground,
        optimum=optimum if weight is None else None,
    )


def packings(rng: Random, large: bool) -> Family:
    """No element is in two chosen sets."""
    sets, elements, weight = _sets(rng, large)

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "In")
        for e in elements:
            having = [s for s in sets if (s, e) in facts["Has"]]
            for s, t in ordered_pairs(having):
                out.add(weight, (False, "In", (s,)), (False, "In", (t,)))

    return Family(
        f"""{listed(set=sets, element=elements)}
W(set): real
Has(set, element)
In(set)
1 W(s) ^ In(s)
{rule(weight, "Has(s, e) ^ Has(t, e) ^ In(s) ^ In(t) => s = t")}""",
        [("In", (s,)) for s in sets],
        lambda rng: {
            "W": valued(rng, ((s,) for s in sets)),
            "Has": chosen(rng, itertools.product(sets, elements), 0.2),
        },
        ground,
    )


def independent_sets(rng: Random, large: bool) -> Family:
    """No two chosen nodes have an edge."""
    nodes = names("N", rng.randint(12, 20) if large else rng.randint(5, 9))
    weight, share = strength(rng), rng.choice([0.15, 0.3])

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "In")
        for x, y in facts["Edge"]:
            out.add(weight, (False, "In", (x,)), (False, "In", (y,)))

    def optimum(facts: Facts) -> float:
        """With or without the first of the nodes that are left."""
        beside = {x: {x} for x in nodes}
        for x, y in facts["Edge"]:
            beside[x].add(y)
            beside[y].add(x)

        def best(left: frozenset[str]) -> float:
            if not left:
                return 0.0
            x = max(left, key=lambda x: (len(beside[x] & left), x))
            without, gain = left - {x}, facts["W"][x,]
            if len(beside[x] & left) == 1:
                return max(gain, 0.0) + best(without)
            return max(best(without), gain + best(left - beside[x]))

        return best(frozenset(nodes))

    return Family(
        f"""{listed(node=nodes)}
W(node): real
Edge(node, node)
In(node)
1 W(x) ^ In(x)
{rule(weight, "Edge(x, y) => !In(x) v !In(y)")}""",
        [("In", (x,)) for x in nodes],
        lambda rng: {
            "W": valued(rng, ((x,) for x in nodes)),
            "Edge": chosen(rng, itertools.combinations(nodes, 2), share),
        },
        ground,
        optimum=optimum if weight is None else None,
    )


def trees(rng: Random, large: bool) -> Family:
    """Labels on a tree, which edges tie or part, and up to three edges that close cycles."""
    nodes = names("N", rng.randint(8, 14) if large else rng.randint(3, 4))
    values = names("V", rng.randint(2, 4) if large else rng.randint(2, 3))
    n, k, more = len(nodes), len(values), rng.randint(0, 3)
    pairs = [*itertools.product(nodes, values)]

    def draw(rng: Random) -> Facts:
        number = numbers(rng)
        edges = {(nodes[rng.randrange(max(0, i - 3), i)], nodes[i]) for i in range(1, n)}
        extra = [pair for pair in itertools.combinations(nodes, 2) if pair not in edges]
        edges |= {*rng.sample(extra, min(more, len(extra)))}
        return {"W": valued(rng, pairs), "Tie": {edge: 2 * number() for edge in sorted(edges)}}

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Has")
        for (x, y), weight in facts["Tie"].items():
            for v in values:
                out.add(-weight, (False, "Has", (x, v)), (False, "Has", (y, v)))

    def optimum(facts: Facts) -> float:
        """For each choice at the ends of edges that close cycles, by messages from leaves to the root."""
        parent, closing = dict[str, str](), list[tuple[str, str]]()
        for x, y in sorted(facts["Tie"], key=lambda edge: nodes.index(edge[1])):
            if y in parent:
                closing.append((x, y))
            else:
                parent[y] = x
        ends, best = sorted({x for edge in closing for x in edge}), -math.inf
        for some in itertools.product(values, repeat=len(ends)):
            fixed = dict(zip(ends, some, strict=True))
            up = {x: {v: facts["W"][x, v] for v in values} for x in nodes}
            for x, v in fixed.items():
                up[x] = {v: up[x][v]}
            for y in reversed(nodes[1:]):
                x, tie = parent[y], facts["Tie"][parent[y], y]
                for v in up[x]:
                    up[x][v] += max(score + tie * (u == v) for u, score in up[y].items())
            ties = math.fsum(facts["Tie"][x, y] for x, y in closing if fixed[x] == fixed[y])
            best = max(best, max(up[nodes[0]].values()) + ties)
        constant = -math.fsum(facts["Tie"].values()) * k  # of clauses of negative weight
        return best + constant

    return Family(
        f"""{listed(node=nodes, value=values)}
W(node, value): real
Tie(node, node): real
Has(node, value!)
1 W(x, v) ^ Has(x, v)
1 Tie(x, y) ^ Has(x, v) ^ Has(y, v)""",
        [("Has", pair) for pair in pairs],
        draw,
        ground,
        [(True, [k * i + j for j in range(k)]) for i in range(n)],
        optimum,
    )


def grids(rng: Random, large: bool) -> Family:
    """A spin for each cell, and a clause of either sign for each pair of neighbours."""
    height, width = (rng.randint(3, 6), rng.randint(3, 5)) if large else (rng.randint(2, 3), 3)
    cells = [(i, j) for i in range(height) for j in range(width)]
    name = {(i, j): f"G{i}{j}" for i, j in cells}
    edges = [(a, (a[0] + i, a[1] + j)) for a in cells for i, j in ((0, 1), (1, 0))]
    edges = [(a, b) for a, b in edges if b in name]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Up")
        for (x, y), weight in facts["Tie"].items():
            out.add(weight, (False, "Up", (x,)), (True, "Up", (y,)))

    def optimum(facts: Facts) -> float:
        """Cell by cell: the best of each state of the last row of cells."""
        best: dict[Any, float] = {(): 0.0}
        for i, j in cells:
            after = dict[Any, float]()
            for row, score in best.items():
                for up in (0, 1):
                    gain = score + facts["W"][name[i, j],] * up
                    if j:
                        left = row[-1]
                        gain += facts["Tie"][name[i, j - 1], name[i, j]] * (not left or up)
                    if i:
                        above = row[-width]
                        gain += facts["Tie"][name[i - 1, j], name[i, j]] * (not above or up)
                    state = (*row, up)[-width:]
                    after[state] = max(gain, after.get(state, -math.inf))
            best = after
        return max(best.values())

    return Family(
        f"""{listed(cell=[*name.values()])}
W(cell): real
Tie(cell, cell): real
Up(cell)
1 W(x) ^ Up(x)
1 Tie(x, y) ^ Up(x) => Up(y)""",
        [("Up", (x,)) for x in name.values()],
        lambda rng: {
            "W": valued(rng, ((x,) for x in name.values())),
            "Tie": valued(rng, ((name[a], name[b]) for a, b in edges)),
        },
        ground,
        optimum=optimum,
    )


def crossings(rng: Random, large: bool) -> Family:
    """Triples of which no two share a member: groups that cross each other."""
    sizes = [rng.randint(2, 4) for _ in range(3)] if large else [2, 2, rng.randint(2, 3)]
    sides = [names(x, n) for x, n in zip("ABC", sizes, strict=True)]
    triples = [*itertools.product(*sides)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "T")
        for one, other in itertools.permutations(triples, 2):
            for x, y in zip(one, other, strict=True):
                if x == y:
                    out.add(None, (False, "T", one), (False, "T", other))

    return Family(
        f"""{listed(one=sides[0], two=sides[1], three=sides[2])}
W(one, two, three): real
T(one, two, three)
1 W(x, y, z) ^ T(x, y, z)
!T(x, y, z) v !T(x, u, v) v (y = u ^ z = v).
!T(x, y, z) v !T(u, y, v) v (x = u ^ z = v).
!T(x, y, z) v !T(u, v, z) v (x = u ^ y = v).""",
        [("T", triple) for triple in triples],
        lambda rng: {"W": valued(rng, triples)},
        ground,
    )


def mixtures(rng: Random, large: bool) -> Family:
    """Random clauses, soft and hard, over atoms of groups of one and of two arguments, and free ones."""
    items = names("P", rng.randint(2, 5) if large else 2)
    values = names("V", rng.randint(2, 4) if large else 2)
    free = names("Q", rng.randint(2, 8) if large else 3)
    number = numbers(rng)
    pairs, cells = [*itertools.product(items, values)], [*itertools.product(free[:2], values)]
    atoms: list[Atom] = [("P", pair) for pair in pairs]
    atoms += [("R", cell) for cell in cells] + [("Q", (x,)) for x in free]
    clauses = []
    for _ in range(len(atoms) * rng.choice([1, 2])):
        weight = None if rng.random() < 0.15 else number()
        some = rng.sample(atoms, rng.choice([1, 2, 2, 3, 3, 4]))
        clauses.append((weight, [(rng.random() < 0.5, *atom) for atom in some]))

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Q")
        for weight, literals in clauses:
            out.add(weight, *literals)

    def text(literals: list[tuple[bool, str, tuple[str, ...]]]) -> str:
        return " v ".join(
            f"{'' if s else '!'}{name}({', '.join(args)})" for s, name, args in literals
        )

    rules = "\n".join(rule(weight, text(literals)) for weight, literals in clauses)
    k = len(values)
    return Family(
        f"""{listed(item=items, value=values, free=free, two=free[:2])}
W(free): real
P(item, value!)
R(two!, value!)
Q(free)
1 W(x) ^ Q(x)
{rules}""",
        atoms,
        lambda rng: {"W": valued(rng, ((x,) for x in free))},
        ground,
        [
            *((True, [k * i + j for j in range(k)]) for i in range(len(items))),
            (True, [k * len(items) + j for j in range(2 * k)]),
        ],
    )


def paths(rng: Random, large: bool, n: int | None = None) -> Family:
    """Each item has one successor at most, and one predecessor, and there is no circle: functional paths."""
    n = n or (4 if large else 3)
    items, weight = names("I", n), strength(rng) if n <= 4 else None
    pairs = [*itertools.product(items, repeat=2)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Next")
        for x in items:
            out.add(None, (False, "Before", (x, x)))
            for y, z in ordered_pairs(items):
                out.add(None, (False, "Next", (x, y)), (False, "Next", (x, z)))
                out.add(None, (False, "Next", (y, x)), (False, "Next", (z, x)))
        for x, y in pairs:
            out.add(None, (False, "Next", (x, y)), (True, "Before", (x, y)))
        for x, y, z in itertools.product(items, repeat=3):
            way = (False, "Before", (x, y)), (False, "Before", (y, z))
            out.add(weight, *way, (True, "Before", (x, z)))

    def optimum(facts: Facts) -> float:
        """Of all sets of items and last items: the best order, in which neighbours with a gain are joined."""
        best = {(1 << i, i): 0.0 for i in range(n)}
        for part in range(1, 1 << n):
            for i, j in itertools.permutations(range(n), 2):
                if part >> i & 1 and not part >> j & 1:
                    gain = best[part, i] + max(facts["W"][items[i], items[j]], 0.0)
                    key = part | 1 << j, j
                    best[key] = max(gain, best.get(key, gain))
        return max(best[(1 << n) - 1, i] for i in range(n))

    return Family(
        f"""{listed(item=items)}
W(item, item): real
Next(item, item)
Before(item, item)
1 W(x, y) ^ Next(x, y)
!Before(x, x).
!Next(x, y) v !Next(x, z) v y = z.
!Next(y, x) v !Next(z, x) v y = z.
Next(x, y) => Before(x, y).
{rule(weight, "Before(x, y) ^ Before(y, z) => Before(x, z)")}""",
        [(name, pair) for name in ("Next", "Before") for pair in pairs],
        lambda rng: {"W": valued(rng, pairs)},
        ground,
        optimum=optimum if weight is None else None,
    )


def denials(rng: Random, large: bool, n: int | None = None) -> Family:
    """Rows of one code have one city: cells are repaired so that this denial constraint holds."""
    rows = names("R", n or (rng.randint(3, 4) if large else 2))
    codes, cities = names("Z", 3 if large else 2), names("T", 3 if large else 2)
    weight, k, m = strength(rng), len(codes), len(cities)
    left, right = [*itertools.product(rows, codes)], [*itertools.product(rows, cities)]

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "Code")
        units(facts, "V", out, "City")
        for (r, s), z in itertools.product(itertools.product(rows, repeat=2), codes):
            for a, b in ordered_pairs(cities):
                cells = ("Code", (r, z)), ("Code", (s, z)), ("City", (r, a)), ("City", (s, b))
                out.add(weight, *((False, *cell) for cell in cells))

    def optimum(facts: Facts) -> float:
        """For each city that the codes may have, the best code of each row by itself."""
        w, v = facts["W"], facts["V"]
        return max(
            math.fsum(max(w[r, z] + v[r, a] for z, a in zip(codes, of, strict=True)) for r in rows)
            for of in itertools.product(cities, repeat=k)
        )

    return Family(
        f"""{listed(row=rows, code=codes, city=cities)}
W(row, code): real
V(row, city): real
Code(row, code!)
City(row, city!)
1 W(r, z) ^ Code(r, z)
1 V(r, a) ^ City(r, a)
{rule(weight, "!Code(r, z) v !Code(s, z) v !City(r, a) v !City(s, b) v a = b")}""",
        [*(("Code", cell) for cell in left), *(("City", cell) for cell in right)],
        lambda rng: {"W": valued(rng, left), "V": valued(rng, right)},
        ground,
        [
            *((True, [k * i + j for j in range(k)]) for i in range(len(rows))),
            *((True, [len(left) + m * i + j for j in range(m)]) for i in range(len(rows))),
        ],
        optimum if weight is None else None,
    )


def cubic(rng: Random, large: bool) -> Family:
    """Random rules of three variables, soft ones of either sign, over pairs, items and evidence.

    Large ones have ten more items, of which nothing is true: more ground clauses, and no more states.
    """
    some = names("D", 4 if large and rng.random() < 0.5 else 3)
    items = some + names("N", 10 if large else 0)
    pairs = [*itertools.product(some, repeat=2)]
    number, unary = numbers(rng), rng.random() < 0.7
    atoms: list[Atom] = [("S", pair) for pair in pairs]
    atoms += [("T", (x,)) for x in some if unary]
    terms = [*itertools.permutations("xyz", 2), *itertools.product("xyz", repeat=2)]
    rules = []
    while len(rules) < rng.randint(2, 5):
        literals = [
            (rng.random() < 0.4, "S", args) for args in rng.sample(terms, rng.randint(1, 3))
        ]
        if unary and rng.random() < 0.5:
            literals.append((rng.random() < 0.5, "T", (rng.choice("xyz"),)))
        if rng.random() < 0.4:
            literals.append((rng.random() < 0.3, "E", rng.choice(terms)))
        if {v for _, _, args in literals for v in args} == {*"xyz"}:
            equal = rng.choice(["", "", "x = y", "x = z", "y = z"])
            weight = None if rng.random() < 0.35 else 0.5 * number()
            rules.append((weight, literals, equal, weight is not None and rng.random() < 0.3))

    def ground(facts: Facts, out: Clauses) -> None:
        units(facts, "W", out, "S")
        for name, args in atoms:
            if not all((x,) in facts["Some"] for x in args):
                out.add(None, (False, name, args))
        for (weight, literals, equal, conjunction), row in itertools.product(
            rules, itertools.product(items, repeat=3)
        ):
            of = dict(zip("xyz", row, strict=True))
            signed = [(sign, name, tuple(of[v] for v in args)) for sign, name, args in literals]
            known = [atom for atom in signed if atom[1] == "E" or not {*atom[2]} <= {*some}]
            holds = equal != "" and of[equal[0]] == of[equal[-1]]
            holds |= any(sign == (args in facts.get(name, ())) for sign, name, args in known)
            if not holds:
                rest = [atom for atom in signed if atom not in known]
                out.add(-weight if weight and conjunction else weight, *rest)

    def text(rule_of: tuple[Any, list[Any], str, bool]) -> str:
        """A clause, or the conjunction that is its negation."""
        _, literals, equal, conjunction = rule_of
        parts = [
            f"{'' if sign != conjunction else '!'}{name}({', '.join(args)})"
            for sign, name, args in literals
        ]
        if equal:
            parts.append(equal.replace("=", "!=") if conjunction else equal)
        return (" ^ " if conjunction else " v ").join(parts)

    lines = "\n".join(rule(each[0], text(each)) for each in rules)
    known = {"S(x, y)": ["Some(x)", "Some(y)"], **({"T(x)": ["Some(x)"]} if unary else {})}
    alone = "\n".join(f"{atom} => {of}." for atom, each in known.items() for of in each)
    return Family(
        f"""{listed(item=items)}
W(item, item): real
E(item, item)
Some(item)
S(item, item)
{"T(item)" if unary else ""}
1 W(x, y) ^ S(x, y)
{alone}
{lines}""",
        atoms,
        lambda rng: {
            "W": valued(rng, pairs),
            "E": chosen(rng, pairs, 0.4),
            "Some": {(x,): 1.0 for x in some},
        },
        ground,
    )


FAMILIES: dict[str, Callable[[Random, bool], Family]] = {
    "matching": matching,
    "assignment": assignment,
    "clusters": clusters,
    "orders": orders,
    "colours": colours,
    "labels": labels,
    "schedules": schedules,
    "parity": parity,
    "covers": covers,
    "packings": packings,
    "independent sets": independent_sets,
    "trees": trees,
    "grids": grids,
    "crossings": crossings,
    "mixtures": mixtures,
    "paths": paths,
    "denials": denials,
    "cubic": cubic,
}


def case(name: str, seed: int, large: bool) -> Case:
    """Draw a case of a family."""
    rng = Random(f"{name} {seed}")
    family = FAMILIES[name](rng, large)
    return family.with_facts(family.draw(rng))
