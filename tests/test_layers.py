"""Imports point down only, and nothing of the package runs what data brings along."""

import ast
from collections.abc import Iterable, Mapping
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

LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}


def part(module: str) -> str:
    """The layer's part that a module of the package belongs to; empty for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] != "__init__" else ""


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


NAMES = {name_of(file) for file in FILES}


def module_of(name: str) -> str:
    """The file that an imported name is, or is in: ``package.__init__`` for a package."""
    while name not in NAMES and f"{name}.__init__" not in NAMES:
        name = name.rpartition(".")[0]
    return name if name in NAMES else f"{name}.__init__"


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import on line {node.lineno}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {module_of(name) for name in names if name.split(".")[0] == "onlinesrl"}


def circles(imports: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The sets of modules of which each imports, over others, all of its set."""

    @cache
    def reached(start: str) -> set[str]:
        seen, left = set[str](), [start]
        while left:
            new = set(imports.get(left.pop(), ())) - seen
            seen |= new
            left += new
        return seen

    sets = {frozenset(x for x in reached(m) if m in reached(x)) for m in imports}
    return sorted((set(members) for members in sets if len(members) > 1), key=sorted)


def imports_within(folder: str) -> dict[str, set[str]]:
    """Which files and folders of a folder import which others of it."""
    prefix = f"onlinesrl.{folder}." if folder else "onlinesrl."
    imports: dict[str, set[str]] = {}
    for file in FILES:
        if (name := name_of(file)).startswith(prefix):
            own = name.removeprefix(prefix).split(".")[0]
            inner = (m.removeprefix(prefix) for m in imported(file) if m.startswith(prefix))
            imports.setdefault(own, set()).update(m.split(".")[0] for m in inner)
            imports[own].discard(own)
    return imports


FOLDERS = sorted({name.rpartition(".")[0].partition(".")[2] for name in NAMES})


def upward(importer: str, module: str) -> bool:
    """Tell whether a room importing another one points up, or sideways."""
    return importer != module and LAYER[module] >= LAYER[importer]


def test_imports_point_down():
    wrong = [
        f"{name_of(file)} must not import {module}"
        for file in FILES
        for module in sorted(imported(file))
        if part(name_of(file))
        and part(module) in LAYER
        and upward(part(name_of(file)), part(module))
    ]
    assert wrong == []


def test_every_part_has_a_layer():
    assert {part(name) for name in NAMES} - {""} == set(LAYER)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_files_and_folders_of_a_folder_have_an_order(folder):
    """So no imports, those in functions too, form a circle, neither of files nor of folders."""
    assert circles(imports_within(folder)) == []


def test_a_kernel_imports_arrays_errors_updates_and_kernels_only():
    plain = {"onlinesrl.core.arrays", "onlinesrl.core.errors"}
    for file in FILES:
        if file.parent.name == "kernels":
            for module in imported(file):
                folders = {"kernels", "jit"} & set(module.split("."))
                updates = module.startswith("onlinesrl.core.online.")
                assert folders or updates or module in plain, (file, module)


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


def test_circles_are_seen():
    imports = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": []}
    assert circles(imports) == [{"a", "b", "c"}]


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
