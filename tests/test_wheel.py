"""The wheel carries what the package reads at run time, and works from there, also where it is read-only."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import CITATIONS, REPO, Job

OTHER = 65534, 65534
READING = "+dac_read_search"  # the interpreter may be in root's home
ANOTHER = (
    f"setpriv --reuid={OTHER[0]} --regid={OTHER[1]} --clear-groups --inh-caps={READING}".split()
)
ANOTHER.append(f"--ambient-caps={READING}")

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
    return built(folder)


def built(folder: Path) -> Path:
    """Build the wheel of a folder of sources."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder / "dist"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (folder / "dist").glob("onlinesrl-*.whl")
    return wheel


def test_the_wheel_carries_every_file_of_the_package(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = {
        path.relative_to(REPO).as_posix()
        for path in (REPO / "onlinesrl").rglob("*")
        if path.suffix in {".py", ".lark", ".css", ".md", ".js", ".html", ".mln", ".jsonl"}
        or path.name in {"py.typed", "LICENSE"}
    }
    assert {"onlinesrl/py.typed", "onlinesrl/runs/report/style.css"} <= package
    assert any(name.endswith(".lark") for name in package)
    assert {name for name in inside if not name.partition("/")[0].endswith("info")} == package


def test_the_wheel_names_licence_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    about = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
    assert (
        "onlinesrl = onlinesrl.commands.start:main"
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


def test_a_wheel_of_the_sdist_is_that_of_the_tree(wheel: Path, tmp_path: Path) -> None:
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    build = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(build, cwd=wheel.parents[1], check=True, capture_output=True)
    [sdist] = tmp_path.glob("onlinesrl-*.tar.gz")
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    rebuilt = zipfile.ZipFile(built(next(tmp_path.glob("onlinesrl-*/"))))
    assert set(rebuilt.namelist()) == set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can read; pytest closes its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.long
def test_what_root_installed_and_warmed_runs_as_another_user_who_writes_nowhere_else(
    wheel: Path, open_folder: Path
) -> None:
    """There is no home, and kernels are those of `warm`; then the disk of the cache is full."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, by setpriv")
    run = Job(open_folder / "job", CITATIONS.read_bytes().splitlines(keepends=True)[:120])
    assert run.run() == 0, run.said
    installed, work, full = (open_folder / name for name in ("installed", "work", "full"))
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(installed), str(wheel)], check=True, capture_output=True)
    work.mkdir()
    os.chown(work, *OTHER)
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=64k,uid={OTHER[0]},mode=700", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")

    def done(user: list[str], *arguments: object, **variables: str) -> str:
        """Run the installed command; return what it said."""
        kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        entry = "from onlinesrl.commands.cli import main; main()"
        ended = subprocess.run(
            [*user, sys.executable, "-P", "-c", entry, *map(str, arguments)],
            env=kept | {"PYTHONPATH": str(installed), "HOME": "/proc/home"} | variables,
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    def learned(name: str, **variables: str) -> str:
        said = done(ANOTHER, "run", run.config, "--set", f"output={work / name}", **variables)
        for file, content in run.results().items():
            assert (work / name / file).read_bytes() == content
        return said

    subprocess.run(["chmod", "-R", "a+rX", str(run.folder)], check=True)
    try:
        assert "compiling the kernels" in done([], "warm", run.config)
        subprocess.run(["chmod", "-R", "a-w", str(installed)], check=True)
        before = sorted(installed.rglob("*"))
        said = learned("warm")
        assert "warning" not in said and "compiling" not in said
        assert sorted(installed.rglob("*")) == before
        (full / "filler").write_bytes(b"\0" * 48_000)
        said = learned("full", NUMBA_CACHE_DIR=str(full))
        assert f"compiled kernels cannot be cached in {full}/onlinesrl (No space left" in said
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)
