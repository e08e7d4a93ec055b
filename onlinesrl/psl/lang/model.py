"""PSL's models: rules with their data files, as one JSON file or as rules and a .data file.

Both give `DataFiles` for each predicate and split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias

from onlinesrl.core.errors import LocatedError
from onlinesrl.core.io.located_yaml import Place, Tree
from onlinesrl.logic.ast import Position
from onlinesrl.logic.source import Source, read_text, source
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import Database, DataFiles, read_database
from onlinesrl.psl.lang.reader import PslReader
from onlinesrl.psl.lang.syntax import COMMENT

Functions: TypeAlias = Mapping[str, Callable[..., float]]
"""Python functions by predicate; they map the names of an atom's constants to a value in [0, 1]."""

Split: TypeAlias = Literal["infer", "learn"]

_SECTIONS = ("observations", "targets", "truth")
_SPLITS = ("all", "infer", "learn")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)/([1-9][0-9]{0,2})")
_NOT_LINE_END = re.compile(r"[^\n]")
_Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PslModel:
    """A program, its data, and the options of PSL's JSON.

    ``files`` are those of each predicate, by split; ``functions`` are named as in the program.
    """

    program: PslProgram
    files: Mapping[Split, Mapping[str, DataFiles]]
    functions: Functions = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    def database(self, split: Split = "infer") -> Database:
        """Read the data of a split; errors as in `read_database`."""
        return read_database(self.files[split])


def load_json(path: str | Path, functions: Functions | None = None) -> PslModel:
    """Read PSL's JSON: ``rules``, ``predicates`` with their files, and ``options``.

    Raises ModelError at the first mistake, StorageError if a file cannot be read.
    """
    reader = _ModelReader(Path(path), functions or {})
    reader.check_keys((), ("rules", "predicates", "options"))
    for name, _ in reader.section(("predicates",)).items():
        key = ("predicates", name)
        reader.declare(name, key)
        reader.check_keys(key, (*_SECTIONS, "evaluations"))
        for kind in _SECTIONS:
            reader.add_files(_plain(name), kind, (*key, kind))
    rules = reader.value(("rules",))
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise reader.error(("rules",), "expected a list of rules as strings")
    program = reader.rules(rules)
    return reader.model(program, reader.section(("options",)))


def load_psl(rules: str | Path, data: str | Path, functions: Functions | None = None) -> PslModel:
    """Read a file of rules and PSL's .data file; both splits have the same data.

    ``predicates`` declares predicates, like ``Knows/2: open``, or a list of ``open`` and the ``types`` of the
    arguments, which change nothing; ``observations``, ``targets`` and ``truth`` give a path or list of paths
    for each. Errors as in `load_json`.
    """
    reader = _ModelReader(Path(data), functions or {})
    reader.check_keys((), ("predicates", *_SECTIONS))
    kinds = {}
    for name, kind in reader.section(("predicates",)).items():
        reader.declare(name, ("predicates", name))
        kinds[_plain(name)] = reader.kind(name, kind)
    for section in _SECTIONS:
        for name in reader.section((section,)):
            key = (section, name)
            if kinds.get(name) == "closed" and section == "targets":
                raise reader.error(key, f"{name} is closed: a closed predicate has no targets")
            reader.add_files(name, section, key)
    text = source(read_text(rules), str(rules))
    return reader.model(reader.program(text, [text.code(COMMENT)]), {})


def _plain(name: str) -> str:
    return name.partition("/")[0]


class _ModelReader:
    """Reads a JSON or YAML file with the data of predicates."""

    def __init__(self, path: Path, functions: Functions) -> None:
        self._path = path
        self._functions = functions
        self._source = source(read_text(path), str(path))
        self._tree = Tree()
        text = self._source.text.replace("\t", " ") if path.suffix == ".json" else self._source.text
        self._values = self._tree.read(text, Place(str(path), 1, 1))
        for problem in self._tree.problems:
            position = Position(problem.line, problem.column)
            raise self._source.error(problem.message, position)
        self._arities: dict[str, int] = {}
        self._files: dict[str, dict[str, dict[str, list[Path]]]] = {}

    def error(self, key: _Key, message: str, hint: str | None = None) -> LocatedError:
        place = self._tree.value_place(key)
        return self._source.error(message, Position(place.line, place.column), hint)

    def value(self, key: _Key) -> Any:
        value = self._values
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def section(self, key: _Key) -> dict[str, Any]:
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            raise self.error(key, f"expected a section in `{key[-1]}`")
        return value or {}

    def check_keys(self, key: _Key, names: tuple[str, ...]) -> None:
        """Raise ModelError for an unknown key."""
        if not isinstance(self.value(key), dict):
            raise self.error(key, "expected a section with keys")
        for name in self.value(key):
            if name not in names:
                close = get_close_matches(name, names, n=1)
                listed = f"the keys are {', '.join(names)}"
                hint = f"did you mean {close[0]}?" if close else listed
                raise self._at_key((*key, name), f"the key {name} is unknown", hint)

    def declare(self, name: str, key: _Key) -> None:
        """Declare a predicate by name and arity."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise self._at_key(key, f"{name} is not a predicate with its arity", "write `Knows/2`")
        same = [alike for alike in self._arities if alike.upper() == match[1].upper()]
        if same:
            raise self._at_key(key, f"the predicate {same[0]} is declared twice")
        self._arities[match[1]] = int(match[2])

    def kind(self, name: str, value: object) -> str:
        """Return ``open`` or ``closed``, given alone, or in a list with the types of the arguments."""
        key, arity = ("predicates", name), self._arities[_plain(name)]
        kinds = []
        for item in value if isinstance(value, list) else [value]:
            match item:
                case "open" | "closed":
                    kinds.append(item)
                case {"types": [*types], **other} if not other:
                    if len(types) != arity or not all(isinstance(type_, str) for type_ in types):
                        raise self.error(key, f"expected the types of {arity} arguments")
                case _:
                    kinds = []
                    break
        if len(kinds) != 1:
            hint = "or a list of this and `types: [UniqueStringID, ...]`, one for each argument"
            raise self.error(key, "expected `open` or `closed`", hint)
        return kinds[0]

    def add_files(self, name: str, kind: str, key: _Key) -> None:
        """Add the files at a key: a path, a list of paths, or either for each split."""
        value = self.value(key)
        if name not in self._arities:
            raise self._at_key(key, f"the predicate {name} is not declared")
        if value is not None and name.upper() in {function.upper() for function in self._functions}:
            raise self.error(key, f"{name} is a function and has no data")
        if isinstance(value, dict):
            self.check_keys(key, _SPLITS)
        splits = value if isinstance(value, dict) else {"all": value}
        for split, paths in splits.items():
            listed = [] if paths is None else paths if isinstance(paths, list) else [paths]
            if not all(isinstance(path, str) and path for path in listed):
                place = (*key, split) if isinstance(value, dict) else key
                raise self.error(place, "expected the path of a file, or a list of paths")
            by_split = self._files.setdefault(name, {}).setdefault(kind, {})
            by_split[split] = [self._path.parent / path for path in listed]

    def _at_key(self, key: _Key, message: str, hint: str | None = None) -> LocatedError:
        place = self._tree.key_place(key)
        return self._source.error(message, Position(place.line, place.column), hint)

    def rules(self, rules: list[str]) -> PslProgram:
        """Read the rules of the list ``rules``, with their positions in the file."""
        text = self._source.text
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        codes = []
        for index, rule in enumerate(rules):
            place = self._tree.value_place(("rules", index))
            start = starts[place.line - 1] + place.column - 1
            start += text[start] in "\"'"
            code = Source(self._source.file, rule).code(COMMENT).replace("\n", " ")
            codes.append(_NOT_LINE_END.sub(" ", text[:start]) + code)
        return self.program(self._source, codes, single=True)

    def program(self, text: Source, codes: list[str], single: bool = False) -> PslProgram:
        """Read a program; with ``single``, each of ``codes`` must be one rule."""
        opened = [
            name for name, data in self._files.items() if any(data.get("targets", {}).values())
        ]
        reader = PslReader(text.file, self._arities, self._functions, opened)
        for index, code in enumerate(codes):
            n_rules = reader.read(text, code)
            if single and n_rules != 1:
                raise self.error(("rules", index), f"expected one rule, not {n_rules}")
        return reader.program()

    def model(self, program: PslProgram, options: Mapping[str, object]) -> PslModel:
        splits: dict[Split, dict[str, DataFiles]] = {
            "infer": self._split("infer", program),
            "learn": self._split("learn", program),
        }
        spelling = {name.upper(): name for name in program.functions}
        functions = {spelling[name.upper()]: function for name, function in self._functions.items()}
        return PslModel(program, splits, functions, options)

    def _split(self, split: Split, program: PslProgram) -> dict[str, DataFiles]:
        files = {}
        for name, arity in self._arities.items():
            data = self._files.get(name, {})
            paths = {
                kind: (*data[kind].get("all", ()), *data[kind].get(split, ())) for kind in data
            }
            if name not in program.functions:
                files[name] = DataFiles(arity, **paths)
        return files
