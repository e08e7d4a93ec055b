"""The dashboard's page, its events and its explanations, and how the command refuses."""

import asyncio
import json
from typing import Any

import pytest
from conftest import REPO, Job, command
from starlette.testclient import TestClient

from onlinesrl.commands.dashboard import app
from onlinesrl.commands.dashboard.app import Page
from onlinesrl.commands.dashboard.folders import Watched
from onlinesrl.runs.http.server import application
from tests.support import dashboard_worker

SHIPPED = app.WORKER


@pytest.fixture(scope="module")
def done(warm, tmp_path_factory, citations):
    """A finished run with a dead letter and two checkpoints."""
    job = Job(tmp_path_factory.mktemp("done"), [*citations[:40], b"{\n"], checkpoint={"every": 25})
    assert job.run() == 0, job.said
    return job


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Let the worker, a process of its own, find this package."""
    monkeypatch.setenv("PYTHONPATH", str(REPO))


def parts(page: Page, enough: str) -> dict[tuple[int, str], Any]:
    """The parts that the events carry, until the weights of run 0 have what is enough."""

    async def collect() -> dict[tuple[int, str], Any]:
        found: dict[tuple[int, str], Any] = {}
        async for event in page.events():
            name, _, data = event.decode().removeprefix("event: ").partition("\ndata: ")
            if name == "part":
                part = json.loads(data)
                found[part["run"], part["name"]] = part["value"]
                if found.get((0, "weights"), {}).get(enough) and (0, "operation") in found:
                    break
        return found

    return asyncio.run(asyncio.wait_for(collect(), 300))


@pytest.fixture(scope="module")
def seen(done):
    """The page of the run, after its checkpoint has been looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPO))
        patch.setattr(app, "WORKER", dashboard_worker.NAME)
        page = Page([Watched(done.output)])
        yield page, parts(page, "heaviest")


def test_the_events_carry_what_the_run_has_written(done, seen):
    page, found = seen
    summary = json.loads((done.output / "summary.json").read_text())
    last = found[0, "head"]["last"]
    for name in ("examples", "bad", "f1", "loss", "regret_bound", "updates", "weights"):
        assert last[name] == summary[name], name
    assert found[0, "weights"]["heaviest"][0]["updates"] > 0
    changes = [abs(each["change"]) for each in found[0, "weights"]["moved"]]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0
    operation = page.runs[0].parts()["operation"]
    assert operation["since"]["examples"] == 41 - 25
    assert operation["lag"] == {"bytes": 0, "of": done.source.stat().st_size}
    assert [letter.line for letter in operation["letters"]] == [41]
    assert len(operation["checkpoints"]) == 2
    assert page.runs[0].parts()["head"]["state"] == "finished"


def test_examples_have_their_predictions_and_their_truth(done, seen):
    page, _ = seen
    rows = page.runs[0].parts()["examples"]["marked"]
    said = {line["id"]: line for line in done.predictions()}
    assert [row["id"] for row in rows] == [*said][-1:-9:-1]
    for row in rows:
        assert len({*row["predicted"]} ^ {*row["truth"]}) >= said[row["id"]]["hamming"] > -1
        assert len(row["predicted"]) == len(said[row["id"]]["predicted"]["InField"])
        assert row["words"]


def test_an_atom_is_explained(seen):
    page, _ = seen
    row = page.runs[0].parts()["examples"]["marked"][0]
    client = TestClient(application(app.routes(page.runs), {"testserver"}))
    for atom in ({"atom": row["predicted"][0]}, {}):
        answer = client.get("/explain", params={"run": 0, "id": row["id"], **atom})
        assert answer.status_code == 200, answer.text
        assert f"of example {row['id']}" in answer.json()["lines"][0]
    answer = client.get("/explain", params={"run": 0, "id": row["id"], "atom": "P(1"})
    assert (answer.status_code, "not an atom" in answer.json()["error"]) == (422, True)
    for asked in ({"run": 0, "id": "?"}, {"run": 9, "id": "?"}, {"run": "x", "id": "?"}, {}):
        assert client.get("/explain", params=asked).status_code == 404


def test_the_page_and_what_it_needs_are_served_from_here(done):
    client = TestClient(application(app.routes([Watched(done.output)]), {"testserver"}))
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("onlinesrl", "")
    for file in app.STATIC.rglob("*.*"):
        assert client.get(f"/static/{file.relative_to(app.STATIC)}").status_code == 200
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/", headers={"Host": "elsewhere.example"}).status_code == 400
    assert client.post("/").status_code == 405


def test_a_damaged_checkpoint_is_told_and_the_rest_is_shown(done, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("lock", "metrics.jsonl"):
        (folder / name).write_bytes((done.output / name).read_bytes())
    (folder / "checkpoints" / "checkpoint-000000000001.ckpt").write_bytes(b"OSRLCKPT")
    found = parts(Page([Watched(folder)]), "error")
    assert "cut off" in found[0, "weights"]["error"]
    assert found[0, "head"]["last"]["examples"] == 41


def test_probabilities_have_a_reliability_curve(done, tmp_path):
    figures = {"average_precision": 0.9, "brier": 0.2, "calibration_error": 0.1, "temperature": 0.5}
    bins = [{"atoms": 3, "probability": p, "true": t} for p, t in ((0.1, 0.0), (0.8, 1.0))]
    (tmp_path / "lock").write_bytes((done.output / "lock").read_bytes())
    lines = [{"examples": 1, "reliability": []}, {"examples": 9, **figures, "reliability": bins}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = Watched(tmp_path)
    run.look()
    shown = run.parts()
    assert {name: getattr(shown["head"]["last"], name) for name in figures} == figures
    assert (shown["curves"]["probability"], shown["curves"]["true"]) == ([0.1, 0.8], [0.0, 1.0])


def test_a_worker_that_dies_is_told(monkeypatch):
    assert dashboard_worker.worker.__name__ == SHIPPED
    monkeypatch.setattr(app, "WORKER", SHIPPED)
    assert asyncio.run(app.answer(task="no such task")) == app.GONE


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "there is no such folder"),
        ("other", "not the folder of a run"),
        ("file", "not the folder of a run"),
    ],
)
def test_a_folder_of_no_run_is_one_clear_line(name, said, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "file").touch()
    assert command("dashboard", str(tmp_path / name), "--port", "0") == 78
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert said in complaint
