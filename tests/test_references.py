"""What docstrings and the guide refer to exists: modules, their names, members of classes, and files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from support.paths import REPO

DOTTED = re.compile(r"(?<!`)``?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)``?(?!`)")
SAVED = re.compile(r"Save (?:this )?as `([\w.]+)`")
FILE = re.compile(r"[\w/-]+\.(?:py|md)\b")
LAYERS = ("core", "logic", "mln", "psl", "stream", "runs", "library", "commands")
ENDINGS = (".csv", ".data", ".html", ".json", ".jsonl", ".md", ".mln", ".parquet", ".py", ".yaml")
"""A name that ends in one of these is the name of a file, not of a module's attribute."""
ELSEWHERE = {"msgspec.Raw", "pulp.HiGHS"}
PLACEHOLDERS = {"Predicate.N"}
PACKAGE = REPO / "onlinesrl"
TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
FILES = "".join(
    f"/{path.relative_to(REPO)}\n"
    for pattern in ("*.md", "onlinesrl/**/*.*", "tests/**/*.*", "streams/**/*.*")
    for path in REPO.glob(pattern)
)


def names(
    tree: ast.AST, *, fields: tuple[str, ...] = ("name", "id", "arg", "asname", "attr")
) -> set[str]:
    """Return the names that code defines, imports and uses."""
    nodes = [*ast.walk(tree)]
    return {
        name
        for node in nodes
        for field in fields
        if isinstance(name := getattr(node, field, 0), str)
    }


def members() -> dict[str, set[str]]:
    """Return the names in the bodies of classes by the names of the classes, those of bases among them."""
    found, bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= names(node)
                bases[node.name] |= {name for base in node.bases for name in names(base)}
    for _ in range(5):  # the greatest depth of inheritance
        for name in [*found]:
            found[name] = found[name].union(*(found[base] for base in bases[name] if base in found))
    return found


MODULES = {
    path.relative_to(REPO).with_suffix("").parts: names(tree) for path, tree in TREES.items()
}
MODULES |= {path[:-1]: known for path, known in MODULES.items() if path[-1] == "__init__"}
MEMBERS = members()


def in_module(reference: str) -> bool:
    """Tell whether a reference is the end of a module's path, and a name in the module."""
    parts = tuple(reference.split("."))
    return any(
        module[-cut:] == parts[:cut] and {*parts[cut : cut + 1]} <= known
        for module, known in MODULES.items()
        for cut in range(1, len(parts) + 1)
    )


def exists(reference: str, tree: ast.Module) -> bool:
    """Tell whether there is what a docstring of a module refers to.

    That is a module or a name in it, a member of a class, an attribute of a variable of the same module, or
    a key of the configuration.
    """
    first, second = reference.split(".")[:2]
    if reference in ELSEWHERE | PLACEHOLDERS or reference.endswith(ENDINGS) or in_module(reference):
        return True
    if first in MEMBERS:
        return second in MEMBERS[first]
    if first in names(tree):
        return second in names(tree, fields=("attr",))
    return first in MEMBERS["Config"] and any(
        second in known for name, known in MEMBERS.items() if name.endswith("Section")
    )


def dead_files(text: str) -> Iterator[str]:
    """Yield the names of Python and Markdown files that neither the repository has nor a reader saves."""
    saved = SAVED.findall(text)
    return (name for name in FILE.findall(text) if f"/{name}\n" not in FILES and name not in saved)


def test_docstrings_refer_to_what_exists():
    dead = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                text = str(node.value.value)
                wrong = [name for name in DOTTED.findall(text) if not exists(name, tree)]
                dead += [f"{path}:{node.lineno}: {name}" for name in (*wrong, *dead_files(text))]
    assert not dead


def test_the_guide_refers_to_what_exists():
    dead = []
    for path in sorted((PACKAGE / "guide").glob("*.md")):
        text = path.read_text()
        wrong = [
            name
            for name in DOTTED.findall(text)
            if name.startswith(tuple(f"{layer}." for layer in LAYERS))
            and not name.endswith(ENDINGS)
            and not in_module(name)
        ]
        dead += [f"{path}: {name}" for name in (*wrong, *dead_files(text))]
    assert not dead
