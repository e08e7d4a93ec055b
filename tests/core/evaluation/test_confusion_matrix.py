"""The confusion matrix, counted by hand."""

import json
from collections import Counter

import pytest

from onlinesrl.core.evaluation import confusion_matrix
from onlinesrl.core.evaluation.confusion_matrix import Confusion, pairs


def test_pairs_are_of_units_that_differ_in_the_argument_alone() -> None:
    found = [
        (("1", "title"), True, True),
        (("2", "title"), True, False),
        (("2", "venue"), False, True),
        (("3", "author"), True, False),
        (("4", "author"), False, True),
    ]
    assert pairs(found, 1) == {
        ("title", "title"): 1,
        ("title", "venue"): 1,
        ("author", None): 1,
        (None, "author"): 1,
    }
    assert pairs([*found, (("1", "venue"), True, False)], 1) is None
    assert pairs([*found, (("1", "venue"), False, True)], 1) is None


def test_a_table_is_sorted_and_none_is_a_class() -> None:
    table = Confusion()
    table.add(Counter({(None, "b"): 2, ("b", None): 1}))
    table.add(Counter({("b", "a"): 3, ("a", "a"): 4}))
    again = Confusion.restore(json.loads(json.dumps(table.save())))
    for each in (table, again):
        assert each.table() == {"a": {"a": 4}, "b": {"a": 3, "none": 1}, "none": {"b": 2}}
        assert list(each.table() or ()) == ["a", "b", "none"]


def test_several_classes_of_a_unit_or_too_many_pairs_end_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Confusion()
    table.add(None)
    table.add(Counter({("a", "a"): 4}))
    assert table.table() is Confusion.restore(table.save()).table() is None
    monkeypatch.setattr(confusion_matrix, "CELLS", 2)
    table = Confusion()
    for name in "abc":
        assert table.table() is not None
        table.add(Counter({(name, name): 1}))
    assert table.table() is None


def test_a_class_called_none_is_not_the_class_of_no_value() -> None:
    confusion = Confusion()
    confusion.add({(None, "none"): 1, ("none", None): 2, ("none", "none"): 5, (None, "a"): 3})
    assert Confusion.restore(json.loads(json.dumps(confusion.save()))).table() == {
        "none": {"none": 5, "(none)": 2},
        "(none)": {"none": 1, "a": 3},
    }
    confusion.add({("(none)", None): 4})
    assert (confusion.table() or {})["(none)"] == {"((none))": 4}
