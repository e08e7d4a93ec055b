"""The command line: what each command prints, and its exit codes."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, REPO, Job, command, soaked, wait

import onlinesrl as srl
from onlinesrl import __version__
from onlinesrl.commands.cli import app
from onlinesrl.core.example import json_schema
from tests.support import golden
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def trained(warm, tmp_path_factory, citations):
    """A finished run over 60 citations, with checkpoints on the way."""
    job = Job(tmp_path_factory.mktemp("trained"), citations[:60], checkpoint={"every": 25})
    assert job.run() == 0, job.said
    return job


UNMAPPED = ImportError("numpy could not be imported")
"""What a library says that has no memory for another."""
UNMAPPED.__cause__ = OSError("libx.so: failed to map segment from shared object")


def test_version_and_usage(capsys):
    assert command("--version") == 0
    assert capsys.readouterr() == (f"onlinesrl {__version__}\n", "")
    assert command() == 64
    said = capsys.readouterr()
    assert said.err == ""
    for name in ("run", "predict", "evaluate", "weights", "check", "schema"):
        assert name in said.out


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (MemoryError(), 69, "onlinesrl: there is not enough memory for this\n"),
        (OSError(errno.ENOMEM, "?"), 69, "onlinesrl: there is not enough memory for this\n"),
        (UNMAPPED, 69, "onlinesrl: there is not enough memory for this\n"),
        (LookupError("who?"), 70, "LookupError: who?\n"),
    ],
)
def test_what_nobody_foresaw_has_its_exit_code(fault, code, said, monkeypatch, capsys):
    def fail():
        raise fault

    monkeypatch.setattr("onlinesrl.core.example.json_schema", fail)
    assert command("schema") == code
    assert capsys.readouterr().err.endswith(said)


SCHEMA, INFER, GROUND = ["schema"], ["infer", "--query", "Q"], ["ground", "--query", "Q"]


@pytest.mark.parametrize(("arguments", "code"), [(["nonsense"], 64), (SCHEMA, 74)])
def test_where_nothing_can_be_said_the_exit_code_is_the_same(arguments, code):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from onlinesrl.commands.cli import main; main()", *arguments],
            env=os.environ | {"PYTHONPATH": str(REPO)},
            stdout=full,
            stderr=full,
            check=False,
        )
    assert done.returncode == code


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        (SCHEMA, "<&-", 0),
        (SCHEMA, ">/dev/full", 74),
        (SCHEMA, "<&- >&- 2>&-", 74),
        soaked(INFER, "<&- 2>&-", 0),
        (INFER, ">&-", 74),
        soaked(GROUND, "<&- 2>&-", 0),
        soaked(GROUND, ">&-", 74),
    ],
)
def test_closed_standard_streams(tmp_path, arguments, closed, code):
    (tmp_path / "m.mln").write_text("t = {A}\nQ(t)\n1 Q(x)\n")
    options = ["--model", str(tmp_path / "m.mln")] if len(arguments) > 1 else []
    called = f"""exec '{sys.executable}' -c 'from onlinesrl.commands.cli import main; main()' "$@" {closed}"""
    done = subprocess.run(
        ["sh", "-c", called, "sh", *arguments, *options],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert (done.stdout == "") == (code == 74)
    if closed in (">&-", ">/dev/full"):
        reason = "Bad file descriptor" if closed == ">&-" else "No space left on device"
        assert reason in done.stderr


def test_names_that_are_not_utf8(warm, tmp_path):
    """A folder of such a name, a model, a source and the worlds in it."""
    folder = tmp_path / os.fsdecode(b"d\xff")
    lines = [b'{"id": 1, "evidence": {"P": [["A"]]}, "truth": {"Q": [["A"]]}}\n', b"{}\n"]
    keys = {"model": "m.mln", "query": "Q", "source": {"path": "s"}, "limits": {"bad_share": 1}}
    made = Job(folder, lines, metrics={}, **{**keys, "output": "o"})
    text = made.config.read_text().replace("output: o", "")
    config = folder / os.fsdecode(b"r\xfe.yaml")
    config.write_text(text)
    (folder / "s").mkdir()
    made.source.rename(folder / "s" / os.fsdecode(b"s\xfe.jsonl"))
    (folder / "s" / os.fsdecode(b"w\xfe.db")).write_text("P(A)\nQ(A)\n")
    (folder / "m.mln").write_text("P(t)\nQ(t)\n1 P(x) => Q(x)\n")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        output = Path("runs") / os.fsdecode(b"r\xfe")
        for arguments, code in (
            (["run", config], 0),
            (["run", config], 0),
            (["check", config], 65),
            (["predict", output, config], 0),
            (["weights", output], 0),
            (["dlq", "list", output], 0),
            (["checkpoint", "list", output], 0),
            (["run", folder / os.fsdecode(b"n\xfe")], 78),
            (["infer", "--model", folder / os.fsdecode(b"n\xfe.mln"), "--query", "Q"], 74),
        ):
            assert made.call(*arguments) == code, made.said
            assert "Traceback" not in made.said
            assert "\udcfe" not in made.said
        predicted = (output / "predictions.jsonl").read_text()
        assert [json.loads(line).get("id") for line in predicted.splitlines()] == [
            1,
            None,
            "w\\xfe",
        ]
    finally:
        os.chdir(here)


def test_weights_and_complaints_show_escapes(warm, tmp_path):
    word = "\x1b[31mred"
    line = {"id": 1, "evidence": {"P": [[word]]}, "truth": {"Q": [[word]]}}
    job = Job(tmp_path, [json.dumps(line).encode() + b"\n"], metrics={}, model="m.mln", query="Q")
    (tmp_path / "m.mln").write_text("P(t)\nQ(t)\n1 P(+x) => Q(x)\n")
    assert job.run() == 0, job.said
    assert job.call("weights", job.output) == 0
    assert "\\x1b[31mred" in job.printed and "\x1b" not in job.printed
    assert job.call("weights", job.output, job.output) == 0
    assert "\\x1b[31mred" in job.printed and "\x1b" not in job.printed
    (tmp_path / "m.mln").write_text('P(t)\nQ(t)\n1 P("\x1b[31mred") => Z(x)\n')
    assert job.call("infer", "--model", tmp_path / "m.mln", "--query", "Q") == 78
    assert "\\x1b[31mred" in job.said and "\x1b" not in job.said


def test_wrong_usage_is_64(trained):
    def said(arguments):
        assert trained.call(*arguments.split()) == 64
        return trained.said.removesuffix("\n")

    golden.check(REPO / "tests" / "commands" / "golden" / "usage.txt", said)


def test_run_prints_a_summary(trained, job, citations):
    run = job(citations[:10])
    assert run.run() == 0
    printed = dict(line.split("  ", 1) for line in run.printed.splitlines())
    assert (printed["Examples"].strip(), printed["Updates"].strip()) == ("10", "10")
    assert {
        "Seconds",
        "F1",
        "Accuracy",
        "Hamming loss",
        "Regret bound",
        "Weights",
    } <= printed.keys()
    assert printed["Results"].strip() == str(run.output)
    assert [line.split(" | ")[0] for line in run.said.splitlines()] == [
        f"examples {n}" for n in (1, 2, 4, 8)
    ]


def test_a_wrong_configuration_is_78(trained):
    def said(override):
        answers = []
        for name in ("run", "check"):
            assert trained.call(name, trained.config, "--set", override) == 78
            answers.append(trained.said.removesuffix("\n"))
        assert answers[0] == answers[1]
        return answers[0]

    golden.check(REPO / "tests" / "commands" / "golden" / "overrides.txt", said)


def test_a_wrong_model_is_78(trained, tmp_path):
    model = tmp_path / "wrong.mln"
    model.write_text("P(x)\nP(x) ^\n")
    assert trained.call("check", trained.config, "--set", f"model={model}") == 78
    assert trained.said.startswith(f"{model}:2:")
    assert "  P(x) ^\n" in trained.said


@pytest.mark.parametrize(
    ("name", "option", "where"),
    [
        ("serve", "--port", "--host 127.0.0.1 --port"),
        ("run", "--metrics-port", "--metrics-host 127.0.0.1 --metrics-port"),
        ("dashboard", "--port", "--host 127.0.0.1 --port"),
    ],
)
def test_a_port_in_use_is_one_clear_line(trained, job, name, option, where):
    run = job([])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = trained.output if name == "dashboard" else run.config
        assert run.call(name, given, option, port) == 74
    assert run.said == f"{where} {port}: cannot listen there: Address already in use\n"
    assert not run.output.exists()


def predicted(job: Job, *arguments: object) -> list[Any]:
    assert job.call("predict", *arguments) == 0, job.said
    return [json.loads(line) for line in job.printed.splitlines()]


def test_predict_gives_labels_scores_and_margins(trained, job, citations):
    unlabelled = [
        json.dumps({k: v for k, v in json.loads(line).items() if k != "truth"}).encode() + b"\n"
        for line in citations[60:70]
    ]
    there = job([*unlabelled, b"{\n"], "there")
    before = {path: path.read_bytes() for path in trained.output.rglob("*") if path.is_file()}
    *lines, bad = predicted(there, trained.output, there.config)
    assert bad["line"] == 11
    assert bad["error"].startswith("not an example")
    assert [line["id"] for line in lines] == [json.loads(c)["id"] for c in citations[60:70]]
    assert all(line["certified"] and line["margin"] >= 0 for line in lines)
    assert all("hamming" not in line for line in lines)
    assert f"warning: {there.source}:11: not an example" in there.said
    assert {path: path.read_bytes() for path in before} == before
    assert not there.output.exists()
    *by_file, _ = predicted(there, trained.output / "weights.mln", there.config)
    assert [line["predicted"] for line in by_file] == [line["predicted"] for line in lines]
    target = there.folder / "predicted.jsonl"
    assert predicted(there, trained.output, there.config, "--output", target) == []
    assert [json.loads(line) for line in target.read_bytes().splitlines()] == [*lines, bad]


def test_predict_cannot_write(trained, tmp_path):
    target = tmp_path / "no" / "file"
    assert trained.call("predict", trained.output, trained.config, "--output", target) == 74
    assert f"{target}: cannot write: No such file or directory" in trained.said


def evaluated(job: Job, *arguments: object) -> Any:
    assert job.call("evaluate", *arguments) == 0, job.said
    return json.loads(job.printed)


def test_evaluate_prints_the_same_metrics_for_every_form_of_weights(trained, job, citations):
    there = job(citations[60:90], "there")
    metrics = evaluated(there, trained.output, there.config)
    assert metrics["examples"] == metrics["labelled"] == 30
    for form in (trained.checkpoints()[-1], trained.output / "weights.mln"):
        assert evaluated(there, form, there.config) == metrics


def test_weights_that_cannot_be_had_are_74(trained, tmp_path):
    damaged = tmp_path / "damaged.ckpt"
    damaged.write_bytes(trained.checkpoints()[-1].read_bytes()[:-1])
    for place, said in (
        (tmp_path / "nothing", "No such file or directory"),
        (tmp_path / "nothing.mln", "No such file or directory"),
        (tmp_path / "nothing.ckpt", "No such file or directory"),
        (trained.folder, f"{trained.folder}: no checkpoint in this folder"),
        (damaged, "cut off"),
    ):
        assert trained.call("evaluate", place, trained.config) == 74
        assert said in trained.said


def test_weights_of_one_checkpoint(trained):
    assert trained.call("weights", trained.output, "--top", "7") == 0
    order, *lines = trained.printed.splitlines()
    assert order.startswith("# by |averaged weight| times the updates")
    assert len(lines) == 7
    heaviest = (trained.output / "weights.mln").read_text().splitlines()
    first = next(line for line in heaviest if line[:1].isdigit() or line[:1] == "-")
    assert float(lines[0].split()[0]) == pytest.approx(float(first.split()[0]), abs=1e-6)
    assert "updates" in lines[0]


@pytest.mark.parametrize("update", ["adagrad", "cda2"])
@pytest.mark.parametrize("language", ["mln", "psl"])
def test_the_weights_that_predict_are_shown(job, tmp_path, language, update):
    """With ``predict: current`` these are the current ones, and the command says so."""
    text = {
        "mln": "E(a)\nQ(a)\n0.1 E(x) => Q(x)\n0.2 Q(x)\n",
        "psl": "0.1: E(X) -> Q(X) ^2\n0.2: !Q(X) ^2\n",
    }
    model = tmp_path / f"m.{language}"
    model.write_text(text[language])
    lines = [
        json.dumps(
            {"id": n, "evidence": {"E": [["a"]]}, "truth": {"Q": t}, "query": {"Q": [["a"], ["b"]]}}
        ).encode()
        + b"\n"
        for n, t in enumerate([[["a"]], [["b"]], [["a"]], []])
    ]
    learner = {"update": update, "loss": "ml", "sigma": 0.5, "predict": "current"}
    run = job(lines, model=str(model), query=["Q"], metrics={}, learner=learner)
    assert run.run() == 0, run.said
    assert run.call("weights", run.output, "--json") == 0
    said = json.loads(run.printed)
    assert said["order"].startswith("by |current weight| times the updates")
    assert run.call("weights", run.output / f"weights.{language}", "--json") == 0
    assert run.call("weights", run.output, run.output / f"weights.{language}", "--json") == 0
    assert not any(change["change"] for change in json.loads(run.printed)["changes"])
    weights = srl.OnlineLearner.load(run.output).weights
    assert sorted(weights.values()) == sorted(row["weight"] for row in said["weights"])


def test_standard_errors_are_shown_where_the_update_has_a_covariance(job, tmp_path):
    model = tmp_path / "m.mln"
    model.write_text("E(a)\nN(a)\nQ(a)\n0.1 E(x) => Q(x)\n0.2 Q(x)\n0.3 N(x) ^ Q(x)\n")
    line = json.dumps({"id": 1, "evidence": {"E": [["a"]]}, "truth": {"Q": [["a"]]}}).encode()
    learner = {"update": "second-order", "full": 1}
    run = job([line + b"\n"], model=str(model), query=["Q"], metrics={}, learner=learner)
    assert run.run() == 0, run.said
    weights = srl.OnlineLearner.load(run.output).weights
    first, second, unused = (row.standard_error for row in weights.rows)
    assert first == second  # 1 / (1 + h v), of features of equal size
    assert 0.5 < first < 1.0
    assert unused is None
    assert weights.table()["standard_error"] == [first, second, None]
    assert run.call("weights", run.output) == 0
    lines = run.printed.splitlines()[1:]
    shown = [line.strip().split("  ")[0].partition(" \u00b1 ")[2] for line in lines]
    assert sorted(shown) == ["", *[f"{first:.6f}"] * 2]
    assert "known" in (run.output / "report.html").read_text()


def test_weights_of_two_checkpoints(trained):
    old, *_, new = trained.checkpoints()
    assert trained.call("weights", old, new, "--top", "5") == 0
    order, *lines = [line.split() for line in trained.printed.splitlines()]
    assert order[:3] == ["#", "by", "|difference|,"]
    assert len(lines) == 5
    for change, before, arrow, after, *_ in lines:
        assert arrow == "->"
        assert float(after) - float(before) == pytest.approx(float(change), abs=2e-6)
    changes = [abs(float(line[0])) for line in lines]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] > 0
    assert trained.call("weights", new, new) == 0
    assert {line.split()[0] for line in trained.printed.splitlines()[1:]} == {"+0.000000"}


def weights_json(job: Job, *arguments: object) -> Any:
    assert job.call("weights", *arguments, "--json", "--top", "9999") == 0, job.said
    return json.loads(job.printed)


def test_weights_of_a_file_are_those_of_its_run(trained):
    file = trained.output / "weights.mln"
    assert trained.call("weights", file, "--top", "9999") == 0
    order, *lines = trained.printed.splitlines()
    assert order == "# by |weight|, largest first; equal ones as in the model"
    sizes = [abs(float(line.split()[0])) for line in lines]
    assert sizes == sorted(sizes, reverse=True)
    of_run, of_file = (weights_json(trained, each)["weights"] for each in (trained.output, file))
    assert sorted(w["weight"] for w in of_run) == sorted(w["weight"] for w in of_file)
    differing = weights_json(trained, trained.output, file)
    assert differing["apart"] == []
    assert {w["change"] for w in differing["changes"]} == {0.0}
    assert len(differing["changes"]) >= len(of_run) > 500


def test_weights_of_a_rule_and_about_a_constant(trained):
    everything = weights_json(trained, trained.output)["weights"]
    numbered = weights_json(trained, trained.output, "--rule", "2")["weights"]
    assert numbered == [w for w in everything if w["rule"] == 2]
    assert {w["text"] for w in numbered} == {"Token(+w, i) => InField(i, +f)"}
    assert weights_json(trained, trained.output, "--rule", "Token(+w, i) =>")["weights"] == numbered
    about = weights_json(trained, trained.output, "--rule", "2", "--about", "title")["weights"]
    assert about == [w for w in numbered if w["constants"]["f"] == "title"]
    file = trained.output / "weights.mln"
    of_file = weights_json(trained, file, "--rule", "Token", "--about", "title")["weights"]
    assert {w["weight"] for w in about} <= {w["weight"] for w in of_file}
    for wrong in (["--rule", "99"], ["--about", "nobody"]):
        assert trained.call("weights", trained.output, *wrong) == 64
        assert f"no weight matches {' '.join(wrong)}; its rules are\n  2: Token" in trained.said


def test_models_that_have_no_rule_in_common_are_not_compared(trained, tmp_path):
    other = tmp_path / "other.mln"
    other.write_text("P(t)\nQ(t)\n1 P(x) => Q(x)\n")
    assert trained.call("weights", trained.output, other) == 64
    assert "have no rule in common" in trained.said
    assert f"only in {other}: P(x) => Q(x)" in trained.said
    declarations = MODEL.read_text().partition("// Words")[0]
    other.write_text(f'{declarations}\n9 Token("the", i) => InField(i, "title")\n1 InField(3, f)\n')
    assert trained.call("weights", trained.output, other, "--top", "1") == 0, trained.said
    _, first, *apart = trained.printed.splitlines()
    assert 'Token("the", i) => InField(i, "title")' in first and "-> +9.000000" in first
    assert f"# only in {other}: InField(_, f)" in apart
    other.write_text(declarations)
    assert trained.call("weights", other) == 64
    assert "no rule here has a weight" in trained.said


def test_check_looks_at_the_first_examples(job, citations):
    run = job([*citations[:5], b"{\n", *citations[5:9]])
    assert run.call("check", run.config, "--examples", "5") == 0
    assert run.printed.splitlines()[1] == "examples: 5 of the first 5 are good"
    assert run.call("check", run.config) == 65
    found = run.printed.splitlines()
    assert found[1] == "examples: 9 of the first 10 are good"
    assert found[2].startswith(f"{run.source}:6: not an example: ")
    assert run.call("check", run.config, "--examples", "0") == 0
    assert run.printed.splitlines()[1] == "examples: 0 of the first 0 are good"
    second_order = "--set", "learner.update=second-order", "--set", "learner.full=500"
    assert run.call("check", run.config, "--examples", "0", *second_order) == 0
    assert run.printed.splitlines()[0].endswith("covariances of up to 500 weights take 2.0 MB")
    assert not run.output.exists()


COMMANDS = [
    "schema",
    "guide config",
    "--help",
    "run {config} --fresh",
    "predict {run} {config}",
    "evaluate {run} {config}",
    "check {config}",
    "examples {config}",
    "warm {config}",
    "weights {run}",
    "explain {run} --id online-max-margin-01 --tries 5",
    "infer --model {mln} --query Smokes --closed Friends",
    "count --model {mln}",
    "learn {learn} --fresh",
    "compare {config} --folds 2 --output {run}/compared --fresh --workers 1",
    "infer --model {psl} --data {data}",
    "ground --model {mln} --query Smokes --open Friends",
    "replay {source} --to stdout",
    "dlq list {run}",
    "dlq show {run} 1",
    "dlq replay {run}",
    "checkpoint list {run}",
    "checkpoint show {run}",
    "checkpoint verify {run}",
]


def test_a_reader_that_goes_away_ends_every_command_quietly(job, citations, tmp_path):
    """As of a program that SIGPIPE ended, whatever of it has been read."""
    run = job([*citations[:9], b"{\n"])
    assert run.run() == 0
    files = {
        "m.mln": "t = {A, B}\nSmokes(t)\nFriends(t, t)\n1 Smokes(x) ^ Friends(x, y) => Smokes(y)\n",
        "m.psl": "1: !Likes(A)\n",
        "m.data": "predicates: {Likes/1: open}\ntargets: {Likes: likes.txt}\n",
        "likes.txt": "ann\n",
        "m.learn": "model: m.psl\ndata: seen.data\noutput: " + str(tmp_path / "learned"),
        "seen.data": "predicates: {Likes/1: open}\ntargets: {Likes: likes.txt}\ntruth: {Likes: likes.txt}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    places = {"config": run.config, "run": run.output, "source": run.source}
    places |= {name[2:]: tmp_path / name for name in files if name.startswith("m.")}
    there, back = os.pipe()
    os.close(there)
    for line in COMMANDS:
        arguments = line.format(**places).split()
        assert wait(run.fork(*arguments, first=lambda: os.dup2(back, 1))) == 141, line
        assert not re.search("(?i)traceback|broken|pipe|error", run.said), (line, run.said)
    os.close(back)
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert {line.split()[0] for line in COMMANDS} >= names - {
        "serve",
        "dashboard",
    }  # which end when told


def test_check_tells_equal_complaints_once(job, citations):
    lines = [b'{"id": 1, "evidence": {"Tokn": [["a", 1]]}}\n' for _ in range(40)]
    lines += [b"{\n", b"{\n", *citations[:2]]
    for n in range(5):
        query, truth = ({"InField": [[m, "title"]]} for m in (n, n + 7))
        evidence = {"Token": [["a", n], ["b", n + 7]]}
        example = {"id": n, "evidence": evidence, "query": query, "truth": truth}
        lines.append(json.dumps(example).encode() + b"\n")
    run = job(lines)
    assert run.call("check", run.config) == 65
    source = run.source
    _, count, *found, sizes = run.printed.splitlines()
    assert count == "examples: 2 of the first 49 are good"
    assert sizes.startswith("ground clauses: ")
    assert [line.partition(": ")[0] for line in found] == [f"{source}:{n}" for n in (1, 41, 45)]
    assert found[0].endswith(f" (also: {source}:2, {source}:3, {source}:4, ... 40 in all)")
    assert found[1].endswith(f" (also: {source}:42)")
    assert "InField(7, " in found[2]
    assert found[2].endswith(f" (like it: {source}:46, {source}:47, {source}:48, ... 5 in all)")


def test_schema(trained):
    assert trained.call("schema") == 0
    assert json.loads(trained.printed) == json_schema()


def test_commands_of_the_example_configuration_work_where_it_is(trained, tmp_path):
    config = REPO / "configs" / "citations.yaml"
    assert trained.call("check", config) == 0
    assert "examples: 100 of the first 100 are good" in trained.printed
    assert str(MODEL) == str(REPO / "streams" / "citations" / "segmentation.mln")
    assert not (tmp_path / "runs").exists()


LOADED = """
import io, logging, os, sys
def loaded(*names):
    return [name for name in names if name in sys.modules]
from onlinesrl.commands import cli
print(loaded("numba", "numpy", "pydantic"))
import onlinesrl.commands.dashboard.app
print(loaded("numba"))
from onlinesrl.runs.progress import Display
from onlinesrl.stream.observer import Progress
with Display(io.StringIO()) as display:
    display.batch(Progress([], [], 1, 0.0, 1.0, None, lambda: {"examples": 1}, dict))
print(loaded("rich"))
import numpy
print(len(os.listdir("/proc/self/task")))
import onlinesrl.stream.kafka.client
log = logging.getLogger("kafka")
print(log.propagate, [h for h in log.handlers if "onlinesrl" in type(h).__module__])
"""


def test_what_is_loaded_only_where_it_is_needed():
    """Help needs no arrays, lines no terminal, a page no learner; matrices and Kafka change nothing."""
    own = {name: text for name, text in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=REPO,
        env=own,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["[]", "[]", "[]", "1", "True []"]


SIGNALLED = """
import os, sys

_, module, number, *sys.argv[1:] = sys.argv

class Finder:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Finder())
from onlinesrl.commands.start import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "onlinesrl.runs.config.loading"])
@pytest.mark.parametrize(("command", "code"), [("run", 0), ("serve", 0), ("learn", 130)])
def test_a_signal_while_a_command_starts_ends_it_quietly(job, command, code, module, number):
    run = job([])
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, module, str(int(number)), command, str(run.config)],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert not run.output.exists()
