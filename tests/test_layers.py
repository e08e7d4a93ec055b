"""Imports point down only, and nothing of the package runs what data brings along."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "onlinesrl"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    {"arrays", "errors", "interrupt", "yamltree", "values", "section"},
    {"kernels", "lang", "metrics", "ranking", "confusion"},
    {"ground"},
    {"infer"},
    {"learn", "testing"},
    {"stream"},
    {"schema", "fingerprint", "config", "guide", "sources", "sinks"},
    {"progress", "report"},
    {"results", "inputs"},
    {"session", "held_out", "inspect", "inference", "answers", "psl_inference", "replay"},
    {"operate", "serve"},
    {"cli"},
]
"""From the lowest up: a part imports itself, parts of lower layers, and parts of its own."""

LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
BESIDE = {"kernels": {"lang", "metrics"}, "lang": {"kernels", "metrics"}}
"""Parts of one layer that nevertheless do not import each other."""


def part(module: str) -> str:
    """The layer's part that a module of the package belongs to; empty for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def name_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import on line {node.lineno}"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "onlinesrl" else {str(node.module)}
    return {module for module in found if module.split(".")[0] == "onlinesrl"}


def upward(importer: str, module: str) -> bool:
    """Tell whether a part importing another one points up, or sideways where it must not."""
    above = LAYER[module] > LAYER[importer]
    return above or module in BESIDE.get(importer, set())


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_point_down(file):
    importer = part(name_of(file))
    if not importer:
        return
    wrong = {
        module
        for module in imported(file)
        if part(module) in LAYER and upward(importer, part(module))
    }
    assert not wrong, f"{name_of(file)} must not import {', '.join(sorted(wrong))}"


def test_every_part_has_a_layer():
    parts = {part(name_of(file)) for file in FILES} - {""}
    assert parts == set(LAYER)


def test_a_kernel_imports_arrays_and_kernels_only():
    for file in FILES:
        if part(name_of(file)) == "kernels":
            assert {part(module) for module in imported(file)} <= {"arrays", "kernels"}, file


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


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_nothing_runs_what_data_brings(file):
    assert dangers(ast.parse(file.read_text(encoding="utf-8"))) == []


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
    assert upward("lang", "ground")
    assert upward("kernels", "lang")
    assert not upward("learn", "kernels")
    assert upward("learn", "stream")
    assert not upward("cli", "report")
