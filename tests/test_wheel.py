"""The wheel carries what the package reads at run time, and works from there."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import REPO

SCRIPT = """
import sys
import onlinesrl
from onlinesrl.mln.lang import reader
from onlinesrl.runs.report import page
from onlinesrl.commands.cli import main

assert onlinesrl.__file__.startswith(sys.argv[1]), onlinesrl.__file__
program = reader.load(__import__("pathlib").Path(sys.argv[2]))
print(len(program.rules), "InField" in program.predicates)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of a copy of the sources, without network."""
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools 77 or later builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPO / "onlinesrl", folder / "onlinesrl", ignore=ignored)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder / "dist"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = (folder / "dist").glob("onlinesrl-*.whl")
    return built


def test_the_wheel_carries_every_file_of_the_package(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = {
        path.relative_to(REPO).as_posix()
        for path in (REPO / "onlinesrl").rglob("*")
        if path.suffix in {".py", ".lark", ".css", ".md", ".js", ".html"}
        or path.name in {"py.typed", "LICENSE"}
    }
    assert {"onlinesrl/py.typed", "onlinesrl/runs/report/style.css"} <= package
    assert any(name.endswith(".lark") for name in package)
    assert {name for name in inside if not name.partition("/")[0].endswith("info")} == package


def test_the_wheel_names_licence_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    about = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
    assert (
        "onlinesrl = onlinesrl.commands.cli:main"
        in archive.read(about["entry_points.txt"]).decode()
    )
    assert archive.read(about["LICENSE"]).startswith(b"MIT License")
    assert "License-Expression: MIT" in archive.read(about["METADATA"]).decode()


def test_a_model_is_parsed_by_what_the_wheel_carries(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    model = REPO / "streams" / "citations" / "segmentation.mln"
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(tmp_path), str(model)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "True"
