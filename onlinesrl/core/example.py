"""Structured examples: one JSON line, or one Alchemy database, describes one world."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

from onlinesrl.core.errors import ExampleError

Constant: TypeAlias = str | int


MOST = 1e30
"""Numbers of atoms are from -MOST to MOST, so that products of five, and their squares, are finite."""


class ValuedAtom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An atom with a truth value: 1 true, 0 false; in PSL programs any value between them.

    That of a numeric predicate of Markov logic is any number from -MOST to MOST. An atom without a
    ``number`` is true.
    """

    args: list[Constant]
    number: float | UnsetType = field(default=UNSET, name="value")

    @property
    def value(self) -> float:
        """The number, 1 where there is none."""
        return 1.0 if self.number is UNSET else self.number


def arguments(atom: list[Constant] | ValuedAtom) -> list[Constant]:
    """Return the constants of an atom, with or without a value."""
    return atom if isinstance(atom, list) else atom.args


def number_of(atom: list[Constant] | ValuedAtom) -> float | None:
    """Return the number of an atom; None where it has none."""
    return None if isinstance(atom, list) or atom.number is UNSET else atom.number


Truth: TypeAlias = bool | float | None
"""True or false, the probability of being true, or None for unknown."""


class Number(float):
    """What an atom of a numeric predicate has in place of a truth value."""


class GroundAtom(NamedTuple):
    """An atom of a database; ``line`` counts from 1.

    The mapping ``Result = f(A, B)`` of a function is the true atom f(A, B, Result), and
    ``Score(A) = 0.7`` gives a numeric atom its ``Number``.
    """

    predicate: str
    arguments: tuple[str, ...]
    value: Truth
    line: int


def show_ground_atom(predicate: str, constants: Iterable[Constant]) -> str:
    """Write an atom for people, ``Knows(Anna, 3)``; it may not parse back to the same atom."""
    return f"{predicate}({', '.join(map(str, constants))})"


Atoms: TypeAlias = dict[str, list[list[Constant] | ValuedAtom]]
Rows: TypeAlias = Mapping[str, Sequence[list[Constant] | ValuedAtom]]
"""The arguments of atoms by predicate."""
Atom: TypeAlias = tuple[str, tuple[str, ...]]
"""A predicate and the spelling of its arguments."""


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One world.

    ``evidence`` holds the true atoms of each evidence predicate (and observed ones of query
    predicates), ``truth`` the true query atoms; without it the example is predicted and not learned
    from. ``query`` lists the open atoms where they are not all groundings over the world's constants;
    for a PSL program it always does, and they are its targets. ``asked`` lists those that the example is
    about, where it has others too; scores count these alone. ``unlabelled`` lists the open atoms whose truth
    is not known, beside a ``truth`` of the others; learning completes them. A list of predicates stands for
    all their open atoms that the truth does not list. ``group`` names the fold,
    ``dup_of`` an earlier example that this one repeats, ``time`` is when it happened, in seconds from any
    start. A constant is a string or a whole number; ``3`` and ``"3"`` are the same constant, id or group.
    """

    id: Constant
    evidence: Atoms
    truth: Atoms | None = None
    query: Atoms | None = None
    asked: Atoms | None = None
    unlabelled: Atoms | list[str] | None = None
    group: str | None = None
    dup_of: Constant | None = None
    time: float | None = None

    @property
    def labelled(self) -> bool:
        """Whether the truth is known."""
        return self.truth is not None

    def whole(self) -> Example:
        """Return the example with all its fields in memory."""
        return self


def named_atoms(atoms: Rows) -> set[Atom]:
    """Return atoms with their predicates, and their constants as text."""
    return {(name, tuple(map(str, arguments(row)))) for name, rows in atoms.items() for row in rows}


def asked_atoms(example: Example, query: Collection[str]) -> set[Atom] | None:
    """Return the atoms of predicates of the ``query`` whose prediction is scored; None: all that are open.

    Raises ExampleError for one that cannot be open.
    """
    if example.asked is None:
        return None
    asked = named_atoms(example.asked)
    evidence, listed = (
        named_atoms({name: atoms[name] for name in example.asked if name in atoms})
        for atoms in (example.evidence, example.query or {})
    )
    for name, args in sorted(asked):
        reason = None
        if name not in query:
            reason = f"{name} is not in the query ({', '.join(query)})"
        elif (name, args) in evidence:
            reason = "it is in the evidence"
        elif example.query is not None and (name, args) not in listed:
            reason = "it is not listed in `query`"
        if reason is not None:
            raise ExampleError(f"asked atom {show_ground_atom(name, args)}: {reason}", "not_open")
    return asked


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The truth of an example that came, or comes, without it, and the atoms that stay ``unlabelled``."""

    id: Constant
    truth: Atoms
    unlabelled: Atoms | list[str] | None = None

    def of(self, example: Example) -> Example:
        """Return an example with this label."""
        unlabelled = example.unlabelled if self.unlabelled is None else self.unlabelled
        return msgspec.structs.replace(example, truth=self.truth, unlabelled=unlabelled)


@dataclass(frozen=True)
class Unlabelled:
    """The atoms whose truth is not known: those listed, and of some predicates all but the labelled ones."""

    listed: set[Atom]
    predicates: frozenset[str] = frozenset()
    labelled: Collection[Atom] = ()

    def __bool__(self) -> bool:
        return bool(self.listed or self.predicates)

    def __contains__(self, atom: object) -> bool:
        """Tell whether an atom, its predicate and its constants as text, is one of them."""
        if isinstance(atom, tuple) and atom[0] in self.predicates:
            return atom not in self.labelled
        return atom in self.listed


def unlabelled_atoms(example: Example) -> Unlabelled:
    """Return the atoms of an example whose truth is not known.

    None are without a truth. Raises ExampleError if the truth has one that is listed.
    """
    if not example.unlabelled or example.truth is None:
        return Unlabelled(set())
    labelled = named_atoms(example.truth)
    if isinstance(example.unlabelled, list):
        return Unlabelled(set(), frozenset(example.unlabelled), labelled)
    listed = named_atoms(example.unlabelled)
    if both := listed & labelled:
        atom = show_ground_atom(*min(both))
        raise ExampleError(
            f"contradiction: {atom} is in `truth` and in `unlabelled`", "contradiction"
        )
    return Unlabelled(listed)


def listed_unlabelled(example: Example) -> Atoms:
    """Return the unlabelled atoms that are listed; none where predicates stand for them."""
    return example.unlabelled if isinstance(example.unlabelled, dict) else {}


_decoder = msgspec.json.Decoder(Example)
_label_decoder = msgspec.json.Decoder(Label)


_LATE = " (a label that comes later than its example needs the section `labels: {}`)"


def json_fault(error: Exception, data: bytes) -> str:
    """Return why msgspec cannot decode bytes; of bytes that are no UTF-8, Python says which one is wrong."""
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error):
        try:
            data.decode()
        except UnicodeDecodeError as wrong:
            return str(wrong)
    return str(error)


def decode(line: bytes) -> Example:
    """Return the example of a JSON line. Raises ExampleError with the reason."""
    try:
        example = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if "got `int` - at `$.group`" in str(error):
            return decode(_with_text_group(line))
        hint = _LATE if "field `evidence`" in str(error) and b'"truth"' in line else ""
        raise ExampleError(f"not an example: {json_fault(error, line)}{hint}") from None
    if line.count(b":") != _keys(example):
        json.loads(line, object_pairs_hook=distinct)
    return example


def _with_text_group(line: bytes) -> bytes:
    """Return a JSON line whose ``group`` is a whole number, with that as text. Raises ExampleError."""
    json.loads(line, object_pairs_hook=distinct)
    record = msgspec.json.decode(line)
    return msgspec.json.encode(record | {"group": str(record["group"])})


def decoded(line: bytes) -> Example | ExampleError:
    """Return the example of a JSON line, or why it is none."""
    try:
        return decode(line)
    except ExampleError as error:
        return error


def decode_label(line: bytes) -> Label:
    """Return the truth of a JSON line. Raises ExampleError with the reason."""
    try:
        json.loads(line, object_pairs_hook=distinct)
        return _label_decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ExampleError(f"not a label: {error}") from None


def ambiguous_labels(examples: Iterable[Example], query: Iterable[str]) -> list[str]:
    """Return a warning for each query predicate whose atoms outside the truth may lack a label.

    Some example with a truth and no ``unlabelled`` has none of its atoms, or lists false ones and not all.
    """
    warnings: dict[str, str] = {}
    for example in examples:
        truth = (
            {} if example.unlabelled is not None or not example.labelled else example.truth or {}
        )
        for name in query if truth else ():
            listed = None if example.query is None else example.query.get(name, [])
            atoms = truth.get(name)
            if atoms is None and listed != []:
                reason = f"has no atom of {name}"
            elif (
                atoms
                and any(number_of(atom) == 0 for atom in atoms)
                and (listed is None or len(listed) > len(atoms))
            ):
                reason = f"lists false atoms of {name}, but not every open atom"
            else:
                continue
            warnings.setdefault(
                name,
                f"the truth of example {example.id} {reason}; atoms that `truth` does not list are taken as "
                "false: list those without a label in `unlabelled` (or say `unlabelled: {}`)",
            )
    return [*warnings.values()]


def _keys(example: Example) -> int:
    """Count the keys of an example; each has a colon after it."""
    unlabelled = None if example.unlabelled is None else listed_unlabelled(example)
    parts = (example.evidence, example.truth, example.query, example.asked, unlabelled)
    count = 1
    for part in parts:
        if part is not None:
            count += 1 + len(part)
            for atoms in part.values():
                numbers = [atom.number for atom in atoms if type(atom) is ValuedAtom]
                count += 2 * len(numbers) - numbers.count(UNSET)
    return count + sum(x is not None for x in (example.group, example.dup_of, example.time))


def distinct(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that has a key twice, of which the decoder would take the last."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ExampleError(f"not an example: the key {twice} appears twice")


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of an example."""
    schema = msgspec.json.schema(Example)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
