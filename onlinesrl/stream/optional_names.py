"""Names that optional rules of a mapping have and records lack: they are likely to be mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from onlinesrl.core.errors import shortened
from onlinesrl.stream.mapping import MappingSection, Step

Columns: TypeAlias = Callable[[], Iterable[Iterable[str]]]
"""Returns the columns of each file of rows of a source."""


class OptionalNames:
    """Looks in records for the names of a mapping's optional rules.

    Where a predicate has several rules, of which the records have all names of one, nothing is said of the
    others: a column that was renamed is read by such rules. Nor is anything said of a rule of which they have
    no name, and another file has one: ``columns`` returns those of each file. Names within objects count if
    they are ``deep``.
    """

    def __init__(self, mapping: MappingSection, deep: bool, columns: Columns = tuple) -> None:
        self.records, self._columns = 0, columns
        self._paths = [
            ((part, predicate), n, steps if deep else steps[:1])
            for part, predicates in mapping.rules.items()
            for predicate, rules in predicates.items()
            if all(rule.optional for rule in rules)
            for n, rule in enumerate(rules)
            for steps in rule.steps
        ]
        self._reached = dict[int, tuple[int, list[str]]]()
        """By path, how many of its steps a record had at most, and the names of what lacks the next."""

    def look(self, record: Any) -> None:
        """Note which names a record has."""
        self.records += 1
        for path, (_, _, steps) in enumerate(self._paths):
            if path not in self._reached or self._reached[path][0] < len(steps):
                for reached in _reached(steps, record):
                    self._reached[path] = max(reached, self._reached.get(path, (0, [])))

    def messages(self, lacks: str) -> dict[tuple[str, str, str], str]:
        """Return a message for each part, predicate and name that no record had.

        It says that the name is mistyped, beginning with what ``lacks`` it: "orders.csv has no".
        """
        absent = [path for path in self._reached if self._reached[path][1]]
        unfit = {self._paths[path][:2] for path in absent}
        fitting = {key for key, n, _ in self._paths if (key, n) not in unfit}
        elsewhere = self._elsewhere() if absent else set()
        messages: dict[tuple[str, str, str], str] = {}
        for path in absent:
            (part, predicate), n, steps = self._paths[path]
            reached, names = self._reached[path]
            name = str(steps[reached])
            if (part, predicate) not in fitting and ((part, predicate), n) not in elsewhere:
                near = difflib.get_close_matches(name, names, n=1)
                meant = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}."
                messages[part, predicate, name] = shortened(
                    f"source.mapping.{part}.{predicate}: {lacks} {name}, so that this optional rule makes no "
                    f"atom; {meant}"
                )
        return messages

    def _elsewhere(self) -> set[tuple[tuple[str, str], int]]:
        """Return the rules of which no name was reached, and some file has one."""
        names = dict[tuple[tuple[str, str], int], set[str]]()
        here = {self._paths[path][:2] for path, (reached, _) in self._reached.items() if reached}
        for key, n, steps in self._paths:
            names.setdefault((key, n), set()).update(map(str, steps[:1]))
        return {
            rule
            for columns in self._columns()
            for rule in names.keys() - here
            if not names[rule].isdisjoint(columns)
        }


def _reached(steps: Sequence[Step], value: Any, first: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield how many steps of a path there are, and the names of the object that lacks the next."""
    for n, step in enumerate(steps[first:], first):
        if isinstance(step, str) and isinstance(value, dict):
            if step not in value:
                yield n, [*value]
                return
            value = value[step]
        elif isinstance(step, slice) and isinstance(value, list):
            for element in value[step]:
                yield from _reached(steps, element, n + 1)
            return
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            yield n, []
            return
    yield len(steps), []
