"""Rows to linked examples: what is remembered of earlier rows, and what a row becomes beside them.

Rows and labels come in the order of their times. The example of a row is made before the row is remembered,
so that it has only what was known at its time: a row of the same time that comes later in its file, and a
label of a later time, are not seen. A label is seen from its own time on.

A number depends on the rows in its window alone, so that it is the same to the bit after a checkpoint.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onlinesrl.core.errors import ExampleError, shown
from onlinesrl.core.io.restoring import Misfit, Natural
from onlinesrl.stream.linked_config import LinkedSection, LinksSection, NumbersSection, seconds
from onlinesrl.stream.linked_journal import LinkedJournal, Part
from onlinesrl.stream.linked_windows import WINDOWS, Entry, Window
from onlinesrl.stream.mapping import (
    Atoms,
    Lacking,
    Mapper,
    MappingSection,
    Path,
    constant,
    described,
    number,
    path_of,
)
from onlinesrl.stream.run_folder import RunFolder

REPEATED = 1024
"""So many values of a number are remembered as text."""
LATEST = 1e11
"""A time further from 0, in seconds, is none: it is in milliseconds."""
ARRAY = "linked_rows"
"""The name of the state in a checkpoint."""

_encode = msgspec.json.Encoder().encode


def _json(value: Any) -> str:
    return _encode(value).decode()


class Label(msgspec.Struct, array_like=True, tag=True):
    """What is true of a row, for each predicate of the truth, from a time on."""

    id: str
    time: float
    truth: list[bool]
    place: str
    number: int = 0


class Waiting(msgspec.Struct, array_like=True, tag=True):
    """A label whose row has not come, and its bytes."""

    label: Label
    value: bytes
    file: str
    line: int


class Row(msgspec.Struct, array_like=True, tag=True):
    """A row: its values of the key columns and of the measured ones, and its atoms, as JSON by predicate."""

    id: str
    time: float
    place: str
    keys: list[str | None]
    measures: list[float | str | None]
    atoms: dict[str, str]
    text: str
    """The id, as JSON."""
    number: int = 0
    others: list[str] = []
    """The open rows in its example."""
    label: Label | None = None


class Saved(msgspec.Struct):
    """The state in a checkpoint: where its changes are, and how many rows and labels are not dropped."""

    number: Natural
    counts: dict[str, Natural]
    rows: Natural
    waiting: Natural
    parts: list[Part]


_decode_change = msgspec.json.Decoder(Row | Label | Waiting).decode


class Members(NamedTuple):
    """Which rows of a group are in a window, with which measured value, and at which of their times."""

    rows: str
    truth: tuple[int, bool] | None
    """The number of the predicate that is known, and whether it is true; None: that does not matter."""
    measure: int | None
    at_label: bool
    kind: type[Window]
    within: float
    half: float

    def has(self, truth: tuple[bool, ...] | None) -> bool:
        """Tell whether a row of which this is known, or nothing, is in the window."""
        if self.rows in ("all", "unlabelled") or truth is None:
            return self.rows == "all" or (truth is None and self.rows == "unlabelled")
        return self.truth is None or truth[self.truth[0]] == self.truth[1]


class Group:
    """The remembered rows that have a value of a key column."""

    __slots__ = ("latest", "n", "windows")

    def __init__(self, windows: list[Members], n_latest: int) -> None:
        self.n = 0
        self.windows = [of.kind(of.within, of.half) for of in windows]
        self.latest: list[dict[str, Row]] = [{} for _ in range(n_latest)]


class Number:
    """A number of a row: its own, or that of windows of its groups."""

    def __init__(self, key: str, predicate: str, section: NumbersSection, digits: int) -> None:
        self.key, self.predicate, self.section, self.digits = key, predicate, section, digits
        self.text = lru_cache(REPEATED)(self._text)

    def _text(self, value: float) -> str:
        """Return a value as it is in JSON, transformed and rounded; empty if it is 0. Raises ExampleError."""
        section = self.section
        if section.transform is not None:
            if value <= -1:
                raise ExampleError(f"linked.{self.key}: log1p of {value:g}, expected more than -1")
            value = math.log1p(value)
        rounded = round(value - section.minus, self.digits)
        return repr(rounded) if rounded else ""


class LinkedRows:
    """The remembered rows, and the labels that wait for theirs; part of the checkpoint."""

    def __init__(self, section: LinkedSection, folder: RunFolder | None = None) -> None:
        self.section, self.journal = section, LinkedJournal(folder)
        self.within, self.digits = seconds(section.within), section.digits
        self.predicates = [*section.labels.truth]
        self._forms()
        self._windows()
        self.rows: dict[str, Row] = {}
        self.order = deque[Row]()
        self.now = -math.inf
        """The time of the latest row; that of a row which is only looked at may be later."""
        self.waiting = OrderedDict[str, Waiting]()
        self.counts = Counter[str]()
        self.number = 0
        self.groups: list[dict[str, Group]] = [{} for _ in self.columns]
        self.having = lru_cache(self._having)

    # what the section says -----------------------------------------------------------------------

    def _forms(self) -> None:
        """Prepare what is read from a row by itself."""
        section = self.section
        self.names = [
            Mapper(MappingSection(id=part.id, evidence={})).name
            for part in (section.rows, section.labels)
        ]
        self.times = [path_of(part.time) for part in (section.rows, section.labels)]
        self.truths = [path_of(text) for text in section.labels.truth.values()]
        paths = [*map(path_of, section.labels.id), self.times[1], *self.truths]
        self.of_labels = [path.steps[0] for path in paths]
        self.features: list[tuple[str, str, Any]] = []
        for predicate, rules in section.evidence.items():
            for rule in rules:
                form = path_of(rule) if isinstance(rule, str) else Atoms(rule)
                self.features.append((f"evidence.{predicate}", predicate, form))
        self.own: list[tuple[Number, str, Path]] = []
        numbers_by = []
        for predicate, numbers in section.numbers.items():
            for name, part in numbers.items():
                form_ = Number(f"numbers.{predicate}.{name}", predicate, part, self.digits)
                if part.by is None:
                    self.own.append((form_, _json(name), path_of(part.of or "")))
                else:
                    numbers_by.append(form_)
        self.numbers_by = numbers_by

    def _windows(self) -> None:
        """List the key columns, the measured columns, and the windows of each key column."""
        parts: list[tuple[str, LinksSection | NumbersSection]] = [
            (key, part) for key, part in self.section.parts if part.by is not None
        ]
        self.columns: list[str] = [*dict.fromkeys(c for _, part in parts for c in part.by or ())]
        self.needed = {
            column: key
            for key, part in reversed(parts)
            for column in part.by or ()
            if not part.optional
        }
        self.paths = [path_of(column) for column in self.columns]
        self.measured: list[tuple[str, bool]] = []
        self.windows: list[list[Members]] = [[] for _ in self.columns]
        self.numbers: list[list[tuple[Number, int, str]]] = [[] for _ in self.columns]
        """By column the numbers, with the places of their windows in a group, and their names in JSON."""
        self.lists: list[list[str]] = [[] for _ in self.columns]
        self.links: list[tuple[str, LinksSection, float, list[tuple[int, int, str]]]] = []
        for predicate, link in self.section.links.items():
            within = min(seconds(link.within), self.within)
            columns = []
            for column in link.by:
                place = self.columns.index(column)
                name = f",{_json(column)}" if len(link.by) > 1 else ""
                columns.append((place, _place(self.lists[place], link.rows), name))
            self.links.append((predicate, link, within, columns))
        for form in self.numbers_by:
            part, name = form.section, form.key.rpartition(".")[2]
            members = self._members(part)
            for column in part.by or ():
                place = self.columns.index(column)
                full = f"{column} {name}" if len(part.by or ()) > 1 else name
                window = _place(self.windows[place], members)
                self.numbers[place].append((form, window, _json(full)))
        self.measure_paths = [path_of(text) for text, _ in self.measured]
        self.measure_keys = {x.section.of: x.key for x in reversed(self.numbers_by)}
        self.measure_needed = {x.section.of for x in self.numbers_by if not x.section.optional}

    def _members(self, part: NumbersSection) -> Members:
        """Return which rows a number has."""
        name = part.rows.removeprefix("not ")
        truth = None
        if name in self.predicates:
            truth = self.predicates.index(name), name == part.rows
        measure = None
        if part.of is not None:
            measure = _place(self.measured, (part.of, part.computed == "distinct"))
        within, at_label = min(seconds(part.within), self.within), part.age == "label"
        kind = WINDOWS[part.computed]
        return Members(part.rows, truth, measure, at_label, kind, within, seconds(part.half))

    @property
    def required(self) -> dict[str, str]:
        """The names that a row must have, each with the key that needs it."""
        section = self.section
        required = {str(path_of(text).steps[0]): "rows.id" for text in section.rows.id}
        required[str(self.times[0].steps[0])] = "rows.time"
        for predicate, rules in section.evidence.items():
            for rule in rules:
                paths = [path_of(rule).steps] if isinstance(rule, str) else rule.steps
                optional = not isinstance(rule, str) and rule.optional
                needed = (steps for steps in paths if steps and not optional)
                required |= {str(steps[0]): f"evidence.{predicate}" for steps in needed}
        required |= {str(path_of(column).steps[0]): key for column, key in self.needed.items()}
        for form, _, path in self.own:
            if not form.section.optional:
                required[str(path.steps[0])] = form.key
        for form in self.numbers_by:
            if form.section.of is not None and form.section.of in self.measure_needed:
                required[str(path_of(form.section.of).steps[0])] = form.key
        return required

    # one row by itself ---------------------------------------------------------------------------

    def is_label(self, value: Any) -> bool:
        """Tell whether a record is a label: it has all columns of one."""
        return isinstance(value, dict) and all(name in value for name in self.of_labels)

    def read(self, value: Any, place: str) -> Row | Label:
        """Return the row or label that a record is. Raises ExampleError, with the key and the id."""
        is_label, key, name = self.is_label(value), "id", None
        part = "labels" if is_label else "rows"
        try:
            name = self.names[is_label](value, place)
            key = "time"
            path = self.times[is_label]
            time = number(path.value(value), path.text)
            if abs(time) > LATEST:
                raise ExampleError(f"{path.text}: expected seconds since 1970, found {time:.15g}")
            if is_label:
                key = "truth"
                return Label(name, time, [_truth(path, value) for path in self.truths], place)
        except ExampleError as error:
            raise ExampleError(f"linked.{part}.{key}: {error.reason}", example_id=name) from None
        try:
            return self._row(value, name, time, place)
        except ExampleError as error:
            raise ExampleError(error.reason, error.kind, name) from None

    def _row(self, value: Any, name: str, time: float, place: str) -> Row:
        text, atoms = _json(name), dict[str, list[str]]()
        keys: list[str | None] = []
        measures: list[float | str | None] = []
        key = ""
        try:
            for column, path in zip(self.columns, self.paths, strict=True):
                key = self.needed.get(column, "")
                keys.append(_optional(path, value, constant, not key))
            for (column, is_text), path in zip(self.measured, self.measure_paths, strict=True):
                key = self.measure_keys[column]
                typed: Callable[[Any, str], Any] = _cell if is_text else number
                measures.append(_optional(path, value, typed, column not in self.measure_needed))
            for key, predicate, form in self.features:  # noqa: B007 - it is in the error
                listed = atoms.setdefault(predicate, [])
                if isinstance(form, Path):
                    listed.append(f"[{text},{_json(f'{form.text}={_feature(form, value)}')}]")
                    continue
                try:
                    listed += map(_json, form.of(value)[0])
                except Lacking:
                    if not form.optional:
                        raise
            for own, label, path in self.own:
                key = own.key
                given = _optional(path, value, number, own.section.optional)
                if given is not None and (x := own.text(given)):
                    atoms.setdefault(own.predicate, []).append(_valued(text, label, x))
        except ExampleError as error:
            prefix = "" if error.reason.startswith("linked.") else f"linked.{key}: "
            raise ExampleError(f"{prefix}{error.reason}", error.kind) from None
        joined = {predicate: ",".join(listed) for predicate, listed in atoms.items() if listed}
        return Row(name, time, place, keys, measures, joined, text)

    # a row beside those that are remembered ------------------------------------------------------

    def take(
        self, event: Row | Label, waits: Callable[[Label], Waiting]
    ) -> tuple[bytes | None, Callable[[], None] | None]:
        """Return the line of an example or its truth, if there is one, and what is then to be done.

        Rows that are too old at the time of a row are forgotten first. Raises ExampleError for the second row
        of an id.
        """
        if isinstance(event, Row):
            self._forget(event.time)
            self.now = event.time
            return self.example(event), partial(self.add, event)
        first = self.rows.get(event.id)
        if first is None or first.time < event.time - self.within:
            earlier = self.waiting.pop(event.id, None)
            if earlier is not None and earlier.label.truth != event.truth:
                self.counts["corrections"] += 1
            self.number += 1
            event.number = self.number
            self.waiting[event.id] = waits(event)
            self._note(self.waiting[event.id])
            return None, None
        if first.label is None:
            return self._truth(first, event), partial(self.label, first, event)
        if first.label.truth != event.truth:
            self.counts["corrections"] += 1
            self.label(first, event)
        return None, None

    def told(self, name: str) -> dict[str, Any]:
        """Return what became of a label that has made no truth, for the client that sent it."""
        if name not in self.waiting:
            became = "not learned: its row has one; if it says otherwise, it counts from now on"
            return {"id": name, "waits": False, "label": became}
        became = (
            f"not learned: it waits for a row with this id for {self.section.within}, or until "
            f"{self.section.most} newer labels wait (source.linked)"
        )
        return {"id": name, "waits": True, "label": became, "labels_waiting": len(self.waiting)}

    def expired(self, event: Row | Label) -> Waiting | None:
        """Return the label that has waited longest, if too many wait, or too long at the time of a row."""
        if not self.waiting:
            return None
        first = next(iter(self.waiting.values()))
        late = isinstance(event, Row) and first.label.time < event.time - self.within
        return first if late or len(self.waiting) > self.section.most else None

    def example(self, row: Row) -> bytes:
        """Return the line of a row's example, and note its open rows.

        Raises ExampleError, also for the second row of an id.
        """
        now = row.time
        first = self.rows.get(row.id)
        if first is not None and first.time >= now - self.within:
            reason = f"linked.rows.id: {shown(row.id)} is also the id of {first.place}"
            raise ExampleError(reason, "contradiction", row.id)
        parts: dict[str, list[str]] = {}
        rows = {row.id: row}
        numbers = dict[Group, dict[str, list[str]]]()
        for predicate, link, within, columns in self.links:
            listed = parts.setdefault(predicate, [])
            for place, which, name in columns:
                for other, value in self._linked(row, link, within, place, which):
                    rows[other.id] = other
                    if value is None:
                        listed.append(f"[{row.text},{other.text}{name}]")
                    else:
                        listed.append(_valued(row.text, f"{other.text}{name}", value))
        for one in rows.values():
            for predicate, text in one.atoms.items():
                parts.setdefault(predicate, []).append(text)
            start = f'{{"args":[{one.text},'
            between = f",{start}"
            for of, key, forms in zip(self.groups, one.keys, self.numbers, strict=True):
                group = None if key is None else of.get(key)
                if group is None:
                    continue
                ends = numbers.get(group)
                if ends is None:
                    ends = numbers[group] = self._numbers(group, forms, now)
                for predicate, listed in ends.items():
                    parts.setdefault(predicate, []).append(start + between.join(listed))
        label = self.waiting.get(row.id)
        opened = [one for one in rows.values() if one.label is None]
        row.others = [one.id for one in opened[1:]]
        for n, predicate in enumerate(self.predicates):
            facts = [f"[{x.text}]" for x in rows.values() if x.label and x.label.truth[n]]
            if facts:
                parts.setdefault(predicate, []).extend(facts)
        evidence = ",".join(f'"{p}":[{",".join(listed)}]' for p, listed in parts.items() if listed)
        atoms = ",".join(f"[{one.text}]" for one in opened)
        query = ",".join(f'"{p}":[{atoms}]' for p in self.predicates)
        asked = ",".join(f'"{p}":[[{row.text}]]' for p in self.predicates)
        time = int(now) if now.is_integer() else now
        known = "" if label is None else f",{self._truths(row, label.label)}"
        return (
            f'{{"id":{row.text},"time":{time!r},"evidence":{{{evidence}}},"query":{{{query}}},'
            f'"asked":{{{asked}}}{known}}}'
        ).encode()

    def _linked(
        self, row: Row, link: LinksSection, within: float, place: int, which: int
    ) -> Iterator[tuple[Row, str | None]]:
        """Yield the latest rows with the same value of a column, the oldest first, and the atoms' value.

        There are none where the value is rounded to 0.
        """
        key = row.keys[place]
        group = None if key is None else self.groups[place].get(key)
        if group is None:
            return
        latest = [
            other
            for other in islice(reversed(group.latest[which].values()), link.latest)
            if other.time >= row.time - within
        ]
        n = len(latest)
        if link.value is None or not n:
            yield from ((other, None) for other in reversed(latest))
        elif value := round(n**-0.5 if link.value != "1/n" else 1 / n, self.digits):
            yield from ((other, repr(value)) for other in reversed(latest))

    def _numbers(
        self, group: Group, forms: list[tuple[Number, int, str]], now: float
    ) -> dict[str, list[str]]:
        """Return the ends of the atoms of a group's numbers at a time, by predicate. Raises ExampleError."""
        ends: dict[str, list[str]] = {}
        for form, window, name in forms:
            try:
                value = group.windows[window].at(now, self.now)
            except OverflowError:
                raise ExampleError(f"linked.{form.key}: too large") from None
            if value is not None and (text := form.text(value)):
                ends.setdefault(form.predicate, []).append(f'{name}],"value":{text}}}')
        return ends

    def _truth(self, row: Row, label: Label) -> bytes:
        """Return the line of the truth of a row's example."""
        return f'{{"id":{row.text},{self._truths(row, label)}}}'.encode()

    def _truths(self, row: Row, label: Label) -> str:
        own = f"[{row.text}]"
        pairs = zip(self.predicates, label.truth, strict=True)
        truth = ",".join(f'"{p}":[{own if true else ""}]' for p, true in pairs)
        others = ",".join(f"[{_json(name)}]" for name in row.others)
        unlabelled = ",".join(f'"{p}":[{others}]' for p in self.predicates)
        return f'"truth":{{{truth}}},"unlabelled":{{{unlabelled}}}'

    # remembering ---------------------------------------------------------------------------------

    def add(self, row: Row) -> None:
        """Remember a row, with the label that has waited for it; of too many, the oldest is dropped."""
        self.number += 1
        row.number = self.number
        waiting = self.waiting.pop(row.id, None)
        if waiting is not None:
            self.number += 1
            row.label = waiting.label
            row.label.number = self.number
        self._note(row)
        self._enter(row)
        if len(self.order) > self.section.most:
            self.counts["rows_dropped"] += 1
            self._drop(self.order[0])

    def label(self, row: Row, label: Label) -> None:
        """Remember what is true of a row from now on."""
        self.number += 1
        label.number = self.number
        self._note(label)
        self._place(row, Window.remove, labelled=True)
        row.label, row.others = label, []
        self._place(row, Window.add, labelled=True)
        for place, group in self._groups(row):
            for rows, latest in zip(self.lists[place], group.latest, strict=True):
                if rows == "unlabelled":
                    latest.pop(row.id, None)

    def drop(self, waiting: Waiting) -> None:
        """Forget a label that has waited for its row."""
        self.counts["labels_without_row"] += 1
        self.waiting.pop(waiting.label.id, None)

    def _note(self, change: Row | Label | Waiting) -> None:
        """Write to the journal what is remembered from now on; what is forgotten is the oldest."""
        self.journal.write(_encode(change) + b"\n")

    def _enter(self, row: Row) -> None:
        self.rows[row.id] = row
        self.order.append(row)
        self.now = row.time
        for place, key in enumerate(row.keys):
            if key is None:
                continue
            group = self.groups[place].get(key)
            if group is None:
                group = Group(self.windows[place], len(self.lists[place]))
                self.groups[place][key] = group
            group.n += 1
            for rows, latest in zip(self.lists[place], group.latest, strict=True):
                if rows == "all" or row.label is None:
                    latest[row.id] = row
        self._place(row, Window.add, labelled=False)

    def _forget(self, now: float) -> None:
        """Drop the rows that are too old at a time. Doing it again changes nothing."""
        while self.order and self.order[0].time < now - self.within:
            self._drop(self.order[0])

    def _drop(self, row: Row) -> None:
        """Drop the oldest row; it is counted if it has no label."""
        if row.label is None:
            self.counts["rows_without_label"] += 1
        self._place(row, Window.remove, labelled=False)
        for place, group in self._groups(row):
            for latest in group.latest:
                latest.pop(row.id, None)
            group.n -= 1
            if not group.n:
                del self.groups[place][row.keys[place] or ""]
        self.order.popleft()
        del self.rows[row.id]

    def _groups(self, row: Row) -> Iterator[tuple[int, Group]]:
        for place, key in enumerate(row.keys):
            if key is not None:
                yield place, self.groups[place][key]

    def _place(
        self, row: Row, change: Callable[[Window, Entry, float], None], labelled: bool
    ) -> None:
        """Add a row to its windows, or remove it: to those where labels count, or to all."""
        label = row.label
        windows = self.having(None if label is None else tuple(label.truth), labelled)
        for of, key, listed in zip(self.groups, row.keys, windows, strict=True):
            if key is None:
                continue
            group = of[key]
            for which, members in listed:
                time, number, value = row.time, row.number, None
                if members.at_label and label is not None:
                    time, number = label.time, label.number
                if members.measure is not None and (value := row.measures[members.measure]) is None:
                    continue
                change(group.windows[which], (time, number, value), self.now)

    def _having(
        self, truth: tuple[bool, ...] | None, labelled: bool
    ) -> list[list[tuple[int, Members]]]:
        """Return by column the windows with a row of which this is known, or nothing; see ``_place``."""
        return [
            [
                (which, members)
                for which, members in enumerate(windows)
                if members.has(truth) and not (labelled and members.rows == "all")
            ]
            for windows in self.windows
        ]

    # checkpoints ---------------------------------------------------------------------------------

    def save(self) -> Any:
        """Return the state for a checkpoint: JSON, uint8. Raises StorageError."""
        firsts = [row.number for row in islice(self.order, 1)]
        firsts += [waiting.label.number for waiting in islice(self.waiting.values(), 1)]
        parts = self.journal.save(self.number, min(firsts, default=self.number + 1))
        n_rows, n_waiting = len(self.order), len(self.waiting)
        saved = Saved(self.number, dict(self.counts), n_rows, n_waiting, parts)
        return np.frombuffer(_encode(saved), np.uint8)

    def restore(self, array: Any) -> None:
        """Restore what ``save`` returned from the journal; windows are filled anew. Raises StorageError."""
        try:
            saved = msgspec.json.decode(array.tobytes(), type=Saved)
            rows = self._replayed(saved)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Misfit(f"remembered rows: {error}") from None
        n_keys, n_measures, n_truths = len(self.columns), len(self.measured), len(self.predicates)
        for row in rows:
            labels = [] if row.label is None else [row.label]
            right = len(row.keys) == n_keys and len(row.measures) == n_measures
            if not right or any(len(x.truth) != n_truths for x in labels) or row.id in self.rows:
                raise Misfit(f"the remembered row {shown(row.id)} does not fit source.linked")
            self._enter(row)
        for waiting in self.waiting.values():
            if len(waiting.label.truth) != n_truths:
                raise Misfit(f"the label of {shown(waiting.label.id)} does not fit source.linked")
        if (len(self.rows), len(self.waiting)) != (saved.rows, saved.waiting):
            raise Misfit("remembered rows: some are missing in the journal")
        self.journal.begin(saved.parts)
        self.number, self.counts = saved.number, Counter(saved.counts)

    def _replayed(self, saved: Saved) -> deque[Row]:
        """Return the rows of the journal that are not dropped; the labels that wait are set."""
        rows, by_id = deque[Row](maxlen=saved.rows), dict[str, Row]()
        for change in map(_decode_change, self.journal.lines(saved.parts)):
            if isinstance(change, Row):
                self.waiting.pop(change.id, None)
                by_id[change.id] = change
                rows.append(change)
            elif isinstance(change, Waiting):
                self.waiting.pop(change.label.id, None)
                self.waiting[change.label.id] = change
            elif change.id in by_id:
                by_id[change.id].label, by_id[change.id].others = change, []
        while len(self.waiting) > saved.waiting:
            self.waiting.popitem(last=False)
        return rows

    def complaints(self) -> list[str]:
        """Return messages about labels that wait, and about what was dropped."""
        said = []
        if self.waiting:
            first = next(iter(self.waiting))
            said.append(
                f"{len(self.waiting)} labels wait for their row; the first is of {shown(first)}"
            )
        if dropped := self.counts["rows_dropped"]:
            said.append(
                f"{dropped} rows were dropped: more than {self.section.most} (source.linked.most)"
            )
        return said

    def line(self) -> dict[str, int]:
        """Return what is remembered, and how many were dropped, for a line of metrics."""
        return {
            "rows": len(self.rows),
            "keys": sum(map(len, self.groups)),
            "waiting": len(self.waiting),
            **self.counts,
        }


def _place(places: list[Any], one: Any) -> int:
    """Return the position in a list of what is added there if it is new."""
    if one not in places:
        places.append(one)
    return places.index(one)


def _valued(text: str, name: str, value: str) -> str:
    return f'{{"args":[{text},{name}],"value":{value}}}'


def _optional(path: Path, value: Any, typed: Callable[[Any, str], Any], optional: bool) -> Any:
    """Return the value at a path, of a type; None if it is ``optional`` and not there."""
    try:
        return typed(path.value(value), path.text)
    except Lacking:
        if optional:
            return None
        raise


def _cell(value: Any, path: str) -> str:
    """Return a value as the text of a cell. Raises ExampleError."""
    if isinstance(value, bool | float):
        return described(value)
    return constant(value, path)


def _feature(path: Path, value: Any) -> str:
    """Return the value of a feature, which is empty for an empty cell or a null. Raises ExampleError."""
    try:
        return _cell(path.value(value), path.text)
    except Lacking:
        *parents, name = path.steps
        around = path._replace(steps=tuple(parents)).value(value)
        if isinstance(around, dict) and name in around:
            return ""
        raise


def _truth(path: Path, value: Any) -> bool:
    truth = number(path.value(value), path.text)
    if truth not in (0.0, 1.0):
        raise ExampleError(f"{path.text}: expected true or false (or 1 or 0), found {truth:g}")
    return truth == 1.0
