"""Reading the configuration of a run: a YAML file and ``--set`` overrides.

Everything is checked before anything is opened or computed; all mistakes are reported together, each
as ``file:line:column: key: reason``.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from onlinesrl.core.errors import ConfigError, LocatedError, shortened
from onlinesrl.core.io.config_section import Section, kinds_of, not_for, sections_of
from onlinesrl.core.io.config_types import STDIN
from onlinesrl.core.io.located_yaml import Key, Place, Tree, secretive, spelled
from onlinesrl.core.io.remote import is_address, local_copy
from onlinesrl.core.language import Language, language_of
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.fingerprint import show
from onlinesrl.runs.config.schema import Config, EntityWeights, MlnConfig, PslConfig, Root

if TYPE_CHECKING:
    from onlinesrl.runs.config.mln_batch import MlnBatch
    from onlinesrl.runs.config.psl_batch import PslBatch

R = TypeVar("R", bound=Root)
S = TypeVar("S", bound=Section)


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read the configuration of a run; see ``load_as``."""
    return load_as(run_root, path, overrides)


def load_batch(path: Path, overrides: Sequence[str] = ()) -> MlnBatch | PslBatch | EntityWeights:
    """Read a configuration of batch learning, or of a run over records; see ``load_as``."""
    return load_as(batch_root, path, overrides)


def load_any(path: Path, overrides: Sequence[str] = ()) -> Config | MlnBatch | PslBatch:
    """Read a configuration of a run or of batch learning, whichever its keys fit better; see ``load_as``."""

    def root(values: Any) -> type[Root]:
        roots: tuple[type[Root], ...] = run_root(values), batch_root(values)
        return min(roots, key=lambda kind: _n_strange(kind, values))

    return cast("Config | MlnBatch | PslBatch", load_as(root, path, overrides))


def run_root(values: Any) -> type[Config]:
    """Return the class of a configuration of a run: the language of its model decides."""
    return PslConfig if _language(values) is language_of(".psl") else MlnConfig


def batch_root(values: Any) -> type[MlnBatch | PslBatch | EntityWeights]:
    """Return the class of a configuration of batch learning: the language of its model decides.

    Of a run over records these are its weights.
    """
    if isinstance(values, dict) and "entities" in values:
        return EntityWeights
    if _language(values) is language_of(".psl"):
        from onlinesrl.runs.config.psl_batch import PslBatch

        return PslBatch
    from onlinesrl.runs.config.mln_batch import MlnBatch

    return MlnBatch


def _language(values: Any) -> Language:
    model = values.get("model") if isinstance(values, dict) else None
    return language_of(Path(model).suffix if isinstance(model, str) else "")


def load_as(root: Callable[[Any], type[R]], path: Path, overrides: Sequence[str] = ()) -> R:
    """Read the configuration file and apply the ``key=value`` overrides.

    ``root`` says, given the values, what outermost section they are to be. Paths in the file are
    relative to its folder; those in overrides, and ``output`` wherever it stands, are relative to the
    current directory. Raises ConfigError with every problem there is.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([Place(str(path)).problem(error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([Place(str(path), line, 1).problem("not UTF-8 text")]) from error
    tree = Tree()
    values = tree.read(text, Place(str(path), 1, 1))
    if tree.problems and values is None:
        raise ConfigError(tree.problems)
    values = _rebase({} if values is None else values, path.parent)
    defaults = {"output": f"runs/{path.stem}"}
    if isinstance(values, dict) and "entities" in values:  # `learn` writes its model
        defaults["model"] = str(path.with_suffix(".mln"))
    values = _merge(defaults, values)
    return _overridden(root, tree, values, overrides, path.parent)


def of_values(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """Return the configuration of keys and values, as ``load`` of a file in the current directory."""
    tree = Tree()
    read = tree.read(json.dumps(values, default=str), Place("configuration"))
    return _overridden(run_root, tree, read, overrides)


def section_of(kind: type[S], values: Mapping[str, Any], name: str) -> S:
    """Return the section of keys and values, whose ``name`` is for messages. Raises ConfigError."""
    tree = Tree()
    read = tree.read(json.dumps(values, default=str), Place(name))
    try:
        return kind.model_validate(read)
    except ValidationError as error:
        problems = [_explain(kind, tree, read, detail) for detail in error.errors()]
        raise ConfigError(problems) from None


def _overridden(
    root: Callable[[Any], type[R]],
    tree: Tree,
    values: Any,
    overrides: Sequence[str],
    folder: Path | None = None,
) -> R:
    """Apply overrides, and check the whole; modules may be in the ``folder``. Raises ConfigError."""
    parsed = [_read_override(tree, override) for override in overrides]
    values = reduce(_merge, parsed, _fitting(values, reduce(_merge, parsed, {})))
    if folder is not None and _names_module(values) and str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    config = _validate(root(values), tree, values)
    if config is None or tree.problems:
        raise ConfigError(sorted(tree.problems, key=lambda p: (not p.line, p.line, p.column)))
    return config


def _names_module(values: Any) -> bool:
    """Tell whether a section is to be of a class ``module:Class``."""
    if not isinstance(values, dict):
        return False
    tags = (values.get(tag) for tag in ("update", "engine", "kind"))
    return any(":" in str(tag) for tag in tags) or any(map(_names_module, values.values()))


def _read_override(tree: Tree, text: str) -> Any:
    name, equals, value = text.partition("=")
    key = tuple(name.strip().split("."))
    place = Place(f"--set {f'{spelled(key)}=...' if secretive(text) else shortened(text)}")
    if not equals or not all(key):
        tree.problems.append(place.problem("expected key=value, such as learner.sigma=0.1"))
        return {}
    values = STDIN if value.strip() == str(STDIN) else tree.read(value, place, key)
    for part in reversed(key):
        values = {part: values}
    return _rebase(values, Path())


def _merge(below: Any, above: Any) -> Any:
    """Override one tree of values by another: sections are merged, everything else is replaced."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merge(below.get(key), value) for key, value in above.items()}


def _fitting(values: Any, overrides: Any) -> Any:
    """Return values without what another update than that of the overrides takes, and this one does not."""
    learner, chosen = (
        part.get("learner") if isinstance(part, dict) else None for part in (values, overrides)
    )
    update = chosen.get("update") if isinstance(chosen, dict) else None
    if not isinstance(learner, dict) or not isinstance(update, str) or update not in UPDATES:
        return values
    fields = UPDATES[update].model_fields
    foreign = {name for kind in UPDATES.values() for name in kind.model_fields} - fields.keys()
    if learner.get("loss") not in get_args(fields["loss"].annotation):
        foreign.add("loss")
    return values | {
        "learner": {key: value for key, value in learner.items() if key not in foreign}
    }


def _rebase(values: Any, folder: Path) -> Any:
    """Make the paths of the inputs in ``values`` relative to ``folder``."""
    for section, name in (
        (None, "model"),
        (None, "data"),
        (None, "test"),
        ("source", "path"),
        ("source", "background"),
        ("test", "path"),
        ("test", "background"),
        ("learner", "start"),
    ):
        inside = values.get(section) if section and isinstance(values, dict) else values
        if isinstance(inside, dict) and name in inside:
            value = inside[name]
            elsewhere = name in ("model", "start") and isinstance(value, str) and is_address(value)
            inside[name] = str(local_copy(value)) if elsewhere else _join(folder, value)
    return values


def _join(folder: Path, value: Any) -> Any:
    if isinstance(value, list):
        return [_join(folder, item) for item in value]
    return str(folder / value) if isinstance(value, str) and value not in ("", "-") else value


def _validate(root: type[R], tree: Tree, values: Any) -> R | None:
    """Return the configuration, or note the problems and return None."""
    if not isinstance(values, dict):
        place = tree.value_place(())
        tree.problems.append(place.problem(f"expected keys such as model:, found {show(values)}"))
        return None
    language = _language(values)
    for *sections, name in language.foreign:
        given: Any = values
        for section in sections:
            given = given.get(section) if isinstance(given, dict) else None
        if isinstance(given, dict) and name in given:
            key = (*sections, name)
            reason = f"{spelled(key)}: not for {language.name}; leave it out"
            tree.problems.append(tree.key_place(key).problem(reason))
    try:
        return root.model_validate(values, context=tree)
    except ValidationError as error:
        online = issubclass(root, Config)
        other: type[Root] = batch_root(values) if online else run_root(values)
        if _n_strange(other, values) < _strange(error):  # the keys of another command
            kind, command = ("batch learning", "learn") if online else ("online learning", "run")
            place = tree.key_place(("learner",) if "learner" in values else ())
            reason = f"these are the keys of {kind}: use onlinesrl {command}"
            tree.problems[:] = [place.problem(reason)]
            return None
        reported = {(problem.file, problem.line, problem.column) for problem in tree.problems}
        problems = [
            _explain(root, tree, values, detail)
            for detail in [*error.errors(), *_beside(root, values, error)]
        ]
        tree.problems += [p for p in problems if (p.file, p.line, p.column) not in reported]
        return None


def _n_strange(root: type[Root], values: Any) -> int:
    """Return how many keys are not those of a configuration; see ``_strange``."""
    try:
        root.model_validate(values)
    except ValidationError as error:
        return _strange(error)
    return 0


def _strange(error: ValidationError) -> int:
    """Return how many keys are unknown, outside of sections and in ``learner``."""
    places = (
        detail["loc"] for detail in error.errors() if detail["type"] in ("extra_forbidden", "kind")
    )
    return sum(len(place) == 1 or place[0] == "learner" for place in places)


def _beside(root: type[Root], values: Any, error: ValidationError) -> list[Any]:
    """Return what else is wrong in sections that are of no known kind, as if of the standard one."""
    unknown = [d for d in error.errors() if d["type"] == "kind" and len(d["loc"]) == 1]
    if not unknown:
        return []
    for detail in unknown:
        [name], tag = detail["loc"], detail["ctx"]["tag"]
        rest = {key: value for key, value in values[name].items() if key != tag}
        values = {**values, name: rest}
    reported = {str(detail) for detail in error.errors()}
    try:
        root.model_validate(values)
    except ValidationError as more:
        return [detail for detail in more.errors() if str(detail) not in reported]
    return []


_WORDS = {
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "string_type": "expected text (quote what reads as a number)",
    "string_too_short": "expected some text",
    "string_unicode": "expected text in Unicode",
    "string_pattern_mismatch": "expected Predicate.N or the name of an argument's type",
    "bool_type": "expected true or false",
    "tuple_type": "expected one value or a list",
    "list_type": "expected a list",
    "dict_type": "expected keys with values",
    "too_short": "expected at least one",
    "model_type": "expected a section of keys",
    "model_attributes_type": "expected a section of keys",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
}


def _explain(root: type[Section], tree: Tree, values: Any, detail: Any) -> LocatedError:
    """Turn one of pydantic's errors into a message with its place."""
    key, section, whole = _located(root, values, detail["loc"])
    name = spelled(tuple(part for part in key if isinstance(part, str)))
    context = detail.get("ctx", {})
    if detail["type"] == "extra_forbidden":
        name = spelled(key[:-1]) if "security" in key[:-1] else name
        return tree.key_place(key).problem(f"{name}: {_unknown(root, key, section)}")
    if detail["type"] == "missing":
        from onlinesrl.runs.config.reference import meaning

        wanted = meaning(section, str(key[-1]))
        return tree.key_place(key[:-1]).problem(f"{name}: missing; expected {wanted}")
    if detail["type"] == "kind":
        tag = context["tag"]
        key, quoted = (*key, tag), show(detail["input"].get(tag))
        quoted = "" if secretive(quoted) else f", found {quoted}"
        return tree.value_place(key).problem(f"{name}.{tag}: {detail['msg']}{quoted}")
    words = _WORDS[detail["type"]].format(**context) if detail["type"] in _WORDS else detail["msg"]
    reason = context.get("error", words)
    if whole and "error" in context:  # the error of a section names the key
        message = f"{name}.{reason}".removeprefix(".")
        return tree.key_place(tuple(message.partition(":")[0].split("."))).problem(message)
    quoted = "" if secretive((key, detail["input"])) else f", found {show(detail['input'])}"
    if key == ("model",) and "entities" in values:
        quoted += ": `onlinesrl learn` writes one"
    return tree.value_place(key).problem(f"{name}: {str(reason).removesuffix(quoted)}{quoted}")


def _unknown(root: type[Section], key: Key, section: type[BaseModel]) -> str:
    """Suggest what an unknown key of a section may have meant."""
    name, names = str(key[-1]), list(section.model_fields)
    if issubclass(section, Section) and name in section.gone:
        return section.gone[name]
    kinds = _kinds(root, key[:-1])
    if belongs := not_for(name, section, kinds):
        return f"{belongs}; known here: {', '.join(names)}"
    other = MlnConfig if root is PslConfig else PslConfig if root is MlnConfig else None
    if other and any(name in kind.model_fields for kind in _kinds(other, key[:-1])):
        return f"not for {language_of('.psl' if root is PslConfig else '.mln').name}; leave it out"
    possible = dict.fromkeys(key for kind in (section, *kinds) for key in kind.model_fields)
    near = difflib.get_close_matches(name, possible, n=1)
    near += [path for path in _paths(root) if path.rpartition(".")[2] == name]
    meant = f"did you mean {near[0]}? " if near else ""
    return f"unknown key; {meant}known here: {', '.join(names)}"


def _located(root: type[Section], values: Any, place: Key) -> tuple[Key, type[BaseModel], bool]:
    """Return the key at pydantic's location in some values, its section, and whether it is one itself."""
    section: type[BaseModel] = root
    inner: type[BaseModel] | None = root
    field: FieldInfo | None = None
    for part in place:
        section = inner or section
        field = section.model_fields.get(
            str(part), field
        )  # or a name under which there is a section
        values = values.get(part) if isinstance(values, dict) else None
        inner = None if field is None else _section_at(field, values)
    return place, section, inner is not None


def _section_at(field: FieldInfo, values: Any) -> type[BaseModel] | None:
    """Return the class of a key's section, the standard one where the values name none; None: it has none."""
    kinds = kinds_of(field)
    if kinds is None:
        return next(iter(sections_of(field)), None)
    given = values.get(kinds.base.tag) if isinstance(values, dict) else None
    try:
        return kinds.resolve(given)
    except PydanticCustomError:
        return next(iter(kinds.own.values()), kinds.base)


def _kinds(root: type[Section], key: Key) -> list[type[BaseModel]]:
    """Return the possible sections at a key."""
    kinds: list[type[BaseModel]] = [root]
    for part in map(str, key):
        fields = [kind.model_fields[part] for kind in kinds if part in kind.model_fields]
        kinds = sections_of(fields[0]) if fields else kinds
    return kinds


def _paths(root: type[Section]) -> Iterator[str]:
    """Name every key, dotted."""
    for name in root.model_fields:
        yield name
        inner = dict.fromkeys(key for kind in _kinds(root, (name,)) for key in kind.model_fields)
        yield from (f"{name}.{key}" for key in inner)
