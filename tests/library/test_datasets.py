"""The data sets in the package: an installed one runs the README's code without its repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onlinesrl as srl
from onlinesrl.library import datasets

REPO = Path(__file__).parents[2]


def test_citations_are_those_of_the_stream():
    citations = srl.datasets.citations()
    assert citations is datasets.citations()
    assert [*citations.examples] == [*srl.read(REPO / "streams/citations/citations.jsonl")]
    assert citations.model.text == (REPO / "streams/citations/segmentation.mln").read_text()
    assert repr(citations) == "<Dataset of 252 examples: predict InField>"
    assert all(example.truth and example.group for example in citations.examples)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a wheel of the package is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPO / "onlinesrl", folder / "onlinesrl", ignore=ignored)
    build = "from setuptools.build_meta import build_wheel as build; build('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, capture_output=True, check=True)
    [wheel] = (folder / "dist").glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    return folder / "site"


def installed(site: Path, code: str) -> str:
    here = f"import onlinesrl; assert onlinesrl.__file__.startswith({str(site)!r})\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", here + code],
        cwd=site,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_an_installed_package_runs_the_code_of_the_readme(site: Path):
    """It compiles, since the kernels' cache is that of where the package lies."""
    page = (REPO / "README.md").read_text()
    match = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page, re.M | re.S)
    assert match is not None
    assert installed(site, match[1]) == match[2]
