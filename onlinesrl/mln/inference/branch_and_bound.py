"""Exact MPE of what is too wide for elimination, by branch and bound over multi-valued variables.

The ground model becomes a pairwise cost (``kernels/pairwise_mrf``), minimised with the bounds of
sequential tree-reweighted message passing (``kernels/tree_reweighted``, ``kernels/branch_and_bound``).
"""

from __future__ import annotations

import numpy as np

from onlinesrl.core import search_status
from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32, gathered
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, network_of
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.kernels import branch_and_bound
from onlinesrl.mln.kernels.branch_and_bound import FOUND
from onlinesrl.mln.kernels.ground_network import VARIABLES, Network
from onlinesrl.mln.kernels.low_degree_elimination import EDGES, core_of, fold, folds, unfold
from onlinesrl.mln.kernels.pairwise_mrf import Members, Pairwise, add_clauses, pairwise
from onlinesrl.mln.kernels.tree_reweighted import messages

SEARCHED = "branch-and-bound"
"""The route of an answer."""
NOTHING = np.zeros(0, np.int64)
TINY = 1e-3
"""Weights of a smaller sum are scaled up, because the search also has an absolute tolerance."""


class Search:
    """A search of one model, which ends at a limit and goes on from there.

    No two of its ``n`` best states agree on all atoms ``visible``. Unsolved where the weights or the bonus
    are not finite.
    """

    def __init__(
        self,
        model: GroundMRF,
        weight: Floats,
        bonus: Floats | None = None,
        n: int = 1,
        visible: Ints = NOTHING,
    ) -> None:
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        self._model, self._weight, self._bonus = model, weight, bonus
        self._size = Magnitude.of(weight, bonus)
        self._scale = self._size.scale(1.0) if self._size.total < TINY else 1.0
        self._tables = Tables(model, weight, visible)
        self._costs = self._tables.costs(self._scale * weight, self._scale * bonus)
        self._folded = fold(self._costs, self._tables.folds)
        self._core, self._variables = core_of(self._costs, self._tables.folds)
        self._messages = messages(self._core)
        slots = gathered(self._costs.start, self._variables)[1]
        self._tree = branch_and_bound.tree(self._core, n, self._tables.visible[slots])
        self._offered = -np.inf
        self._proven = False
        if n > 1:  # so that none of the states violates a hard clause
            least = float(weight.sum(where=weight < 0) + bonus.sum(where=bonus < 0))
            worst = self._scale * (self._tables.most - least) - self._folded
            self._tree.value[FOUND] = worst + (self._scale * self._size.total + 1) / 2

    def offer(self, score: float) -> None:
        """Tell the search of the score of a feasible state: it then looks only for better states."""
        self._offered = max(self._offered, score)
        cost = self._scale * (self._tables.most - self._offered) - self._folded
        self._tree.value[FOUND] = min(self._tree.value[FOUND], cost)

    def go_on(self, most_work: int) -> Solution:
        """Search until ``most_work`` cells have been read in all, or to the proof.

        The score is -inf where no feasible state was found. If a state that was offered is proven to be
        the best, that is in the bound. Raises Infeasible.
        """
        model, tree = self._model, self._tree
        with search_status.doing(lambda: f"branch and bound on {model.n_atoms:,} atoms"):
            search_status.poll()
            status = branch_and_bound.search(self._core, self._messages, tree, most_work)
            search_status.poll()
        self._proven = status == branch_and_bound.PROVEN
        solution = self._solution(0)
        if self._proven and max(solution.score, self._offered) == -np.inf:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        return solution

    def solutions(self) -> list[Solution]:
        """Return the best states, once they are proven."""
        return [self._solution(i) for i in range(int(np.isfinite(self._tree.cost).sum()))]

    def _solution(self, i: int) -> Solution:
        model, tree = self._model, self._tree
        values = np.zeros(len(self._costs.start) - 1, np.int32)
        values[self._variables] = tree.best[i]
        unfold(self._costs, self._tables.folds, values)
        state = self._tables.state(values)
        feasible = model.feasible(state)
        score = model.score(state, self._weight, self._bonus) if feasible else -np.inf
        best = max(score, self._offered)
        cost, root = (tree.value / self._scale).tolist()
        tolerance = branch_and_bound.TOLERANCE * max(1.0 / self._scale, abs(cost))
        slack = tolerance if self._proven else cost - root
        bound = best + slack if best > -np.inf else np.inf
        certified = self._proven and self._size.certifies(bound - score + self._size.rounding)
        return Solution(state, score, bound, SEARCHED, certified)


class Tables:
    """A model as variables, members of clauses and edges, for weights of these signs.

    ``visible``, uint8[slot], marks the values that are visible atoms.
    """

    def __init__(self, model: GroundMRF, weight: Floats, visible: Ints = NOTHING) -> None:
        self.model = model
        self.net, self.order = network_of(model)
        self.n = int(self.net.size[VARIABLES])
        self.live = np.flatnonzero(model.hard | (weight != 0))
        clause, variable, literals = _members(self.net, model, self.live)
        members = np.bincount(clause, minlength=len(self.live))
        if np.any(members[model.hard[self.live]] == 0):
            raise Infeasible("a hard clause is empty")
        size = np.diff(self.net.var_start[: self.n + 1]).astype(np.int64) + 1
        long_clauses = np.flatnonzero(members > 2)
        gain = weight[self.live]
        self.most = float(gain[(gain > 0) | (members <= 2)].sum())
        pays = model.hard[self.live] | (weight[self.live] > 0)
        self.size = np.concatenate(
            (size, np.where(pays[long_clauses], members[long_clauses] + 1, 2))
        )
        number = np.full(len(self.live), -1, np.int32)
        number[long_clauses] = self.n + np.arange(len(long_clauses))
        low, high, edge = _edges(clause, variable, members, number)
        true_start = _starts(size[variable])
        self.members = Members(
            clause_start=_starts(members),
            variable=variable.astype(np.int32),
            true_start=true_start,
            true=_true(literals, true_start),
            edge=edge,
            own=number,
        )
        self.visible = np.zeros(self.size.sum(), np.uint8)
        self._slots = np.arange(model.n_atoms) + self.net.var_of[: model.n_atoms] + 1
        seen = np.isin(self.order, visible)
        self.visible[self._slots[seen]] = 1
        kept = np.isin(np.arange(len(self.size)), self.net.var_of[: model.n_atoms][seen])
        self.folds = folds(self.size, low, high, kept)

    def costs(self, weight: Floats, bonus: Floats) -> Pairwise:
        """Return the cost for these weights and bonus, before folding."""
        model, live, n = self.model, self.live, self.n
        hard = model.hard[live]
        never = 2 * float(np.abs(weight[live]).sum() + np.abs(bonus).sum()) + 1
        edges = self.folds.size[EDGES]
        costs = pairwise(self.size, self.folds.low[:edges], self.folds.high[:edges])
        add_clauses(costs, self.members, np.where(hard, never, weight[live]), never)
        costs.unary[self._slots] -= bonus[self.order]
        costs.unary[costs.start[:n][self.net.exactly[:n] == 1]] = np.inf
        forbidden = self.members.own[hard & (self.members.own >= 0)]
        costs.unary[costs.start[forbidden + 1] - 1] = np.inf
        return costs

    def state(self, values: Ints32) -> State:
        """Return the atoms' state from the values of the variables."""
        truth = np.zeros(self.model.n_atoms, np.uint8)
        chosen = np.flatnonzero(values[: self.n])
        truth[self.net.var_start[chosen] + values[chosen] - 1] = 1
        state: State = np.empty_like(truth)
        state[self.order] = truth
        return state


def _starts(lengths: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _members(
    net: Network, model: GroundMRF, live: Ints
) -> tuple[Ints, Ints, tuple[Ints, Ints, Bytes]]:
    """Return the clause and the variable of each member of the live clauses, in their order.

    The third result has, for each literal, its member, its value of the variable, and whether it is positive.
    """
    start, places = gathered(model.start, live)
    clause = np.repeat(np.arange(len(live)), np.diff(start))
    atom = net.lit_atom[places].astype(np.int64)
    variable = net.var_of[atom].astype(np.int64)
    n = max(1, int(net.size[VARIABLES]))
    codes, member = np.unique(clause * n + variable, return_inverse=True)
    literals = member.reshape(-1), atom - net.var_start[variable] + 1, net.lit_positive[places]
    return codes // n, codes % n, literals


def _true(literals: tuple[Ints, Ints, Bytes], start: Ints) -> Bytes:
    """Return which values of which members make their clause true, uint8[value of a member]."""
    member, number, positive = literals
    true = np.zeros(start[-1], np.uint8)
    true[(start[member] + number)[positive == 1]] = 1
    negative = np.flatnonzero(positive == 0)
    lengths = np.diff(start)[member[negative]]
    x = np.arange(lengths.sum()) - np.repeat(_starts(lengths)[:-1], lengths)
    other = x != np.repeat(number[negative], lengths)
    true[(np.repeat(start[member[negative]], lengths) + x)[other]] = 1
    return true


def _edges(
    clause: Ints, variable: Ints, members: Ints, extra_variable: Ints32
) -> tuple[Ints32, Ints32, Ints]:
    """Return the lower and the higher variable of each edge, and the first edge of each clause.

    The edges of clauses over two variables come first. Then come the edges to the own variables of longer
    clauses.
    """
    first = _starts(members)[:-1]
    pairs, long = np.flatnonzero(members == 2), members[clause] > 2
    n = int(variable.max(initial=0)) + 1
    codes, place = np.unique(
        variable[first[pairs]] * n + variable[first[pairs] + 1], return_inverse=True
    )
    edge = np.full(len(members), -1, np.int64)
    edge[pairs] = place.reshape(-1)
    edge[members > 2] = len(codes) + _starts(members[members > 2])[:-1]
    low = np.concatenate((codes // n, variable[long]))
    high = np.concatenate((codes % n, extra_variable[clause[long]]))
    return low.astype(np.int32), high.astype(np.int32), edge
