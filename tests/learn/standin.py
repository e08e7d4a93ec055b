"""A stand-in for the grounder of PSL programs, until that is there."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from onlinesrl.ground.hinges import AT_MOST, EQUAL, HARD, HINGE, HingeModel
from onlinesrl.infer.tron import Micrographs
from onlinesrl.lang.psl_normal import normal_rules
from tests.lang.psl_grounding import ground


class Grounder:
    def __init__(self, program, functions):
        self.forms = normal_rules(program)

    def ground_worlds(self, database, n_worlds):
        names = database.constants
        start, rows, first_variable, first_row, problems = [0], [], [0], [0], {}
        variable, coefficient = [], []
        for w in range(n_worlds):
            observed, targets, number = {}, set(), {}
            for name, relation in database.relations.items():
                for row, value in zip(relation.observed.columns.T, relation.observed.values):
                    if row[0] == w:
                        observed[name, tuple(names[i] for i in row[1:])] = float(value)
                for row in relation.targets.columns.T:
                    if row[0] == w:
                        atom = name, tuple(names[i] for i in row[1:])
                        targets.add(atom)
                        number[atom] = first_variable[-1] + len(number)
            for form in self.forms:
                for linear, constant in ground(form, observed, targets):
                    variable += [number[atom] for atom in linear]
                    coefficient += linear.values()
                    start.append(len(variable))
                    hard = form.weight is None
                    kind = (EQUAL if form.equality else AT_MOST) if hard else HINGE
                    power = 1 if hard else form.power
                    rows.append((constant, HARD if hard else form.rule, power, kind))
            first_variable.append(first_variable[-1] + len(number))
            first_row.append(len(rows))
        columns = list(zip(*rows)) if rows else [[], [], [], []]
        model = HingeModel(
            first_variable[-1],
            np.array(start, np.int64),
            np.array(variable, np.int32),
            np.array(coefficient, np.float64),
            np.array(columns[0], np.float64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.uint8),
            np.array(columns[3], np.uint8),
        )
        graphs = Micrographs(model, np.array(first_variable), np.array(first_row))
        return SimpleNamespace(graphs=graphs, problems=problems)


module = ModuleType("onlinesrl.ground.psl")
module.Grounder = Grounder
sys.modules["onlinesrl.ground.psl"] = module
