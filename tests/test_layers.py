"""Imports point down only, and nothing of the package runs what data brings along.

Which room may import which is said in ``pyproject.toml``, for import-linter.
"""

import ast
from functools import cache
from pathlib import Path

from importlinter.cli import lint_imports

from tests.support.paths import REPO

FILES = sorted((REPO / "onlinesrl").rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_imports_point_down_and_form_no_circle() -> None:
    """Of rooms, and of the files and folders of a folder; imports in functions count, too."""
    assert lint_imports(config_filename=str(REPO / "pyproject.toml"), no_cache=True) == 0


def test_a_kernel_imports_arrays_errors_updates_and_kernels_only() -> None:
    plain = {"onlinesrl.core.arrays", "onlinesrl.core.errors"}
    for file in FILES:
        if file.parent.name == "kernels":
            for node in ast.walk(tree(file)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("onlinesrl."):
                    module = str(node.module)
                    folders = {"kernels", "jit"} & set(module.split("."))
                    updates = module.startswith("onlinesrl.core.online")
                    assert folders or updates or module in plain, (file, module)


MANY = 8
LARGER = {"onlinesrl/stream/trainer.py: __init__"}
"""Functions that still have more arguments."""


def test_no_function_has_more_arguments_than_a_reader_can_hold() -> None:
    """But for kernels, where numba asks for arrays and numbers one by one."""
    found = set()
    for file in FILES:
        for node in ast.walk(tree(file)) if "kernels" not in file.parts else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if sum(argument.arg not in ("self", "cls") for argument in arguments) > MANY:
                    found.add(f"{file.relative_to(REPO).as_posix()}: {node.name}")
    assert found <= LARGER


FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def dangers(tree: ast.AST) -> list[str]:
    """What a module does that can run code which its data chose."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [x.name for x in names if x.name.split(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)):
                found += [module] if module.split(".")[0] in FORBIDDEN_MODULES else []
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                found.append(f"{name}()")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)):
                unsafe = name.startswith(("load", "unsafe", "full"))
                found += [f"yaml.{name}"] if unsafe else []
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="system" | "popen")):
                found.append("os.system")
            case ast.keyword(arg="shell", value=value):
                safe = isinstance(value, ast.Constant) and value.value is False
                found += [] if safe else ["shell=True"]
            case ast.keyword(arg="allow_pickle", value=value):
                safe = isinstance(value, ast.Constant) and value.value is False
                found += [] if safe else ["allow_pickle=True"]
    return found


def test_nothing_runs_what_data_brings():
    found = {file: dangers(tree(file)) for file in FILES}
    assert {file: each for file, each in found.items() if each} == {}


def test_nothing_of_numba_is_replaced() -> None:
    """No attribute of what is imported from numba or llvmlite is assigned."""
    for path in FILES:
        parsed = tree(path)
        names = {
            alias.asname or alias.name.split(".")[0]
            for node in ast.walk(parsed)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if (getattr(node, "module", None) or alias.name).split(".")[0] in {"numba", "llvmlite"}
        }
        for node in ast.walk(parsed):
            assigned = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
            called = isinstance(node, ast.Call) and ast.unparse(node.func) in {"setattr", "delattr"}
            if assigned or called:
                root: ast.AST = node.args[0] if isinstance(node, ast.Call) else node
                while isinstance(root, ast.Attribute):
                    root = root.value
                assert not (isinstance(root, ast.Name) and root.id in names), (
                    f"{path}:{node.lineno}"
                )
