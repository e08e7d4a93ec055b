"""README, guide and tutorials are kept true: their commands, keys and links; their code runs and is typed."""

import contextlib
import csv
import io
import json
import math
import re
import runpy
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

import onlinesrl as srl
from onlinesrl.commands.cli import app
from onlinesrl.core.example import decode
from onlinesrl.core.io.config_section import sections_of
from onlinesrl.library.model import Model
from onlinesrl.runs.config.loading import run_root
from onlinesrl.runs.config.mln_batch import MlnBatch
from onlinesrl.runs.config.psl_batch import PslBatch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GUIDE = {path.stem: path.read_text() for path in sorted((ROOT / "onlinesrl" / "guide").iterdir())}
PAGES = {"README": README, **GUIDE}
TUTORIALS = sorted((ROOT / "streams").glob("*/tutorial.py"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def commands(app: typer.Typer) -> list[str]:
    return [command.name or command.callback.__name__ for command in app.registered_commands]


# README and guide ---------------------------------------------------------------------------------


def test_ci_calls_the_test_command_of_the_readme():
    _, command = (block.strip() for block in blocks(README, "sh"))
    assert command.endswith(".venv/bin/pytest")
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_every_command_of_the_tool_is_documented():
    names = [*commands(app)]
    for group in app.registered_groups:
        names += [f"{group.name} {name}" for name in commands(group.typer_instance)]
    assert [name for name in names if f"`onlinesrl {name}" not in GUIDE["commands"]] == []


def test_the_readme_leads_to_every_page():
    for name in GUIDE:
        assert f"[{name}](onlinesrl/guide/{name}.md)" in README


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = ROOT if page == "README" else ROOT / "onlinesrl" / "guide"
    for link in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        assert link.startswith("https://") or (folder / link).exists(), link


@pytest.mark.parametrize("page", [page for page in PAGES if page != "modules"])
def test_configurations_have_only_keys_that_exist(page):
    for text in blocks(PAGES[page], "yaml"):
        values = yaml.safe_load(text)
        root: Any = run_root(values)
        if "kind" in values.get("learner", {}):
            root = PslBatch if "data" in values else MlnBatch
        for key, value in values.items():
            if isinstance(value, dict):
                kinds = sections_of(root.model_fields[key])
                assert set(value) <= {key for kind in kinds for key in kind.model_fields}
            else:
                assert key in root.model_fields


@pytest.mark.parametrize("page", PAGES)
def test_examples_and_rules_can_be_read(page):
    for line in blocks(PAGES[page], "json"):
        assert decode(line.encode()).truth
        assert json.loads(line)
    for text in blocks(PAGES[page], "mln"):
        assert Model(text).rules
    for text in blocks(PAGES[page], "psl"):
        assert Model(text, "psl").rules


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_that_are_shown(page):
    shown = re.findall(r"^\$ .venv/bin/onlinesrl (.*?)(?: +[#&].*)?$", PAGES[page], re.MULTILINE)
    for command in shown:
        words = command.split()
        known = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200"})
        assert known.exit_code == 0, command
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z-]+", known.stdout)), command


def test_the_guide_shows_its_pages():
    run = CliRunner().invoke
    titles = run(app, ["guide"]).stdout
    for name, page in GUIDE.items():
        assert run(app, ["guide", name]).stdout == page
        assert re.search(rf"^{name} +{re.escape(page.splitlines()[0][2:])}$", titles, re.MULTILINE)
    assert re.search("^config ", titles, re.MULTILINE)
    assert ", config, " in str(run(app, ["guide", "nothing"]).exception)


# code ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(PAGES[page], "python")])
def test_code_runs_and_prints_what_is_shown(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    values: dict[str, Any] = {}
    for code, shown in re.findall(
        r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", PAGES[page], re.DOTALL | re.MULTILINE
    ):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), values)
        assert printed.getvalue() == shown


def test_the_page_on_cutting_leads_from_two_tables_to_probabilities(tmp_path, monkeypatch):
    """Its rules and configuration run as they are; no example has a fact of its future."""
    monkeypatch.chdir(tmp_path)
    generate = runpy.run_path(str(ROOT / "streams" / "fraud" / "generate.py"))
    generate["write"](tmp_path, 1, honest=2000, days=20)
    page, saved = GUIDE["cutting"], {"fraud.mln": "mln", "fraud.yaml": "yaml"}
    for name, language in saved.items():
        Path(name).write_text(blocks(page, language)[0])
    written = CliRunner().invoke(app, ["examples", "fraud.yaml", "--output", "fraud.jsonl"])
    assert written.exit_code == 0
    with Path("transactions.csv").open(newline="") as file:
        payments = {row["tx_id"]: row for row in csv.DictReader(file)}
    with Path("labels.csv").open(newline="") as file:
        labels = {row["tx_id"]: row for row in csv.DictReader(file)}
    lines = Path("fraud.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    examples = {record["id"]: record for record in records if "query" in record}
    truths = {record["id"]: record for record in records if "truth" in record}
    assert examples.keys() == truths.keys() == payments.keys()
    for name, example in islice(examples.items(), 0, None, 23):
        now, device = payments[name]["ts"], payments[name]["device"]
        atoms = [atom for (atom,) in example["query"]["Fraud"]]
        assert atoms[0] == name
        assert all(payments[atom]["ts"] <= now < labels[atom]["label_ts"] for atom in atoms)
        assert truths[name]["truth"]["Fraud"] == [[name]] * int(labels[name]["is_fraud"])
        assert truths[name]["unlabelled"]["Fraud"] == [[atom] for atom in atoms[1:]]
        begin = datetime.fromisoformat(now) - timedelta(days=10)
        count = sum(
            payments[other]["device"] == device
            and datetime.fromisoformat(payments[other]["ts"]) >= begin
            and label["label_ts"] <= now
            and label["is_fraud"] == "1"
            for other, label in labels.items()
        )
        numbers = {tuple(atom["args"]): atom["value"] for atom in example["evidence"]["Number"]}
        assert numbers.get((name, "device fraud"), 0.0) == round(math.log1p(count), 3)
        assert example["asked"] == {"Fraud": [[name]]}
    summary = srl.run("fraud.yaml", until=500)
    assert summary["bad"] == 0
    assert summary["labelled"] > 100
    for line in Path("runs/fraud/predictions.jsonl").read_text().splitlines():
        assert json.loads(line)["marginals"]["Fraud"]


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=[path.parent.name for path in TUTORIALS])
def test_tutorials_run(tutorial, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tutorial))
    assert len(capsys.readouterr().out.splitlines()) > 3


def test_code_is_typed(tmp_path):
    code = {f"{path.parent.name}_tutorial": path.read_text() for path in TUTORIALS}
    code |= {f"{page}_page": "\n".join(blocks(text, "python")) for page, text in PAGES.items()}
    for name, text in code.items():
        (tmp_path / f"{name}.py").write_text(text)
    alone = "--num-workers=0"  # workers are given up where a busy machine starts them slowly
    command = [sys.executable, "-m", "mypy", "--strict", alone, *map(str, tmp_path.glob("*.py"))]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
