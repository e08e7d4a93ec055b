"""Random small programs in Alchemy's syntax, and random examples for them."""

from dataclasses import dataclass
from functools import cached_property

from hypothesis import strategies as st

from onlinesrl.lang.ast import Program
from onlinesrl.lang.example import Example, ValuedAtom
from onlinesrl.lang.mln import parse

KINDS = ("thing", "place", "word")
NUMBERED = {kind: [f"{kind[0]}{n}" for n in range(3)] for kind in KINDS}
"""Three variables for each type."""
SPELLED = {"thing": ["T1", "1", '"new"'], "place": ["P1", "-2"], "word": ['"a b"', "7", "W2"]}
"""Constants as rules spell them."""
FOUND = {"thing": ["T1", 1, "1", "new"], "place": ["P1", -2, "-2"], "word": ["a b", 7, "W2"]}
"""Constants as examples spell them."""


@dataclass(frozen=True)
class Case:
    """A program, its query predicates, and examples."""

    text: str
    query: tuple[str, ...]
    examples: list[Example]

    @cached_property
    def program(self) -> Program:
        """The text, parsed."""
        return parse(self.text)


@st.composite
def cases(draw: st.DrawFn, examples: int = 1) -> Case:
    """Programs of one to four rules, and so many examples."""
    evidence = {f"E{n}": draw(_types(3)) for n in range(draw(st.integers(1, 3)))}
    query = {f"Q{n}": draw(_types(2)) for n in range(draw(st.integers(1, 2)))}
    types = evidence | query
    marked = {name: draw(st.sampled_from([(), (), (0,), (1,), (0, 1)])) for name in query}
    rules = [draw(_rule(evidence, query)) for _ in range(draw(st.integers(1, 4)))]
    rules += [draw(_at_most_one(name, query[name])) for name in query if draw(st.booleans())]
    text = "\n".join(
        [
            *(draw(_enumeration(kind)) for kind in KINDS if draw(st.booleans())),
            *(_declaration(name, types[name], marked.get(name, ())) for name in types),
            *filter(None, rules),
        ]
    )
    found = [draw(_example(number, types, list(query))) for number in range(examples)]
    return Case(text, tuple(query), found)


def _types(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(KINDS), max_size=most)


def _declaration(name: str, kinds: list[str], marked: tuple[int, ...]) -> str:
    arguments = [f"{kind}!" if n in marked else kind for n, kind in enumerate(kinds)]
    return f"{name}({', '.join(arguments)})" if kinds else name


@st.composite
def _enumeration(draw: st.DrawFn, kind: str) -> str:
    some = st.lists(st.sampled_from(SPELLED[kind]), min_size=1, unique=True)
    constants = draw(some | st.permutations(SPELLED[kind]))
    return f"{kind} = {{ {', '.join(constants)} }}"


@st.composite
def _rule(draw: st.DrawFn, evidence: dict[str, list[str]], query: dict[str, list[str]]) -> str:
    """A clause, a conjunction or an implication; soft with some + variables, or hard."""
    names = draw(st.lists(st.sampled_from(sorted(evidence)), max_size=2))
    names += draw(st.lists(st.sampled_from(sorted(query)), min_size=1, max_size=3))
    names, types = draw(st.permutations(names)), evidence | query
    arguments = [[draw(_term(kind)) for kind in types[name]] for name in names]
    variables = {
        term: kind
        for name, terms in zip(names, arguments, strict=True)
        for term, kind in zip(terms, types[name], strict=True)
        if term in NUMBERED[kind]
    }
    hard = draw(st.integers(0, 3)) == 0
    plus = set() if hard or not variables else draw(st.sets(st.sampled_from(sorted(variables))))
    sums = draw(st.integers(0, 4)) == 0
    for kinds, terms in zip((types[name] for name in names), arguments, strict=True):
        if sums and terms and terms[0] in NUMBERED[kinds[0]] and terms[0] not in plus:
            terms[0] += draw(st.sampled_from(["", " + 1", " - 9"]))
    literals = [
        f"{draw(st.sampled_from(['', '!']))}{name}{_spelled(terms, plus)}"
        for name, terms in zip(names, arguments, strict=True)
    ]
    if variables and draw(st.integers(0, 2)) == 0:
        literals.append(draw(_comparison(variables)))
    if draw(st.integers(0, 2)) == 0:
        literals.append(draw(_existential(types, variables)))
    formula = draw(_joined(literals, hard))
    return f"{formula}." if hard else f"{draw(st.sampled_from(['0.5 ', '-1 ', '']))}{formula}"


@st.composite
def _existential(draw: st.DrawFn, types: dict[str, list[str]], outer: dict[str, str]) -> str:
    """A conjunction over variables of its own and of the rule."""
    names = draw(st.lists(st.sampled_from(sorted(types)), min_size=1, max_size=3))
    used = {kind: [v for v in sorted(outer) if outer[v] == kind] for kind in KINDS}
    own = {f"{kind[0]}{n}": kind for kind in KINDS for n in (7, 8)}
    parts, bound = [], {}
    for name in names:
        terms = []
        for kind in types[name]:
            terms.append(draw(st.sampled_from([*used[kind], f"{kind[0]}7", f"{kind[0]}8"])))
            bound |= {terms[-1]: kind} if terms[-1] in own else {}
        parts.append(f"{draw(st.sampled_from(['', '', '!']))}{name}{_spelled(terms, set())}")
    if not bound:
        return f"({' ^ '.join(parts)})"
    if draw(st.integers(0, 2)) == 0:
        parts.append(draw(_comparison(outer | bound)))
    return f"(EXIST {','.join(sorted(bound))} ({' ^ '.join(parts)}))"


def _term(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*NUMBERED[kind], *NUMBERED[kind], SPELLED[kind][0]])


def _spelled(terms: list[str], plus: set[str]) -> str:
    return f"({', '.join(f'+{x}' if x in plus else x for x in terms)})" if terms else ""


@st.composite
def _comparison(draw: st.DrawFn, variables: dict[str, str]) -> str:
    """Of constants, of whole numbers, or with a sum, whose groundings count where it is one."""
    left = draw(st.sampled_from(sorted(variables)))
    same = sorted(name for name, kind in variables.items() if kind == variables[left])
    if draw(st.integers(0, 2)) == 0:
        op, right = (
            draw(st.sampled_from(["<", "<=", ">", ">="])),
            draw(st.sampled_from([*same, "3"])),
        )
        return f"{left} {draw(st.sampled_from(['', '+ 1 ', '* 2 ', '- 8 ']))}{op} {right}"
    right = draw(st.sampled_from([*same, *SPELLED[variables[left]]]))
    return f"{left} {draw(st.sampled_from(['=', '!=']))} {right}"


def _joined(literals: list[str], hard: bool) -> st.SearchStrategy[str]:
    """A hard conjunction would be clauses of one literal each: an equality alone has no types."""
    if len(literals) == 1:
        return st.just(literals[0])
    implication = f"{' ^ '.join(literals[:-1])} => {literals[-1]}"
    conjunction = [] if hard else [" ^ ".join(literals)]
    return st.sampled_from([" v ".join(literals), implication, *conjunction])


@st.composite
def _at_most_one(draw: st.DrawFn, name: str, kinds: list[str]) -> str:
    """The rule that the plan turns into a group, in one of its spellings; none without arguments."""
    if not kinds:
        return ""
    place = draw(st.integers(0, len(kinds) - 1))
    first = [f"x{n}" for n in range(len(kinds))]
    second = [*first[:place], "y", *first[place + 1 :]]
    a, b = (f"{name}({', '.join(terms)})" for terms in (first, second))
    x = f"x{place}"
    return draw(st.sampled_from([f"!{a} v !{b} v {x} = y.", f"{a} ^ y != {x} => !{b}."]))


@st.composite
def _example(
    draw: st.DrawFn, number: int, types: dict[str, list[str]], query: list[str]
) -> Example:
    evidence = {name: draw(_atoms(kinds)) for name, kinds in types.items() if name not in query}
    observed = {name: draw(_atoms(types[name], most=1)) for name in query if draw(st.booleans())}
    if draw(st.integers(0, 5)) == 0:
        evidence = {}
    truth = {name: draw(_atoms(types[name], most=2)) for name in query}
    listed = {name: draw(_atoms(types[name], most=4, valued=False)) for name in query}
    return Example(
        id=number,
        evidence=evidence | (observed if draw(st.integers(0, 2)) == 0 else {}),
        truth=draw(st.sampled_from([None, truth, truth])),
        query=draw(st.sampled_from([None, None, listed])),
    )


@st.composite
def _atoms(draw: st.DrawFn, kinds: list[str], most: int = 3, valued: bool = True) -> list:
    """Atoms as lists of constants, repeated ones too; with values where a draw says so."""
    constants = st.tuples(*(st.sampled_from(FOUND[kind]) for kind in kinds)).map(list)
    atoms = draw(st.lists(constants, max_size=most))
    atoms += atoms[: draw(st.integers(0, 1))]
    if not valued or draw(st.integers(0, 2)):
        return atoms
    value = {tuple(map(str, atom)): draw(st.sampled_from([1.0, 1.0, 0.0])) for atom in atoms}
    return [ValuedAtom(atom, value[tuple(map(str, atom))]) for atom in atoms]
