"""The choice of groups: a name that no example has is said, an empty selection never passes for one."""

import json


def lines(*groups: str) -> list[bytes]:
    worlds = (
        {"id": n, "group": group, "evidence": {"Token": [["a", 1]]}, "truth": {}}
        for n, group in enumerate(groups)
    )
    return [json.dumps(world).encode() + b"\n" for world in worlds]


TYPO = ("--set", "source.only=[face, fcae]")
NONE = ("--set", "source.only=fcae")
MET = "source.only: no example of fcae; there are face, reasoning"


def test_a_run_says_which_groups_it_never_met(job):
    run = job(lines("reasoning", "face", "face", "reasoning"), checkpoint={"every": 1})
    assert run.run(*TYPO, "--until", "1") == 0
    assert run.run(*TYPO) == 0  # goes on: what was met before is known
    assert run.said.count(f"warning: {MET}") == 1
    assert run.run("--fresh", "--set", "source.only=[face, reasoning]") == 0
    assert "warning" not in run.said
    assert run.run("--fresh", *NONE) == 65
    assert f"none of the source's examples is chosen\n{MET}" in run.said
    assert run.run("--set", "source.only=face") == 0, run.said  # no checkpoint of nothing is left


def test_other_commands_say_it_too(job, tmp_path):
    run = job(lines("reasoning", "face"))
    assert run.run() == 0
    for name in ("evaluate", "predict"):
        assert run.call(name, run.output, run.config, *TYPO) == 0, run.said
        assert f"warning: {MET}" in run.said
        assert run.call(name, run.output, run.config, *NONE) == 65
        assert MET in run.said
    assert run.call("check", run.config, *NONE) == 65
    assert MET in run.said


def test_an_empty_source_is_said(job):
    run, empty = job(lines("a")), job([], "empty")
    assert (run.run(), empty.run()) == (0, 0)
    assert "warning: the source has no example" in empty.said
    assert empty.call("predict", run.output, empty.config) == 0
    assert "warning: the source has no example" in empty.said
    assert empty.call("check", empty.config) == 0
    assert "warning: the source has no example" in empty.said
    assert empty.call("evaluate", run.output, empty.config) == 65
    assert "nothing to evaluate: of 0 examples" in empty.said


def test_unlabelled_examples_are_said(job):
    bare = [b'{"id": 9, "evidence": {"Token": [["a", 1]]}}\n'] * 3
    run, mixed = job(bare), job([*bare, *lines("a")], "mixed")
    assert (run.run(), mixed.run()) == (0, 0)
    assert "warning: no example has `truth`: nothing was learned or scored" in run.said
    assert "warning" not in mixed.said
    assert run.call("evaluate", mixed.output, run.config) == 65
    assert "nothing to evaluate: of 3 examples, 3 have no `truth` and 0 are bad" in run.said
    assert run.printed == ""
    assert mixed.call("evaluate", mixed.output, mixed.config) == 0
    assert "warning: 3 of 4 examples have no `truth` and are not scored" in mixed.said
    assert json.loads(mixed.printed)["labelled"] == 1
