"""Our own world that stays: what its script makes, with certified answers that tell good from bad."""

import json

from conftest import REPO, command

from tests.support.stream_scripts import STREAMS, generator


def test_the_world_follows_the_market(tmp_path) -> None:
    market = generator("market")
    text = (STREAMS / "market" / "market.jsonl").read_text(encoding="utf-8")
    assert text == market.made()
    config = str(REPO / "configs" / "market.yaml")
    assert command("check", config) == 0
    assert command("run", config, "--set", f"output={tmp_path}", "--until", "1500") == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["certified"], summary["bad"]) == (1500, 0)
    assert summary["auc"] > 0.7
    values = {}
    for line in (tmp_path / "predictions.jsonl").read_text().splitlines():
        change = json.loads(line)
        assert values.get(change["args"][0]) == change["old"]
        values[change["args"][0]] = change["value"]
    lines = [json.loads(line) for line in text.splitlines()[:1500]]
    day = max(int(line["id"].split()[1]) for line in lines if line["id"].startswith("trade"))
    bad = {name for name, turned in market.hidden().items() if turned < day // market.TRADES}
    sure = sorted((value, name) for name, value in values.items() if value is not None)
    worst = {name for _, name in sure[: len(bad)]}
    assert len(worst & bad) > len(bad) / 2 > 3
