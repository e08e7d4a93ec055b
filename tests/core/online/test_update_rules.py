"""The examples in the online updates hold; `mln/online/test_updates.py` has their textbook formulas."""

import doctest
import sys

import pytest

from onlinesrl.core.online.update_rules import UPDATES


@pytest.mark.parametrize("rule", UPDATES)
def test_the_example_of_a_rule_holds(rule):
    results = doctest.testmod(sys.modules[UPDATES[rule].__module__])
    assert results.attempted
    assert not results.failed
