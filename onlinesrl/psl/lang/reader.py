"""Reading of PSL's rules: text to a checked program.

The language is PSL (Bach et al., 2017) with five differences: a logical rule may be any formula (see
`onlinesrl.psl.lang.linear_form`), it may have no variables, weights are not negative, ``|X|`` always
counts the constants of one ground rule, and ``Knows/2`` declares a predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

from onlinesrl.core.errors import LocatedError
from onlinesrl.logic.ast import Position, Variable, terms
from onlinesrl.logic.source import Source, read_text, source
from onlinesrl.psl.lang.ast import (
    ArithmeticRule,
    LogicalRule,
    PslProgram,
    atoms,
    cardinalities,
    summed,
)
from onlinesrl.psl.lang.linear_form import normal_forms, unbound
from onlinesrl.psl.lang.syntax import COMMENT, ParsedRule, parsed_program


def load(path: str | Path, functions: Collection[str] = ()) -> PslProgram:
    """Read a file of rules; see `parse`. Raises also StorageError."""
    return parse(read_text(path), str(path), functions=functions)


def parse(
    text: str,
    file: str = "<model>",
    *,
    declared: Mapping[str, int] | None = None,
    functions: Collection[str] = (),
) -> PslProgram:
    """Read rules in PSL's syntax; ``file`` names them in errors.

    ``declared`` are the predicates with their arities; without it, first uses declare them, and lines such
    as ``Knows/2`` those that no rule uses.
    ``functions`` are the predicates whose values are computed. As in PSL, predicates are
    case-insensitive, and spelled as declared. Raises ModelError at the first mistake.
    """
    document = source(text, file)
    reader = PslReader(file, declared, functions)
    reader.read(document, document.code(COMMENT))
    return reader.program()


class PslReader:
    """Reads a program in parts; arguments as in `parse`.

    ``opened`` are predicates known to have targets.
    """

    def __init__(
        self,
        file: str,
        declared: Mapping[str, int] | None,
        functions: Collection[str],
        opened: Collection[str] = (),
    ) -> None:
        self._file = file
        self._closed = declared is not None
        self._arities = dict(declared or {})
        self._spelling = {name.upper(): name for name in (*functions, *self._arities)}
        self._functions = frozenset(self._spelling[name.upper()] for name in functions)
        self._opened = {self._spelling[name.upper()] for name in opened}
        self._parsed: list[ParsedRule] = []

    def program(self) -> PslProgram:
        """Return the rules read so far."""
        rules = tuple(parsed.rule for parsed in self._parsed)
        return PslProgram(self._file, dict(self._arities), rules, self._functions)

    def read(self, document: Source, code: str) -> int:
        """Add the rules and declarations of ``code``, with positions of a source; return how many rules."""
        declarations, rules = parsed_program(
            code, document, lambda name: self._spelling.setdefault(name.upper(), name)
        )
        for declaration in declarations:
            self._check_predicate(*declaration, document)
        for parsed in rules:
            if not parsed.mentions:
                raise document.error("a rule needs at least one atom", parsed.rule.position)
            for atom, place in parsed.mentions:
                self._check_predicate(atom.predicate, len(atom.terms), place, document)
            if isinstance(parsed.rule, ArithmeticRule):
                _check_sums(parsed, parsed.rule, self._functions, document)
                filtering = {x for item in parsed.rule.filters for x in atoms(item.condition)}
                for atom, place in parsed.mentions:
                    if atom.predicate in self._opened and atom in filtering:
                        message = (
                            f"a filter needs observed values, and {atom.predicate} has targets"
                        )
                        raise document.error(message, place)
            else:
                for atom, place in parsed.mentions:
                    if summed(atom):
                        message = "a summation variable belongs in an arithmetic rule"
                        raise document.error(message, place, "write `P(X, +Y) <= 1 .`")
            try:
                for form in normal_forms(parsed.rule, 0, self._functions):
                    for name in unbound(form):
                        raise _unbound(name, parsed, bool(form.joins), document)
            except ValueError as error:
                hint = "write it in several rules"
                raise document.error(str(error), parsed.rule.position, hint) from None
        self._parsed += rules
        return len(rules)

    def _check_predicate(self, name: str, arity: int, place: Position, document: Source) -> None:
        if self._closed and name not in self._arities and name not in self._functions:
            close = get_close_matches(name, [*self._arities, *self._functions], n=1)
            names = ", ".join(self._arities)
            hint = f"did you mean {close[0]}?" if close else f"the predicates are {names}"
            raise document.error(f"the predicate {name} is not declared", place, hint)
        takes = self._arities.setdefault(name, arity)
        if takes != arity:
            arguments = f"{takes} argument{'' if takes == 1 else 's'}"
            message = f"{name} takes {arguments}, not {arity}"
            raise document.error(message, place)


def _check_sums(
    parsed: ParsedRule, rule: ArithmeticRule, functions: Collection[str], document: Source
) -> None:
    """Check the atoms, summation variables, cardinalities and filters of an arithmetic rule."""
    summands = [*rule.left, *rule.right]
    variables: set[str] = set()
    linear = {summand.atom for summand in summands}
    leaves = (leaf for atom in linear if atom for leaf in terms(atom))
    alone = {leaf.name for leaf in leaves if isinstance(leaf, Variable) and not leaf.plus}
    for atom, place in parsed.mentions:
        names = summed(atom)
        if names and atom not in linear:
            message = "an atom of a filter has no summation variables"
            raise document.error(message, place, "leave out the `+`")
        if names and atom.predicate in functions:
            message = f"{atom.predicate} is a function: it lists no atoms to sum over"
            raise document.error(message, place)
        if (variables | alone) & {*names} or len(set(names)) < len(names):
            message = "a summation variable occurs only once"
            raise document.error(message, place, "give the other one its own name")
        variables |= {*names}
    for name in (x for item in summands for x in cardinalities(item.coefficient)):
        if name not in variables:
            message = f"|{name}| counts the constants of +{name}, which is in no atom"
            raise document.error(message, parsed.places[name])
    seen: set[str] = set()
    for item, place in zip(rule.filters, parsed.filtered, strict=True):
        if item.variable not in variables:
            raise document.error(f"this filters +{item.variable}, which is in no atom", place)
        if item.variable in seen:
            hint = "join the conditions by `&`"
            raise document.error(f"+{item.variable} has two filters", place, hint)
        seen.add(item.variable)


def _unbound(name: str, parsed: ParsedRule, joined: bool, document: Source) -> LocatedError:
    """Return the error for a variable that no atom binds."""
    if isinstance(parsed.rule, LogicalRule):
        message = f"nothing binds the variable {name}"
        hint = (
            "each variable needs a positive atom of the body that is not a function"
            if joined
            else "a rule without a body can be written like `1.0: P(X) = 1 ^2`"
        )
    else:
        message = f"the variable {name} is in no atom of the rule without `+`"
        hint = "a filter names its own variable and those that are not summed; |X| needs +X"
    return document.error(message, parsed.places[name], hint)
