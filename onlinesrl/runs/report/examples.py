"""Predictions compared with their truth: every atom once, marked if they differ.

Examples and atoms that are wrong come first, then uncertain ones, then true ones; true negatives are counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onlinesrl.runs.report.html import Markup, count, join, paragraph, section, tag

_OPEN_ATOMS, _MOST_ATOMS = 50, 400
"""How many atoms of an example are seen at once, and how many with those that are folded."""
_TERM = re.compile(r'"(?:\\.|[^"\\])*"|[^,()"]+')
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_VALUES = (
    "Atoms with their predicted value and, if different, their true value after an arrow. Values "
    "above 1/2 count as true, those within 0.1 of it as uncertain; "
)
_SIGNS = {"wrong": "+\u00a0", "missing": "\u2212\u00a0", "unlabelled": "?\u00a0", "": ""}


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """A prediction and its truth, as atoms such as ``InField(3, "title")``.

    ``truth`` is None for an example without labels. ``words`` explains constants, as {"3": "learning"}.
    ``values`` is the text of atoms with values in [0, 1]; those of the ``uncertain`` ones are near 1/2.
    The ``unlabelled`` ones have no truth, and are neither right nor wrong. ``negatives`` counts the other
    atoms that are false and predicted so; they have no text. ``why`` explains one of the atoms, in lines;
    the first one is a title. ``best`` has a line for each of the next best states, and ``answer_set`` says
    which of them the set of answers has. ``threshold`` has by predicate the least probability of what was
    predicted true.
    """

    id: str
    group: str | None
    predicted: Sequence[str]
    truth: Sequence[str] | None
    words: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    uncertain: Sequence[str] = ()
    unlabelled: Sequence[str] = ()
    negatives: int = 0
    why: Sequence[str] = ()
    best: Sequence[str] = ()
    answer_set: str = ""
    threshold: Mapping[str, float] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """0 if an atom is wrong, 1 if one is uncertain, 2 if one is true, 3 for true negatives only."""
        scored = {*self.predicted} - {*self.unlabelled}
        if self.truth is not None and scored != {*self.truth}:
            return 0
        return 1 if self.uncertain else 2 if self.predicted else 3


@dataclass(frozen=True, slots=True)
class _Atom:
    """A parsed atom, its rank, and its mark: ``wrong``, ``missing``, ``unlabelled`` or none."""

    name: str
    terms: tuple[str, ...]
    mark: str
    value: str
    rank: int

    def order(self) -> tuple[object, ...]:
        """Return the sort key: predicate and terms, numbers by value."""
        whole = (_INTEGER.fullmatch(term) for term in self.terms)
        keys = (
            (0, int(m[0]), "") if m else (1, 0, t) for m, t in zip(whole, self.terms, strict=True)
        )
        return (self.name, *keys)


def examples_section(examples: Sequence[ExampleRow], soft: bool = False) -> Markup | None:
    """Return the section, None without examples; ``soft``: of values in [0, 1]."""
    if not examples:
        return None
    legend = paragraph(
        _VALUES if soft else "An atom without a mark is predicted and true; ",
        tag("span", "+\u00a0marked so", class_="wrong"),
        " it is predicted but not true; ",
        tag("span", "\u2212\u00a0marked so", class_="missing"),
        " it is true but was not predicted.",
        join(" ", tag("span", "?\u00a0marked so", class_="unlabelled"), " its truth is not known.")
        if any(example.unlabelled for example in examples)
        else None,
        " Under each, why an atom has its value by the weights of the end: a wrong one, or else the least "
        "certain one."
        if any(example.why for example in examples)
        else None,
    )
    shown = sorted((row for row in examples if row.rank < 3), key=lambda row: row.rank)
    rest = len(examples) - len(shown)
    words = f"Examples without a true or predicted atom: {rest}." if rest else None
    return section(
        "Some predictions and their truth",
        legend,
        *map(_example, shown),
        paragraph(words) if words else None,
    )


def _example(example: ExampleRow) -> Markup:
    predicted, truth = set(example.predicted), set(example.truth or ())
    unlabelled = set(example.unlabelled)
    wrong, missing = predicted - truth - unlabelled, truth - predicted
    verdict = f"{len(predicted & truth)} right, {len(wrong)} wrong, {len(missing)} missing"
    verdict += f", {len(predicted & unlabelled)} without a truth" if unlabelled else ""
    header = tag(
        "header",
        tag("b", example.id),
        None if example.group is None else tag("span", example.group, class_="soft"),
        tag("span", "no truth given" if example.truth is None else verdict, class_="soft"),
        *(
            tag("span", f"{name} is predicted from the probability {least:.3g} on", class_="soft")
            for name, least in example.threshold.items()
        ),
    )
    marks = dict.fromkeys(missing, "missing")
    if example.truth is not None:
        marks |= dict.fromkeys(wrong, "wrong") | dict.fromkeys(unlabelled, "unlabelled")
    uncertain = set(example.uncertain)
    atoms = []
    for atom in predicted | truth | example.values.keys():
        name, _, inside = atom.partition("(")
        terms = tuple(filter(None, map(str.strip, _TERM.findall(inside))))
        rank = 0 if atom in wrong | missing else 1 if atom in uncertain else 2
        value = example.values.get(atom, "")
        atoms.append(_Atom(name, terms, marks.get(atom, ""), value, rank))
    atoms.sort(key=_Atom.order)
    ranked = sorted(atoms, key=lambda atom: atom.rank)
    first, folded = ranked[:_OPEN_ATOMS], ranked[_OPEN_ATOMS:_MOST_ATOMS]
    if not example.values:  # the words of a text are read in their order
        first.sort(key=_Atom.order)
    used = {_plain(term) for atom in atoms for term in atom.terms}
    idle = [
        _chip((constant,), "", example.words) for constant in example.words if constant not in used
    ]
    parts = [header, _rows(first, example.words, idle)]
    if folded:
        more = len(ranked) - _MOST_ATOMS
        unseen = paragraph(f"{count(more)} atoms are not shown.") if more > 0 else None
        summary = tag("summary", f"{count(len(folded))} more atoms")
        parts.append(tag("details", summary, _rows(folded, example.words, ()), unseen))
    if example.negatives:
        parts.append(paragraph(f"{count(example.negatives)} true negatives."))
    if example.best:
        chosen = f"; {example.answer_set}" if example.answer_set else ""
        summary = tag("summary", f"The {len(example.best)} next best states{chosen}")
        parts.append(tag("details", summary, tag("pre", "\n".join(example.best))))
    if example.why:
        title, *lines = example.why
        parts.append(tag("details", tag("summary", f"Why {title}"), tag("pre", "\n".join(lines))))
    return tag("div", *parts, class_="example")


def _rows(atoms: Sequence[_Atom], words: Mapping[str, str], idle: Sequence[Markup]) -> Markup:
    """Return the atoms by predicate, and by last term if that makes few rows; then ``idle`` constants."""
    if not atoms:
        return paragraph("No atom is predicted or true.")
    ends = {(atom.name, atom.terms[-1:]) for atom in atoms}
    # on average at least two atoms share a last term
    shared = 2 * len(ends) <= len(atoms) and all(len(atom.terms) > 1 for atom in atoms)
    rows: dict[str, list[Markup]] = {}
    for atom in atoms:
        last = f", {atom.terms[-1]}" if shared else ""
        head = f"{atom.name}(\u2026{last})" if atom.terms else atom.name
        terms = atom.terms[:-1] if shared else atom.terms
        rows.setdefault(head, []).append(_chip(terms or (atom.name,), atom.mark, words, atom.value))
    if idle:
        rows["in no atom"] = [*idle]
    pairs = (join(tag("dt", tag("code", head)), tag("dd", *chips)) for head, chips in rows.items())
    return tag("dl", *pairs, class_="atoms")


def _chip(terms: Sequence[str], mark: str, words: Mapping[str, str], value: str = "") -> Markup:
    """Return the terms of an atom, with their explanations, and its value."""
    parts: list[object] = []
    for term in map(_plain, terms):
        parts += [", "] if parts else []
        parts += [words[term], tag("sub", term)] if term in words else [term]
    parts += [" ", tag("sub", value)] if value else []
    return join(tag("span", _SIGNS[mark], *parts, class_=f"atom {mark}".strip()), " ")


def _plain(term: str) -> str:
    """Remove the quotes and escapes of a constant."""
    return re.sub(r"\\(.)", r"\1", term[1:-1]) if term.startswith('"') else term
