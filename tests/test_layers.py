"""Imports point down only, and nothing of the package runs what data brings along."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "onlinesrl"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    {"core"},
    {"logic"},
    {"mln", "psl"},
    {"stream"},
    {"runs"},
    {"library"},
    {"commands"},
]
"""From the lowest up: a room imports itself and rooms of lower layers."""

ROOMS = {
    "core": [
        {"jit"},
        {"kernels"},
        {"io"},
        {"parallel", "evaluation", "explain"},
        {"online"},
        {"learning"},
    ],
    "mln": [
        {"lang"},
        {"counting"},
        {"kernels"},
        {"ground"},
        {"inference"},
        {"online"},
        {"query"},
        {"learning"},
        {"explain"},
    ],
    "psl": [
        {"lang"},
        {"kernels"},
        {"ground"},
        {"inference"},
        {"online"},
        {"query"},
        {"learning"},
        {"explain"},
    ],
}
"""Within the languages: folders from the lowest up, the files of a language's own above them."""

LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}


def part(module: str) -> str:
    """The layer's part that a module of the package belongs to; empty for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def name_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import on line {node.lineno}"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "onlinesrl" else {str(node.module)}
    return {module for module in found if module.split(".")[0] == "onlinesrl"}


def upward(importer: str, module: str) -> bool:
    """Tell whether a room importing another one points up, or sideways."""
    return importer != module and LAYER[module] >= LAYER[importer]


def test_imports_point_down():
    of = {name_of(file): imported(file) for file in FILES}
    wrong = [
        f"{name} must not import {module}"
        for name, modules in of.items()
        for module in sorted(modules)
        if part(name) and part(module) in LAYER and upward(part(name), part(module))
    ]
    assert wrong == []


def test_every_part_has_a_layer():
    parts = {part(name_of(file)) for file in FILES} - {""}
    assert parts == set(LAYER)


@pytest.mark.parametrize("language", ROOMS)
def test_imports_within_a_language_point_down(language):
    order = {room: number for number, rooms in enumerate(ROOMS[language]) for room in rooms}
    for file in FILES:
        names = name_of(file).split(".")
        if names[1:2] != [language] or names[2:3] == [] or names[2] not in order:
            continue
        for module in imported(file):
            inner = module.split(".")
            if inner[1:2] == [language]:
                assert len(inner) > 2 and order.get(inner[2], 9) <= order[names[2]], (file, module)


def test_a_kernel_imports_arrays_errors_and_kernels_only():
    plain = {"onlinesrl.core.arrays", "onlinesrl.core.errors"}
    for file in FILES:
        if file.parent.name == "kernels":
            for module in imported(file):
                of = module.split(".")
                assert "kernels" in of or "jit" in of or module in plain, (file, module)


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
    found = {name_of(file): dangers(tree(file)) for file in FILES}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "eval('1')",
        "exec(text)",
        "yaml.load(text)",
        "yaml.full_load(text)",
        "subprocess.run(x, shell=True)",
        "subprocess.run(x, shell=flag)",
        "np.load(path, allow_pickle=True)",
        "os.system('true')",
    ],
)
def test_the_check_sees(code):
    assert dangers(ast.parse(code))


def test_the_check_lets_pass():
    code = "re.compile(x)\nyaml.compose(x)\nsubprocess.run(x)\nnp.load(p, allow_pickle=False)"
    assert dangers(ast.parse(code)) == []


def test_the_order_sees():
    assert upward("logic", "mln")
    assert upward("mln", "psl")
    assert upward("psl", "runs")
    assert not upward("runs", "core")
    assert not upward("commands", "stream")


def test_nothing_of_numba_is_replaced() -> None:
    """No attribute of what is imported from numba or llvmlite is assigned."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = {
            alias.asname or alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if (getattr(node, "module", None) or alias.name).split(".")[0] in {"numba", "llvmlite"}
        }
        for node in ast.walk(tree):
            assigned = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
            called = isinstance(node, ast.Call) and ast.unparse(node.func) in {"setattr", "delattr"}
            if assigned or called:
                root: ast.AST = node.args[0] if isinstance(node, ast.Call) else node
                while isinstance(root, ast.Attribute):
                    root = root.value
                assert not (isinstance(root, ast.Name) and root.id in names), (
                    f"{path}:{node.lineno}"
                )
